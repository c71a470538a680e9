//! How long a lease is: as a message says it, by the clock of the hub, and by the clocks of others.

use crate::rule::Rule;
use core::time::Duration;
use types::Broken;
use types::limits::LEASE_DRIFT_PERMILLE;

/// A duration as a message says it.
pub(super) fn millis(lease: Duration) -> u32 {
    u32::try_from(lease.as_millis()).unwrap_or(u32::MAX)
}

/// A duration as the hub counts it, whose clock may be the faster one.
pub(super) fn longer(lease: Duration, broken: Broken<Rule>) -> Duration {
    let drift = if broken.is(Rule::AllowDrift) { 0 } else { LEASE_DRIFT_PERMILLE };
    lease + lease * drift / 1000
}

/// A duration that is over in time by a clock which is slower than the hub's.
pub(super) fn shorter(lease: Duration, broken: Broken<Rule>) -> Duration {
    let drift = if broken.is(Rule::AllowDrift) { 0 } else { LEASE_DRIFT_PERMILLE };
    lease * 1000 / (1000 + drift)
}
