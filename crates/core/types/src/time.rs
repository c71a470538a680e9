//! Time as the machines see it: a number that the driver gives them.

use core::ops::{Add, Sub};
use core::time::Duration;

/// Nanoseconds since a start that only the driver knows: the process's start outside of the simulator, zero in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start.
    pub const ZERO: Self = Self(0);

    /// The time from `earlier` until this one, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    #[inline]
    fn add(self, after: Duration) -> Self {
        let nanos = after.as_secs().saturating_mul(1_000_000_000).saturating_add(after.subsec_nanos().into());
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
