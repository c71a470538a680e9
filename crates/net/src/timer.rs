//! The one timer of a host: sleeps until the node's next timeout, and is woken only when that gets nearer.

use crate::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;
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

    /// The node's next timeout is at `time`. A timer that goes off too early asks again, so only a nearer time needs to
    /// be told. Called under the node's lock.
    pub(crate) fn arm(&self, time: Option<Time>) {
        let Some(Time(at)) = time else { return };
        if self.at.fetch_min(at, SeqCst) > at {
            self.nearer.notify_one();
        }
    }

    /// Waits until the timer goes off; it is not armed then.
    pub(crate) async fn wait(&self, clock: Clock) {
        loop {
            let at = self.at.load(SeqCst);
            let nearer = self.nearer.notified();
            if at == NEVER {
                nearer.await;
                continue;
            }
            tokio::select! {
                () = nearer => {}
                () = tokio::time::sleep_until(clock.instant(Time(at))) => {
                    self.at.store(NEVER, SeqCst);
                    return;
                }
            }
        }
    }
}
