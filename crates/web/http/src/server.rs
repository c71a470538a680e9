//! A running server: one thread that accepts connections, and those that serve them.

use crate::connections::Connections;
use crate::service::{ConnectionEvent, Service};
use crate::threads::{self, Arrival, ThreadHandle};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// How long accepting pauses when the process can have no more sockets.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The settings of a server, which stay until its end.
#[derive(Clone)]
pub struct Settings {
    /// The beginning of the names of its threads.
    pub name: &'static str,
    /// Threads that serve clients, at least one.
    pub threads: usize,
    /// Connections of clients at a time. Beyond, those that have been idle for longest make room for a new one, which
    /// waits where none is idle.
    pub connections: usize,
    /// TLS, for all connections.
    pub tls: Option<TlsAcceptor>,
}

/// A server. It runs until it is told to stop.
#[derive(Debug)]
pub struct Server {
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Accepts connections at a listener and has the service answer their requests, until `stop` is true. Then it
    /// stops accepting, and requests that are under way have the time that the service's limits give.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start<S: Service>(
        listener: TcpListener,
        settings: Settings,
        service: &Arc<S>,
        stop: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let Settings { name, threads, connections, tls } = settings;
        let (mut server, mut handles) = (Self { threads: Vec::new() }, Vec::new());
        for number in 0..threads.max(1) {
            let (handle, arrivals) = threads::channel();
            let (service, tls, stop) = (service.clone(), tls.clone(), stop.clone());
            server.spawn(format!("{name}-{number}"), move || threads::run(service, tls, arrivals, stop))?;
            handles.push(handle);
        }
        let (service, connections, stop) = (service.clone(), Connections::new(connections), stop.clone());
        server.spawn(format!("{name}-accept"), move || accept(listener, &*service, &handles, &connections, stop))?;
        Ok(server)
    }

    fn spawn<F>(&mut self, name: String, run: F) -> io::Result<()>
    where
        F: FnOnce() -> io::Result<()> + Send + 'static,
    {
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// The first of its threads that could not run to its end.
    pub fn wait(self) -> io::Result<()> {
        let join = |thread: JoinHandle<io::Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that serves clients panicked")))
        };
        // All are waited for, whatever came of the first.
        self.threads.into_iter().map(join).fold(Ok(()), Result::and)
    }
}

/// Accepts connections and gives each to the thread that has the fewest, until the server stops.
fn accept<S: Service>(
    listener: TcpListener,
    service: &S,
    threads: &[ThreadHandle],
    connections: &Arc<Connections>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let accept_all = async {
            loop {
                let accepted = listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer)));
                let Ok((stream, peer)) = accepted else {
                    sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                let Ok(activity) = connections.admit(peer, service.limits().per_address).await else {
                    service.record(ConnectionEvent::Refused);
                    continue;
                };
                // Small responses leave at once. An error means that the connection is gone already.
                let _ = stream.set_nodelay(true);
                if let Some(thread) = threads.iter().min_by_key(|thread| thread.connections()) {
                    thread.give(Arrival { stream, peer, activity });
                }
            }
        };
        tokio::select! {
            () = accept_all => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
        Ok(())
    })
}
