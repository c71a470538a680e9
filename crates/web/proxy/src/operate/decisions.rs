//! The last decision on each key that took the origin, for operators who ask why something is not stored.
//!
//! A fixed number of places, each for the keys whose hashes fall on it: the newest decision displaces the one before.
//! So they cost the same memory whatever clients ask for, and a hit leaves no trace here.

use http::StatusCode;
use responses::{CacheStatus, Time};
use std::sync::{Mutex, PoisonError};

/// The decisions that are kept.
const DECISIONS_MAX: usize = 16 * 1024;

/// A decision on a request that the origin was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub(crate) at: Time,
    /// As its client was told; whether it is stored may have turned out later.
    pub(crate) status: CacheStatus,
    /// The status of the origin's response; none if there was no response.
    pub(crate) response: Option<StatusCode>,
}

#[derive(Debug)]
pub(crate) struct Decisions(Box<[Mutex<Place>]>);

/// The newest decision that has come to a place, and the hash of its key.
type Place = Option<(u64, Decision)>;

impl Decisions {
    pub(crate) fn new() -> Self {
        Self((0..DECISIONS_MAX).map(|_| Mutex::default()).collect())
    }

    /// Remembers the decision on a key with this hash.
    pub(crate) fn record(&self, hash: u64, decision: Decision) {
        *self.place(hash).lock().unwrap_or_else(PoisonError::into_inner) = Some((hash, decision));
    }

    /// A response of which its client was told that it is stored is not, for a reason that came later.
    pub(crate) fn correct(&self, hash: u64, reason: &'static str) {
        let mut place = self.place(hash).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, decision)) = place.as_mut().filter(|(other, _)| *other == hash) {
            decision.status.stored = false;
            decision.status.detail = Some(reason);
        }
    }

    /// The last one on a key with this hash, if none on another came to its place.
    pub(crate) fn last(&self, hash: u64) -> Option<Decision> {
        let place = self.place(hash).lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().filter(|(other, _)| *other == hash).map(|(_, decision)| *decision)
    }

    fn place(&self, hash: u64) -> &Mutex<Place> {
        &self.0[hash as usize % DECISIONS_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_decision_displaces_the_one_before() {
        let decisions = Decisions::new();
        let decision = |at| Decision { at: Time::from_unix_s(at), status: CacheStatus::default(), response: None };
        decisions.record(7, decision(1));
        assert_eq!(decisions.last(7).map(|last| last.at), Some(Time::from_unix_s(1)));
        assert!(decisions.last(7 + DECISIONS_MAX as u64).is_none(), "that is another key");
        decisions.record(7 + DECISIONS_MAX as u64, decision(2));
        assert!(decisions.last(7).is_none());
        decisions.correct(7, "too-large");
        assert_eq!(decisions.last(7 + DECISIONS_MAX as u64).and_then(|last| last.status.detail), None);
    }
}
