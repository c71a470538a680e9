//! Requests that wait until a write is counted by this many: a queue for each number of copies, each in order.

use crate::messages::holder::Sequence;
use crate::request::RequestId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::array;
use types::limits::VOLUME_COPIES_MAX;

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// By the number of copies less one.
    queues: [VecDeque<(Sequence, RequestId)>; VOLUME_COPIES_MAX as usize],
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { queues: array::from_fn(|_| VecDeque::new()) }
    }

    /// A request waits until everything through `sequence` has `copies`. Later ones wait for no less.
    pub(crate) fn add(&mut self, copies: u8, sequence: Sequence, request: RequestId) {
        self.queues[usize::from(copies.clamp(1, VOLUME_COPIES_MAX)) - 1].push_back((sequence, request));
    }

    /// The next request that may be answered, where `through` gives what so many copies count.
    pub(crate) fn take(&mut self, through: impl Fn(u8) -> Sequence) -> Option<RequestId> {
        for (copies, queue) in (1..).zip(&mut self.queues) {
            if queue.front().is_some_and(|&(sequence, _)| sequence <= through(copies)) {
                return queue.pop_front().map(|(_, request)| request);
            }
        }
        None
    }

    /// Removes and returns the requests that `is_of` names.
    pub(crate) fn take_of(&mut self, mut is_of: impl FnMut(RequestId) -> bool) -> Vec<RequestId> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            queue.retain(|&(_, request)| {
                let is_taken = is_of(request);
                taken.extend(is_taken.then_some(request));
                !is_taken
            });
        }
        taken
    }

    /// All of them, which wait no more.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = RequestId> {
        self.queues.iter_mut().flat_map(|queue| queue.drain(..)).map(|(_, request)| request)
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}
