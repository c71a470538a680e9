//! Which way to the store: by the redirector of our group, by the one that takes over from it, or directly.
//!
//! ```text
//!   in the group --the session is lost--> the same redirector once more, unless it fell silent or sent us away
//!        ^                                  |
//!        |                                the eligible members, longest there first; where that is us, we take over
//!        |                                  |
//!        |                                as configured, then the store itself: or first the store, if the redirector
//!        |                                  |                                 fell silent or sent us away
//!        +---the store names the leader---- a group of one, which asks for the leader again and again
//!
//!   in the group --its redirector names another that leads--> there, and if that cannot be reached, on as above
//! ```
//! 1. Every member knows the others in one order, so all go to the same one.
//! 2. The cache stays on all these ways, and a commit is made once: the end that answers compares our pages.
//! 3. A client that knows of no group goes back to an earlier of its addresses as soon as somebody listens there: by
//!    itself nobody would ever tell it of the redirector that was not up yet, or was gone before it had said whose it
//!    is.
//! 4. Nobody waits for a group: as long as the store can be reached, there is a way.

use crate::Client;
use crate::outputs::Outputs;
use alloc::collections::VecDeque;
use alloc::string::String;
use core::mem;
use core::time::Duration;
use machine::Goodbye;
use messages::{At, FindLeader, Leader, Member, Members, Pong};
use types::limits::GROUP_EPOCH_MAX;
use types::{ClientId, GoodbyeReason, Time};

/// How long we rest after we have tried to take over, or to go from a group of one to its leader: should it not work,
/// it is not tried all the time. Having been with another leader since ends it.
const REST: Duration = Duration::from_secs(10);

/// How often a group of one asks for the leader, however busy it is.
const FIND_EVERY: Duration = Duration::from_secs(1);

/// A way that the next session may take.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Somebody else at this address.
    To(String),
    /// Us, at this address.
    TakeOver(String),
    /// The configured addresses.
    Configured,
}

/// A leader that was of no use, and until when it is not tried again. One that has claimed the group again since, in a
/// higher epoch, is another.
#[derive(Debug)]
struct Tried {
    address: String,
    epoch: u64,
    until: Time,
}

impl Tried {
    fn is(&self, now: Time, leader: &Leader) -> bool {
        now < self.until && self.address == leader.address && leader.epoch <= self.epoch
    }
}

/// The client's knowledge of its group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// A redirector answers: we are a member of its group.
    is_joined: bool,
    /// The name of the group to be in, as configured.
    configured: Option<String>,
    /// The group's name, as a redirector has told it.
    name: Option<String>,
    /// The last that its redirector told of it.
    members: Option<Members>,
    /// The highest epoch that we know of.
    epoch: u64,
    /// Ways that were not tried since the last session.
    ways: VecDeque<Way>,
    /// The way that was taken last.
    last: Option<Way>,
    /// The session was ended by its other end, or fell silent: it is of no use to go there at once.
    was_left: bool,
    /// The redirector that fell silent, and until when it counts for dead, even if others say that it leads.
    silent: Option<Tried>,
    /// The leader, as a redirector that does not lead has told.
    told: Option<String>,
    /// The leader for which a group of one has left its store last, and until when it does not do so again.
    tried: Option<Tried>,
    /// When a group of one asks for the leader next.
    find_at: Option<Time>,
    /// Until then we do not take over again.
    rest_until: Time,
    /// The redirector beside us wants to know whether the leader lives, and since when.
    looks_since: Option<Time>,
}

impl Group {
    pub(crate) fn new(configured: Option<String>) -> Self {
        Self { configured, ..Self::default() }
    }

    /// Whether we are a member.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// The next session should be with the same redirector.
    pub(crate) fn come_again(&mut self) {
        self.ways.push_front(self.last.take().unwrap_or(Way::Configured));
    }

    /// A session is welcome, by a redirector or by the store itself.
    pub(crate) fn join(&mut self, is_redirector: bool) {
        self.is_joined = is_redirector;
    }

    /// The other end wants no more of the session, or does not live.
    pub(crate) fn leave(&mut self) {
        self.was_left = true;
    }

    /// There is a session again: the ways that were not tried need not be.
    pub(crate) fn arrive(&mut self) {
        self.ways.clear();
    }

    /// The other end does not live. If it is our redirector, its store may take longer to find that out.
    pub(crate) fn leave_silent(&mut self, now: Time) {
        self.leave();
        if let Some(members) = self.members.as_ref().filter(|_| self.is_joined) {
            let (address, epoch) = (members.address.clone(), members.epoch);
            self.silent = Some(Tried { address, epoch, until: now + REST });
        }
    }

    /// The session of this client is gone: lays out the ways to another, if it was in a group or its redirector has
    /// named another. `own` is where members reach us if we take over.
    pub(crate) fn lose(&mut self, client: ClientId, own: Option<&str>) {
        let (was_left, told) = (mem::take(&mut self.was_left), self.told.take());
        if mem::take(&mut self.is_joined)
            && let Some(members) = &self.members
        {
            let mut ways = VecDeque::new();
            if !was_left {
                ways.push_back(Way::To(members.address.clone()));
            }
            let others = |member: &&Member| !member.address.is_empty() && member.address != members.address;
            ways.extend(members.members.iter().filter_map(|member| {
                // The others may not have been told yet that we are eligible.
                let own = || own.map(|own| Way::TakeOver(own.into()));
                let other = || Some(member).filter(others).map(|member| Way::To(member.address.clone()));
                if member.client == client { own() } else { other() }
            }));
            let store = self.to_store();
            // As configured we may come to the redirector that is of no use.
            if was_left {
                ways.extend(store.chain([Way::Configured]));
            } else {
                ways.extend([Way::Configured].into_iter().chain(store));
            }
            self.ways = ways;
        }
        if let Some(told) = told {
            self.ways.push_front(Way::To(told));
        }
    }

    /// Where the next attempt at a session should go, and it is gone there.
    fn next_way(&mut self, now: Time, out: &mut Outputs) -> Option<String> {
        let Some(way) = self.ways.pop_front() else {
            self.last = None;
            // The configured redirector may be gone for good, and we know better.
            self.ways = self.to_store().collect();
            return None;
        };
        self.last = Some(match &way {
            Way::TakeOver(address) => Way::To(address.clone()),
            other => other.clone(),
        });
        match way {
            Way::To(address) => Some(address),
            Way::TakeOver(address) if now < self.rest_until => {
                // A member that has knocked there would wait for us, and we for the same.
                if self.looks_since.take().is_some() {
                    out.led_by(None);
                }
                Some(address)
            }
            Way::TakeOver(address) => {
                // One that nobody can exceed was told in bad faith, and is left to its owner.
                self.epoch = self.epoch.saturating_add(1).min(GROUP_EPOCH_MAX);
                self.rest_until = now + REST;
                self.looks_since = None;
                out.lead(self.epoch);
                Some(address)
            }
            Way::Configured => None,
        }
    }

    /// The ways to the store, as our redirector has told them.
    fn to_store(&self) -> impl Iterator<Item = Way> {
        self.members.iter().flat_map(|members| members.store.iter().cloned().map(Way::To))
    }

    /// The redirector beside us wants to know whether the leader lives. Returns whether a session that lives is to show
    /// it: where we are with no redirector, that is the answer.
    pub(crate) fn looks(&mut self, is_live: bool, out: &mut Outputs) -> bool {
        if self.looks_since.is_none() {
            return false;
        }
        let is_with_one = is_live && self.is_joined;
        if !is_with_one {
            self.looks_since = None;
            out.led_by(None);
        }
        is_with_one
    }

    /// A heartbeat.
    pub(crate) fn pong(&mut self, pong: Pong, out: &mut Outputs) {
        if self.looks_since.take_if(|since| since.0 <= pong.nonce).is_some() {
            out.led_by(self.members.as_ref().filter(|_| self.is_joined).map(|members| Leader {
                group: members.group.clone(),
                epoch: members.epoch,
                address: members.address.clone(),
            }));
        }
    }

    /// The redirector tells who the members are; `own` is where they reach us if we take over.
    pub(crate) fn members(&mut self, members: Members, own: Option<&str>) {
        self.epoch = self.epoch.max(members.epoch);
        self.name = Some(members.group.clone());
        self.ways.clear();
        // That another leads, and we are with it, is news: should it be gone next, we may take over at once.
        if own != Some(&members.address) {
            self.rest_until = Time::ZERO;
        }
        self.members = Some(members);
    }

    /// The group that we know of.
    fn known(&self) -> Option<&String> {
        self.configured.as_ref().or(self.name.as_ref())
    }

    /// When the leader is asked for next.
    pub(crate) fn find_at(&self) -> Option<Time> {
        self.find_at
    }

    /// The question of a group of one that knows of a group: who leads it? It will be asked again.
    fn find(&mut self, now: Time, is_live: bool) -> Option<FindLeader> {
        self.find_at = None;
        let group = self.known().filter(|_| is_live && !self.is_joined)?.clone();
        self.find_at = Some(now + FIND_EVERY);
        Some(FindLeader { group })
    }

    /// We hear who leads. Where somebody does, or nobody does and it may be us, our session with the store ends, and
    /// the next one is on that way; `own` is where members reach us if we take over.
    pub(crate) fn leader(
        &mut self,
        now: Time,
        leader: Leader,
        is_live: bool,
        own: Option<&str>,
    ) -> Result<(), Goodbye> {
        self.epoch = self.epoch.max(leader.epoch);
        let is_silent = self.silent.as_ref().is_some_and(|silent| silent.is(now, &leader));
        let is_nobody = leader.address.is_empty() || is_silent;
        if !is_live || self.is_joined {
            self.name = Some(leader.group);
            // Our redirector says so, or the one that we have tried; it ends the session next.
            self.told = Some(leader.address).filter(|_| !is_nobody);
            return Ok(());
        }
        if self.tried.as_ref().is_some_and(|tried| tried.is(now, &leader)) {
            return Ok(());
        }
        let tried = Tried { address: leader.address.clone(), epoch: leader.epoch, until: now + REST };
        let way = match own {
            Some(_) if is_nobody && now < self.rest_until => return Ok(()),
            Some(own) if is_nobody || leader.address == own => Way::TakeOver(own.into()),
            None if is_nobody => return Ok(()),
            _ => Way::To(leader.address),
        };
        self.tried = Some(tried);
        // Should it not work, we are back where we come from.
        self.ways = [way].into_iter().chain(self.to_store()).collect();
        Err(Goodbye { reason: GoodbyeReason::Done, text: "the group is led again".into() })
    }
}

impl Client {
    /// Where the next attempt at a session should go: an address, or `None` for as configured. Each call is for an
    /// attempt of its own, after the one before has failed or its session has ended.
    pub fn way(&mut self, now: Time) -> Option<String> {
        let way = self.group.next_way(now, &mut self.out);
        // The commits of this client are coordinated there, and at no other node that is configured.
        way.or_else(|| Some(self.nodes[At::HOME].address.clone()).filter(|address| !address.is_empty()))
    }

    /// Whether we know of a way that was not tried yet: no need to rest before it.
    pub fn has_way(&self) -> bool {
        !self.group.ways.is_empty()
    }

    /// Somebody knocks at the redirector beside us, which does not lead: does our own one live? If we have one, its
    /// answer says so; and if there is none, we lose it, and take over.
    pub fn look_for_leader(&mut self, now: Time) {
        self.group.looks_since = Some(now);
        self.look_again(now);
    }

    /// We are with a redirector, which has to give a heartbeat, or with none.
    pub(crate) fn look_again(&mut self, now: Time) {
        if self.group.looks(self.nodes[At::HOME].session.is_live(), &mut self.out) {
            self.ping(now, At::HOME);
        }
    }

    /// A group of one that knows of a group asks who leads it.
    pub(crate) fn find_leader(&mut self, now: Time) {
        if let Some(find) = self.group.find(now, self.nodes[At::HOME].session.is_live()) {
            self.send(now, At::HOME, find);
        }
    }

    /// Whether it is a redirector that we have a session with: we are a member of its group.
    pub fn is_member(&self) -> bool {
        self.group.is_joined
    }

    /// Whether nobody would tell us of a group at the addresses before the one that we use: we know of none that the
    /// store could name the leader of, so the dialer looks there again from time to time.
    pub fn looks_back(&self) -> bool {
        let knows_no_other_way = !self.group.is_joined && self.group.known().is_none() && !self.nodes.are_several();
        self.nodes[At::HOME].session.is_live() && knows_no_other_way
    }

    /// Somebody listens at an earlier address again: the session ends, and the next one begins with the first of them.
    pub fn go_back(&mut self) {
        if self.looks_back() {
            let text = "an address that comes before this one answers again".into();
            self.hang_up(At::HOME, Goodbye { reason: GoodbyeReason::Done, text });
        }
    }
}
