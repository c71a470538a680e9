//! A helper that runs: its home, and the connections of the servers that ask.

use crate::counters::{Counters, Tally};
use crate::error::StartError;
use crate::helper::Helper;
use crate::home::Home;
use crate::limits::{HEAD_BYTES_MAX, IDLE, STOP_WITHIN};
use crate::service::{Door, Service};
use coherence::{AttachedHome, HomeAddress, Site, SiteConfig};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{Runtime, listen_at_socket, refuse_open_network};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

/// How long it takes until it is tried again to accept a connection, when the system has refused.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// More threads than these wait for the lock on the keys.
const THREADS_MAX: usize = 4;

/// How a helper is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket at which servers ask.
    pub socket: PathBuf,
    /// An address of loopback at which they can ask, too.
    pub listen: Option<SocketAddr>,
    /// A home that is another process; `None` has one in this process, as `site` says.
    pub home: Option<HomeAddress>,
    /// The home of this process, and where its hub is.
    pub site: SiteConfig,
    /// The keys that are known at a time.
    pub keys_max: usize,
    /// Connections at a time.
    pub connections_max: usize,
}

/// A helper that runs until it is told to stop.
#[derive(Debug)]
pub struct Verify {
    service: Arc<Service>,
    address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Has a helper stop.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// It accepts nothing any more, and ends when the requests that are under way have.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Verify {
    /// Starts it.
    ///
    /// # Errors
    /// An address, a socket or a home that cannot be.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let socket = listen_at_socket(&config.socket)
            .map_err(|source| StartError::new(format!("cannot listen on {}", config.socket.display()), source))?;
        let tcp = config.listen.map(listen_on).transpose()?;
        let address = tcp.as_ref().map(|(_, address)| *address);
        let machines = Runtime::start().map_err(|source| StartError::new("cannot start a thread", source))?;
        let cannot_start = |source| StartError::new("the home does not start", source);
        let (home, cache, changes) = if let Some(address) = &config.home {
            let home = AttachedHome::attach(address, &machines).map_err(cannot_start)?;
            let (cache, changes) = (home.cache(), home.changes());
            (Home::Shared(home), cache, changes)
        } else {
            let site = Site::start(&config.site, &machines).map_err(cannot_start)?;
            let (cache, changes) = (site.cache(), site.changes());
            (Home::Own(site), cache, changes)
        };
        let helper = Helper::new(cache, changes, config.keys_max);
        let service = Arc::new(Service { helper, counters: Counters::default(), home });
        let (stop, stopped) = watch::channel(false);
        let connections = Connections {
            service: service.clone(),
            permits: Arc::new(Semaphore::new(config.connections_max)),
            stop: stopped,
        };
        let tcp = tcp.map(|(listener, _)| listener);
        let thread = thread::Builder::new()
            .name("thorp-verify".to_owned())
            .spawn(move || run(&connections, socket, tcp))
            .map_err(|source| StartError::new("cannot start a thread", source))?;
        Ok(Self { service, address, stop, thread: Some(thread) })
    }

    /// The address at which servers can ask, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where its hub takes the homes of others.
    pub fn hub_address(&self) -> Option<SocketAddr> {
        self.service.home.hub_address()
    }

    /// Its counts since its start.
    pub fn tally(&self) -> Tally {
        self.service.counters.read()
    }

    /// A handle that has it stop.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why it has ended without being told to.
    pub fn wait(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the helper panicked")))
    }
}

impl Drop for Verify {
    fn drop(&mut self) {
        self.stopper().stop();
        // Nobody is left to be notified of an error.
        let _ = self.wait();
    }
}

fn listen_on(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let cannot_listen = |source| StartError::new(format!("cannot listen on {address}"), source);
    refuse_open_network(address, false).map_err(|_| {
        let text = "it can be reached from elsewhere, and whoever reaches it can have stale responses used; \
                    use a socket or an address such as 127.0.0.1:7414";
        cannot_listen(io::Error::new(io::ErrorKind::InvalidInput, text))
    })?;
    let listener = std::net::TcpListener::bind(address).map_err(cannot_listen)?;
    listener.set_nonblocking(true).map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, bound))
}

/// The things that each connection gets a copy of.
#[derive(Clone, Debug)]
struct Connections {
    service: Arc<Service>,
    permits: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

/// Serves until it is told to stop, and the requests that are under way have ended or had the time to.
fn run(
    connections: &Connections,
    socket: std::os::unix::net::UnixListener,
    tcp: Option<std::net::TcpListener>,
) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let socket = UnixListener::from_std(socket)?;
        let tcp = tcp.map(TcpListener::from_std).transpose()?;
        let mut stop = connections.stop.clone();
        // Each connection holds a copy; when the last is dropped, the receiver is told.
        let (alive, mut none_alive) = mpsc::channel::<Infallible>(1);
        let at_socket = connections.accept(Door::Socket, &alive, async || Ok(socket.accept().await?.0));
        let at_address = async {
            let Some(tcp) = tcp else { return };
            let accept = async || {
                let (stream, _) = tcp.accept().await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            connections.accept(Door::Loopback, &alive, accept).await;
        };
        tokio::select! {
            _ = async { tokio::join!(at_socket, at_address) } => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
        drop(alive);
        let _ = timeout(STOP_WITHIN, none_alive.recv()).await;
        Ok(())
    })
}

impl Connections {
    async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        door: Door,
        alive: &mpsc::Sender<Infallible>,
        accept: impl AsyncFn() -> io::Result<S>,
    ) {
        // Nobody closes the semaphore.
        while let Ok(permit) = self.permits.clone().acquire_owned().await {
            let Ok(stream) = accept().await else {
                sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let (service, mut stop, alive) = (self.service.clone(), self.stop.clone(), alive.clone());
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(service.answer(door, request).await) }
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD_BYTES_MAX);
                let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), answer));
                // A server that breaks off, or speaks no HTTP, asks again.
                let is_over = tokio::select! {
                    _ = connection.as_mut() => true,
                    _ = stop.wait_for(|is_stopped| *is_stopped) => false,
                };
                if !is_over {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
                drop((permit, alive));
            });
        }
    }
}
