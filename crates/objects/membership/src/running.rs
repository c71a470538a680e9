//! The state that the threads of a node's process share while it runs.

use machine::RoleId;
use net::Host;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A node that runs, for those who stop it and look at it.
#[derive(Debug, Default)]
pub struct Running {
    is_stopped: AtomicBool,
    host: Mutex<Weak<Host>>,
    /// Why the node may not serve much longer, or does not.
    trouble: Mutex<Option<String>>,
}

impl Running {
    /// Closes the store in order, if there is one, and ends the node.
    pub fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
        self.close();
    }

    /// Whether the node was stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(SeqCst)
    }

    /// The host of this round's store, if the node serves.
    pub fn host(&self) -> Option<Arc<Host>> {
        lock(&self.host).upgrade()
    }

    /// Why the node may not serve much longer, or does not; `None` if all is well.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// The host that serves from now on.
    pub(crate) fn serve(&self, host: &Arc<Host>) {
        *lock(&self.host) = Arc::downgrade(host);
        // It may have been stopped in between.
        if self.is_stopped() {
            self.close();
        }
    }

    pub(crate) fn set_trouble(&self, trouble: Option<&str>) {
        *lock(&self.trouble) = trouble.map(str::to_owned);
    }

    fn close(&self) {
        if let Some(host) = self.host() {
            host.close(RoleId::ONLY);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
