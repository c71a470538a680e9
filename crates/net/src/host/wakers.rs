//! The wakers of a machine's callers, which wait for it.

use crate::lock::{Guard, Lock, Rank};
use node::Waiter;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// Wakes that nobody waits for yet are kept up to this many; beyond, those of the lowest numbers go. A wake is waited for right
/// after the call that it answers, so an old one is of a caller that never waited.
const KEPT_MAX: usize = 64 * 1024;

/// The wakers of a machine's callers. A wake that comes before its waiter is kept for it.
#[derive(Debug)]
pub(crate) struct Wakers(Lock<Table>);

#[derive(Debug, Default)]
struct Table {
    waiting: BTreeMap<Waiter, Waker>,
    kept: BTreeSet<Waiter>,
    ended: bool,
}

impl Wakers {
    pub(crate) fn new() -> Self {
        Self(Lock::new(Rank::Wakers, Table::default()))
    }

    /// Wakes `waker` at the caller's next wake, or now if that has been.
    pub(crate) fn wait(&self, waiter: Waiter, waker: &Waker) {
        let mut table = self.lock();
        if table.kept.remove(&waiter) || table.ended {
            drop(table);
            waker.wake_by_ref();
            return;
        }
        table.waiting.entry(waiter).and_modify(|old| old.clone_from(waker)).or_insert_with(|| waker.clone());
    }

    /// The waker of the caller that waits, to be woken; else the wake is kept.
    pub(crate) fn wake(&self, waiter: Waiter) -> Option<Waker> {
        let mut table = self.lock();
        let waker = table.waiting.remove(&waiter);
        if waker.is_none() {
            table.kept.insert(waiter);
            if table.kept.len() > KEPT_MAX {
                table.kept.pop_first();
            }
        }
        waker
    }

    /// There is nothing to wait for any more: gives all that wait, to be woken, and one that comes later is woken at
    /// once.
    pub(crate) fn end(&self) -> Vec<Waker> {
        let mut table = self.lock();
        table.ended = true;
        std::mem::take(&mut table.waiting).into_values().collect()
    }

    /// How many wait, and how many wakes are kept.
    pub(crate) fn count(&self) -> (usize, usize) {
        let table = self.lock();
        (table.waiting.len(), table.kept.len())
    }

    /// Nobody waits under this number.
    pub(crate) fn forget(&self, waiter: Waiter) {
        let mut table = self.lock();
        table.waiting.remove(&waiter);
        table.kept.remove(&waiter);
    }

    fn lock(&self) -> Guard<'_, Table> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_wake_is_not_lost_between_the_call_and_the_wait() {
        let (wakers, count) = (Wakers::new(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        assert!(wakers.wake(Waiter(1)).is_none());
        wakers.wait(Waiter(2), &waker);
        assert_eq!(count.0.load(SeqCst), 0, "another's");
        wakers.wait(Waiter(1), &waker);
        assert_eq!(count.0.load(SeqCst), 1);
        wakers.wait(Waiter(1), &waker);
        assert_eq!(count.0.load(SeqCst), 1, "once only");
        assert!(wakers.wake(Waiter(1)).is_some());
    }

    #[test]
    fn a_forgotten_waker_is_not_woken_and_takes_no_room() {
        let (wakers, count) = (Wakers::new(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        wakers.wait(Waiter(1), &waker);
        wakers.forget(Waiter(1));
        assert!(wakers.wake(Waiter(1)).is_none());
        wakers.forget(Waiter(1));
        wakers.wait(Waiter(1), &waker);
        assert_eq!(count.0.load(SeqCst), 0);
        assert_eq!(wakers.lock().waiting.len(), 1);
    }

    #[test]
    fn nobody_waits_for_what_has_ended() {
        let (wakers, count) = (Wakers::new(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        wakers.wait(Waiter(1), &waker);
        wakers.end().into_iter().for_each(Waker::wake);
        wakers.wait(Waiter(2), &waker);
        wakers.wait(Waiter(2), &waker);
        assert_eq!(count.0.load(SeqCst), 3);
    }

    #[test]
    fn wakes_that_nobody_wants_do_not_pile_up() {
        let wakers = Wakers::new();
        for txn in 0..KEPT_MAX as u64 + 100 {
            assert!(wakers.wake(Waiter(txn)).is_none());
        }
        let table = wakers.lock();
        assert_eq!((table.kept.len(), table.kept.first().unwrap().0), (KEPT_MAX, 100));
    }
}
