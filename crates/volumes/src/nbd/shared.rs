//! The state that all threads of a server share: its exports, its connections, whether it is being stopped.

use super::buffers::Buffers;
use super::counters::{Counters, Ended};
use super::handshake::Catalog;
use crate::device::{Device, Geometry};
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A device under a name.
#[derive(Clone)]
pub struct Export {
    /// The name by which clients ask for it, at most [`super::NAME_BYTES_MAX`] bytes; the first export also has the empty one.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// The device.
    pub device: Arc<dyn Device>,
}

/// The state of a server.
pub(super) struct Shared {
    exports: Vec<Export>,
    pub(super) counters: Counters,
    pub(super) buffers: Arc<Buffers>,
    is_stopping: AtomicBool,
    connections: Mutex<Connections>,
    /// Told when a connection is gone.
    gone: Condvar,
}

#[derive(Default)]
struct Connections {
    last: u64,
    sockets: HashMap<u64, Arc<OwnedFd>>,
}

impl Shared {
    pub(super) fn new(exports: Vec<Export>) -> Self {
        Self {
            exports,
            counters: Counters::default(),
            buffers: Arc::default(),
            is_stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            gone: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(SeqCst)
    }

    pub(super) fn device(&self, export: usize) -> Arc<dyn Device> {
        Arc::clone(&self.exports[export].device)
    }

    /// Takes note of a connection and gives it a number, unless there are as many as may be.
    pub(super) fn admit(&self, socket: &Arc<OwnedFd>, connections_max: usize) -> Result<u64, Ended> {
        let mut connections = self.lock();
        if connections.sockets.len() >= connections_max {
            return Err(Ended::Full);
        }
        connections.last += 1;
        let number = connections.last;
        connections.sockets.insert(number, Arc::clone(socket));
        Ok(number)
    }

    /// Forgets a connection.
    pub(super) fn forget(&self, number: u64) {
        self.lock().sockets.remove(&number);
        self.gone.notify_all();
    }

    pub(super) fn connections(&self) -> usize {
        self.lock().sockets.len()
    }

    /// Has no connection read requests any more. Threads that wait for some go on; replies still leave.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, SeqCst);
        self.shut(Shutdown::Read);
    }

    /// Waits so long for the connections to end. Says whether all have; those that have not are cut off.
    pub(super) fn wait(&self, within: Duration) -> bool {
        let is_busy = |connections: &mut Connections| !connections.sockets.is_empty();
        let (connections, timeout) =
            self.gone.wait_timeout_while(self.lock(), within, is_busy).unwrap_or_else(PoisonError::into_inner);
        drop(connections);
        self.shut(Shutdown::Both);
        !timeout.timed_out()
    }

    fn shut(&self, how: Shutdown) {
        for socket in self.lock().sockets.values() {
            // Its client may have closed it already.
            let _ = shutdown(&**socket, how);
        }
    }
}

impl Catalog for Shared {
    fn count(&self) -> usize {
        self.exports.len()
    }

    fn name(&self, export: usize) -> &str {
        &self.exports[export].name
    }

    fn description(&self, export: usize) -> &str {
        &self.exports[export].description
    }

    fn geometry(&self, export: usize) -> Geometry {
        self.exports[export].device.geometry()
    }
}
