//! The threads that serve clients, each with a runtime and a part of the front end of its own.
//!
//! A connection stays with the thread that it was given to, so a request meets no queue and no other thread's cache
//! lines on its way.

use crate::activity::Activity;
use crate::connection::{self, Thread};
use crate::handshake::Handshakes;
use crate::service::{Service, ThreadEnd};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Threads of a runtime that wait for the disk, or for a name to be resolved.
const READING_THREADS_MAX: usize = 16;

/// A client's connection on its way to a thread. Its activity has its place among all connections.
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) activity: Arc<Activity>,
}

/// A thread, as the one that accepts sees it.
#[derive(Clone, Debug)]
pub(crate) struct ThreadHandle {
    arrivals: mpsc::UnboundedSender<Arrival>,
    connections: Arc<AtomicUsize>,
}

impl ThreadHandle {
    /// How many connections it has.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Adds one. How many there may be in all is bounded by their places.
    pub(crate) fn give(&self, arrival: Arrival) {
        self.connections.fetch_add(1, Relaxed);
        // A thread that has ended has no use for it: the server stops.
        let _ = self.arrivals.send(arrival);
    }
}

/// The connections that a thread is given.
pub(crate) struct Arrivals {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    connections: Arc<AtomicUsize>,
}

/// Both ends of a thread that does not run yet.
pub(crate) fn channel() -> (ThreadHandle, Arrivals) {
    let (sender, arrivals) = mpsc::unbounded_channel();
    let connections = Arc::<AtomicUsize>::default();
    (ThreadHandle { arrivals: sender, connections: connections.clone() }, Arrivals { arrivals, connections })
}

/// A connection that is counted until it ends, in whatever way.
struct Connection(Arc<AtomicUsize>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Runs a thread until the server stops and its connections have ended, or had the time to.
pub(crate) fn run<S: Service>(
    service: Arc<S>,
    tls: Option<TlsAcceptor>,
    mut arrivals: Arrivals,
    stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(READING_THREADS_MAX).build()?;
    runtime.block_on(async move {
        // Each connection holds a copy, and so does work of the front end; when the last is dropped, the receiver is
        // told.
        let (alive, mut none_alive) = mpsc::channel::<Infallible>(1);
        let (answer, _local) = service.open(ThreadEnd::new(alive.downgrade()));
        let thread = Arc::new(Thread { service: service.clone(), answer, handshakes: Handshakes::default() });
        while let Some(arrival) = arrivals.arrivals.recv().await {
            let (thread, stop) = (thread.clone(), stop.clone());
            let (alive, tls) = (alive.clone(), tls.clone());
            let connection = Connection(arrivals.connections.clone());
            tokio::spawn(async move {
                let Arrival { stream, peer, activity } = arrival;
                // An error means that the client has closed it already.
                if let Ok(stream) = tokio::net::TcpStream::from_std(stream) {
                    match tls {
                        Some(tls) => connection::serve_over_tls(thread, &tls, stream, peer, activity, stop).await,
                        None => connection::serve(thread, stream, false, peer, activity, stop).await,
                    }
                }
                drop((connection, alive));
            });
        }
        drop(alive);
        // Accepting has stopped. Requests that are under way may end in time, and are cut off after it.
        let _ = timeout(service.limits().stop, none_alive.recv()).await;
    });
    // Work that no request waits for.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(())
}
