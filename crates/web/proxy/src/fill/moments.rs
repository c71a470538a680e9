//! Which came first: a request, or a question to the origin.
//!
//! Rule AskAfterJoining needs no clock, only an order: each question to the origin has the next number.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The numbers that were given.
#[derive(Debug, Default)]
pub(crate) struct Moments(AtomicU64);

/// When a request came: how often the origin had been asked by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Come(u64);

/// When the origin was asked: how often it had been asked before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(u64);

impl Moments {
    /// A request has come.
    pub(crate) fn come(&self) -> Come {
        Come(self.0.load(SeqCst))
    }

    /// The origin is about to be asked. To be told before it is.
    pub(crate) fn ask(&self) -> Asked {
        Asked(self.0.fetch_add(1, SeqCst))
    }
}

impl Asked {
    /// Whether that was after a request had come: then its answer is as new as one that the request would have got
    /// itself.
    pub(crate) fn is_after(self, request: Come) -> bool {
        request.0 <= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_before_all_questions_that_follow_it() {
        let moments = Moments::default();
        let early = moments.come();
        let first = moments.ask();
        let late = moments.come();
        let second = moments.ask();
        assert_eq!([early, late].map(|request| first.is_after(request)), [true, false]);
        assert_eq!([early, late].map(|request| second.is_after(request)), [true, true]);
    }
}
