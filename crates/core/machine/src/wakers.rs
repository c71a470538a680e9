//! The wakers of a machine's callers, which wait for it. Every driver keeps one such table for each machine.

use crate::machine::Waiter;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::task::Waker;

/// Wakes that no request waits for yet are kept up to this many; beyond, those of the lowest numbers go. A wake is
/// waited for right after the call that it answers, so an old one is of a caller that never waited.
const KEPT_MAX: usize = 64 * 1024;

/// The wakers of a machine's callers. A wake that comes before its waiter is kept for it. A driver that has this under
/// a lock wakes when it has let go of that: a waker is the application's code.
#[derive(Debug, Default)]
pub struct Wakers {
    waiting: BTreeMap<Waiter, Waker>,
    kept: BTreeSet<Waiter>,
    ended: bool,
}

impl Wakers {
    /// A caller waits. Returns whether its wake has been: then it should be woken now.
    #[must_use = "a caller whose wake has been is woken by nobody else"]
    pub fn wait(&mut self, waiter: Waiter, waker: &Waker) -> bool {
        if self.kept.remove(&waiter) || self.ended {
            return true;
        }
        self.waiting.entry(waiter).and_modify(|old| old.clone_from(waker)).or_insert_with(|| waker.clone());
        false
    }

    /// The waker of the caller that waits, to be woken; else the wake is kept.
    pub fn wake(&mut self, waiter: Waiter) -> Option<Waker> {
        let waker = self.waiting.remove(&waiter);
        if waker.is_none() {
            self.kept.insert(waiter);
            if self.kept.len() > KEPT_MAX {
                self.kept.pop_first();
            }
        }
        waker
    }

    /// There is nothing to wait for any more: gives the wakers of all who wait, and whoever comes later is woken at
    /// once.
    pub fn end(&mut self) -> Vec<Waker> {
        self.ended = true;
        mem::take(&mut self.waiting).into_values().collect()
    }

    /// Nobody waits under this number.
    pub fn forget(&mut self, waiter: Waiter) {
        self.waiting.remove(&waiter);
        self.kept.remove(&waiter);
    }

    /// How many callers wait, and how many wakes are kept.
    pub fn count(&self) -> (usize, usize) {
        (self.waiting.len(), self.kept.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn waker() -> Waker {
        Waker::from(Arc::new(Count::default()))
    }

    #[test]
    fn a_wake_is_not_lost_between_the_call_and_the_wait() {
        let (mut wakers, waker) = (Wakers::default(), waker());
        assert!(wakers.wake(Waiter(1)).is_none());
        assert!(!wakers.wait(Waiter(2), &waker), "another's");
        assert!(wakers.wait(Waiter(1), &waker));
        assert!(!wakers.wait(Waiter(1), &waker), "once only");
        assert!(wakers.wake(Waiter(1)).is_some());
    }

    #[test]
    fn a_waiter_that_is_forgotten_is_not_woken_and_takes_no_room() {
        let (mut wakers, waker) = (Wakers::default(), waker());
        assert!(!wakers.wait(Waiter(1), &waker));
        wakers.forget(Waiter(1));
        assert!(wakers.wake(Waiter(1)).is_none());
        wakers.forget(Waiter(1));
        assert!(!wakers.wait(Waiter(1), &waker));
        assert_eq!(wakers.count(), (1, 0));
    }

    #[test]
    fn nobody_waits_for_a_machine_that_has_ended() {
        let count = Arc::new(Count::default());
        let (mut wakers, waker) = (Wakers::default(), Waker::from(count.clone()));
        assert!(!wakers.wait(Waiter(1), &waker));
        wakers.end().into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(SeqCst), 1);
        assert!(wakers.wait(Waiter(2), &waker) && wakers.wait(Waiter(2), &waker));
    }

    #[test]
    fn wakes_that_nobody_wants_do_not_pile_up() {
        let mut wakers = Wakers::default();
        for waiter in 0..KEPT_MAX as u64 + 100 {
            assert!(wakers.wake(Waiter(waiter)).is_none());
        }
        assert_eq!(wakers.count(), (0, KEPT_MAX));
        assert!(!wakers.wait(Waiter(99), &waker()), "the oldest has gone");
        assert!(wakers.wait(Waiter(100), &waker()));
    }
}
