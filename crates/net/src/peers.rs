//! Connections between neighbours: the members of a group send each other pages directly.
//!
//! ```text
//!   requester's host                                          helper's host
//!     a redirector has welcomed its client:
//!     takes neighbours, and says where -- Reachable, Help -->   Output::Dial
//!     taken  <----- connects: PeerHello{key}, PeerPage * ------ at once, or never: then by way of the redirector
//! ```
//! 1. Neighbours are taken where the redirector is reached from: on the address of the uplink's own socket. That is no
//!    wider a door than the redirector's, which listens beyond its machine only if it is told that the network is
//!    trusted. Nobody is let in without the key, which the redirector gives to whom it asks for help; and what comes in
//!    is taken only for what was asked for, by the number of its fetch. Connections are not encrypted, so whoever reads
//!    along has the key too.
//! 2. Who sends pages opens the connection, and nothing but `Goodbye` comes back on it.
//! 3. The machine at the other end may vanish without a word. The system finds that out, since no message would.

use crate::connection::{Connection, Incoming, Peer, Why};
use crate::host::Host;
use crate::link::Link;
use crate::server::Door;
use crate::socket::Socket;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use types::limits::PEERS_MAX;
use types::{ClientId, PeerKey, Time};

/// How long it may take to connect to a neighbour. Its pages go by way of the redirector meanwhile.
const DIAL_WITHIN: Duration = Duration::from_secs(1);

/// How long a neighbour that has connected may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(2);

/// How long a neighbour's machine may be unheard of.
const SILENCE: Duration = Duration::from_secs(6);

/// What a host knows of its neighbours' connections.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Where they are taken.
    taking: Mutex<Option<Taking>>,
    connections: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Taking {
    ip: IpAddr,
    task: AbortHandle,
}

impl Host {
    /// Takes neighbours on the address of the uplink's socket, with a new key. Tells where, if that is news: the empty
    /// address if they cannot be taken.
    pub(crate) fn take_neighbours(&self, uplink: &Socket) -> Option<Incoming> {
        // A connection without an address has ended.
        let mut address = uplink.local_address().ok()?;
        let mut taking = self.peers.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if taking.as_ref().is_some_and(|taking| taking.ip == address.ip()) {
            return None;
        }
        if let Some(old) = taking.take() {
            old.task.abort();
        }
        address.set_port(0);
        let Ok((key, address, task)) = self.take_neighbours_at(address) else {
            self.counters().refused("peer_listen_failed");
            return Some(Incoming::Reachable(String::new(), PeerKey::default()));
        };
        *taking = Some(Taking { ip: address.ip(), task });
        Some(Incoming::Reachable(address.to_string(), key))
    }

    fn take_neighbours_at(&self, address: SocketAddr) -> io::Result<(PeerKey, SocketAddr, AbortHandle)> {
        let key = draw_key()?;
        let (address, task) = self.take_at(TcpListener::bind(address)?, self.neighbours(key))?;
        Ok((key, address, task))
    }

    fn neighbours(&self, key: PeerKey) -> Door {
        Door {
            link: node::Link::FromPeer,
            key: Some(key),
            hello_within: HELLO_WITHIN,
            connections_max: PEERS_MAX,
            connections: Arc::clone(&self.peers.connections),
            full: "no more neighbours are taken here",
            silence: Some(SILENCE),
        }
    }

    /// Opens a connection to a neighbour, and tells the node what comes of it.
    pub(crate) fn dial_peer(&self, peer: ClientId, address: String) {
        self.spawn(reach(self.weak(), peer, address));
    }
}

/// A key that nobody guesses: from the system, as it is made for that.
fn draw_key() -> io::Result<PeerKey> {
    let mut bytes = [0; PeerKey::BYTES];
    // So few bytes are given whole.
    let drawn = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if drawn == bytes.len() { Ok(PeerKey::new(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Connects to a neighbour, and serves the connection to its end.
async fn reach(host: Weak<Host>, peer: ClientId, address: String) {
    let dialed = timeout(DIAL_WITHIN, TcpStream::connect(&address)).await;
    let begun = {
        let Some(host) = host.upgrade() else { return };
        let dialed = dialed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let Ok(begun) = dialed.and_then(|stream| begin(&host, peer, stream)) else {
            return host.drive_in_task(|node, now: Time| node.disconnected(now, node::Link::ToPeer(peer)));
        };
        begun
    };
    let (connection, why) = begun;
    let ended = connection.run(why, None).await;
    if let Some(host) = host.upgrade() {
        host.detach(connection.link());
    }
    connection.finish(ended).await;
}

/// Makes a stream the link to a neighbour.
fn begin(host: &Host, peer: ClientId, stream: TcpStream) -> io::Result<(Arc<Connection>, Why)> {
    let socket = Socket::new(stream.into_std()?, host.runtime().reactor())?;
    socket.give_up_after(SILENCE)?;
    let link = Arc::new(Link::new(node::Link::ToPeer(peer), socket, Arc::clone(host.counters())));
    let (connection, why) = Connection::new(host.weak(), link, Peer::Requester);
    host.attach(connection.link());
    Ok((connection, why))
}
