//! A thread that serves clients, as its connections see it.

use crate::listen::handshake::Handshakes;
use crate::origin::Origin;
use crate::shared::{Editions, Shared};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{Sender, WeakSender};

/// A thread with connections to the origin of its own, under the settings of one edition.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    alive: WeakSender<Infallible>,
}

impl Worker {
    fn new(shared: Arc<Shared>, alive: WeakSender<Infallible>) -> Self {
        Self { origin: Origin::new(shared.clone()), shared, alive }
    }

    /// While this is held, a proxy that is told to stop waits, as long as it does for requests. None if it does no
    /// more.
    pub(crate) fn alive(&self) -> Option<Sender<Infallible>> {
        self.alive.upgrade()
    }
}

/// A thread that serves clients.
#[derive(Debug)]
pub(crate) struct Thread {
    editions: Arc<Editions>,
    /// The number of the newest edition that a request here has met. Nobody else takes this lock.
    worker: Mutex<(u64, Arc<Worker>)>,
    /// Of those that keep the thread from ending.
    alive: WeakSender<Infallible>,
    pub(crate) handshakes: Handshakes,
}

impl Thread {
    pub(crate) fn new(editions: Arc<Editions>, alive: WeakSender<Infallible>) -> Self {
        // In this order: settings that come in between are seen at the first request.
        let number = editions.number();
        let worker = Arc::new(Worker::new(editions.now(), alive.clone()));
        Self { editions, worker: Mutex::new((number, worker)), alive, handshakes: Handshakes::default() }
    }

    /// The worker under the settings of now, for one request.
    pub(crate) fn worker(&self) -> Arc<Worker> {
        let number = self.editions.number();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.0 != number {
            *worker = (number, Arc::new(Worker::new(self.editions.now(), self.alive.clone())));
        }
        worker.1.clone()
    }
}
