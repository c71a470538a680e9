//! A thread that serves clients, as its connections see it.

use crate::handshake::Handshakes;
use crate::origin::Origin;
use crate::shared::{Editions, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// A thread with connections to the origin of its own, under the settings of one edition.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        Self { origin: Origin::new(shared.clone()), shared }
    }
}

/// A thread that serves clients.
#[derive(Debug)]
pub(crate) struct Thread {
    editions: Arc<Editions>,
    /// The number of the newest edition that a request here has met. Nobody else takes this lock.
    worker: Mutex<(u64, Arc<Worker>)>,
    pub(crate) handshakes: Handshakes,
}

impl Thread {
    pub(crate) fn new(editions: Arc<Editions>) -> Self {
        // In this order: settings that come in between are seen at the first request.
        let number = editions.number();
        let worker = Arc::new(Worker::new(editions.now()));
        Self { editions, worker: Mutex::new((number, worker)), handshakes: Handshakes::default() }
    }

    /// The worker under the settings of now, for one request.
    pub(crate) fn worker(&self) -> Arc<Worker> {
        let number = self.editions.number();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.0 != number {
            *worker = (number, Arc::new(Worker::new(self.editions.now())));
        }
        worker.1.clone()
    }
}
