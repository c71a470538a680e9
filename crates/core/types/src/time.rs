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
    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
