//! A subscription at a file server or relay, as its subscriber has it: the lease, and what is held above.
//!
//! ```text
//!   away --Join--> asked --Joined--> joined --Renew, Renewed--> joined
//!     ^                                 | session lost, or Lapsed: the lease runs on, and nothing new is promised
//!     +---------------------------------+
//! ```
//! A lease counts from when it was asked for (**LeaseWithin**). Within it the subscriber *shares* the newest revision,
//! until a newer one is announced or it releases this one (**RevokeFirst**):
//!
//! ```text
//!   shared --Invalidate, or Revoke and Release, or the lease is over--> not shared --Acquire, Offer--> shared
//! ```

use crate::messages::{Acquire, Consistency, Hold, Join, Joined, Release, Renew, Renewed, WhenStale};
use crate::number::{Number, SiteKey};
use crate::rule::Way;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use types::limits::HOLDS_PER_SUBSCRIBER_MAX;
use types::{Broken, Time};

/// How long an answer to a Join may take before it is said again, and how soon it is after a refusal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The least time between two renewals: what a relay has left of its lease may be short.
const RENEW_AFTER: Duration = Duration::from_millis(10);

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was asked in this session, or it was refused: to be asked at this time.
    Away(Time),
    /// A Join was said, which is said again at this time.
    Asked(Time),
    Joined,
}

/// Whether a subscriber may serve the newest revision as such, while its lease runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Shared,
    /// Its giver may believe that it is shared.
    Ended,
    /// Its giver was told that it is not.
    Released,
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct Taker {
    pub(crate) key: SiteKey,
    slot: u32,
    life: u64,
    phase: Phase,
    /// When it asked to join the last time: an answer to an earlier Join does not say what the giver holds now.
    asked: Time,
    /// The newest revision that a reader has seen, as its last Join has it.
    said: Number,
    until: Time,
    /// The length of the last lease, for the times of renewals.
    length: Duration,
    renew_at: Time,
    /// The revisions that are held above, the newest among them.
    held: BTreeSet<Number>,
    /// The revisions that the next renewal releases.
    released: BTreeSet<Number>,
    share: Share,
    /// When the newest revision was asked for, and whether to share it, until it is offered.
    acquires: Option<(Time, bool)>,
    consistency: Consistency,
    when_stale: WhenStale,
    broken: Broken<Way>,
}

impl Taker {
    /// A subscription under a number of its own in the session; `life` is that of the subscriber.
    pub(crate) fn new(key: SiteKey, slot: u32, life: u64, broken: Broken<Way>) -> Self {
        Self {
            key,
            slot,
            life,
            phase: Phase::Away(Time::ZERO),
            asked: Time::ZERO,
            said: Number::NONE,
            until: Time::ZERO,
            length: Duration::ZERO,
            renew_at: Time::ZERO,
            held: BTreeSet::new(),
            released: BTreeSet::new(),
            share: Share::Ended,
            acquires: None,
            consistency: Consistency::default(),
            when_stale: WhenStale::default(),
            broken,
        }
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.phase == Phase::Joined
    }

    /// Returns the rest of the lease, at most its whole length: the lease of the subscribers behind this one.
    pub(crate) fn rest(&self, now: Time) -> Duration {
        if self.broken.is(Way::WholeLease) { self.length } else { self.until.since(now).min(self.length) }
    }

    /// When its lease is over.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Whether the lease runs.
    pub(crate) fn is_leased(&self, now: Time) -> bool {
        now < self.until
    }

    /// Whether a revision is held above.
    pub(crate) fn holds(&self, number: Number) -> bool {
        self.held.contains(&number)
    }

    /// The revisions that are held above.
    pub(crate) fn held(&self) -> &BTreeSet<Number> {
        &self.held
    }

    /// The consistency of the site.
    pub(crate) fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// Whether the subscriber serves the site when its lease is over.
    pub(crate) fn when_stale(&self) -> WhenStale {
        self.when_stale
    }

    /// Whether the newest revision of its giver may be served as such.
    pub(crate) fn shares(&self, now: Time) -> bool {
        self.share == Share::Shared && self.is_leased(now)
    }

    /// Whether it shares the newest revision whenever its lease runs.
    pub(crate) fn has_share(&self) -> bool {
        self.share == Share::Shared
    }

    /// The share has ended: there is a newer revision.
    pub(crate) fn invalidated(&mut self) {
        if self.share == Share::Shared {
            self.share = Share::Ended;
        }
    }

    /// Releases the newest revision, if its giver may believe that it is shared.
    pub(crate) fn release_share(&mut self) -> Option<Release> {
        let is_known = mem::replace(&mut self.share, Share::Released) == Share::Released;
        (!is_known && self.is_joined()).then_some(Release { slot: self.slot })
    }

    /// The question for the newest revision, of a subscriber that has this one, and whether it shares the newest from
    /// then on. None if it is not joined, has asked already, or shares it.
    pub(crate) fn acquire(&mut self, now: Time, at: Number, shares: bool) -> Option<Acquire> {
        if !self.is_joined() || self.shares(now) || self.acquires.is_some() {
            return None;
        }
        self.acquires = Some((now, shares));
        Some(Acquire { slot: self.slot, at, shares })
    }

    /// The newest revision was offered as an answer. Returns when it was asked for.
    pub(crate) fn granted(&mut self) -> Option<Time> {
        let (asked, shares) = self.acquires.take()?;
        if shares {
            self.share = Share::Shared;
        }
        Some(asked)
    }

    /// The session is gone, and with it the question that was asked in it.
    pub(crate) fn lost(&mut self) {
        self.phase = Phase::Away(Time::ZERO);
        self.released.clear();
        self.acquires = None;
        if self.share != Share::Shared {
            self.share = Share::Ended;
        }
    }

    /// Asks again at this time: the lease has expired at the giver, or the giver did not let it join.
    pub(crate) fn ask_at(&mut self, at: Time) {
        self.phase = Phase::Away(at);
    }

    /// Joins again if a reader has seen a newer revision than the last Join says: its giver may be behind, or the store
    /// may have been restored, which it finds out. A Join that is on its way is answered first.
    pub(crate) fn ask_for(&mut self, now: Time, seen: Number) {
        if self.is_joined() && seen > self.said {
            self.ask_at(now);
        }
    }

    /// The Join that is due, for a subscriber that serves a revision, has seen one, and at which others are read.
    pub(crate) fn join(
        &mut self,
        now: Time,
        (at, seen): (Number, Number),
        read: impl Iterator<Item = Number>,
    ) -> Option<Join> {
        let due = match self.phase {
            Phase::Away(due) | Phase::Asked(due) => due,
            Phase::Joined => return None,
        };
        if now < due {
            return None;
        }
        (self.phase, self.asked, self.said) = (Phase::Asked(now + ANSWER_WITHIN), now, seen);
        let held: BTreeSet<Number> = read.filter(|number| *number != Number::NONE).collect();
        let held = held.into_iter().rev().take(HOLDS_PER_SUBSCRIBER_MAX).collect();
        let (space, site) = (self.key.space.clone(), self.key.name.clone());
        Some(Join { slot: self.slot, asked: now, life: self.life, at, seen, space, site, held })
    }

    /// The giver let it join. Revisions that were held before, and are not now, may be gone.
    pub(crate) fn joined(&mut self, now: Time, joined: &Joined) {
        if joined.asked != self.asked || matches!(self.phase, Phase::Away(_)) {
            return;
        }
        if !self.is_joined() {
            self.held.clear();
        }
        self.phase = Phase::Joined;
        (self.consistency, self.when_stale) = (joined.consistency, joined.when_stale);
        (self.share, self.acquires) = (if joined.shares { Share::Shared } else { Share::Ended }, None);
        self.held.extend(joined.held.iter().copied().chain([joined.number]));
        self.released.retain(|number| !self.held.contains(number));
        self.lease(now, joined.asked, joined.lease_ms);
    }

    /// The giver renewed the lease.
    pub(crate) fn renewed(&mut self, now: Time, renewed: &Renewed) {
        if self.is_joined() && renewed.asked <= now {
            self.lease(now, renewed.asked, renewed.lease_ms);
        }
    }

    fn lease(&mut self, now: Time, asked: Time, lease_ms: u32) {
        self.length = Duration::from_millis(lease_ms.into());
        let from = if self.broken.is(Way::CountFromAnswer) { now } else { asked };
        self.until = self.until.max(from + self.length);
        self.renew_at = now + (self.length / 3).max(RENEW_AFTER);
    }

    /// Returns the question for a hold on a revision. A release of it that was not said yet is withdrawn: it would end
    /// the hold that the answer promises.
    pub(crate) fn ask_for_hold(&mut self, number: Number) -> Hold {
        self.released.remove(&number);
        Hold { slot: self.slot, number }
    }

    /// A revision was offered, or a hold on it granted: it is held above.
    pub(crate) fn promised(&mut self, number: Number) {
        self.released.remove(&number);
        self.held.insert(number);
    }

    /// A hold was refused.
    pub(crate) fn refused(&mut self, number: Number) {
        self.held.remove(&number);
    }

    /// Lets go of a revision without readers.
    pub(crate) fn release(&mut self, number: Number) {
        if self.held.remove(&number) {
            self.released.insert(number);
        }
    }

    /// A renewal at once, to report.
    pub(crate) fn report_now(&mut self, now: Time) {
        self.renew_at = now;
    }

    /// The renewal that is due, of a subscriber that serves this revision.
    pub(crate) fn renewal(&mut self, now: Time, at: Number) -> Option<Renew> {
        if !self.is_joined() || now < self.renew_at {
            return None;
        }
        // Its answer sets the next time. Without an answer, it is asked for again.
        self.renew_at = now + (self.length / 3).max(RENEW_AFTER);
        let released: Vec<Number> = self.released.iter().take(HOLDS_PER_SUBSCRIBER_MAX).copied().collect();
        for number in &released {
            self.released.remove(number);
        }
        Some(Renew { slot: self.slot, asked: now, at, released })
    }

    /// When something is due next, while the session is there.
    pub(crate) fn due(&self) -> Time {
        match self.phase {
            Phase::Away(due) | Phase::Asked(due) => due,
            Phase::Joined => self.renew_at,
        }
    }
}
