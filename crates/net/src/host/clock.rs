//! The time of a process.
//!
//! Roles measure leases with it, so it runs on while the machine sleeps: a redirector that wakes finds its lease over,
//! whatever it does first. That is `CLOCK_BOOTTIME` where there is one (Linux, Android), and `CLOCK_MONOTONIC` on other
//! systems of the Unix kind: on Apple's that runs on in sleep, on others it may not, and a redirector on such a machine
//! must not sleep while it has a lease. No clock shows a virtual machine that its host has stopped it: a host that stops
//! one must have its clock set right before it runs on.
//!
//! The runtime's timers count on a clock that stops. One that is set across a sleep goes off late by as much; nothing is
//! decided by that, as every event reads this clock anew.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use types::Time;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Counts from the process's start, or near it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: read() }
    }

    #[inline]
    pub(crate) fn now(self) -> Time {
        // 64 bits of nanoseconds last for five centuries.
        Time(read().saturating_sub(self.start).as_nanos() as u64)
    }

    /// When the runtime's timers reach `time`, if the machine does not sleep until then.
    pub(crate) fn instant(self, time: Time) -> tokio::time::Instant {
        tokio::time::Instant::now() + time.since(self.now())
    }
}

fn read() -> Duration {
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use core::time::Duration;
    use std::time::Instant;

    #[test]
    fn a_time_is_when_the_timers_say() {
        let clock = Clock::start();
        let later = clock.now() + Duration::from_secs(3600);
        let within = clock.instant(later).into_std().saturating_duration_since(Instant::now());
        assert!(within <= Duration::from_secs(3600) && within > Duration::from_secs(3500), "{within:?}");
    }

    #[test]
    fn it_runs_on_from_zero() {
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(first <= second && second.since(types::Time::ZERO) < Duration::from_secs(60));
    }
}
