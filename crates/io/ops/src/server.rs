//! The sockets of operators, their connections and the limits of these.

use crate::guard::{Token, check_address};
use crate::requests::answer;
use crate::service::Service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Limits on what clients of a listener can take up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. Further ones wait to be accepted.
    pub connections: usize,
    /// The threads that serve them.
    pub threads: usize,
    /// The bytes of a request's head.
    pub head_bytes: usize,
    /// How long a head may take, and how long a connection may be idle.
    pub head_within: Duration,
    /// How long a connection may last.
    pub connection_within: Duration,
    /// Whether a connection is for more than one request.
    pub keeps_alive: bool,
    /// How long requests may take to end when the listener stops.
    pub stop_within: Duration,
}

impl Limits {
    /// The limits of operators at an address: a client that is slow or has gone can ask again.
    pub const OPERATORS: Self = Self {
        connections: 64,
        threads: 1,
        head_bytes: 32 << 10,
        head_within: Duration::from_secs(10),
        connection_within: Duration::from_secs(60),
        keeps_alive: true,
        stop_within: Duration::ZERO,
    };
}

/// A socket that accepts operators once it is served. Clients that connect earlier wait.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// The guard of the socket, if it is not the file system.
    token: Option<Token>,
}

#[derive(Debug)]
enum Socket {
    Tcp(StdTcpListener, SocketAddr),
    Unix(StdUnixListener),
}

impl Listener {
    /// Listens at an address, for requests with this token; without one, for all but those of web pages.
    ///
    /// # Errors
    /// The address is taken, or can be reached from other machines without a token.
    pub fn bind(address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        check_address(address, token.is_some())?;
        let listener = StdTcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        let guard = Token::default();
        guard.set(token);
        Ok(Self { socket: Socket::Tcp(listener, bound), token: Some(guard) })
    }

    /// A socket in the file system, whose permissions say who may ask.
    pub fn unix(socket: StdUnixListener) -> Self {
        Self { socket: Socket::Unix(socket), token: None }
    }

    /// Returns the address, with its port.
    pub fn address(&self) -> Option<SocketAddr> {
        if let Socket::Tcp(_, address) = self.socket { Some(address) } else { None }
    }
}

/// Listeners that are served until this is dropped.
#[derive(Debug)]
pub struct Server {
    tokens: Vec<Token>,
    stop: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Stops a server.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Stops accepting. The server ends when the requests under way have ended, or had the time to.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Serves listeners on threads of their own, which have this name.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(name: &str, listeners: Vec<Listener>, limits: Limits, service: Arc<dyn Service>) -> io::Result<Self> {
        let runtime = runtime(name, limits)?;
        let (stop, stopped) = watch::channel(false);
        let tokens = listeners.iter().filter_map(|it| it.token.clone()).collect();
        let permits = Arc::new(Semaphore::new(limits.connections));
        let connections = Connections { service, limits, permits, stop: stopped };
        let run = move || {
            let outcome = runtime.block_on(connections.serve(listeners));
            // A request may wait for something that is away.
            runtime.shutdown_background();
            outcome
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { tokens, stop: Stopper(stop), thread: Some(thread) })
    }

    /// Replaces the token that requests at addresses need.
    pub fn set_token(&self, token: Option<&str>) {
        self.tokens.iter().for_each(|it| it.set(token.map(str::to_owned)));
    }

    /// Returns a handle that stops it while another thread waits for it.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why it has ended without being stopped.
    pub fn wait(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked: please report it")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        // An error would have no reader.
        let _ = self.wait();
    }
}

fn runtime(name: &str, limits: Limits) -> io::Result<Runtime> {
    let mut builder = if limits.threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(limits.threads).thread_name(name).enable_all().build()
}

/// A socket as it is served.
enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepting {
    fn new(socket: Socket) -> io::Result<Self> {
        Ok(match socket {
            Socket::Tcp(listener, _) => Self::Tcp(TcpListener::from_std(listener)?),
            Socket::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// The state that all connections share.
#[derive(Clone)]
struct Connections {
    service: Arc<dyn Service>,
    limits: Limits,
    permits: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Connections {
    async fn serve(self, listeners: Vec<Listener>) -> io::Result<()> {
        let mut stop = self.stop.clone();
        // Each connection holds a sender; the receiver learns when the last one is dropped.
        let (alive, mut none_alive) = mpsc::channel::<Infallible>(1);
        let mut accepting = JoinSet::new();
        for Listener { socket, token } in listeners {
            let (this, socket, alive) = (self.clone(), Accepting::new(socket)?, alive.clone());
            accepting.spawn(async move { this.accept(&socket, token, &alive).await });
        }
        // The sender is dropped after this, but never before a value was sent.
        let _ = stop.wait_for(|is_stopped| *is_stopped).await;
        drop((alive, accepting));
        let _ = timeout(self.limits.stop_within, none_alive.recv()).await;
        Ok(())
    }

    async fn accept(&self, socket: &Accepting, token: Option<Token>, alive: &mpsc::Sender<Infallible>) {
        // The semaphore is never closed.
        while let Ok(permit) = self.permits.clone().acquire_owned().await {
            let Ok(stream) = socket.accept().await else {
                sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let (this, token, alive) = (self.clone(), token.clone(), alive.clone());
            tokio::spawn(async move {
                let served = async {
                    match stream {
                        Stream::Tcp(stream) => this.serve_one(stream, token.as_ref()).await,
                        Stream::Unix(stream) => this.serve_one(stream, token.as_ref()).await,
                    }
                };
                // A client that hangs up or does not speak HTTP can connect again.
                let _ = timeout(this.limits.connection_within, served).await;
                drop((permit, alive));
            });
        }
    }

    async fn serve_one<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, token: Option<&Token>) {
        let respond =
            service_fn(async |request| Ok::<_, Infallible>(answer(self.service.clone(), token, request).await));
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(self.limits.head_within);
        server.max_buf_size(self.limits.head_bytes).keep_alive(self.limits.keeps_alive);
        let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), respond));
        let mut stop = self.stop.clone();
        let is_over = tokio::select! {
            _ = connection.as_mut() => true,
            _ = stop.wait_for(|is_stopped| *is_stopped) => false,
        };
        if !is_over {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
