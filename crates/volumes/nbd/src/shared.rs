//! The state that all threads of a server share: its exports, its connections, whether it is being stopped.

use super::buffers::Buffers;
use super::counters::{Counters, Ended};
use super::handshake::Catalog;
use super::limits::HANDSHAKES_MAX;
use super::presence::Presence;
use crate::device::{Device, Geometry};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device under a name.
#[derive(Clone)]
pub struct Export {
    /// The name by which clients ask for it, at most [`super::NAME_BYTES_MAX`] bytes; the first export also has the
    /// empty one.
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

/// By number, so the oldest is the first.
#[derive(Default)]
struct Connections {
    last: u64,
    shaking: BTreeMap<u64, Arc<Presence>>,
    open: BTreeMap<u64, Arc<Presence>>,
}

impl Connections {
    fn all(&self) -> impl Iterator<Item = &Arc<Presence>> {
        self.shaking.values().chain(self.open.values())
    }

    fn count(&self) -> usize {
        self.shaking.len() + self.open.len()
    }

    /// Returns whether it was there still.
    fn remove(&mut self, number: u64) -> bool {
        self.shaking.remove(&number).or_else(|| self.open.remove(&number)).is_some()
    }
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

    /// Registers a connection for its handshake and returns its number, unless there are as many with an export as may
    /// be. Without room for another handshake, the oldest one ends.
    pub(super) fn admit(&self, presence: &Arc<Presence>, connections_max: usize) -> Result<u64, Ended> {
        let mut connections = self.lock();
        if connections.open.len() >= connections_max {
            return Err(Ended::Full);
        }
        if connections.shaking.len() >= HANDSHAKES_MAX
            && let Some((_, oldest)) = connections.shaking.pop_first()
        {
            oldest.hang_up();
        }
        connections.last += 1;
        let number = connections.last;
        connections.shaking.insert(number, Arc::clone(presence));
        Ok(number)
    }

    /// Counts a connection as one with an export, before its handshake completes.
    pub(super) fn open(&self, number: u64, connections_max: usize) -> Result<(), Ended> {
        let mut connections = self.lock();
        if connections.open.len() >= connections_max {
            return Err(Ended::Full);
        }
        let presence = connections.shaking.remove(&number).ok_or(Ended::Displaced)?;
        connections.open.insert(number, presence);
        Ok(())
    }

    /// Notices which clients have hung up, and waits for the changes that are being made for them. Returns whether all
    /// of these have ended: none of their requests takes effect from then on.
    pub(super) fn settle_gone(&self, until: Instant) -> bool {
        let open: Vec<_> = self.lock().open.values().cloned().collect();
        let gone: Vec<_> = open.into_iter().filter(|presence| presence.look()).collect();
        gone.iter().all(|presence| presence.settle(until))
    }

    /// Forgets a connection that did not come to serve, and counts the reason.
    pub(super) fn turn_away(&self, number: u64, why: Ended) {
        let mut connections = self.lock();
        let was_there = connections.remove(number);
        // Under the lock: whoever finds the connection gone finds it counted.
        self.counters.ended(if was_there { why } else { Ended::Displaced });
        drop(connections);
        self.gone.notify_all();
    }

    /// Forgets a connection that has served. Its end has been counted.
    pub(super) fn forget(&self, number: u64) {
        self.lock().remove(number);
        self.gone.notify_all();
    }

    pub(super) fn connections(&self) -> usize {
        self.lock().count()
    }

    /// Has no connection read requests any more. Threads that wait for some continue; replies still leave.
    pub(super) fn stop(&self) {
        // A client that has hung up by now is not waited for.
        for presence in self.lock().open.values() {
            presence.look();
        }
        self.is_stopping.store(true, SeqCst);
        self.lock().all().for_each(|presence| presence.stop_reading());
    }

    /// Waits so long for the connections to end. Returns whether all have; those that have not are cut off.
    pub(super) fn wait(&self, within: Duration) -> bool {
        let is_busy = |connections: &mut Connections| connections.count() > 0;
        let (connections, timeout) =
            self.gone.wait_timeout_while(self.lock(), within, is_busy).unwrap_or_else(PoisonError::into_inner);
        connections.all().for_each(|presence| presence.hang_up());
        !timeout.timed_out()
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
