//! Takes sessions.
//!
//! ```text
//!   accepted --Hello in time--> a session, numbered --> ended: by the peer, by the node, by a frame that is none
//!       |
//!       +-- anything else, or nothing --> Goodbye
//! ```
//! The node hears of a connection only with its `Hello`: who never says it costs a socket and a small buffer for a
//! bounded time.

use crate::connection::{Connection, Ended, Peer};
use crate::host::Host;
use crate::link::Link;
use crate::socket::Socket;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::SessionId;
use tokio::net::TcpListener;
use types::GoodbyeReason;
use types::limits::SESSIONS_MAX;

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How sessions are taken.
#[derive(Clone, Debug)]
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

impl Host {
    /// Takes sessions at an address until the host ends; gives the address with its port.
    pub fn listen(&self, config: ListenConfig) -> Result<SocketAddr, ListenError> {
        refuse_open_network(config.address, config.insecure)?;
        let bind = |error| ListenError::Bind(config.address, error);
        let listener = std::net::TcpListener::bind(config.address).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let (host, mut end) = (self.weak(), self.watch_end());
        self.runtime().spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            tokio::select! {
                () = accept(host, listener, config) => {}
                _ = end.changed() => {}
            }
        });
        Ok(address)
    }
}

async fn accept(host: Weak<Host>, listener: TcpListener, config: ListenConfig) {
    loop {
        let accepted = listener.accept().await;
        let Some(host) = host.upgrade() else { return };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => take(&host, stream, &config),
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

/// Begins a connection, or refuses it for want of room.
fn take(host: &Arc<Host>, stream: TcpStream, config: &ListenConfig) {
    // A connection that is gone again already takes no options.
    let Ok(socket) = Socket::new(stream, host.runtime().reactor()) else { return };
    let is_full = host.connections.fetch_add(1, SeqCst) >= config.sessions_max;
    let session = SessionId(host.last_session.fetch_add(1, SeqCst) + 1);
    let link = Arc::new(Link::new(node::Link::Session(session), socket, Arc::clone(host.counters())));
    let (connection, why) = Connection::new(host.weak(), link, Peer::Client);
    let (host, hello_within) = (host.weak(), config.hello_within);
    tokio::spawn(async move {
        let ended = if is_full {
            Ended::Refused("full", GoodbyeReason::Full, "the store takes no more sessions".into())
        } else {
            connection.run(why, hello_within).await
        };
        match host.upgrade() {
            Some(host) if connection.is_known() => host.detach(connection.link()),
            _ => {}
        }
        connection.finish(ended).await;
        if let Some(host) = host.upgrade() {
            host.connections.fetch_sub(1, SeqCst);
        }
    });
}
