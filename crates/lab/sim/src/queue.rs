//! Virtual time: what will happen, in the order in which it will.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use types::Time;

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    /// Of two events at one time the one that was put in first comes first.
    number: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }

    pub(crate) fn push(&mut self, at: Time, event: T) {
        self.pushed += 1;
        self.heap.push(Reverse(Entry { at, number: self.pushed, event }));
    }

    /// The next event, if it is due until then.
    pub(crate) fn pop_until(&mut self, deadline: Time) -> Option<(Time, T)> {
        self.heap.peek().filter(|Reverse(next)| next.at <= deadline)?;
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
