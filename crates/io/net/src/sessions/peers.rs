//! Connections between peers: the members of a group send each other pages directly.
//!
//! ```text
//!   requester's host                                          helper's host
//!     a redirector has welcomed its client:
//!     takes peers, and says where -- Reachable, Help -->   Output::Dial
//!     taken  <----- connects: PeerHello{key}, PeerPage * ------ at once, or never: then by way of the redirector
//! ```
//! 1. Peers are taken where the redirector is reached from: on the address of the upstream session's own socket. That
//!    is no wider a door than the redirector's, which listens beyond its machine only if it is told that the network is
//!    trusted. Nobody is let in without the key, which the redirector gives to whom it asks for help; and what comes in
//!    is taken only for what was asked for, by the number of its fetch. Connections are not encrypted, so an
//!    eavesdropper has the key too.
//! 2. The member that sends pages opens the connection, and nothing but `Goodbye` comes back on it.
//! 3. The machine at the other end may vanish without a word. The system finds that out, since no message would.

use crate::host::link::{Filter, Link};
use crate::sessions::host::{Host, Peers};
use crate::sessions::listen::Acceptor;
use crate::sessions::peer_family::{Admit, PeerFamily};
use crate::threads::serving::Serving;
use crate::transport::connection::Connection;
use crate::transport::receiver::Ended;
use machine::{Event, Goodbye, Link as Id, Parcel, Port, RoleId};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use types::limits::PEERS_MAX;
use types::{ClientId, PeerKey};

/// How long it may take to connect to a peer. Its pages go by way of the redirector in the meantime.
const DIAL_WITHIN: Duration = Duration::from_secs(1);

/// How long a peer that has connected may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(2);

/// How long a peer's machine may be unheard of.
const SILENCE: Duration = Duration::from_secs(6);

/// Lets those in who would send our client pages and show this key with their first message. Its machine learns of them
/// with it.
#[derive(Debug)]
struct KeyFilter {
    key: PeerKey,
    admit: Admit,
}

impl Filter for KeyFilter {
    fn is_known_at_once(&self) -> bool {
        false
    }

    fn check(&self, _: &Link, message: &Parcel, is_first: bool, _: &mut Vec<Event>) -> Result<(), Ended> {
        if !is_first {
            return Ok(());
        }
        (self.admit)(self.key, message).map_err(|Goodbye { reason, text }| Ended::Refused(reason.name(), reason, text))
    }
}

/// Looks at what a peer says whom our client sends pages to: it has nothing to say.
#[derive(Debug)]
struct RequesterFilter;

impl Filter for RequesterFilter {}

impl Host {
    /// Takes peers on the address of the upstream session's socket, with a new key. Tells where, if that is news: the
    /// empty address if they cannot be taken.
    pub(super) fn take_peers(&self, role: RoleId, upstream: &Connection) -> Option<Event> {
        let family = *self.sessions(role).family.get()?;
        // A connection without an address has ended.
        let mut address = upstream.local_address().ok()?;
        let mut taking = self.sessions(role).peers.lock();
        if taking.as_ref().is_some_and(|taking| taking.ip == address.ip()) {
            return None;
        }
        if let Some(old) = taking.take() {
            old.task.abort();
        }
        address.set_port(0);
        let Ok((key, address, task)) = self.take_peers_at(role, family, address) else {
            self.core.counters().refused("peer_listen_failed");
            return Some(Event::Reachable(String::new(), PeerKey::default()));
        };
        *taking = Some(Peers { ip: address.ip(), task });
        Some(Event::Reachable(address.to_string(), key))
    }

    fn take_peers_at(
        &self,
        role: RoleId,
        family: PeerFamily,
        address: SocketAddr,
    ) -> io::Result<(PeerKey, SocketAddr, AbortHandle)> {
        let key = draw_key()?;
        let (address, task) = self.take_at(TcpListener::bind(address)?, self.peer_acceptor(role, family, key))?;
        Ok((key, address, task))
    }

    fn peer_acceptor(&self, role: RoleId, PeerFamily { codec, admit }: PeerFamily, key: PeerKey) -> Acceptor {
        Acceptor {
            role,
            port: Port::FromPeer,
            codec,
            filter: Arc::new(KeyFilter { key, admit }),
            hello_within: HELLO_WITHIN,
            connections_max: PEERS_MAX,
            connections: Arc::clone(&self.sessions(role).peer_count),
            full: "no more peers are taken here",
            silence: Some(SILENCE),
            beside: Vec::new(),
        }
    }

    /// Opens a connection of a machine to a peer, and tells it what comes of that.
    pub(super) fn dial_peer(&self, role: RoleId, peer: ClientId, address: String) {
        let link = Id { role, port: Port::ToPeer(peer) };
        self.core.spawn(reach(self.weak(), link, address));
    }
}

/// A key that nobody guesses: from the system, as it is made for that.
fn draw_key() -> io::Result<PeerKey> {
    let mut bytes = [0; PeerKey::BYTES];
    // So few bytes are given whole.
    let drawn = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if drawn == bytes.len() { Ok(PeerKey::new(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Connects to a peer, and serves the connection to its end.
async fn reach(host: Weak<Host>, link: Id, address: String) {
    let dialed = timeout(DIAL_WITHIN, TcpStream::connect(&address)).await;
    let mut serving = {
        let Some(host) = host.upgrade() else { return };
        let dialed = dialed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let Ok(serving) = dialed.and_then(|stream| begin(&host, link, stream)) else {
            return host.core.lead_in_task(host.core.drive(link.role, [Event::Down(link.port)]));
        };
        serving
    };
    let ended = serving.run(None).await;
    if let Some(core) = serving.link().core().upgrade() {
        core.detach(serving.link().id());
    }
    serving.finish(ended).await;
}

/// Makes a stream the link to a peer.
fn begin(host: &Host, link: Id, stream: TcpStream) -> io::Result<Serving> {
    let family = host.sessions(link.role).family.get().ok_or(io::ErrorKind::Unsupported)?;
    let (codec, filter) = (family.codec, Arc::new(RequesterFilter));
    let serving = host.runtime.open(&host.core, link, codec, stream.into_std()?, filter, Some(SILENCE))?;
    host.core.attach(link, serving.link().connection());
    Ok(serving)
}
