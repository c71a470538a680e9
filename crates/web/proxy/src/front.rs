//! The proxy as the server of its clients' connections sees it: its part for the process, and that of each thread.

use crate::client::Client;
use crate::request::body::Answer;
use crate::request::exchange::Answering;
use crate::shared::Snapshots;
use crate::worker::Worker;
use coherence::ThreadTables;
use http::Request;
use hyper::body::Incoming;
use serving::{ConnectionEvent, Limits, Service, ThreadEnd, UnderWay};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread that serves clients.
#[derive(Debug)]
pub(crate) struct Thread {
    snapshots: Arc<Snapshots>,
    /// The number of the newest snapshot that a request here has used. No other thread takes this lock.
    worker: Mutex<(u64, Arc<Worker>)>,
    end: ThreadEnd,
}

impl Thread {
    fn new(snapshots: Arc<Snapshots>, end: ThreadEnd) -> Self {
        // In this order: settings that come in between are seen at the first request.
        let number = snapshots.number();
        let worker = Arc::new(Worker::new(snapshots.now(), end.clone()));
        Self { snapshots, worker: Mutex::new((number, worker)), end }
    }

    /// The worker under the settings of now, for one request.
    fn worker(&self) -> Arc<Worker> {
        let number = self.snapshots.number();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.0 != number {
            *worker = (number, Arc::new(Worker::new(self.snapshots.now(), self.end.clone())));
        }
        worker.1.clone()
    }
}

impl serving::Answer for Thread {
    type Body = Answer;
    type Answering = Answering;

    fn answer(&self, peer: SocketAddr, under_way: UnderWay, request: Request<Incoming>) -> Answering {
        let worker = self.worker();
        let (scheme, activity) = (worker.shared.config.client_scheme(), under_way.activity().clone());
        Client { worker, peer, scheme, activity }.answer(under_way, request)
    }
}

/// The proxy behind its listener: settings that change, and a part for each thread.
pub(crate) struct Front(pub(crate) Arc<Snapshots>);

impl Service for Front {
    type Answer = Thread;
    /// Look-up tables of this thread alone.
    type Local = ThreadTables;

    fn open(&self, end: ThreadEnd) -> (Thread, ThreadTables) {
        let tables = self.0.now().coherence.look_up_here();
        (Thread::new(self.0.clone(), end), tables)
    }

    fn limits(&self) -> Limits {
        self.0.now().config.limits.of_connections()
    }

    fn record(&self, event: ConnectionEvent) {
        let counters = &self.0.now().counters;
        match event {
            ConnectionEvent::Begun => drop(counters.connections.fetch_add(1, Relaxed)),
            ConnectionEvent::Refused => drop(counters.refused_connections.fetch_add(1, Relaxed)),
            ConnectionEvent::HandshakeFailed(failure) => counters.handshake_failed(failure),
            ConnectionEvent::Ended(overdue) => counters.ended(overdue),
        }
    }
}
