//! Looking for a while whether something has arrived, before one sleeps until it has.
//!
//! To sleep and to be woken takes a thread about as long as a message between two processes of one machine. Who looks
//! for as long as that takes at worst twice as much of the processor, and finds what comes soon at once. It gives way to
//! any other thread meanwhile; and if one that computes was given way to, which can be for as long as the scheduler
//! gives a thread at a time, it does not look again for a while: who sleeps goes before such a thread when it is woken.

use std::thread;
use std::time::{Duration, Instant};

/// For how long it is looked.
const LOOK: Duration = Duration::from_micros(20);

/// Who runs for longer when it is given way to, computes.
const AWAY: Duration = Duration::from_micros(200);

/// How long it is not looked after a thread that computes was given way to.
const REST: Duration = Duration::from_millis(100);

/// One that looks.
#[derive(Debug)]
pub(crate) struct Look {
    rests_until: Instant,
}

impl Look {
    pub(crate) fn new() -> Self {
        Self { rests_until: Instant::now() }
    }

    /// Looks whether `found` finds anything; says whether it did.
    pub(crate) fn find(&mut self, mut found: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        if start < self.rests_until {
            return false;
        }
        let mut now = start;
        while !found() {
            if now > start + LOOK {
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
        assert!(looks > 0 && start.elapsed() >= LOOK, "it was given up after {looks} looks in {:?}", start.elapsed());
    }

    #[test]
    fn who_has_given_way_to_somebody_that_computes_rests() {
        let mut look = Look { rests_until: Instant::now() + REST };
        assert!(!look.find(|| panic!("it looks")));
    }
}
