//! The session with the store: one for the whole group, opened, resumed, kept alive, given up like a client's.
//!
//! ```text
//!   Down --connected/Hello, Rejoin--> Greeting --Welcome--> Rejoining --Rejoined--> Live
//!    ^                            |                            |                    |
//!    +-------- disconnected ------+----------------------------+--------------------+
//!                                 +---- Goodbye with a final reason ----> Over
//! ```
//! 1. The horizon moves only in `Live`, and with everything that the store says: its answers come after the notices
//!    that they depend on, so a page or a commit of version `v` shows that all before `v` has been told.
//! 2. Whatever is asked for while the session is not live waits for it, and is asked when it is.
//! 3. Before any other message goes out, what the store may forget has gone: the acknowledgement and the releases.
//! 4. Who cannot reach the store for too long sends its members away: they may reach it in another way.

use crate::Redirector;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use protocol::{
    Ack, GROUP, Goodbye, Held, Hello, Message, PROTOCOL, Ping, Pong, Pulse, Rejoin, Rejoined, Released, SessionLimits,
    Welcome,
};
use types::{ClusterId, GoodbyeReason, Life, PageId, Rule, SessionId, Time, Version};

/// How long acknowledgements and releases wait for a message to go with.
const PIGGYBACK: Duration = Duration::from_millis(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Down,
    Greeting,
    Rejoining,
    Live,
    /// The store wants no more of us, and why.
    Over(String),
}

#[derive(Debug)]
pub(crate) struct Trunk {
    phase: Phase,
    pub(crate) limits: SessionLimits,
    horizon: Version,
    /// The highest count that the store has named.
    named: Version,
    epoch: u64,
    /// Who the store has said that it is.
    store: Option<Welcome>,
    /// What the store has been told that the group has applied.
    acked: Version,
    released: Vec<PageId>,
    piggyback_at: Option<Time>,
    pulse: Pulse,
    down_since: Time,
}

impl Trunk {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Down,
            limits: SessionLimits::UNTOLD,
            horizon: Version::ZERO,
            named: Version::ZERO,
            epoch: 0,
            store: None,
            acked: Version::ZERO,
            released: Vec::new(),
            piggyback_at: None,
            pulse: Pulse::default(),
            down_since: Time::ZERO,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The redirector has heard of every change through here to what its group holds.
    pub(crate) fn horizon(&self) -> Version {
        self.horizon
    }

    /// The highest count that the store has named: what it tells of may go beyond the horizon.
    pub(crate) fn named(&self) -> Version {
        self.named.max(self.horizon)
    }

    /// The store's data set, once it is known.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.store.as_ref().map(|store| store.cluster)
    }

    /// The life of the store's process that we know.
    fn life(&self) -> Option<Life> {
        self.store.as_ref().and_then(|store| store.lineage.current())
    }

    /// What members are told of the store.
    ///
    /// # Panics
    /// Before the store has said who it is.
    pub(crate) fn store(&self) -> &Welcome {
        self.store.as_ref().expect("members are welcome when the store is reached")
    }

    /// Since when the store is not reached, or nobody was.
    pub(crate) fn down_since(&self) -> Time {
        self.down_since
    }

    fn silent_at(&self) -> Time {
        self.pulse.silent_at(self.limits)
    }

    pub(crate) fn next_due(&self, ping_at: Time) -> Option<Time> {
        match self.phase {
            Phase::Live => self.piggyback_at.into_iter().chain([ping_at, self.silent_at()]).min(),
            Phase::Greeting | Phase::Rejoining => Some(self.silent_at()),
            Phase::Down | Phase::Over(_) => None,
        }
    }

    fn piggyback_by(&mut self, now: Time) {
        self.piggyback_at.get_or_insert(now + PIGGYBACK);
    }

    /// A sign of life of the store.
    pub(crate) fn heard(&mut self, now: Time) {
        self.pulse.heard(now);
    }

    /// Releases may have waited for a grant, which has come.
    pub(crate) fn releases_may_go(&mut self, now: Time) {
        if !self.released.is_empty() {
            self.piggyback_by(now);
        }
    }

    /// Somebody is there who wants to be a member: from now on it counts how long that is not possible.
    pub(crate) fn is_wanted(&mut self, now: Time) {
        self.down_since = now;
    }
}

impl Redirector {
    pub(crate) fn say_hello(&mut self, now: Time) {
        let trunk = &mut self.trunk;
        if matches!(trunk.phase, Phase::Over(_)) {
            return;
        }
        trunk.epoch += 1;
        trunk.phase = Phase::Greeting;
        trunk.limits = SessionLimits::UNTOLD;
        trunk.pulse.heard(now);
        let (epoch, cluster) = (trunk.epoch, trunk.cluster());
        self.stats.trunk_sessions += 1;
        let hello = Hello { protocol: PROTOCOL, features: GROUP, cluster, client: self.id, epoch };
        self.send_to_store(now, Message::Hello(hello));
        self.rejoin_store(now);
    }

    /// The link is gone, and with it every answer that was on its way.
    pub(crate) fn trunk_is_down(&mut self, now: Time) {
        if self.trunk.is_live() || self.trunk.down_since == Time::ZERO {
            self.trunk.down_since = now;
        }
        if !matches!(self.trunk.phase, Phase::Over(_)) {
            self.trunk.phase = Phase::Down;
        }
        self.trunk.piggyback_at = None;
        self.trunk.released.clear();
        self.fetches.link_is_gone();
        self.commits.link_is_gone();
        self.grants.link_is_gone();
        self.revalidations.link_is_gone(self.config.broken);
        self.lease.link_is_gone(self.config.broken);
    }

    /// Sends a message to the store, after the acknowledgement and the releases that are due.
    pub(crate) fn send_to_store(&mut self, now: Time, message: Message) {
        self.piggyback();
        self.trunk.pulse.sent(now);
        self.out.trunk(message);
    }

    fn piggyback(&mut self) {
        if !self.trunk.is_live() {
            return;
        }
        self.trunk.piggyback_at = None;
        let least = self.least_acked();
        if least > self.trunk.acked {
            self.trunk.acked = least;
            self.lease.prune(least);
            self.out.trunk(Message::Ack(Ack { through: least }));
        }
        if self.grants.is_asked() && !self.config.broken.is(Rule::KeepGranted) {
            return;
        }
        let mut released = mem::take(&mut self.trunk.released);
        released.retain(|&page| self.is_unheld(page));
        for &page in &released {
            self.lease.forget(page, |txn| self.commits.is_on_its_way(txn));
        }
        for pages in released.chunks(self.config.limits.pages_per_message) {
            self.out.trunk(Message::Released(Released { pages: pages.to_vec() }));
        }
    }

    /// What all members have applied; with nobody there it is what the redirector has heard.
    fn least_acked(&self) -> Version {
        self.acks.least().unwrap_or(self.trunk.horizon).min(self.trunk.horizon)
    }

    /// The group has applied more than the store knows: it is told soon.
    pub(crate) fn acknowledge(&mut self, now: Time) {
        if self.trunk.is_live() && self.least_acked() > self.trunk.acked {
            self.trunk.piggyback_by(now);
        }
    }

    /// The group holds the page no longer: the store is told soon.
    pub(crate) fn release(&mut self, now: Time, page: PageId) {
        self.absent.forget(page);
        if self.trunk.is_live() {
            self.trunk.released.push(page);
            self.trunk.piggyback_by(now);
        }
    }

    /// Everything through `through` has been heard.
    pub(crate) fn heard_through(&mut self, through: Version) {
        self.trunk.horizon = self.trunk.horizon.max(through);
    }

    pub(crate) fn hang_up(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        self.trunk_is_down(now);
        self.out.hang_up(reason, text);
    }

    pub(crate) fn hear_store(&mut self, now: Time, message: Message) {
        self.trunk.heard(now);
        self.trunk.named = self.trunk.named.max(message.newest_named());
        match (&self.trunk.phase, message) {
            (Phase::Down | Phase::Over(_), _) | (Phase::Rejoining | Phase::Live, Message::Pong(_)) => {}
            (_, Message::Goodbye(goodbye)) => self.goodbye(now, goodbye),
            (Phase::Greeting, Message::Welcome(welcome)) => self.welcomed(now, welcome),
            (Phase::Rejoining, Message::Rejoined(rejoined)) => self.trunk_rejoined(now, &rejoined),
            (Phase::Rejoining, Message::Notices(notices)) => self.catch_up(now, &notices),
            (Phase::Live, Message::Notices(notices)) => self.notices(now, &notices),
            (Phase::Live, Message::Page(page)) => self.page(now, &page),
            (Phase::Live, Message::LeftOut(left_out)) => self.left_out(now, &left_out),
            (Phase::Live, Message::CommitReply(reply)) => self.commit_reply(now, reply),
            (Phase::Live, Message::Granted(granted)) => self.granted(now, granted),
            (Phase::Live, Message::Leased(leased)) => self.leased(now, leased),
            (Phase::Live, Message::Intent(intent)) => self.intent(now, &intent),
            (Phase::Live, Message::Leader(leader)) => self.leader(now, &leader),
            (Phase::Live, Message::Revalidated(revalidated)) => self.revalidated(now, revalidated),
            (Phase::Rejoining | Phase::Live, Message::Ping(ping)) => {
                self.send_to_store(now, Message::Pong(Pong { nonce: ping.nonce }));
            }
            (phase, _) => {
                let text = format!("a message that a store does not send to a redirector that is {phase:?}");
                self.hang_up(now, GoodbyeReason::Malformed, text);
            }
        }
    }

    fn welcomed(&mut self, now: Time, welcome: Welcome) {
        if let Err(Goodbye { reason, text }) = welcome.agree(self.trunk.cluster()) {
            return self.over(now, reason, text);
        }
        if welcome.features & GROUP == 0 {
            let text = "expected a store that takes groups, got one that does not".into();
            return self.over(now, GoodbyeReason::Protocol, text);
        }
        let life = self.trunk.life();
        if let Err(Goodbye { reason, text }) = welcome.continues(life, self.trunk.named())
            && !self.config.broken.is(Rule::KnowLineage)
        {
            return self.begin_anew(now, reason, text);
        }
        self.trunk.limits = welcome.limits;
        self.trunk.phase = Phase::Rejoining;
        self.trunk.store = Some(welcome);
        if self.trunk.life() != life {
            self.welcome_again();
        }
    }

    /// The store is a copy of the one that we know, or that one in the place of a copy: what our group holds is of another.
    /// The members find that out by themselves where they go.
    fn begin_anew(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason, text: text.clone() });
        }
        self.hang_up(now, reason, text);
        let (config, out, stats) = (self.config.clone(), mem::take(&mut self.out), self.stats);
        let epoch = self.trunk.epoch;
        *self = Self { out, stats, ..Self::new(config, self.id) };
        self.trunk.epoch = epoch;
    }

    /// Says what the group holds. All that was told through our horizon has been passed on, so that is how much is known of
    /// each page. What members that have not joined say that they bring is no part of it: it is compared in this session,
    /// and may be made up.
    fn rejoin_store(&mut self, now: Time) {
        let horizon = self.trunk.horizon;
        let joined = self.members.all().into_iter().filter(|session| self.members.is_joined(*session));
        let held = joined.flat_map(|session| self.held.pages(session));
        let mut pages: Vec<_> = held.chain(self.standby.pages()).collect();
        pages.sort_unstable();
        pages.dedup();
        let pages: Vec<_> = pages.into_iter().map(|page| Held { page, version: Version::ZERO }).collect();
        let grants = self.grants.all();
        for rejoin in Rejoin::split(horizon, &pages, &grants, &self.config.limits) {
            self.send_to_store(now, Message::Rejoin(rejoin));
        }
    }

    /// The store knows again what the group holds: what has waited for that goes out.
    fn trunk_rejoined(&mut self, now: Time, rejoined: &Rejoined) {
        self.trunk.phase = Phase::Live;
        self.trunk.pulse.pinged(now);
        self.drop_pages(now, rejoined);
        self.heard_through(rejoined.through);
        self.resend_commits(now);
        self.resend_revalidations(now);
        self.serve_grants(now);
        self.send_unsent(now);
        self.claim(now);
        // Who takes groups may have a lease for us.
        self.ping_store(now);
    }

    fn ping_store(&mut self, now: Time) {
        self.trunk.pulse.pinged(now);
        self.lease.has_pinged();
        self.send_to_store(now, Message::Ping(Ping { nonce: now.0 }));
        self.watch_leader(now);
    }

    /// Pages have changed in ways that nobody knows slot by slot: whoever holds them drops them, and says so by a
    /// release. Only then may it hear that the horizon has moved.
    fn drop_pages(&mut self, now: Time, rejoined: &Rejoined) {
        let mut by_member: BTreeMap<SessionId, Vec<PageId>> = BTreeMap::new();
        for &page in &rejoined.dropped {
            self.standby.remove(page);
            self.grants.lose(page);
            self.whole.forget_page(page);
            // Those that are not compared yet are compared again.
            for &holder in self.held.holders(page).iter().filter(|holder| self.members.is_joined(**holder)) {
                if !self.config.broken.is(Rule::TellDropped) {
                    by_member.entry(holder).or_default().push(page);
                }
            }
            self.release_if_unheld(now, page);
        }
        for (session, dropped) in by_member {
            for &page in &dropped {
                // Should it wait for the page, it asks again: what is on its way may be as old.
                self.forget_want(session, page);
            }
            self.reply(session, Message::Rejoined(Rejoined { through: rejoined.through, dropped }));
            self.streams.resume(session, rejoined.through);
        }
    }

    fn goodbye(&mut self, now: Time, goodbye: Goodbye) {
        if goodbye.reason == GoodbyeReason::Superseded && !self.config.group.is_empty() {
            // Another has taken the group over. The store drops the link, and we stand by on the next one.
            self.trunk_is_down(now);
            return self.superseded(now, &goodbye.text);
        }
        if goodbye.reason.is_final() {
            return self.over(now, goodbye.reason, goodbye.text);
        }
        // The store drops the link after this, and whoever drives us connects again.
        self.trunk_is_down(now);
    }

    /// There is nothing more to be had from the store: the members go elsewhere.
    fn over(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        self.trunk_is_down(now);
        self.trunk.phase = Phase::Over(text.clone());
        self.send_all_away(now, &format!("the redirector has ended: {text}"));
        self.out.hang_up(reason, text);
    }

    /// Ends everything: the members go elsewhere, and the store lets another lead.
    pub fn close(&mut self, now: Time) {
        let text = "the redirector is closing down";
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason: GoodbyeReason::Done, text: text.into() });
        }
        self.trunk_is_down(now);
        self.trunk.phase = Phase::Over(text.into());
        self.out.hang_up(GoodbyeReason::Done, text.into());
    }

    /// When the members are to be sent away, if the store is not reached until then.
    pub(crate) fn cut_off_at(&self) -> Option<Time> {
        let waits = !self.members.is_empty() && !self.is_open();
        waits.then_some(self.trunk.down_since() + self.config.silence)
    }

    /// When the next sign of life is due, for the session or for the lease.
    pub(crate) fn ping_at(&self) -> Time {
        let for_session = self.trunk.pulse.ping_at(self.trunk.limits);
        self.lease.renew_at().map_or(for_session, |at| at.min(for_session))
    }

    /// Time has passed for the session with the store.
    pub(crate) fn trunk_timeout(&mut self, now: Time) {
        if self.trunk.piggyback_at.is_some_and(|at| at <= now) {
            self.piggyback();
            self.trunk.pulse.sent(now);
        }
        let is_up = !matches!(self.trunk.phase, Phase::Down | Phase::Over(_));
        if is_up && self.trunk.silent_at() <= now {
            let text = format!("nothing heard for {} ms", self.trunk.limits.silence_ms);
            self.hang_up(now, GoodbyeReason::Silent, text);
        } else if self.trunk.is_live() && self.ping_at() <= now {
            self.ping_store(now);
        }
        if self.cut_off_at().is_some_and(|at| at <= now) {
            let text =
                format!("the redirector has not reached its store, or does not lead, for {:?}", self.config.silence);
            self.tell_group();
            self.send_all_away(now, &text);
            self.look_no_longer();
            self.trunk.down_since = now;
        }
    }
}
