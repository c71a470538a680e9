//! A thread that serves clients, as its connections see it.

use crate::handshake::Handshakes;
use crate::origin::Origin;
use crate::shared::{Generations, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// A thread with connections to the origin of its own, under the settings of one generation.
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
    generations: Arc<Generations>,
    /// The number of the newest generation that a request here has met. Nobody else takes this lock.
    worker: Mutex<(u64, Arc<Worker>)>,
    pub(crate) handshakes: Handshakes,
}

impl Thread {
    pub(crate) fn new(generations: Arc<Generations>) -> Self {
        // In this order: settings that come in between are seen at the first request.
        let number = generations.number();
        let worker = Arc::new(Worker::new(generations.now()));
        Self { generations, worker: Mutex::new((number, worker)), handshakes: Handshakes::default() }
    }

    /// The worker under the settings of now, for one request.
    pub(crate) fn worker(&self) -> Arc<Worker> {
        let number = self.generations.number();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.0 != number {
            *worker = (number, Arc::new(Worker::new(self.generations.now())));
        }
        worker.1.clone()
    }
}
