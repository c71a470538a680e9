//! The registry's word on a volume, as the machines see it: an object of a store that is changed by compare-and-set, and
//! the lease that its owner has by it.
//!
//! Each change of an owner has a new *pulse*, and is a sign that it lives. The owner answers reads for the length of its
//! lease from when it has asked for the change that was made last (**LeaseFromAsking**). Another host takes over when it
//! has seen the same pulse for longer than that (**WaitOwnerLease**, **AllowDrift**): its own change expects that pulse, so a sign of
//! life that comes in between refuses it. No two clocks are compared.

use crate::rule::Rule;
use alloc::vec::Vec;
use core::time::Duration;
use protocol::volumes::{Epoch, PartitionId};
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Time};

/// A host that has a volume attached, by a number that it draws for each attachment: a copy of its cache, or an older state of
/// it, does not have the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u64);

/// The registry's word on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its epoch.
    pub epoch: Epoch,
    /// The host that has it, if one does.
    pub owner: Option<HostId>,
    /// Whether that host is taking it over, and what the holders have is not home yet.
    pub is_taking: bool,
    /// The last sign of life of the owner.
    pub pulse: u64,
    /// The length of its lease.
    pub lease: Duration,
    /// W.
    pub copies: u8,
    /// The size of the volume.
    pub size: u64,
    /// The partitions whose copies count.
    pub holders: Vec<PartitionId>,
    /// The last take-over that went on without lists that were missing.
    pub accepted_loss: Option<AcceptedLoss>,
}

/// A take-over that went on without lists that were missing, as its operator had accepted that: writes that only these had are
/// lost.
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
        Self { epoch: Epoch(0), owner: None, is_taking: false, pulse: 0, lease, copies, size, holders, accepted_loss }
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
    /// The entry as it is to be.
    pub entry: Registered,
}

/// The entry of a volume, as its owner has it: what was heard last, the change that is under way, and the lease.
#[derive(Debug)]
pub(crate) struct Registration {
    view: View,
    /// The change that is under way: when it was asked for.
    asked: Option<Time>,
    /// The time until which reads are answered.
    lease_until: Time,
    is_given_up: bool,
    /// The next sign of life.
    pulse_at: Time,
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
            lease_until: Time::ZERO,
            is_given_up: false,
            pulse_at: Time::ZERO,
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
        self.asked.is_none() && now >= self.wait_until
    }

    /// When the next sign of life is due.
    pub(crate) fn pulse_at(&self) -> Option<Time> {
        self.asked.is_none().then_some(self.pulse_at.max(self.wait_until))
    }

    /// A change, unless one is under way. It is a sign of life.
    pub(crate) fn change(&mut self, now: Time, change: impl FnOnce(&mut Registered)) -> Option<Change> {
        if !self.may_change(now) {
            return None;
        }
        self.asked = Some(now);
        let mut entry = self.view.entry.clone();
        entry.pulse += 1;
        change(&mut entry);
        Some(Change { expects: self.view.revision, entry })
    }

    /// The change that is under way was made.
    pub(crate) fn made(&mut self, now: Time, view: View) {
        if let Some(asked) = self.asked.take() {
            let asked = if self.broken.is(Rule::LeaseFromAsking) { now } else { asked };
            let lease = view.entry.lease;
            self.lease_until = self.lease_until.max(asked + lease);
            self.pulse_at = now + lease / 3;
        }
        self.hear(view);
    }

    /// It was not, as the entry stands otherwise. Or nobody knows: the registry is asked again after a while.
    pub(crate) fn not_made(&mut self, now: Time, view: Option<View>) {
        (self.asked, self.pulse_at) = (None, now);
        if let Some(view) = view {
            self.hear(view);
        } else {
            self.wait_until = now + self.view.entry.lease / 6;
        }
    }

    /// The entry is known to stand so.
    pub(crate) fn hear(&mut self, view: View) {
        if view.revision > self.view.revision {
            self.view = view;
        }
    }
}

/// How long a host has seen a sign of life for, by its own clock, when the owner's lease is over.
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
