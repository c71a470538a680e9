//! The time of a process.

use std::time::Instant;
use types::Time;

/// Counts from the process's start, or near it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    #[inline]
    pub(crate) fn now(self) -> Time {
        // 64 bits of nanoseconds last for five centuries.
        Time(self.start.elapsed().as_nanos() as u64)
    }

    pub(crate) fn instant(self, time: Time) -> tokio::time::Instant {
        (self.start + time.since(Time::ZERO)).into()
    }
}
