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
//! Where the store has several nodes, the one with the lowest number of those that are reached decides, and all others
//! are told: a client asks its own node. That is right whichever nodes are away: a node that knows another leader ends
//! our session, and the higher epoch stays.
//!
//! 1. Members are welcome while we lead, and while the store has yet to answer that we want to: their caches are
//!    compared in the meantime. Should another lead, they are sent there.
//! 2. The store decides: of two claims of one epoch the first counts, and a higher epoch fences the lower one off. So
//!    of several that want to take over from a dead redirector one does, and one that was only cut off steps back.
//! 3. A redirector of its own, which is there for nothing else, takes the group over when there is no leader and
//!    somebody knocks. One that is there to lead also does so when it starts, and when a member comes back to it that
//!    did not find the leader. One that runs beside a member does so when that member has not found the leader, or when
//!    there is none and somebody knocks.
//! 4. Nobody may ever knock: those who have lost the leader are with the store, and wait there for another. So a
//!    redirector of its own asks the store who leads with every heartbeat, and takes over when nobody does twice in a
//!    row. Once is a leader that is about to come back, or a store that has just started.
//! 5. A member that knocks at one that runs beside a member may have lost the leader a little sooner than that member
//!    does. So the member asks the leader for a heartbeat. With an answer the leader lives, and the one that knocks
//!    goes elsewhere at once; without, the member takes over before long, and the one that knocks is here already.

use crate::members::Members;
use crate::outputs::Outputs;
use crate::{Config, Duty, Redirector};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use messages::{At, FindLeader, Lead, Leader, Member, ToServer};
use types::limits::GROUP_EPOCH_MAX;
use types::{ClientId, Map, Time};

/// How long changes of the membership are gathered before the members learn of them.
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

/// The step that follows a change of the claim.
pub(crate) enum Step {
    /// The store learns of the claim.
    Claim,
    /// We lead: the nodes that did not decide that learn of it.
    Led,
    /// This one leads: those who are here, or would be, go there.
    GiveWay(Leader),
}

/// How it stands with leading.
#[derive(Debug)]
pub(crate) struct Leadership {
    claim: Claim,
    duty: Duty,
    group: String,
    address: String,
    /// The leader in our place, as the store has said last.
    other: Option<Leader>,
    /// When the members are told who they are.
    tell_at: Option<Time>,
    /// Those who knocked and were told who leads, and when.
    told: Map<ClientId, Time>,
}

impl Leadership {
    pub(crate) fn new(config: &Config) -> Self {
        let claim = if config.duty == Duty::Lead { Claim::Asking { takes_over: true } } else { STAND_BY };
        let (duty, group, address) = (config.duty, config.group.clone(), config.address.clone());
        Self { claim, duty, group, address, other: None, tell_at: None, told: Map::default() }
    }

    /// The epoch in which we lead.
    pub(crate) fn epoch(&self) -> Option<u64> {
        if let Claim::Leading { epoch } = self.claim { Some(epoch) } else { None }
    }

    /// The leader in our place, as far as we know.
    pub(crate) fn other(&self) -> Option<&Leader> {
        self.other.as_ref()
    }

    /// Whether members are welcome, if the store is reached.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.claim, Claim::Claiming { .. } | Claim::Leading { .. })
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.tell_at
    }

    /// The member beside us takes the group over with us, in this epoch.
    pub(crate) fn lead(&mut self, epoch: u64) -> Option<Step> {
        if self.is_open() {
            return None;
        }
        self.claim = Claim::Claiming { epoch };
        Some(Step::Claim)
    }

    /// The member beside us says whose redirector lives, or that it is with none.
    pub(crate) fn led_by(&mut self, leader: Option<Leader>) -> Option<Step> {
        if self.claim != Claim::Looking {
            return None;
        }
        if let Some(leader) = leader.filter(|leader| leader.group == self.group && leader.address != self.address) {
            return Some(Step::GiveWay(leader));
        }
        self.claim = Claim::Asking { takes_over: false };
        Some(Step::Claim)
    }

    /// The members that have knocked wait no longer.
    pub(crate) fn look_no_longer(&mut self) {
        if self.claim == Claim::Looking {
            self.claim = STAND_BY;
        }
    }

    /// The message by which the store learns of the claim, or that we still lead.
    pub(crate) fn request(&self) -> Option<ToServer> {
        match self.claim {
            Claim::StandBy { .. } | Claim::Looking => None,
            Claim::Asking { .. } => Some(self.question().into()),
            Claim::Claiming { epoch } | Claim::Leading { epoch } => {
                let (group, address) = (self.group.clone(), self.address.clone());
                Some(Lead { group, epoch, address }.into())
            }
        }
    }

    fn question(&self) -> FindLeader {
        FindLeader { group: self.group.clone() }
    }

    /// Whether the store should be asked who leads with every heartbeat: we stand by for ourselves.
    fn watches(&self) -> bool {
        matches!(self.claim, Claim::StandBy { .. }) && self.duty != Duty::Assist
    }

    /// Somebody wants to be a member although we do not lead; says whether the store should be asked who does.
    pub(crate) fn knocked(&mut self, now: Time, client: ClientId, out: &mut Outputs) -> bool {
        self.told.retain(|_, at| now.since(*at) < TOLD);
        let is_back = self.told.contains_key(&client);
        match self.claim {
            Claim::StandBy { .. } if self.duty == Duty::Assist => {
                self.claim = Claim::Looking;
                out.look_for_leader();
                false
            }
            Claim::StandBy { .. } => {
                let takes_over = is_back && self.duty == Duty::Lead;
                self.claim = Claim::Asking { takes_over };
                true
            }
            Claim::Looking | Claim::Asking { .. } | Claim::Claiming { .. } | Claim::Leading { .. } => false,
        }
    }

    /// The store says who leads.
    fn leader(&mut self, now: Time, leader: &Leader) -> Option<Step> {
        if leader.group != self.group {
            return None;
        }
        let is_us = leader.address == self.address;
        // A process before us may have listened where we do.
        let is_vacant = is_us || leader.address.is_empty();
        match self.claim {
            Claim::Looking => None,
            Claim::StandBy { .. } if self.duty == Duty::Assist => None,
            Claim::StandBy { is_vacant: true } | Claim::Asking { .. } if is_vacant => Some(self.take_over(leader)),
            Claim::Asking { takes_over: true } => Some(self.take_over(leader)),
            Claim::StandBy { .. } => {
                self.claim = Claim::StandBy { is_vacant };
                self.other = Some(leader.clone()).filter(|_| !is_vacant);
                None
            }
            Claim::Claiming { epoch } | Claim::Leading { epoch } if is_us && leader.epoch == epoch => {
                let was_decided = self.claim == Claim::Leading { epoch };
                self.claim = Claim::Leading { epoch };
                self.other = None;
                // Those who came while we claimed do not know their group yet, and would not find it without us.
                self.tell_at = Some(now);
                (!was_decided).then_some(Step::Led)
            }
            // It answers what we have asked before: a claim is never answered with a lower epoch than its own.
            Claim::Claiming { epoch } | Claim::Leading { epoch } if leader.epoch < epoch => None,
            Claim::Asking { .. } | Claim::Claiming { .. } | Claim::Leading { .. } => {
                Some(Step::GiveWay(leader.clone()))
            }
        }
    }

    /// Nobody leads, or nobody shall but us.
    fn take_over(&mut self, before: &Leader) -> Step {
        // An epoch that nobody can exceed was not reached in earnest; the redirector that claimed it keeps the group.
        let epoch = before.epoch.saturating_add(1).min(GROUP_EPOCH_MAX);
        self.claim = Claim::Claiming { epoch };
        Step::Claim
    }

    /// Another leads: the members are told.
    fn step_back(&mut self, now: Time, leader: &Leader, members: &Members, out: &mut Outputs) {
        self.claim = STAND_BY;
        self.other = Some(leader.clone());
        for (session, client) in members.all_clients() {
            self.told.insert(client, now);
            out.send(session, leader.clone());
        }
    }

    /// The members will learn of who they are.
    pub(crate) fn tell_members_soon(&mut self, now: Time) {
        self.tell_at.get_or_insert(now + GATHER);
    }

    /// Whether it is time that the members learn of who they are; then it is no longer.
    fn tells_now(&mut self, now: Time) -> bool {
        self.tell_at.take_if(|at| *at <= now).is_some()
    }

    /// The description of the group for its members, if we lead it; `store` is where the store is reached.
    pub(crate) fn describe(&self, members: &Members, store: &[String]) -> Option<messages::Members> {
        let member = |(_, client, eligible): (_, _, &str)| Member { client, address: String::from(eligible) };
        Some(messages::Members {
            group: self.group.clone(),
            epoch: self.epoch()?,
            address: self.address.clone(),
            store: store.to_vec(),
            members: members.in_order().into_iter().map(member).collect(),
        })
    }
}

impl Redirector {
    /// The store says who leads.
    pub(crate) fn leader(&mut self, now: Time, leader: &Leader) {
        if let Some(step) = self.leadership.leader(now, leader) {
            self.take_step(now, step);
        }
    }

    pub(crate) fn take_step(&mut self, now: Time, step: Step) {
        match step {
            Step::Claim => self.claim(now),
            Step::Led => {
                let decided = self.nodes.arbiter();
                for at in self.nodes.live().filter(|at| Some(*at) != decided).collect::<Vec<_>>() {
                    self.tell_claim(now, at);
                }
            }
            Step::GiveWay(leader) => {
                self.leadership.step_back(now, &leader, &self.members, &mut self.out);
                let text = format!("{} leads group {:?} in epoch {}", leader.address, leader.group, leader.epoch);
                self.send_all_away(now, &text);
            }
        }
    }

    /// The store is reached: tells it of the claim, or that we still lead.
    pub(crate) fn claim(&mut self, now: Time) {
        self.tell_arbiter(now);
        if self.is_open() {
            self.welcome_waiting(now);
        }
    }

    /// It is time for a heartbeat: a redirector that stands by for itself asks who leads.
    pub(crate) fn watch_leader(&mut self, now: Time, at: At) {
        if self.leadership.watches() && self.nodes.arbiter() == Some(at) {
            self.send_to(now, at, self.leadership.question());
        }
    }

    /// A node is reached: it learns that we lead. If it has the lowest number of those that are, it decides from now
    /// on.
    pub(crate) fn claim_at(&mut self, now: Time, at: At) {
        if self.nodes.arbiter() == Some(at) {
            return self.claim(now);
        }
        if self.leadership.epoch().is_some() {
            self.tell_claim(now, at);
        }
        if self.is_open() {
            self.welcome_waiting(now);
        }
    }

    /// The store has ended our session in favour of another redirector's: if it has not said whose, we find out when
    /// somebody asks.
    pub(crate) fn superseded(&mut self, now: Time, why: &str) {
        self.leadership.claim = STAND_BY;
        self.send_all_away(now, why);
    }

    /// Tells all members who they are, longest there first.
    pub(crate) fn tell_members(&mut self, now: Time) {
        if !self.leadership.tells_now(now) {
            return;
        }
        let Some(group) = self.leadership.describe(&self.members, &self.config.store) else { return };
        let sessions: Vec<_> = self.members.in_order().iter().map(|(session, ..)| *session).collect();
        for session in sessions {
            self.reply(session, group.clone());
        }
    }
}
