//! The publishes that were acknowledged, and from them the oldest version that an answer may have.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The lease of servers and mounts: without their store for longer, they mark answers as possibly old.
pub(super) const LEASE: Duration = Duration::from_secs(1);

/// The publishes so far, for the threads of readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged(Arc<Mutex<Vec<(Instant, u64)>>>);

impl Acknowledged {
    /// A publish of this version has returned: just now, which is returned.
    pub(super) fn add(&self, version: u64) -> Instant {
        let returned = Instant::now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((returned, version));
        returned
    }

    /// The oldest version that the answer to a request of this moment may have, if it is not marked as possibly old. A
    /// server marks its answers once its lease is over (rule LeaseWithin).
    pub(super) fn oldest_fresh(&self, asked: Instant) -> u64 {
        let publishes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest_first = publishes.iter().rev();
        newest_first.find(|(returned, _)| *returned + LEASE < asked).map_or(0, |(_, version)| *version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_counts_a_lease_after_its_publish() {
        let acknowledged = Acknowledged::default();
        let returned = acknowledged.add(7);
        assert_eq!(acknowledged.oldest_fresh(returned + LEASE), 0);
        assert_eq!(acknowledged.oldest_fresh(returned + LEASE + Duration::from_nanos(1)), 7);
    }
}
