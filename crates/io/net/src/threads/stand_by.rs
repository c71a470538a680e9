//! An application's thread that waits for the store of its own process does the reactor's work in the meantime.
//!
//! ```text
//!   the application's thread:  request --> [ look for events, receive ]*  --> answer, or nothing soon: sleep
//!   the reactor's threads:                  (woken as well, and mostly late)
//! ```
//! The store may wait for another node before it can answer: for the sequencer, for another master. A reactor's thread
//! that receives that, and flushes the log, would have to wake this one. So the thread looks for events itself for a
//! while, and what it finds it does to the end, as the reactor's threads do: any thread may take any event.
//!
//! It spins, and does not sleep until something arrives: messages for others should wake a thread of the reactor. Where
//! answers take longer than a thread spins, as between distant nodes, it tries that rarely.

use crate::host::caller::Caller;
use crate::lock::{Lock, Rank};
use crate::threads::adaptive_spin::AdaptiveSpin;
use crate::threads::reactor::Reactor;
use crate::threads::read_batch::ReadBatch;
use std::fmt;
use std::sync::Arc;

/// After this many spins in a row that found nothing, one wait in [`RARELY`] begins with a spin.
const VAIN_MAX: u32 = 8;
const RARELY: u32 = 64;

/// The means of a thread to help.
struct Helper {
    batch: ReadBatch,
    spin: AdaptiveSpin,
    /// The spins that found nothing since the last that did, and the waits that began without one.
    vain: u32,
}

/// Lets one thread of the application's help at a time.
pub(crate) struct StandBy {
    reactor: Arc<Reactor>,
    /// The thread that holds it helps.
    helper: Lock<Helper>,
}

impl StandBy {
    pub(crate) fn new(reactor: Arc<Reactor>) -> Self {
        let helper = Helper { batch: ReadBatch::new(), spin: AdaptiveSpin::longest(), vain: 0 };
        Self { reactor, helper: Lock::new(Rank::OwnReading, helper) }
    }
}

impl Caller for StandBy {
    fn read(&self, woken: &dyn Fn() -> bool) {
        let Some(mut helper) = self.helper.try_lock() else { return };
        let Helper { batch, spin, vain } = &mut *helper;
        if *vain >= VAIN_MAX && !vain.is_multiple_of(RARELY) {
            *vain += 1;
            return;
        }
        while !woken() {
            if !self.reactor.help(batch, spin, woken) {
                *vain += 1;
                return;
            }
            *vain = 0;
        }
    }

    /// A thread that spins asks by itself.
    fn wake(&self) {}
}

impl fmt::Debug for StandBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandBy").field("reactor", &self.reactor).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How often a thread looks that waits this often, and is woken by the time that it looks so often.
    fn looks(stand_by: &StandBy, waits: u32, woken_at: u32) -> u32 {
        let looks = Cell::new(0);
        let woken = || {
            looks.set(looks.get() + 1);
            looks.get() >= woken_at
        };
        (0..waits).for_each(|_| stand_by.read(&woken));
        looks.get()
    }

    #[test]
    fn where_spins_are_in_vain_they_are_rare() {
        // Its own readers would take the events.
        let reactor = Reactor::start(0, None).unwrap();
        let stand_by = StandBy::new(reactor.clone());
        looks(&stand_by, VAIN_MAX, u32::MAX);
        assert_eq!(looks(&stand_by, RARELY - VAIN_MAX, u32::MAX), 0, "these waits begin without one");
        stand_by.helper.lock().spin = AdaptiveSpin::longest();
        assert!(looks(&stand_by, 1, u32::MAX) > 1, "this one does not");
        assert_eq!(looks(&stand_by, RARELY - 1, u32::MAX), 0);
        stand_by.helper.lock().spin = AdaptiveSpin::longest();
        assert_eq!(looks(&stand_by, 1, 2), 3, "it is woken while it spins");
        assert_eq!(stand_by.helper.lock().vain, 0);
        reactor.stop();
    }

    #[test]
    fn what_has_happened_is_found() {
        let reactor = Reactor::start(0, None).unwrap();
        let stand_by = StandBy::new(reactor.clone());
        // An event that every thread finds.
        reactor.stop();
        looks(&stand_by, 1, 4);
        assert_eq!(stand_by.helper.lock().vain, 0);
    }
}
