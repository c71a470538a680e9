//! A server: takes connections, shakes hands with their clients, and is stopped gracefully.

use super::connection::Connection;
use super::counters::{Ended, Tally};
use super::handshake::{Handshake, Session, Step, greeting};
use super::limits::{CONNECTIONS_MAX, HANDSHAKE_WITHIN, NAME_BYTES_MAX, OPTION_BYTES_MAX};
use super::listen::{Address, Door};
use super::presence::Presence;
use super::shared::{Export, Shared};
use net::ListenError;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno as SystemError;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a server is run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: Vec<Address>,
    /// Whether to listen where others than this machine can reach: nothing is encrypted and nobody is asked who they
    /// are.
    pub insecure: bool,
    /// Connections with an export at a time.
    pub connections_max: usize,
    /// The time that a client has for its handshake.
    pub handshake_within: Duration,
}

impl ServerConfig {
    /// A server at one address, with the usual limits.
    pub fn new(listen: Address) -> Self {
        Self {
            listen: vec![listen],
            insecure: false,
            connections_max: CONNECTIONS_MAX,
            handshake_within: HANDSHAKE_WITHIN,
        }
    }
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    /// Told when the server is stopped.
    end: Arc<OwnedFd>,
    acceptors: Vec<JoinHandle<()>>,
}

/// The counts of a server.
#[derive(Clone)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// Counts of what was served and refused since the start.
    pub fn tally(&self) -> Tally {
        self.0.counters.tally()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.0.connections()
    }
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// An address cannot be taken, or could be reached by others and that was not wanted.
    ///
    /// # Panics
    /// If the name of an export is longer than any client can say.
    pub fn start(config: &ServerConfig, exports: Vec<Export>) -> Result<Self, ListenError> {
        assert!(exports.iter().all(|export| export.name.len() <= NAME_BYTES_MAX), "a name that no client can say");
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from);
        let end = Arc::new(end.map_err(|error| ListenError::Socket(Path::new("an event").into(), error))?);
        let shared = Arc::new(Shared::new(exports));
        let mut server = Self { shared, addresses: Vec::new(), end, acceptors: Vec::new() };
        for address in &config.listen {
            let door = Door::open(address, config.insecure)?;
            server.addresses.push(door.address());
            let shared = Arc::clone(&server.shared);
            let acceptor = Acceptor { config: config.clone(), shared };
            let end = Arc::clone(&server.end);
            let accept = move || door.accept_until(end.as_fd(), |socket| acceptor.take(socket));
            let started = thread::Builder::new().name("nbd-accept".to_owned()).spawn(accept);
            server.acceptors.push(started.map_err(|error| address.refused(error))?);
        }
        Ok(server)
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its counts, for somebody who does not serve.
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Counts of what was served and refused since the start.
    pub fn tally(&self) -> Tally {
        self.shared.counters.tally()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Takes no connections and reads no requests any more, finishes what is under way, and waits so long for it. Says
    /// whether all was finished.
    pub fn stop(mut self, within: Duration) -> bool {
        self.end();
        self.shared.wait(within)
    }

    fn end(&mut self) {
        if self.shared.is_stopping() {
            return;
        }
        // It cannot fail: nothing else is ever written there.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        for thread in self.acceptors.drain(..) {
            let _ = thread.join();
        }
        for address in &self.addresses {
            if let Address::Unix(path) = address {
                // Somebody may have removed it.
                let _ = std::fs::remove_file(path);
            }
        }
        self.shared.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Takes the connections of one address.
#[derive(Clone)]
struct Acceptor {
    config: ServerConfig,
    shared: Arc<Shared>,
}

impl Acceptor {
    /// Begins a connection, or refuses it for want of room.
    fn take(&self, socket: OwnedFd) {
        let counters = &self.shared.counters;
        counters.connections.fetch_add(1, Relaxed);
        let presence = Arc::new(Presence::new(socket));
        let number = match self.shared.admit(&presence, self.config.connections_max) {
            Ok(number) => number,
            Err(why) => return counters.ended(why),
        };
        let it = self.clone();
        let begin = move || match it.shake_hands(number, presence.as_fd()) {
            Ok((session, received)) => Connection::serve(it.shared, number, presence, session, received),
            Err(why) => it.shared.turn_away(number, why),
        };
        if thread::Builder::new().name("nbd".to_owned()).spawn(begin).is_err() {
            self.shared.turn_away(number, Ended::NoThread);
        }
    }

    /// Agrees with a client on an export. Bytes that have been received beyond that are in the result.
    fn shake_hands(&self, number: u64, socket: BorrowedFd<'_>) -> Result<(Session, Vec<u8>), Ended> {
        let until = Instant::now() + self.config.handshake_within;
        let mut handshake = Handshake::default();
        let (mut input, mut output) = (Vec::with_capacity(OPTION_BYTES_MAX + 64), greeting().to_vec());
        loop {
            write_all(socket, &output, until)?;
            output.clear();
            let (used, step) = handshake.advance(&*self.shared, &input, &mut output);
            input.drain(..used);
            match step {
                Step::More if output.is_empty() => self.receive(socket, &mut input, until)?,
                Step::More => {}
                Step::Transmission(session) => {
                    self.shared.open(number, self.config.connections_max)?;
                    // Requests of clients that are gone take effect before this client is let in, or never.
                    if !self.shared.settle_gone(until) {
                        return Err(Ended::Slow);
                    }
                    write_all(socket, &output, until)?;
                    for direction in [Timeout::Recv, Timeout::Send] {
                        set_socket_timeout(socket, direction, None).map_err(|_| Ended::Closed)?;
                    }
                    return Ok((session, input));
                }
                Step::Ended(why) => {
                    // The client hears why, if it listens.
                    let _ = write_all(socket, &output, until);
                    return Err(why);
                }
            }
        }
    }

    fn receive(&self, socket: BorrowedFd<'_>, input: &mut Vec<u8>, until: Instant) -> Result<(), Ended> {
        set_timeout(socket, Timeout::Recv, until)?;
        input.reserve(1);
        match recv(socket, spare_capacity(input), RecvFlags::empty()) {
            _ if self.shared.is_stopping() => Err(Ended::Stopped),
            Ok((_, 0)) => Err(Ended::Closed),
            Ok(_) | Err(SystemError::INTR) => Ok(()),
            Err(SystemError::AGAIN) => Err(Ended::Slow),
            Err(_) => Err(Ended::Closed),
        }
    }
}

/// Sends all of it, within the time.
fn write_all(socket: BorrowedFd<'_>, mut bytes: &[u8], until: Instant) -> Result<(), Ended> {
    while !bytes.is_empty() {
        set_timeout(socket, Timeout::Send, until)?;
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(SystemError::INTR) => {}
            Err(SystemError::AGAIN) => return Err(Ended::Slow),
            Err(_) => return Err(Ended::Closed),
        }
    }
    Ok(())
}

/// Has a call on the socket end in time.
fn set_timeout(socket: BorrowedFd<'_>, direction: Timeout, until: Instant) -> Result<(), Ended> {
    // No time at all would mean to wait for ever.
    let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(Ended::Slow)?;
    set_socket_timeout(socket, direction, Some(left)).map_err(|_| Ended::Closed)
}
