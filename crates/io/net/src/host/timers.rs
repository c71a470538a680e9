//! The timer of a machine: sleeps until its next timeout, and is woken only when that gets nearer.

use crate::host::clock::Clock;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;
use tokio::time::Sleep;
use types::Time;

const NEVER: u64 = u64::MAX;

/// When the timer goes off.
#[derive(Debug)]
pub(crate) struct Timer {
    at: AtomicU64,
    nearer: Notify,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self { at: AtomicU64::new(NEVER), nearer: Notify::new() }
    }

    /// The machine's next timeout is at `time`. A timer that goes off too early asks again, so only a nearer time needs
    /// to be told. Called under its lock.
    pub(crate) fn arm(&self, time: Option<Time>) {
        let Some(Time(at)) = time else { return };
        if self.at.fetch_min(at, SeqCst) > at {
            self.nearer.notify_one();
        }
    }

    /// Waits until the timer goes off; it is not armed then. `sleep` is the caller's to keep: it is set again, which is
    /// cheaper than a new one.
    pub(crate) async fn wait(&self, mut sleep: Pin<&mut Sleep>) {
        loop {
            let nearer = self.nearer.notified();
            let at = self.at.load(SeqCst);
            if at == NEVER {
                nearer.await;
                continue;
            }
            sleep.as_mut().reset(Clock::instant(Time(at)));
            tokio::select! {
                biased;
                () = &mut sleep => {
                    self.at.store(NEVER, SeqCst);
                    return;
                }
                () = nearer => {}
            }
        }
    }
}
