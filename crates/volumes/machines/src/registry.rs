//! The registry's word on a volume, as the machines see it: an object of a store that is changed by compare-and-set,
//! and the lease that its owner has by it.
//!
//! Each change of an owner has a new *heartbeat*, and is a sign that it lives. The owner answers reads for the length
//! of its lease from when it has asked for the change that was made last (**LeaseFromAsking**). Another host takes over
//! when it has seen the same heartbeat for longer than that (**WaitOwnerLease**, **AllowDrift**): its own change
//! expects that heartbeat, so a heartbeat that comes in between refuses it. No two clocks are compared.
//!
//! A registry may go *back*: its store was put back from an older copy. An owner finds out by the answer to a change,
//! and has its entry put there again when home has said that nobody else has had the volume since (**HomeConfirms**),
//! under a revision that is far beyond all that were lost: whoever has one of those in hand is refused by it.

use crate::acknowledged::Acknowledged;
use crate::messages::holder::{Epoch, PartitionId, Stamp};
use crate::rule::Rule;
use alloc::vec::Vec;
use core::time::Duration;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Time};

/// A host that has a volume attached, by a number that it draws for each attachment: a copy of its cache, or an older
/// state of it, does not have the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u64);

/// The registry's word on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its epoch.
    pub epoch: Epoch,
    /// The host that has it, if one does.
    pub owner: Option<HostId>,
    /// Whether that host is taking it over, and what the holders have is not written back yet.
    pub is_taking: bool,
    /// The last heartbeat of the owner.
    pub heartbeat: u64,
    /// The length of its lease.
    pub lease: Duration,
    /// W.
    pub copies: u8,
    /// The size of the volume.
    pub size: u64,
    /// The partitions whose copies count.
    pub holders: Vec<PartitionId>,
    /// The writes that they have acknowledged, through the owner's last heartbeat.
    pub acknowledged: Vec<Acknowledged>,
    /// Whether the entry was lost and made again: there may have been other holders than those that were found, so the
    /// lists of all of them are read.
    pub is_rebuilt: bool,
    /// The last write that may be home of those that were made before this epoch's owner, if it has one, came; or the
    /// begin of the last epoch that had one. A host that was the last one to write finds its clean blocks current.
    pub written: Stamp,
    /// The last takeover that continued without lists that were missing.
    pub accepted_loss: Option<AcceptedLoss>,
}

/// A takeover that continued without lists that were missing, as its operator had accepted that: writes that only these
/// had are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The epoch that it began.
    pub epoch: Epoch,
    /// The holders whose lists they were; if there are none, that of the owner before.
    pub lists: Vec<PartitionId>,
}

impl Registered {
    /// A new volume.
    pub fn new(size: u64, copies: u8, lease: Duration) -> Self {
        let (holders, accepted_loss) = (Vec::new(), None);
        Self {
            epoch: Epoch(0),
            owner: None,
            is_taking: false,
            heartbeat: 0,
            lease,
            copies,
            size,
            holders,
            acknowledged: Vec::new(),
            is_rebuilt: false,
            written: Stamp::ZERO,
            accepted_loss,
        }
    }
}

/// An entry of the registry and its revision, which no other state of it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The revision. Later ones are greater.
    pub revision: u64,
    /// The entry.
    pub entry: Registered,
}

/// A change of an entry, which is made if it is still at the revision that the change expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision that it expects.
    pub expects: u64,
    /// The entry as it should be.
    pub entry: Registered,
}

/// A change that puts an entry back in a registry that was restored from an older copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The change of what stands there.
    pub change: Change,
    /// The revision that it makes.
    pub revision: u64,
}

/// So far beyond the newest revision that is known is one that was made again: no change that was lost had one of
/// those.
pub(crate) const REVISIONS_LOST_MAX: u64 = 1 << 32;

/// A change that is under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Time,
    /// The newest revision that was known then.
    known: u64,
}

/// The entry of a volume, as its owner has it: what was heard last, the change that is under way, and the lease.
#[derive(Debug)]
pub(crate) struct Registration {
    view: View,
    asked: Option<Asked>,
    /// The entry as it is in a registry that was restored from an older copy.
    back: Option<View>,
    /// The time until which reads are answered.
    lease_until: Time,
    is_given_up: bool,
    /// The next heartbeat.
    heartbeat_at: Time,
    /// The registry was not to be had: it is let alone until then.
    wait_until: Time,
    broken: Broken<Rule>,
}

impl Registration {
    /// As it was heard. The lease is over: it begins with the first change.
    pub(crate) fn new(view: View, broken: Broken<Rule>) -> Self {
        Self {
            view,
            asked: None,
            back: None,
            lease_until: Time::ZERO,
            is_given_up: false,
            heartbeat_at: Time::ZERO,
            wait_until: Time::ZERO,
            broken,
        }
    }

    pub(crate) fn entry(&self) -> &Registered {
        &self.view.entry
    }

    pub(crate) fn revision(&self) -> u64 {
        self.view.revision
    }

    pub(crate) fn is_leased(&self, now: Time) -> bool {
        now < self.lease_until && !self.is_given_up
    }

    /// The lease is over for good: another host may have the volume as soon as the registry says that nobody does.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Whether a change can be asked for.
    pub(crate) fn may_change(&self, now: Time) -> bool {
        self.back.is_none() && self.may_ask(now)
    }

    /// Whether the registry, or home about it, can be asked for something.
    pub(crate) fn may_ask(&self, now: Time) -> bool {
        self.asked.is_none() && now >= self.wait_until
    }

    /// The entry as it is in a registry that was restored from an older copy, if it has.
    pub(crate) fn back(&self) -> Option<&View> {
        self.back.as_ref()
    }

    /// It is let alone for a while.
    pub(crate) fn wait(&mut self, now: Time) {
        self.wait_until = now + self.view.entry.lease / 6;
    }

    /// When the next heartbeat is due.
    pub(crate) fn heartbeat_at(&self) -> Option<Time> {
        self.asked.is_none().then_some(self.heartbeat_at.max(self.wait_until))
    }

    /// A change, unless one is under way. It is a heartbeat.
    pub(crate) fn change(&mut self, now: Time, change: impl FnOnce(&mut Registered)) -> Option<Change> {
        if !self.may_change(now) {
            return None;
        }
        self.asked = Some(Asked { at: now, known: self.view.revision });
        let mut entry = self.view.entry.clone();
        entry.heartbeat += 1;
        change(&mut entry);
        Some(Change { expects: self.view.revision, entry })
    }

    /// The change that puts the entry back where it was restored from an older copy. It is a heartbeat.
    pub(crate) fn restore(&mut self, now: Time) -> Option<Restore> {
        let View { revision: expects, entry: back } = self.back.take()?;
        self.asked = Some(Asked { at: now, known: self.view.revision });
        let mut entry = self.view.entry.clone();
        entry.heartbeat = entry.heartbeat.max(back.heartbeat) + 1;
        let revision = self.view.revision + REVISIONS_LOST_MAX;
        Some(Restore { change: Change { expects, entry }, revision })
    }

    /// The change that is under way was made.
    pub(crate) fn made(&mut self, now: Time, view: View) {
        if let Some(asked) = self.asked.take() {
            let asked = if self.broken.is(Rule::LeaseFromAsking) { now } else { asked.at };
            let lease = view.entry.lease;
            self.lease_until = self.lease_until.max(asked + lease);
            self.heartbeat_at = now + lease / 3;
        }
        self.hear(view);
    }

    /// It was not, as the entry stands otherwise. Or nobody knows: the registry is asked again after a while.
    pub(crate) fn not_made(&mut self, now: Time, view: Option<View>) {
        let known = self.asked.take().map_or(0, |asked| asked.known);
        self.heartbeat_at = now;
        match view {
            // The registry has had a newer one: this is the answer to a change, and no old news.
            Some(view) if view.revision < known && view.entry.epoch <= self.view.entry.epoch => {
                self.back = Some(view);
                self.wait(now);
            }
            Some(view) => self.hear(view),
            None => self.wait(now),
        }
    }

    /// The entry is known to stand so.
    pub(crate) fn hear(&mut self, view: View) {
        if view.revision > self.view.revision || view.entry.epoch > self.view.entry.epoch {
            (self.view, self.back) = (view, None);
        }
    }
}

/// How long a host has seen a heartbeat for, by its own clock, when the owner's lease is over.
pub(crate) fn wait_for_lease(lease: Duration, broken: Broken<Rule>) -> Duration {
    if broken.is(Rule::WaitOwnerLease) {
        Duration::ZERO
    } else if broken.is(Rule::AllowDrift) {
        lease
    } else {
        // The owner's clock may be slow by as much as this host's is fast.
        lease + lease * LEASE_DRIFT_PERMILLE / 1000
    }
}
