//! The order of this crate's locks, and a check of it in debug builds.
//!
//! Two threads that take the same two locks in opposite orders may wait for each other for ever. So a thread waits for
//! a lock only while each lock that it holds stands before it in [`Rank`]. A debug build counts what each thread holds
//! and panics where the order is broken; a release build has nothing of it.
//!
//! A lock that is tried and not waited for may be taken in any order; locks that are taken under it may not.
//!
//! A poisoned lock is taken all the same: a panic ends the host (`host/failure.rs`), and its end needs the locks.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// The locks, in the order in which a thread may take them. A disk's own locks come after all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// One caller's own reading; held for as long as the caller reads.
    OwnReading,
    /// The adaptive spin of the reactor's readers.
    Spin,
    /// The receiving side of one connection; held until its machine has what was received. A read batch holds several,
    /// which it has tried.
    Receiver,
    /// The last status that was given.
    Status,
    /// Where peers are taken.
    Peers,
    /// The upstream sessions of a machine.
    Upstreams,
    /// A machine. It is a plain mutex, as its front end takes it, too, which holds none of the others.
    Machine,
    /// The adjoining host.
    Adjoining,
    /// The messages of other machines of the process to one.
    Inbox,
    /// The connections of the machines' links.
    Links,
    /// The sending side of one connection.
    Sender,
    /// The links that the reactor watches.
    Watched,
    /// One socket's interest.
    Interest,
    /// The hosts that the reactor works for.
    Hosts,
    /// The wakers of a machine's callers.
    Wakers,
    /// The caller that reads by itself.
    Caller,
    /// Why a session was ended.
    LastWords,
    /// Counts of refusals.
    Refusals,
}

/// A mutex with its place in the order.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    mutex: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> Lock<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self { rank, mutex: Mutex::new(value) }
    }

    /// Waits for the lock.
    #[track_caller]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = Held::in_order(self.rank);
        Guard { mutex: self.mutex.lock().unwrap_or_else(PoisonError::into_inner), _held: held }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let mutex = match self.mutex.try_lock() {
            Ok(mutex) => mutex,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard { mutex, _held: Held::out_of_order(self.rank) })
    }

    /// Whether a thread has panicked while it held the lock.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.mutex.is_poisoned()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.mutex
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.mutex
    }
}

#[cfg(debug_assertions)]
pub(crate) use checked::Held;
#[cfg(not(debug_assertions))]
pub(crate) use unchecked::Held;

#[cfg(debug_assertions)]
mod checked {
    use super::Rank;
    use std::cell::Cell;

    /// How many ranks there are.
    const RANKS: usize = Rank::Refusals as usize + 1;

    thread_local! {
        /// How many locks of each rank this thread holds.
        static HELD: Cell<[u16; RANKS]> = const { Cell::new([0; RANKS]) };
    }

    /// Notes that this thread holds a lock of a rank, as long as it lives.
    #[derive(Debug)]
    pub(crate) struct Held(Rank);

    impl Held {
        /// A lock of this rank is about to be waited for.
        ///
        /// # Panics
        /// If the thread holds one that does not come before it.
        #[track_caller]
        pub(crate) fn in_order(rank: Rank) -> Self {
            let held = HELD.get();
            let is_in_order = held[rank as usize..].iter().all(|&count| count == 0);
            assert!(is_in_order, "{rank:?} is waited for under a lock that does not come before it: {held:?}");
            Self::out_of_order(rank)
        }

        /// A lock of this rank was taken without waiting.
        pub(super) fn out_of_order(rank: Rank) -> Self {
            change(rank, |count| count + 1);
            Self(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            change(self.0, |count| count - 1);
        }
    }

    fn change(rank: Rank, change: impl FnOnce(u16) -> u16) {
        let mut held = HELD.get();
        held[rank as usize] = change(held[rank as usize]);
        HELD.set(held);
    }
}

#[cfg(not(debug_assertions))]
mod unchecked {
    use super::Rank;

    /// Nothing is noted in a release build.
    #[derive(Debug)]
    pub(crate) struct Held;

    impl Held {
        pub(crate) const fn in_order(_: Rank) -> Self {
            Self
        }

        pub(super) const fn out_of_order(_: Rank) -> Self {
            Self
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn the_order_is_taken_and_any_other_panics() {
        let [first, second] = [Rank::Receiver, Rank::Sender].map(|rank| Lock::new(rank, ()));
        drop((first.lock(), second.lock()));
        let under = second.lock();
        assert!(catch_unwind(|| first.lock()).is_err(), "the order is reversed");
        drop(under);
        drop(first.lock());
    }

    #[test]
    fn two_of_one_rank_are_tried_and_never_waited_for() {
        let [one, other] = [Rank::Receiver; 2].map(|rank| Lock::new(rank, ()));
        let held = (one.try_lock().unwrap(), other.try_lock().unwrap());
        assert!(one.try_lock().is_none());
        drop(held.0);
        assert!(catch_unwind(|| one.lock()).is_err(), "another of the rank is still held");
        drop(held.1);
        drop(one.lock());
    }

    #[test]
    fn a_panic_gives_back_what_was_held() {
        let [first, second] = [Rank::Links, Rank::Wakers].map(|rank| Lock::new(rank, ()));
        let panicked = catch_unwind(|| {
            let _held = second.lock();
            panic!("under the lock");
        });
        assert!(panicked.is_err() && second.is_poisoned());
        drop((first.lock(), second.lock()));
    }
}
