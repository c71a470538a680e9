//! Permits for requests to be at the origin, and the queue of those that wait for one.
//!
//! Some requests continue without their client: unsafe ones, and those whose response is stored. So many of them as
//! these two numbers allow can be under way, however many a client starts and leaves.
//!
//! Exchanges that last for as long as their client wants, websockets and event streams, have permits of their own:
//! once the origin has begun one, it gives the permit of its request back.

use crate::limits::Limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The permits of all threads.
#[derive(Debug)]
pub(crate) struct OriginPermits {
    permits: Arc<Semaphore>,
    queue: Semaphore,
    long_lived: Arc<Semaphore>,
}

impl OriginPermits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let permits = Arc::new(Semaphore::new(limits.origin_requests));
        let long_lived = Arc::new(Semaphore::new(limits.long_lived));
        Self { permits, queue: Semaphore::new(limits.origin_waiting), long_lived }
    }

    /// A permit for a long-lived exchange. None if too many are open.
    pub(crate) fn long_lived(&self) -> Option<OwnedSemaphorePermit> {
        self.long_lived.clone().try_acquire_owned().ok()
    }

    /// A permit, at once or within a time. None at once if too many wait already.
    pub(crate) async fn acquire(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        // One that is given back goes to those who wait: nobody who comes later goes before them.
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Some(permit);
        }
        let _place = self.queue.try_acquire().ok()?;
        timeout(within, self.permits.clone().acquire_owned()).await.ok()?.ok()
    }
}
