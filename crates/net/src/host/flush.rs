//! Flushes of the log: which thread leads them, and when.
//!
//! The disk has one leader at a time ([`node::Disk::flush`]): whoever asks it to flush while another thread does is sent
//! away at once, and that thread hears that there is more. So everybody whose event has queued a record asks, and
//! nobody here keeps count of leaders.

use crate::host::core::Core;
use crate::host::event::Event;
use node::Disk;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Whether records are queued whose flush is the holder's to lead, or to hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "queued records are durable only when whoever was given this has led the flush, or handed it over"]
pub(crate) enum Flush {
    /// Nothing was queued.
    Nothing,
    /// Records were queued.
    Wanted,
}

impl Flush {
    /// Both duties in one.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Wanted { self } else { other }
    }

    fn wanted_if(wanted: bool) -> Self {
        if wanted { Self::Wanted } else { Self::Nothing }
    }
}

impl Core {
    /// Flushes the log until nothing more is wanted.
    pub(crate) fn lead(&self, mut flush: Flush) {
        while flush == Flush::Wanted {
            flush = self.lead_once(|| ());
        }
    }

    /// The same in a task of the runtime, whose worker's other tasks go to another thread first.
    pub(crate) fn lead_in_task(&self, flush: Flush) {
        if flush == Flush::Wanted {
            tokio::task::block_in_place(|| self.lead(flush));
        }
    }

    /// Flushes the log once, on a thread that others wait for too; `away` gives what it holds while it waits for the
    /// disk. Another thread leads the flush of what is queued meanwhile.
    pub(crate) fn lead_as_reader<T>(&self, flush: Flush, away: impl FnOnce() -> T) {
        if flush == Flush::Wanted {
            self.hand_over(self.lead_once(away));
        }
    }

    /// The same on an application's thread, unless it runs tasks: such a thread must not wait for a disk.
    pub(crate) fn lead_as_application(&self, flush: Flush) {
        if flush == Flush::Wanted {
            let runs_tasks = tokio::runtime::Handle::try_current().is_ok();
            self.hand_over(if runs_tasks { flush } else { self.lead_once(|| ()) });
        }
    }

    /// Has another thread lead. One that was asked and has not begun finds everything that is queued now.
    fn hand_over(&self, flush: Flush) {
        if flush == Flush::Wanted && !self.handed_over.swap(true, SeqCst) {
            let core = self.weak();
            self.tasks.spawn_blocking(move || {
                if let Some(core) = core.upgrade() {
                    core.handed_over.store(false, SeqCst);
                    core.lead(flush);
                }
            });
        }
    }

    /// Flushes the log, and sends what has waited for that. Gives what is left to be flushed.
    fn lead_once<T>(&self, away: impl FnOnce() -> T) -> Flush {
        let Some(disk) = &self.disk else { return Flush::Nothing };
        self.contain(|| self.flush(&**disk, away)).unwrap_or(Flush::Nothing)
    }

    fn flush<T>(&self, disk: &dyn Disk, away: impl FnOnce() -> T) -> Flush {
        let mut durable = None;
        let away = away();
        let more = Flush::wanted_if(disk.flush(&mut |done| durable = Some(done)));
        drop(away);
        // There is nothing to tell of where another thread leads.
        let Some(done) = durable else { return more };
        self.counters().flushes.fetch_add(1, Relaxed);
        more.and(self.drive([Event::Disk(done)]))
    }

    /// Hears of what the disk's own threads have done.
    pub(super) fn listen_to_disk(&self) {
        let Some(disk) = &self.disk else { return };
        let (done, failed) = (self.weak(), self.weak());
        disk.on_done(Box::new(move |work| {
            if let Some(core) = done.upgrade() {
                core.lead(core.drive([Event::Disk(work)]));
            }
        }));
        disk.on_failed(Box::new(move |text| {
            if let Some(core) = failed.upgrade() {
                core.fail("disk_failed", text);
            }
        }));
    }
}
