//! Spinning for a while on whether something has arrived, before the thread sleeps until it has.
//!
//! To sleep and to be woken takes a thread about as long as a message between two processes of one machine. A thread
//! that spins for as long as that takes at worst twice as much of the processor, and finds at once what comes soon. It
//! yields to any other thread in the meantime; and if it has yielded to one that computes, which can be for as long as
//! the scheduler gives a thread at a time, it does not spin again for a while: a thread that sleeps goes before such a
//! thread when it is woken.
//!
//! How long to spin depends on the machine, and more on what a virtual one shares its processor with. So it is learned:
//! a thread that has spun in vain, and is woken soon after, spins for longer the next time; one that slept for long,
//! for less.

use std::thread;
use std::time::{Duration, Instant};

/// For how long a thread spins, at least and at most.
const LEAST: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_micros(80);

/// A wake-up this soon means that a longer spin would have caught it: being woken takes a part of this time.
const SOON: Duration = Duration::from_micros(120);

/// A yield that takes longer than this was to a thread that computes.
const AWAY: Duration = Duration::from_micros(200);

/// For how long a thread does not spin after such a yield.
const REST: Duration = Duration::from_millis(100);

/// How long a thread spins.
#[derive(Debug)]
pub(crate) struct AdaptiveSpin {
    window: Duration,
    rests_until: Instant,
    /// When the spin began that was in vain, if the thread sleeps since.
    since: Option<Instant>,
}

impl AdaptiveSpin {
    pub(crate) fn new() -> Self {
        Self { window: LEAST, rests_until: Instant::now(), since: None }
    }

    /// Spins for as long as any thread does.
    pub(crate) fn longest() -> Self {
        Self { window: MOST, ..Self::new() }
    }

    /// Spins until `found` finds something; says whether it did. A caller that sleeps then says by
    /// [`AdaptiveSpin::woken`] when that is over.
    pub(crate) fn find(&mut self, mut found: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        if start < self.rests_until {
            return false;
        }
        let mut now = start;
        while !found() {
            if now > start + self.window {
                self.since = Some(start);
                return false;
            }
            thread::yield_now();
            let after = Instant::now();
            if after > now + AWAY {
                self.rests_until = after + REST;
                return found();
            }
            now = after;
        }
        true
    }

    /// Something has come for a thread that sleeps after it has spun in vain.
    pub(crate) fn woken(&mut self) {
        let Some(since) = self.since.take() else { return };
        let came_soon = since.elapsed() <= SOON;
        self.window = if came_soon { self.window * 2 } else { self.window / 2 }.clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_that_comes_soon_is_found() {
        let mut looks = 0;
        let comes = || {
            looks += 1;
            looks == 2
        };
        assert!(AdaptiveSpin::new().find(comes));
    }

    #[test]
    fn where_nothing_comes_it_is_given_up() {
        let (start, mut looks) = (Instant::now(), 0);
        let nothing = || {
            looks += 1;
            false
        };
        assert!(!AdaptiveSpin::new().find(nothing));
        assert!(looks > 0 && start.elapsed() >= LEAST, "it was given up after {looks} looks in {:?}", start.elapsed());
    }

    #[test]
    fn a_thread_that_has_yielded_to_one_that_computes_rests() {
        let mut spin = AdaptiveSpin { rests_until: Instant::now() + REST, ..AdaptiveSpin::new() };
        assert!(!spin.find(|| panic!("it looks")));
    }

    #[test]
    fn a_thread_that_is_woken_soon_spins_for_longer_the_next_time() {
        let mut spin = AdaptiveSpin::new();
        for learned in [2 * LEAST, MOST, MOST] {
            // Later than the end: no time has passed, however slow this machine is.
            spin.since = Some(Instant::now() + REST);
            spin.woken();
            assert_eq!(spin.window, learned);
        }
        for learned in [MOST / 2, LEAST, LEAST] {
            spin.since = Instant::now().checked_sub(SOON);
            spin.woken();
            assert_eq!(spin.window, learned);
        }
        // A thread that has not spun has nothing to learn.
        spin.woken();
        assert_eq!(spin.window, LEAST);
    }
}
