//! Which redirector leads the group (BuddyCache paper, appendix; the paper designed failover and did not build it).
//!
//! ```text
//!   StandBy --somebody knocks--> Looking --the member beside us is with no redirector--> Asking --nobody leads--+
//!      ^  \                        |  |                                                  ^ |                    |
//!      |   \-- we are of our own: somebody knocks, nobody leads, or we are to ------------+ |                    v
//!      |                            |  +---- the member beside us takes over ------------------------------> Claiming
//!      |                            |                                                      |                |   | it is us
//!      |                            |                                                      |                |   v
//!      +-- another leads: who ------+------------------------------------------------------+----------------+- Leading
//!          knocks goes there
//! ```
//! 1. Members are welcome while we lead, and while the store has yet to answer that we want to: what they bring is
//!    compared meanwhile. Should another lead, they are sent there.
//! 2. The store decides: of two claims of one epoch the first counts, and a higher epoch fences the lower one off. So of
//!    several that want to take over from a dead redirector one does, and one that was only cut off steps back.
//! 3. A redirector of its own, which is there for nothing else, takes the group over when there is no leader and
//!    somebody knocks. One that is there to lead also does so when it starts, and when a member comes back to it that did
//!    not find the leader. One that runs beside a member does so when that member has not found the leader, or when
//!    there is none and somebody knocks.
//! 4. Nobody may ever knock: those who have lost the leader are with the store, and wait there for another. So a
//!    redirector of its own asks the store who leads with every sign of life, and takes over when nobody does twice in a
//!    row. Once is a leader that is about to come back, or a store that has just started.
//! 5. A member that knocks at one that runs beside a member may have lost the leader a little sooner than that member
//!    does. So the member asks the leader for a sign of life. With an answer the leader lives, and the one that knocks
//!    goes elsewhere at once; without, the member takes over before long, and the one that knocks is here already.

use crate::{Duty, Redirector};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use protocol::{FindLeader, Lead, Leader, Member, Members};
use types::limits::GROUP_EPOCH_MAX;
use types::{ClientId, Map, SessionId, Time};

/// How long changes of the membership are gathered before the members hear of them.
const GATHER: Duration = Duration::from_millis(50);

/// How long it is remembered that a member was told where the leader is.
const TOLD: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    StandBy {
        /// The store, asked last, has said that nobody leads.
        is_vacant: bool,
    },
    /// Somebody has knocked, and the member beside us looks whether its redirector lives.
    Looking,
    /// The store is asked who leads; if nobody does, or nobody shall but us, we claim the epoch after.
    Asking {
        takes_over: bool,
    },
    /// To be claimed, or claimed and not answered.
    Claiming {
        epoch: u64,
    },
    Leading {
        epoch: u64,
    },
}

const STAND_BY: Claim = Claim::StandBy { is_vacant: false };

/// How it stands with leading.
#[derive(Debug)]
pub(crate) struct Leadership {
    claim: Claim,
    /// The leader in our place, as the store has said last.
    other: Option<Leader>,
    /// When the members are told who they are.
    tell_at: Option<Time>,
    /// Those who knocked and were told who leads, and when.
    told: Map<ClientId, Time>,
}

impl Leadership {
    pub(crate) fn new(duty: Duty) -> Self {
        let claim = if duty == Duty::Lead { Claim::Asking { takes_over: true } } else { STAND_BY };
        Self { claim, other: None, tell_at: None, told: Map::default() }
    }

    /// The epoch in which we lead.
    pub(crate) fn epoch(&self) -> Option<u64> {
        if let Claim::Leading { epoch } = self.claim { Some(epoch) } else { None }
    }

    /// The leader in our place, as far as we know.
    pub(crate) fn other(&self) -> Option<&Leader> {
        self.other.as_ref()
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.tell_at
    }
}

impl Redirector {
    /// The member beside us has found that nobody leads the group any more: takes over in this epoch.
    pub fn lead(&mut self, now: Time, epoch: u64) {
        if matches!(self.leadership.claim, Claim::StandBy { .. } | Claim::Looking | Claim::Asking { .. }) {
            self.leadership.claim = Claim::Claiming { epoch };
            self.claim(now);
            self.settle(now);
        }
    }

    /// The member beside us says whose redirector lives, or that it is with none.
    pub fn led_by(&mut self, now: Time, leader: Option<Leader>) {
        if self.leadership.claim != Claim::Looking {
            return;
        }
        let (group, address) = (&self.config.group, &self.config.address);
        if let Some(leader) = leader.filter(|leader| leader.group == *group && leader.address != *address) {
            self.step_back(now, &leader);
        } else {
            self.leadership.claim = Claim::Asking { takes_over: false };
            self.claim(now);
        }
        self.settle(now);
    }

    /// The members that have knocked wait no longer.
    pub(crate) fn look_no_longer(&mut self) {
        if self.leadership.claim == Claim::Looking {
            self.leadership.claim = STAND_BY;
        }
    }

    /// Whether members are welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.trunk.is_live() && matches!(self.leadership.claim, Claim::Claiming { .. } | Claim::Leading { .. })
    }

    /// The store is reached: says what we want, or that we still lead.
    pub(crate) fn claim(&mut self, now: Time) {
        if !self.trunk.is_live() {
            return;
        }
        match self.leadership.claim {
            Claim::StandBy { .. } | Claim::Looking => {}
            Claim::Asking { .. } => self.ask_who_leads(now),
            Claim::Claiming { epoch } | Claim::Leading { epoch } => {
                let (group, address) = (self.config.group.clone(), self.config.address.clone());
                self.send_to_store(now, Lead { group, epoch, address });
                self.welcome_waiting(now);
            }
        }
    }

    /// It is time for a sign of life: a redirector that stands by for itself asks who leads.
    pub(crate) fn watch_leader(&mut self, now: Time) {
        if matches!(self.leadership.claim, Claim::StandBy { .. }) && self.config.duty != Duty::Assist {
            self.ask_who_leads(now);
        }
    }

    fn ask_who_leads(&mut self, now: Time) {
        let group = self.config.group.clone();
        self.send_to_store(now, FindLeader { group });
    }

    /// Somebody wants to be a member although we do not lead.
    pub(crate) fn knocked(&mut self, now: Time, client: ClientId) {
        self.leadership.told.retain(|_, at| now.since(*at) < TOLD);
        let is_back = self.leadership.told.contains_key(&client);
        match self.leadership.claim {
            Claim::StandBy { .. } if self.config.duty == Duty::Assist => {
                self.leadership.claim = Claim::Looking;
                self.out.look_for_leader();
            }
            Claim::StandBy { .. } => {
                let takes_over = is_back && self.config.duty == Duty::Lead;
                self.leadership.claim = Claim::Asking { takes_over };
                self.claim(now);
            }
            Claim::Looking | Claim::Asking { .. } | Claim::Claiming { .. } | Claim::Leading { .. } => {}
        }
    }

    /// The store says who leads.
    pub(crate) fn leader(&mut self, now: Time, leader: &Leader) {
        if leader.group != self.config.group {
            return;
        }
        let is_us = leader.address == self.config.address;
        // A process before us may have listened where we do.
        let is_vacant = is_us || leader.address.is_empty();
        match self.leadership.claim {
            Claim::Looking => {}
            Claim::StandBy { .. } if self.config.duty == Duty::Assist => {}
            Claim::StandBy { is_vacant: true } | Claim::Asking { .. } if is_vacant => self.take_over(now, leader),
            Claim::Asking { takes_over: true } => self.take_over(now, leader),
            Claim::StandBy { .. } => {
                self.leadership.claim = Claim::StandBy { is_vacant };
                self.leadership.other = Some(leader.clone()).filter(|_| !is_vacant);
            }
            Claim::Claiming { epoch } | Claim::Leading { epoch } if is_us && leader.epoch == epoch => {
                self.leadership.claim = Claim::Leading { epoch };
                self.leadership.other = None;
                // Those who came while we claimed do not know their group yet, and would not find it without us.
                self.leadership.tell_at = Some(now);
            }
            // It answers what we have asked before: a claim is never answered with a lower epoch than its own.
            Claim::Claiming { epoch } | Claim::Leading { epoch } if leader.epoch < epoch => {}
            Claim::Asking { .. } | Claim::Claiming { .. } | Claim::Leading { .. } => self.step_back(now, leader),
        }
    }

    /// Nobody leads, or nobody shall but us.
    fn take_over(&mut self, now: Time, before: &Leader) {
        // An epoch that nobody can exceed was not reached in earnest; the redirector that claimed it keeps the group.
        let epoch = before.epoch.saturating_add(1).min(GROUP_EPOCH_MAX);
        self.leadership.claim = Claim::Claiming { epoch };
        self.claim(now);
    }

    /// Another leads: those who are here, or would be, go there.
    fn step_back(&mut self, now: Time, leader: &Leader) {
        self.leadership.claim = STAND_BY;
        self.leadership.other = Some(leader.clone());
        for (session, client) in self.members.all_clients() {
            self.leadership.told.insert(client, now);
            self.out.send(session, leader.clone());
        }
        let text = format!("{} leads group {:?} in epoch {}", leader.address, leader.group, leader.epoch);
        self.send_all_away(now, &text);
    }

    /// The store has ended our session in favour of another redirector's: if it has not said whose, we find out when
    /// somebody asks.
    pub(crate) fn superseded(&mut self, now: Time, why: &str) {
        self.leadership.claim = STAND_BY;
        self.send_all_away(now, why);
    }

    /// The members will hear of who they are.
    pub(crate) fn tell_members_soon(&mut self, now: Time) {
        self.leadership.tell_at.get_or_insert(now + GATHER);
    }

    /// Tells all members who they are, longest there first.
    pub(crate) fn tell_members(&mut self, now: Time) {
        if self.leadership.tell_at.is_none_or(|at| now < at) {
            return;
        }
        self.leadership.tell_at = None;
        let Some(members) = self.describe_group() else { return };
        let sessions: Vec<_> = self.members.in_order().iter().map(|(session, ..)| *session).collect();
        for session in sessions {
            self.reply(session, members.clone());
        }
    }

    /// Tells a member that has just joined, which is not to wait for it: it needs to know where to go should we be gone
    /// the next moment.
    pub(crate) fn tell_new_member(&mut self, session: SessionId) {
        if let Some(members) = self.describe_group() {
            self.reply(session, members);
        }
    }

    fn describe_group(&self) -> Option<Members> {
        let member = |(_, client, eligible): (_, _, &str)| Member { client, address: String::from(eligible) };
        Some(Members {
            group: self.config.group.clone(),
            epoch: self.leadership.epoch()?,
            address: self.config.address.clone(),
            store: self.config.store.clone(),
            members: self.members.in_order().into_iter().map(member).collect(),
        })
    }
}
