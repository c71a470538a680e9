//! Takes connections: sessions of clients, and neighbours.
//!
//! ```text
//!   accepted --Hello in time--> a session, numbered --> ended: by the peer, by the node, by a frame that is none
//!       |
//!       +-- anything else, or nothing --> Goodbye
//! ```
//! The node hears of a connection only with its `Hello` or `PeerHello`: who never says it costs a socket and a small
//! buffer for a bounded time.

use crate::connection::{Connection, Ended, Peer};
use crate::host::Host;
use crate::link::Link;
use crate::socket::Socket;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::SessionId;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use types::limits::SESSIONS_MAX;
use types::{GoodbyeReason, PeerKey};

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How sessions are taken.
#[derive(Clone, Copy, Debug)]
pub struct ListenConfig {
    /// The address; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// Whether to listen where others than this machine can reach.
    pub insecure: bool,
    /// How long a new connection may take to say hello.
    pub hello_within: Duration,
    /// Connections at a time.
    pub sessions_max: usize,
}

impl ListenConfig {
    /// Listens on `address`, for this machine only, within the limits of the protocol.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, insecure: false, hello_within: Duration::from_secs(5), sessions_max: SESSIONS_MAX }
    }
}

/// Why no sessions can be taken.
#[derive(Debug)]
pub enum ListenError {
    /// The address can be reached by others, and nothing protects the connection.
    Open(SocketAddr),
    /// The system refuses the address.
    Bind(SocketAddr, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(address) => write!(
                f,
                "will not listen on {address}: connections are neither encrypted nor authenticated yet, so anyone who \
                 reaches that address could read and change everything; listen on a loopback address such as \
                 127.0.0.1:{}, or pass --insecure if the network is trusted",
                address.port()
            ),
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

/// Refuses to listen where others than this machine can reach, unless told that it does not matter.
pub fn refuse_open_network(address: SocketAddr, insecure: bool) -> Result<(), ListenError> {
    if insecure || address.ip().is_loopback() { Ok(()) } else { Err(ListenError::Open(address)) }
}

/// An address that is taken, where nobody is let in yet: for who must know it before there is a host.
#[derive(Debug)]
pub struct Listener {
    config: ListenConfig,
    socket: std::net::TcpListener,
}

impl Listener {
    /// Takes the address.
    pub fn bind(config: ListenConfig) -> Result<Self, ListenError> {
        refuse_open_network(config.address, config.insecure)?;
        let taken = std::net::TcpListener::bind(config.address).and_then(|socket| {
            let config = ListenConfig { address: socket.local_addr()?, ..config };
            Ok(Self { config, socket })
        });
        taken.map_err(|error| ListenError::Bind(config.address, error))
    }

    /// The address, with its port.
    pub fn address(&self) -> SocketAddr {
        self.config.address
    }
}

/// What is taken at a listener.
pub(crate) struct Door {
    /// The link of a connection, by its number.
    pub(crate) link: fn(SessionId) -> node::Link,
    /// What is to be shown with the first message, where one comes as a neighbour.
    pub(crate) key: Option<PeerKey>,
    /// How long a new connection may take to say its first message.
    pub(crate) hello_within: Duration,
    /// Connections at a time, and those that are there.
    pub(crate) connections_max: usize,
    pub(crate) connections: Arc<AtomicUsize>,
    /// What one too many is told.
    pub(crate) full: &'static str,
    /// How long the machine at the other end may be unheard of, where no message would tell.
    pub(crate) silence: Option<Duration>,
}

impl Host {
    /// Takes sessions at an address until the host ends, for its store or its redirector; gives the address with its
    /// port.
    pub fn listen(&self, config: ListenConfig) -> Result<SocketAddr, ListenError> {
        self.listen_at(Listener::bind(config)?)
    }

    /// The same at an address that is taken already.
    pub fn listen_at(&self, listener: Listener) -> Result<SocketAddr, ListenError> {
        let Listener { config, socket } = listener;
        let door = Door {
            link: node::Link::Session,
            key: None,
            hello_within: config.hello_within,
            connections_max: config.sessions_max,
            connections: Arc::clone(&self.connections),
            full: "no more sessions are taken here",
            silence: None,
        };
        let taken = self.take_at(socket, door);
        Ok(taken.map_err(|error| ListenError::Bind(config.address, error))?.0)
    }

    /// Takes connections until the host ends, or the task that does it; gives the address with its port.
    pub(crate) fn take_at(&self, listener: std::net::TcpListener, door: Door) -> io::Result<(SocketAddr, AbortHandle)> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (host, mut end) = (self.weak(), self.watch_end());
        let task = self.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            tokio::select! {
                () = accept(host, listener, door) => {}
                _ = end.changed() => {}
            }
        });
        Ok((address, task))
    }
}

async fn accept(host: Weak<Host>, listener: TcpListener, door: Door) {
    loop {
        let accepted = listener.accept().await;
        let Some(host) = host.upgrade() else { return };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => door.take(&host, stream),
            Err(error) => {
                host.counters().refused("accept_failed");
                // One connection that broke is its own affair; a lack of file descriptors is better waited out.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    drop(host);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Door {
    /// Begins a connection, or refuses it for want of room.
    fn take(&self, host: &Arc<Host>, stream: TcpStream) {
        // A connection that is gone again already takes no options.
        let Ok(socket) = self.socket(host, stream) else { return };
        let (connections, hello_within, full) = (Arc::clone(&self.connections), self.hello_within, self.full);
        let is_full = connections.fetch_add(1, SeqCst) >= self.connections_max;
        let number = SessionId(host.last_session.fetch_add(1, SeqCst) + 1);
        let link = Arc::new(Link::new((self.link)(number), socket, Arc::clone(host.counters())));
        let peer = self.key.map_or(Peer::Guest, Peer::Neighbour);
        let (connection, why) = Connection::new(host.weak(), link, peer);
        let weak = host.weak();
        host.spawn(async move {
            let ended = if is_full {
                Ended::Refused("full", GoodbyeReason::Full, full.into())
            } else {
                connection.run(why, Some(hello_within)).await
            };
            match weak.upgrade() {
                Some(host) if connection.is_known() => host.detach(connection.link()),
                _ => {}
            }
            connection.finish(ended).await;
            connections.fetch_sub(1, SeqCst);
        });
    }

    fn socket(&self, host: &Host, stream: TcpStream) -> io::Result<Socket> {
        let socket = Socket::new(stream, host.runtime().reactor())?;
        self.silence.map_or(Ok(()), |silence| socket.give_up_after(silence))?;
        Ok(socket)
    }
}
