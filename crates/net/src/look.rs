//! Looking for a while whether something has arrived, before one sleeps until it has.
//!
//! To sleep and to be woken takes a thread about as long as a message between two processes of one machine. Who looks
//! for as long as that takes at worst twice as much of the processor, and finds what comes soon at once. It gives way to
//! any other thread meanwhile; and if one that computes was given way to, which can be for as long as the scheduler
//! gives a thread at a time, it does not look again for a while: who sleeps goes before such a thread when it is woken.
//!
//! How long that is depends on the machine, and more on what a virtual one shares its processor with. So it is learned:
//! who has looked in vain, and is woken soon after, looks for longer the next time; who slept for long, for less.

use std::thread;
use std::time::{Duration, Instant};

/// For how long it is looked, at least and at most.
const LEAST: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_micros(80);

/// What one was woken for after so long would have been found by one that had looked: to be woken takes a part of it.
const SOON: Duration = Duration::from_micros(120);

/// Who runs for longer when it is given way to, computes.
const AWAY: Duration = Duration::from_micros(200);

/// How long it is not looked after a thread that computes was given way to.
const REST: Duration = Duration::from_millis(100);

/// One that looks.
#[derive(Debug)]
pub(crate) struct Look {
    window: Duration,
    rests_until: Instant,
    /// Since when is waited for what was looked for in vain.
    since: Option<Instant>,
}

impl Look {
    pub(crate) fn new() -> Self {
        Self { window: LEAST, rests_until: Instant::now(), since: None }
    }

    /// Looks whether `found` finds anything; says whether it did. Who sleeps then says when that is over.
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

    /// Something has come for one that sleeps after it has looked in vain.
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
    fn what_comes_soon_is_found() {
        let mut looks = 0;
        let comes = || {
            looks += 1;
            looks == 2
        };
        assert!(Look::new().find(comes));
    }

    #[test]
    fn where_nothing_comes_it_is_given_up() {
        let (start, mut looks) = (Instant::now(), 0);
        let nothing = || {
            looks += 1;
            false
        };
        assert!(!Look::new().find(nothing));
        assert!(looks > 0 && start.elapsed() >= LEAST, "it was given up after {looks} looks in {:?}", start.elapsed());
    }

    #[test]
    fn who_has_given_way_to_somebody_that_computes_rests() {
        let mut look = Look { rests_until: Instant::now() + REST, ..Look::new() };
        assert!(!look.find(|| panic!("it looks")));
    }

    #[test]
    fn who_is_woken_soon_looks_for_longer_the_next_time() {
        let mut look = Look::new();
        for learned in [2 * LEAST, MOST, MOST] {
            // Later than the end: no time has passed, however slow this machine is.
            look.since = Some(Instant::now() + REST);
            look.woken();
            assert_eq!(look.window, learned);
        }
        for learned in [MOST / 2, LEAST, LEAST] {
            look.since = Instant::now().checked_sub(SOON);
            look.woken();
            assert_eq!(look.window, learned);
        }
        // Who has not looked has nothing to learn.
        look.woken();
        assert_eq!(look.window, LEAST);
    }
}
