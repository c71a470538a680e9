//! Waiting out what passes, on threads that have nothing better to do: those that read and install pages.

use crate::errno::{Call, Verdict, judge};
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The pause before the first new attempt; each that follows is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A pause that grows.
#[derive(Clone, Copy, Debug)]
pub struct Pause(Duration);

impl Pause {
    /// The first one.
    pub const FIRST: Self = Self(PAUSE_MIN);

    /// How long to wait now; the next time it is longer.
    pub fn grow(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(PAUSE_MAX);
        now
    }
}

/// Whether there is time to wait: while the store runs, and not while it is opened or closed.
#[derive(Debug, Default)]
pub struct Patience {
    running: Mutex<bool>,
    changed: Condvar,
}

impl Patience {
    /// From now on what passes is waited out, or not any more.
    pub fn run(&self, running: bool) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
        self.changed.notify_all();
    }

    /// Waits; says whether to try once more.
    pub fn wait(&self, pause: &mut Pause) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(running, pause.grow(), |running| *running);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Calls until it succeeds, or fails in a way that does not pass.
    pub fn wait_out<T>(&self, call: Call, mut run: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut pause = Pause::FIRST;
        loop {
            match run() {
                Err(error) if judge(call, &error) == Verdict::Passes && self.wait(&mut pause) => {}
                result => return result,
            }
        }
    }
}
