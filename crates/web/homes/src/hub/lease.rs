//! How long a lease is by the clock of the hub, and by the clocks of others.

use crate::rule::Rule;
use core::time::Duration;
use types::{Broken, lease};

/// A duration as the hub counts it, whose clock may be the faster one.
pub(super) fn longer(lease: Duration, broken: Broken<Rule>) -> Duration {
    if broken.is(Rule::AllowDrift) { lease } else { lease::longer(lease) }
}

/// A duration that is over in time by a clock which is slower than the hub's.
pub(super) fn shorter(lease: Duration, broken: Broken<Rule>) -> Duration {
    if broken.is(Rule::AllowDrift) { lease } else { lease::shorter(lease) }
}
