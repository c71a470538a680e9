//! A line of transactions: the first one, and those that wait for it to move.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The transactions in line.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// How many are: looked at without the lock.
    length: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they came.
    places: VecDeque<u64>,
    last: u64,
    /// The tasks that wait for the line to move.
    wakers: Vec<Waker>,
}

impl Line {
    /// Returns the last place, by its number.
    pub(crate) fn enter(&self) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.places.push_back(number);
        self.length.store(state.places.len(), SeqCst);
        number
    }

    /// Returns a place up, and moves the others up.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.places.retain(|place| *place != number);
        self.length.store(state.places.len(), SeqCst);
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether nobody is in line: a look at a number.
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(SeqCst) == 0
    }

    /// The first place.
    pub(crate) fn first(&self) -> Option<u64> {
        self.state().places.front().copied()
    }

    /// Whether the first place is as wanted; else `waker` is woken when the line moves.
    pub(crate) fn is_or_wake(&self, is_wanted: impl FnOnce(Option<u64>) -> bool, waker: &Waker) -> bool {
        let mut state = self.state();
        let is = is_wanted(state.places.front().copied());
        if !is {
            state.wakers.push(waker.clone());
        }
        is
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
