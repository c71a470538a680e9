//! The length of a lease by two clocks: its holder's and its giver's.

use crate::limits::LEASE_DRIFT_PERMILLE;
use core::time::Duration;

/// A lease as its giver counts it, so that it is over at the holder first, whose clock may be the slower one.
pub fn longer(lease: Duration) -> Duration {
    lease + lease * LEASE_DRIFT_PERMILLE / 1000
}

/// A lease as its holder counts it, so that it is over before the giver's span is, whose clock may be the faster one.
pub fn shorter(span: Duration) -> Duration {
    span * 1000 / (1000 + LEASE_DRIFT_PERMILLE)
}

/// A length as a message has it.
pub fn millis(lease: Duration) -> u32 {
    u32::try_from(lease.as_millis()).unwrap_or(u32::MAX)
}
