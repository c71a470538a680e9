//! The clock of leases: it continues while the machine sleeps, so a lease that ended in the meantime is over when it
//! wakes. A virtual machine that is paused from outside may find its clock paused, too.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;
use types::Time;

/// A clock that begins with zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Timespec);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(clock_gettime(ClockId::Boottime))
    }

    pub(crate) fn now(&self) -> Time {
        let passed = clock_gettime(ClockId::Boottime) - self.0;
        Time(passed.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(passed.tv_nsec.unsigned_abs()))
    }

    /// The time until then; zero if it is over.
    pub(crate) fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on() {
        let clock = Clock::start();
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(5));
        let passed = clock.now().since(before);
        assert!(passed >= Duration::from_millis(5) && before < Time(1_000_000_000), "{passed:?}");
        assert!(clock.until(Time(u64::MAX)) > passed && clock.until(before).is_zero());
    }
}
