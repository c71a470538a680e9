//! Read-only transactions that are validated here, under leases of the store's nodes (see [`messages::lease`]).
//!
//! ```text
//!   no lease --Leased, an answer to our ping--> leased --so long after the ping--> no lease
//! ```
//! 1. Every change that is told is in *recent*, back to a count. A reader of something that changed since is told so;
//!    one that proves less than that count is sent on to the store.
//! 2. Of a page that the group has not held all the time *recent* knows only the changes since the store has sent
//!    or compared it. A member's read before that, wherever it was then, is for the store to judge.
//! 3. A slot that somebody is about to change is *contested*, from the intent on, until the change is told, and until
//!    more of the lease is given: up to then others may change it too, for whom the promise counts. A reader of it is
//!    sent on to the store. A slot that a member of ours is about to change is contested from the moment on at which
//!    the request goes out, in each session in which it does, until its reply: the store sends us no intent for it.
//! 4. The lease counts from the moment at which the ping was sent, and shorter by how much slower our clock may be.
//! 5. With the session the lease ends, and everything that was known for it.

use crate::Redirector;
use crate::holders::Holders;
use alloc::vec::Vec;
use core::time::Duration;
use directory::{Recent, stale_slots};
use messages::{At, CommitRequest, Intent, Invalidation, Leased, Outcome, PageReads, Promise};
use smallvec::SmallVec;
use types::limits::LEASE_DRIFT_PERMILLE as DRIFT_PERMILLE;
use types::{Broken, Horizon, Map, PageId, Refusal, Rule, SessionId, Sharding, SlotSet, Time, TxnId, Vector, Version};

/// The lease of a node, and the changes that are known for it.
#[derive(Debug)]
pub(crate) struct Lease {
    until: Time,
    /// When the next ping is due for it to continue.
    renew_at: Option<Time>,
    spaces: Vec<u32>,
    recent: Recent,
    recent_limit: usize,
    contested: Map<PageId, SmallVec<[(TxnId, SlotSet); 1]>>,
    /// The slots that were promised to be asked for since the lease was last given: others may change them without an
    /// intent.
    promised: Map<PageId, SlotSet>,
    /// The pages of which the store was asked under the lease, and the horizon at its answer: the group may not have
    /// held them before.
    asked: Map<PageId, Version>,
    broken: Broken,
}

/// Stands for the horizon at an answer that has not come yet.
const NOT_YET: Version = Version(u64::MAX);

impl Lease {
    pub(crate) fn new(recent_limit: usize, broken: Broken) -> Self {
        Self {
            until: Time::ZERO,
            renew_at: None,
            spaces: Vec::new(),
            recent: Recent::new(recent_limit),
            recent_limit,
            contested: Map::default(),
            promised: Map::default(),
            asked: Map::default(),
            broken,
        }
    }

    /// The session with the store is gone.
    pub(crate) fn link_is_gone(&mut self) {
        if self.broken.is(Rule::LeaseWithUpstream) {
            self.promised.clear();
            return self.contested.clear();
        }
        *self = Self::new(self.recent_limit, self.broken);
    }

    /// The store is asked for the page, or for its changes.
    pub(crate) fn ask(&mut self, page: PageId) {
        if self.spaces.contains(&page.space) {
            self.asked.insert(page, NOT_YET);
        }
    }

    /// The store has answered: it tells us of the page's changes after this count, if it did not before.
    pub(crate) fn answered(&mut self, page: PageId, horizon: Horizon<'_>) {
        if let Some(known_since) = self.asked.get_mut(&page).filter(|known_since| **known_since == NOT_YET) {
            *known_since = horizon.of(page);
        }
    }

    /// The store has not sent the page, and nobody holds it.
    pub(crate) fn was_left_out(&mut self, page: PageId) {
        self.asked.remove(&page);
    }

    /// Since when all changes of the page are known.
    fn known_since(&self, page: PageId) -> Version {
        self.asked.get(&page).copied().unwrap_or(Version::ZERO)
    }

    /// When the next ping is due.
    pub(crate) fn renew_at(&self) -> Option<Time> {
        self.renew_at
    }

    /// The store will be asked for more.
    pub(crate) fn has_pinged(&mut self) {
        self.renew_at = None;
    }

    /// These slots are about to change.
    pub(crate) fn contest(&mut self, page: PageId, txn: TxnId, slots: &SlotSet) {
        let contests = self.contested.entry(page).or_default();
        if !contests.iter().any(|(known, _)| *known == txn) {
            contests.push((txn, slots.clone()));
        }
    }

    /// They have changed, or will not.
    pub(crate) fn end_contest(&mut self, page: PageId, txn: TxnId) {
        let Some(contests) = self.contested.get_mut(&page) else { return };
        contests.retain(|(contest, _)| *contest != txn);
        if contests.is_empty() {
            self.contested.remove(&page);
        }
    }

    /// A change is told.
    pub(crate) fn note(&mut self, invalidation: &Invalidation, sharding: Sharding) {
        let Invalidation { page, version, ref slots, .. } = *invalidation;
        self.recent.note(page, sharding.of(page), version, slots.iter());
        self.end_contest(invalidation.page, invalidation.txn);
    }

    /// The group holds the page no longer: no change of it will be reported. Should somebody fetch it again, the store
    /// says again which slots are about to change, but for those of commits that are on their way from us.
    pub(crate) fn forget(&mut self, page: PageId, is_ours: impl Fn(TxnId) -> bool) {
        if let Some(contests) = self.contested.get_mut(&page) {
            contests.retain(|(txn, _)| is_ours(*txn));
            if contests.is_empty() {
                self.contested.remove(&page);
            }
        }
        self.promised.remove(&page);
        self.asked.remove(&page);
    }

    /// Whether there may be changes of these slots that we have not learned of.
    fn is_contested(&self, reads: &PageReads) -> bool {
        let contests = self.contested.get(&reads.page).map_or(&[][..], |contests| contests);
        let promised = self.promised.get(&reads.page);
        contests.iter().map(|(_, slots)| slots).chain(promised).any(|slots| slots.intersects(&reads.slots))
    }

    /// Changes that all members have learned of need not be remembered.
    pub(crate) fn prune(&mut self, through: &Vector) {
        self.recent.prune(through);
    }

    /// The store has granted a lease, or more of it; says whether it is on other spaces than before.
    fn begin(&mut self, now: Time, leased: Leased, horizon: Horizon<'_>) -> bool {
        let lease = Duration::from_millis(u64::from(leased.lease_ms));
        let ends = self.broken.is(Rule::LeaseEnds);
        // Nobody answers a ping before it was sent.
        let since = Time(leased.nonce).min(now);
        let shorter = lease * (1000 - DRIFT_PERMILLE) / 1000;
        self.until = if ends { Time(u64::MAX) } else { since + shorter };
        self.renew_at = Some(since + lease / 3);
        // We have been told again of everything that is about to change by now.
        self.promised.clear();
        if self.spaces == leased.spaces {
            return false;
        }
        // Changes through here are not known slot by slot.
        if !self.broken.is(Rule::LeaseFromNow) {
            self.recent.prune(horizon.counts);
        }
        self.spaces = leased.spaces;
        true
    }

    /// It was promised to ask for these slots before a read of them commits.
    fn promise(&mut self, intent: &Intent) {
        for (page, slots) in &intent.pages {
            self.contest(*page, intent.txn, slots);
            if !self.broken.is(Rule::KeepPromise) {
                self.promised.entry(*page).or_default().union_with(slots);
            }
        }
    }

    /// Judges what a member has read of a page, if that can be done here. Returns the slots that have changed.
    fn judge(
        &self,
        now: Time,
        from: SessionId,
        reads: &PageReads,
        holders: &Holders,
        sharding: Sharding,
    ) -> Option<SlotSet> {
        let is_ours = self.spaces.contains(&reads.page.space) && holders.holds(reads.page, from);
        let is_known = reads.evidence >= self.known_since(reads.page) || self.broken.is(Rule::JudgeSinceHeld);
        let is_contested = self.is_contested(reads) && !self.broken.is(Rule::AskIfContested);
        if self.until <= now || !is_ours || !is_known || is_contested {
            return None;
        }
        // No page's version is known here, so each is considered as new as can be.
        let changed = stale_slots(reads, Version(u64::MAX), &self.recent, Version::ZERO);
        if changed.is_empty() {
            let pruned = self.recent.pruned().of(sharding.of(reads.page));
            let unknown = stale_slots(reads, Version(u64::MAX), &self.recent, pruned);
            if !unknown.is_empty() {
                return None;
            }
        }
        Some(changed)
    }
}

impl Redirector {
    /// A node has granted a lease, or more of it.
    pub(crate) fn leased(&mut self, now: Time, at: At, leased: Leased) {
        let (node, places) = self.nodes.parts(at);
        let (session, fetches, lease) = (&node.session, &node.fetches, &mut node.lease);
        if lease.begin(now, leased, session.up.horizon()) {
            let compared = self.revalidations.pages().filter(|page| places.of(*page) == at);
            for page in fetches.pages().chain(compared) {
                lease.ask(page);
            }
        }
    }

    /// A node has answered for the page: it tells us of its changes from then on.
    pub(crate) fn answered(&mut self, at: At, page: PageId) {
        let node = self.nodes.parts(at).0;
        node.lease.answered(page, node.session.up.horizon());
    }

    /// A transaction is about to change pages that we hold: it waits for this promise. A promise counts from the moment
    /// on at which it leaves: the group may have let go of the page, and the message that tells the node so, and makes
    /// both ends forget, leaves before it.
    pub(crate) fn intent(&mut self, now: Time, at: At, intent: &Intent) {
        self.send_to(now, at, Promise { txn: intent.txn });
        self.nodes[at].lease.promise(intent);
    }

    /// Judges a read-only transaction, if that can be done here: under the leases of the nodes of all its reads, at
    /// this one moment.
    pub(crate) fn validate(&mut self, now: Time, from: SessionId, request: &CommitRequest) -> Option<Outcome> {
        if !request.writes.is_empty() || !self.nodes.is_reached() {
            return None;
        }
        let (mut stale, sharding) = (Vec::new(), self.nodes.sharding());
        for reads in &request.reads {
            let node = self.nodes.of(reads.page);
            if !node.session.is_live() {
                return None;
            }
            let changed = node.lease.judge(now, from, reads, &self.holders, sharding)?;
            if !changed.is_empty() {
                stale.push((reads.page, changed));
            }
        }
        self.stats.validated += 1;
        Some(if stale.is_empty() {
            Outcome::Committed { pages: Vec::new() }
        } else {
            Outcome::Refused(Refusal::Stale(stale))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::{NonZeroU16, NonZeroU32};
    use types::Shard;

    const MEMBER: SessionId = SessionId(1);

    /// The store has answered for the page when its shard was at 1 and the other one at 9.
    #[test]
    fn a_read_is_held_against_the_count_of_its_own_shard() {
        let sharding = Sharding::new(NonZeroU16::new(2).expect("not zero"), NonZeroU32::MIN);
        let page = PageId::new(0, 0);
        let shard = sharding.of(page);
        let other = Shard(1 - shard.0);
        let counts = [(shard, Version(1)), (other, Version(9))].into_iter().collect();
        let horizon = Horizon { counts: &counts, sharding };
        let (mut lease, mut holders) = (Lease::new(100, Broken::NONE), Holders::default());
        holders.list(page, MEMBER);
        let nothing = Horizon { counts: &Vector::new(), sharding };
        lease.begin(Time::ZERO, Leased { nonce: 0, lease_ms: 1000, spaces: alloc::vec![0] }, nothing);
        lease.ask(page);
        lease.answered(page, horizon);
        let judged = |evidence| {
            let slots = SlotSet::from_iter([0]);
            let reads = PageReads { page, slots, evidence: Version(evidence), exceptions: Vec::new() };
            lease.judge(Time::ZERO, MEMBER, &reads, &holders, sharding).is_some()
        };
        assert!(judged(1), "every change of the page since is known here");
        assert!(!judged(0), "the store knows what was before");
    }
}
