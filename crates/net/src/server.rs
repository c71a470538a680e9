//! Takes sessions.
//!
//! ```text
//!   accepted --Hello in time--> a session, numbered --> ended: by the peer, by the node, by a frame that is none
//!       |
//!       +-- anything else, or nothing --> Goodbye
//! ```
//! The node hears of a connection only with its `Hello`: who never says it costs a socket and a small buffer for a
//! bounded time.

use crate::host::Host;
use crate::link::Link;
use crate::receive::{Ended, Receiver, finish, spawn_writer};
use protocol::Message;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::SessionId;
use tokio::net::{TcpListener, TcpStream};
use types::GoodbyeReason;
use types::limits::SESSIONS_MAX;
use wire::End;

/// A session's read buffer, in bytes: requests are small, and what is not is received in place.
const BUFFER_BYTES: usize = 8 * 1024;

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
        match accepted {
            Ok((stream, _)) => {
                // A connection that is gone again already is found out by its first read.
                let _ = stream.set_nodelay(true);
                take(&host, stream, &config);
            }
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
    let is_full = host.connections.fetch_add(1, SeqCst) >= config.sessions_max;
    let session = SessionId(host.last_session.fetch_add(1, SeqCst) + 1);
    let (reading, writing) = stream.into_split();
    let link = Arc::new(Link::new(node::Link::Session(session), writing, Arc::clone(host.counters())));
    let mut receiver = Receiver::new(reading, End::Store, BUFFER_BYTES);
    let (host, hello_within) = (host.weak(), config.hello_within);
    tokio::spawn(async move {
        let writer = spawn_writer(&link);
        let ended = if is_full {
            Ended::Refused("full", GoodbyeReason::Full, "the store takes no more sessions".into())
        } else {
            serve(&host, &mut receiver, &link, hello_within).await
        };
        finish(&host, &link, ended, receiver).await;
        writer.abort();
        if let Some(host) = host.upgrade() {
            host.connections.fetch_sub(1, SeqCst);
        }
    });
}

/// Runs a session from its hello to its end.
async fn serve(host: &Weak<Host>, receiver: &mut Receiver, link: &Arc<Link>, hello_within: Duration) -> Ended {
    let mut attached = false;
    let handle = |messages: &mut Vec<Message>| {
        let Some(host) = host.upgrade() else { return false };
        if !mem::replace(&mut attached, true) {
            host.attach(link);
        }
        host.received(link.id(), messages);
        true
    };
    let Some(counters) = host.upgrade().map(|host| Arc::clone(host.counters())) else { return Ended::Here };
    let ended = receiver.run(link, &counters, hello_within, handle).await;
    match host.upgrade() {
        Some(host) if attached => host.detach(link),
        _ => {}
    }
    ended
}
