//! Connections between neighbours: the members of a group send each other pages directly.
//!
//! ```text
//!   requester's host                                          helper's host
//!     a redirector has welcomed its client:
//!     takes neighbours, and says where -- Reachable, Help -->   Output::Dial
//!     taken  <---------- connects: PeerHello, PeerPage * ------ at once, or never: then by way of the redirector
//! ```
//! 1. Neighbours are taken where the redirector is reached from: on the address of the uplink's own socket. That is no
//!    wider a door than the redirector's, which listens beyond its machine only if it is told that the network is
//!    trusted; and what comes in is taken only for what was asked for, by the number of its fetch.
//! 2. Who sends pages opens the connection, and nothing but `Goodbye` comes back on it.
//! 3. The machine at the other end may vanish without a word. The system finds that out, since no message would.

use crate::connection::{Connection, Peer, Why};
use crate::host::Host;
use crate::link::Link;
use crate::server::Door;
use crate::socket::Socket;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use types::limits::PEERS_MAX;
use types::{ClientId, Time};

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
    /// Takes neighbours on the address of the uplink's socket. Gives where, if that is news: the empty address if they
    /// cannot be taken.
    pub(crate) fn take_neighbours(&self, uplink: &Socket) -> Option<String> {
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
        let taken = TcpListener::bind(address).and_then(|listener| self.take_at(listener, self.neighbours()));
        let Ok((address, task)) = taken else {
            self.counters().refused("peer_listen_failed");
            return Some(String::new());
        };
        *taking = Some(Taking { ip: address.ip(), task });
        Some(address.to_string())
    }

    fn neighbours(&self) -> Door {
        Door {
            link: node::Link::FromPeer,
            hello_within: HELLO_WITHIN,
            connections_max: PEERS_MAX,
            connections: Arc::clone(&self.peers.connections),
            full: "no more neighbours are taken here",
            silence: Some(SILENCE),
        }
    }

    /// Opens a connection to a neighbour, and tells the node what comes of it.
    pub(crate) fn dial_peer(&self, peer: ClientId, address: String) {
        self.runtime().spawn(reach(self.weak(), peer, address));
    }
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
