//! The time of a machine: processes of one have the same, and can tell each other of a moment.
//!
//! Roles measure leases with it, so it runs on while the machine sleeps: a redirector that wakes finds its lease over,
//! whatever it does first. That is `CLOCK_BOOTTIME` where there is one (Linux, Android), and `CLOCK_MONOTONIC` on other
//! systems of the Unix kind: on Apple's that runs on in sleep, on others it may not, and a redirector on such a machine
//! must not sleep while it has a lease. No clock shows a virtual machine that its host has stopped it: a host that
//! stops one must have its clock set right before it runs on.
//!
//! The runtime's timers count on a clock that stops. One that is set across a sleep goes off late by as much; nothing
//! is decided by that, as every event reads this clock again.

use rustix::time::{ClockId, clock_gettime};
use types::Time;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Counts from the machine's start.
pub(crate) struct Clock;

impl Clock {
    #[inline]
    pub(crate) fn now() -> Time {
        let time = clock_gettime(CLOCK);
        // 64 bits of nanoseconds last for five centuries.
        Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// When the runtime's timers reach `time`, if the machine does not sleep until then.
    pub(crate) fn instant(time: Time) -> tokio::time::Instant {
        tokio::time::Instant::now() + time.since(Self::now())
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use core::time::Duration;
    use std::time::Instant;

    #[test]
    fn a_time_is_when_the_timers_say() {
        let later = Clock::now() + Duration::from_secs(3600);
        let within = Clock::instant(later).into_std().saturating_duration_since(Instant::now());
        assert!(within <= Duration::from_secs(3600) && within > Duration::from_secs(3500), "{within:?}");
    }

    #[test]
    fn it_runs_on() {
        let (first, second) = (Clock::now(), Clock::now());
        assert!(types::Time::ZERO < first && first <= second);
    }
}
