//! Flushes of the machines' logs: which thread leads them, and when.
//!
//! A disk has one leader at a time ([`machine::Disk::flush`]): a thread that asks it to flush while another one does is
//! sent away at once, and that other one hears that there is more. So everybody whose event has queued a record asks,
//! and nobody here keeps count of leaders.

use crate::host::core::Core;
use crate::host::role::Role;
use machine::{Event, RoleId};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The machines whose records are queued, and whose flush is the holder's to lead, or to hand over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "queued records are durable only when whoever was given this has led the flush, or handed it over"]
pub(crate) struct Flush {
    /// A bit for each, by its number.
    roles: u64,
    /// A bit for each machine of the adjoining host.
    adjoining: u64,
}

impl Flush {
    /// This machine's.
    pub(crate) fn of(RoleId(role): RoleId) -> Self {
        Self { roles: 1 << role, adjoining: 0 }
    }

    /// Both duties in one.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { roles: self.roles | other.roles, adjoining: self.adjoining | other.adjoining }
    }

    /// Returns the duty as the adjoining host has it.
    pub(super) fn of_adjoining(self) -> Self {
        Self { roles: self.adjoining, adjoining: self.roles }
    }

    /// Returns the duty for machines of the adjoining host alone, as that host has it.
    pub(super) fn adjoining_part(self) -> Self {
        Self { roles: self.adjoining, adjoining: 0 }
    }

    /// Whether nothing was queued.
    pub(crate) fn is_nothing(self) -> bool {
        self.roles == 0 && self.adjoining == 0
    }

    fn roles(self) -> impl Iterator<Item = RoleId> {
        let rest = |roles: &u64| Some(roles & (roles - 1)).filter(|rest| *rest != 0);
        let first = Some(self.roles).filter(|roles| *roles != 0);
        std::iter::successors(first, rest).map(|roles| RoleId(roles.trailing_zeros() as u8))
    }
}

impl Core {
    /// Flushes the logs until nothing more is wanted.
    pub(crate) fn lead(&self, mut flush: Flush) {
        while !flush.is_nothing() {
            flush = self.lead_once(flush, || ());
        }
    }

    /// The same in a task of the runtime, whose worker's other tasks go to another thread first.
    pub(crate) fn lead_in_task(&self, flush: Flush) {
        if !flush.is_nothing() {
            tokio::task::block_in_place(|| self.lead(flush));
        }
    }

    /// Flushes the logs once, on a thread that others wait for too; `away` gives what it holds while it waits for a
    /// disk. Another thread leads the flush of what is queued in the meantime.
    pub(crate) fn lead_as_reader<T>(&self, flush: Flush, away: impl Fn() -> T) {
        self.hand_over(self.lead_once(flush, away));
    }

    /// The same on an application's thread, unless it runs tasks: such a thread must not wait for a disk.
    pub(crate) fn lead_as_application(&self, flush: Flush) {
        if !flush.is_nothing() {
            let may_not = self.waits_in(flush) && tokio::runtime::Handle::try_current().is_ok();
            self.hand_over(if may_not { flush } else { self.lead_once(flush, || ()) });
        }
    }

    /// Whether a thread that leads this waits for a disk.
    fn waits_in(&self, flush: Flush) -> bool {
        let waits = |id| self.role(id).disk.as_ref().is_some_and(|disk| disk.waits());
        flush.roles().any(waits) || self.adjoining_part(flush).is_some_and(|(host, part)| host.waits_in(part))
    }

    /// Has other threads lead. One that was asked and has not begun finds everything that is queued now.
    fn hand_over(&self, flush: Flush) {
        for id in flush.roles() {
            if !self.role(id).handed_over.swap(true, SeqCst) {
                let core = self.weak();
                self.tasks.spawn_blocking(move || {
                    if let Some(core) = core.upgrade() {
                        core.role(id).handed_over.store(false, SeqCst);
                        core.lead(Flush::of(id));
                    }
                });
            }
        }
        if let Some((host, part)) = self.adjoining_part(flush) {
            host.hand_over(part);
        }
    }

    /// Flushes each log once, and sends what has waited for that. Returns what is left to be flushed.
    fn lead_once<T>(&self, flush: Flush, away: impl Fn() -> T) -> Flush {
        let lead = |id| self.contain(|| self.flush(self.role(id), &away)).unwrap_or_default();
        let own = flush.roles().map(lead).fold(Flush::default(), Flush::and);
        match self.adjoining_part(flush) {
            Some((host, part)) => own.and(host.lead_once(part, away).of_adjoining()),
            None => own,
        }
    }

    fn flush<T>(&self, role: &Role, away: impl Fn() -> T) -> Flush {
        let Some(disk) = &role.disk else { return Flush::default() };
        let mut done = Vec::new();
        let away = away();
        let more =
            if disk.flush(&mut |work| done.push(Event::Disk(work))) { Flush::of(role.id) } else { Flush::default() };
        drop(away);
        // There is nothing to report where another thread leads.
        if done.is_empty() {
            return more;
        }
        self.counters().flushes.fetch_add(1, Relaxed);
        more.and(self.drive(role.id, done))
    }

    /// Hears of what the threads of a machine's disk have done.
    pub(super) fn listen_to_disk(&self, role: &Role) {
        let Some(disk) = &role.disk else { return };
        let (done, failed, id) = (self.weak(), self.weak(), role.id);
        disk.on_done(Box::new(move |work| {
            if let Some(core) = done.upgrade() {
                core.lead(core.drive(id, [Event::Disk(work)]));
            }
        }));
        disk.on_failed(Box::new(move |text| {
            if let Some(core) = failed.upgrade() {
                // Not led here: this may be said in the middle of a flush.
                core.hand_over(core.drive(id, [Event::DiskFailed(text.to_owned())]));
            }
        }));
    }
}
