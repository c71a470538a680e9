//! The threads that serve clients, each with a runtime and connections to the origin of its own.
//!
//! A connection stays with the thread that it was given to, so a request meets no queue and no other thread's cache
//! lines on its way.

use crate::listen::activity::Activity;
use crate::listen::connection;
use crate::listen::worker::Thread;
use crate::shared::Editions;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Threads of a worker that wait for the disk, or for a name to be resolved.
const READING_THREADS_MAX: usize = 16;

/// A client's connection on its way to a worker. Its activity has its place among all connections.
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) activity: Arc<Activity>,
}

/// A worker, as the acceptor sees it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    arrivals: mpsc::UnboundedSender<Arrival>,
    connections: Arc<AtomicUsize>,
}

impl WorkerHandle {
    /// How many connections it has.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Adds one. How many there may be in all is bounded by their places.
    pub(crate) fn give(&self, arrival: Arrival) {
        self.connections.fetch_add(1, Relaxed);
        // A worker that has ended has no use for it: the proxy stops.
        let _ = self.arrivals.send(arrival);
    }
}

/// The thread's end of a worker.
pub(crate) struct Seat {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    connections: Arc<AtomicUsize>,
}

/// A worker that does not run yet.
pub(crate) fn worker() -> (WorkerHandle, Seat) {
    let (sender, arrivals) = mpsc::unbounded_channel();
    let connections = Arc::<AtomicUsize>::default();
    (WorkerHandle { arrivals: sender, connections: connections.clone() }, Seat { arrivals, connections })
}

/// A connection that is counted until it ends, in whatever way.
struct Connection(Arc<AtomicUsize>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Runs a worker's thread until the proxy stops and its connections have ended, or had the time to.
pub(crate) fn run(
    editions: Arc<Editions>,
    tls: Option<TlsAcceptor>,
    mut seat: Seat,
    stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(READING_THREADS_MAX).build()?;
    runtime.block_on(async move {
        let _tables = editions.now().coherence.look_up_here();
        // Each connection holds a copy, and each change that is under way; when the last is dropped, the receiver is
        // told.
        let (alive, mut none_alive) = mpsc::channel::<Infallible>(1);
        let thread = Arc::new(Thread::new(editions.clone(), alive.downgrade()));
        while let Some(arrival) = seat.arrivals.recv().await {
            let (thread, stop) = (thread.clone(), stop.clone());
            let (alive, tls) = (alive.clone(), tls.clone());
            let connection = Connection(seat.connections.clone());
            tokio::spawn(async move {
                let Arrival { stream, peer, activity } = arrival;
                // One that was closed before it came here is no loss.
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
        // The acceptor has ended. Requests that are under way may end, too; those that do not in time are cut off.
        let grace = editions.now().config.limits.stop;
        let _ = timeout(grace, none_alive.recv()).await;
    });
    // Tunnels and downloads that no request waits for.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(())
}
