//! Takes connections: sessions of clients, and peers.
//!
//! ```text
//!   accepted --Hello in time--> a session, numbered --> ended: by the peer, by the machine, by a frame that is none
//!       |
//!       +-- anything else, or nothing --> Goodbye
//! ```
//! The machine learns of a connection only with its `Hello` or `PeerHello`: a connection that never says it costs a
//! socket and a small buffer for a bounded time. Where machines of several families listen at one address, the preface
//! tells whose it is: it is looked at before anything is made of the connection.

use crate::host::link::{Filter, Link};
use crate::sessions::descriptor;
use crate::sessions::host::Host;
use crate::transport::receiver::Ended;
use framing::{Codec, MAGIC, Name, Preface, Wants};
use machine::{Link as Id, Port, RoleId};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::AbortHandle;
use types::limits::SESSIONS_MAX;
use types::{GoodbyeReason, SessionId};

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long to wait before looking again at a connection of which a byte or two have come.
const PEEK_PAUSE: Duration = Duration::from_millis(20);

/// How long a new connection may take to say hello, unless something else is said.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

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
    /// The codec of the machine that serves them.
    pub codec: &'static dyn Codec,
    /// How long the machine at the other end may be unheard of, where no message would tell.
    pub silence: Option<Duration>,
}

impl ListenConfig {
    /// Listens on `address`, for this machine only, within the limits of the protocol.
    pub fn new(codec: &'static dyn Codec, address: SocketAddr) -> Self {
        Self { address, insecure: false, hello_within: HELLO_WITHIN, sessions_max: SESSIONS_MAX, codec, silence: None }
    }
}

/// Why no sessions can be taken.
#[derive(Debug)]
pub enum ListenError {
    /// The address can be reached by others, and nothing protects the connection.
    Open(SocketAddr),
    /// The system refuses the address.
    Bind(SocketAddr, io::Error),
    /// The same of a socket's file.
    Socket(PathBuf, io::Error),
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
            Self::Socket(path, error) => write!(f, "cannot listen on {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ListenError {}

/// Refuses to listen where others than this machine can reach, unless told that it does not matter.
pub fn refuse_open_network(address: SocketAddr, insecure: bool) -> Result<(), ListenError> {
    if insecure || address.ip().is_loopback() { Ok(()) } else { Err(ListenError::Open(address)) }
}

/// An address that is taken, where nobody is let in yet: for callers that must know it before there is a host.
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

/// A further family of connections that is taken at an address: of another machine, or of the same.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Its host.
    pub host: Arc<Host>,
    /// The machine.
    pub role: RoleId,
    /// Its codec, of another family than the others at the address.
    pub codec: &'static dyn Codec,
    /// The port of a connection, by its number.
    pub port: fn(SessionId) -> Port,
    /// Its connections at a time.
    pub sessions_max: usize,
    /// How long the machine at the other end may be unheard of, where no message would tell.
    pub silence: Option<Duration>,
}

/// Takes connections at a listener.
pub(super) struct Acceptor {
    /// The machine that they are for.
    pub(super) role: RoleId,
    /// The port of a connection, by its number.
    pub(super) port: fn(SessionId) -> Port,
    /// This end of the family that they carry.
    pub(super) codec: &'static dyn Codec,
    /// Looks at the messages of the connections.
    pub(super) filter: Arc<dyn Filter>,
    /// How long a new connection may take to say its first message.
    pub(super) hello_within: Duration,
    /// Connections at a time, and those that are there.
    pub(super) connections_max: usize,
    pub(super) connections: Arc<AtomicUsize>,
    /// The text for one connection too many.
    pub(super) full: &'static str,
    /// How long the machine at the other end may be unheard of, where no message would tell.
    pub(super) silence: Option<Duration>,
    /// Other machines at the same address, each with its host.
    pub(super) beside: Vec<(Weak<Host>, Acceptor)>,
}

/// Looks at what a client of our store or redirector says. The machine learns of it with its first message.
#[derive(Debug)]
struct ClientFilter(Weak<Host>);

impl Filter for ClientFilter {
    fn is_known_at_once(&self) -> bool {
        false
    }

    fn begin(&self, link: &Link, preface: &Preface) -> Result<(), Ended> {
        if preface.wants == Wants::Session {
            return Ok(());
        }
        if let Some(host) = self.0.upgrade() {
            host.tell_status(link);
        }
        Err(Ended::Here)
    }
}

impl Host {
    /// Takes sessions of a machine, a store or a redirector, at an address until the host ends; gives the address with
    /// its port.
    pub fn listen(&self, role: RoleId, config: ListenConfig) -> Result<SocketAddr, ListenError> {
        self.listen_at(role, Listener::bind(config)?)
    }

    /// The same at an address that is taken already.
    pub fn listen_at(&self, role: RoleId, listener: Listener) -> Result<SocketAddr, ListenError> {
        self.listen_with(role, listener, Vec::new())
    }

    /// The same with other machines at the address, which also take the listener's time for a hello.
    pub fn listen_with(
        &self,
        role: RoleId,
        listener: Listener,
        beside: Vec<Beside>,
    ) -> Result<SocketAddr, ListenError> {
        let Listener { config, socket } = listener;
        let hello_within = config.hello_within;
        let one = |it: Beside| {
            let acceptor = it.host.clients(it.role, it.codec, it.sessions_max);
            (it.host.weak(), Acceptor { port: it.port, hello_within, silence: it.silence, ..acceptor })
        };
        let beside: Vec<_> = beside.into_iter().map(one).collect();
        // A host listens with others once.
        let others = beside.iter().map(|(host, _)| host).filter(|host| !host.ptr_eq(&self.weak()));
        let _ = self.beside.set(others.cloned().collect());
        let acceptor = self.clients(role, config.codec, config.sessions_max);
        let acceptor = Acceptor { hello_within, silence: config.silence, beside, ..acceptor };
        let taken = self.take_at(socket, acceptor);
        Ok(taken.map_err(|error| ListenError::Bind(config.address, error))?.0)
    }

    /// Takes connections until the host ends, or the task that does it; gives the address with its port.
    pub(super) fn take_at(
        &self,
        listener: std::net::TcpListener,
        acceptor: Acceptor,
    ) -> io::Result<(SocketAddr, AbortHandle)> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((address, self.take_all(acceptor, || TcpListener::from_std(listener).map(Door::Tcp))))
    }

    /// The same at a door that is opened by the task.
    pub(super) fn take_all(
        &self,
        acceptor: Acceptor,
        open: impl FnOnce() -> io::Result<Door> + Send + 'static,
    ) -> AbortHandle {
        let (host, mut end) = (self.weak(), self.core.watch_end());
        self.core.spawn(async move {
            let Ok(door) = open() else { return };
            tokio::select! {
                () = acceptor.run(host, door) => {}
                _ = end.changed() => {}
            }
        })
    }

    /// Takes sessions of a machine like these, from clients.
    pub(super) fn clients(&self, role: RoleId, codec: &'static dyn Codec, connections_max: usize) -> Acceptor {
        Acceptor {
            role,
            port: Port::Session,
            codec,
            filter: Arc::new(ClientFilter(self.weak())),
            hello_within: HELLO_WITHIN,
            connections_max,
            connections: Arc::default(),
            full: "no more sessions are taken here",
            silence: None,
            beside: Vec::new(),
        }
    }
}

/// Where connections come in.
pub(super) enum Door {
    Tcp(TcpListener),
    /// From processes of this machine, each of which is given the descriptor first, if there is one.
    Unix(UnixListener, Option<Arc<OwnedFd>>),
}

impl Door {
    async fn accept(&self) -> io::Result<socket2::Socket> {
        match self {
            Self::Tcp(listener) => Ok(listener.accept().await?.0.into_std()?.into()),
            Self::Unix(listener, passed) => {
                let stream = listener.accept().await?.0.into_std()?;
                if let Some(passed) = passed {
                    descriptor::pass(&stream, passed)?;
                }
                Ok(stream.into())
            }
        }
    }
}

impl Acceptor {
    async fn run(self, host: Weak<Host>, door: Door) {
        let this = Arc::new(self);
        loop {
            let accepted = door.accept().await;
            let Some(host) = host.upgrade() else { return };
            match accepted {
                Ok(stream) if this.beside.is_empty() => this.take(&host, stream),
                Ok(stream) => this.choose(&host, stream),
                Err(error) => {
                    host.core.counters().refused("accept_failed");
                    // One connection that broke is its own affair; a lack of file descriptors is better waited out.
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        drop(host);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }

    /// Begins a connection with the machine that its first message is for, or with the first machine, if it is for
    /// none.
    fn choose(self: &Arc<Self>, host: &Host, stream: socket2::Socket) {
        if self.connections.fetch_add(1, SeqCst) >= self.connections_max {
            self.take(host, stream);
            self.connections.fetch_sub(1, SeqCst);
            return;
        }
        let (this, weak) = (Arc::clone(self), host.weak());
        host.core.spawn(async move {
            let family = tokio::time::timeout(this.hello_within, family(&stream)).await;
            // It stands for itself from now on.
            this.connections.fetch_sub(1, SeqCst);
            let family = family.ok().and_then(Result::ok);
            let is_its = |codec: &dyn Codec| family.is_some_and(|family| family == Name::new(codec.family()));
            let chosen = this.beside.iter().find(|(_, acceptor)| is_its(acceptor.codec));
            let (host, acceptor) = chosen.map_or((&weak, &*this), |(host, acceptor)| (host, acceptor));
            if let Some(host) = host.upgrade() {
                acceptor.take(&host, stream);
            }
        });
    }

    /// Begins a connection, or refuses it for want of room.
    fn take(&self, host: &Host, stream: socket2::Socket) {
        let number = SessionId(host.last_number.fetch_add(1, SeqCst) + 1);
        let (id, filter) = (Id { role: self.role, port: (self.port)(number) }, Arc::clone(&self.filter));
        let opened = host.runtime.open(&host.core, id, self.codec, stream, filter, self.silence);
        // A connection that is gone again already takes no options.
        let Ok(mut serving) = opened else { return };
        let (connections, hello_within, full) = (Arc::clone(&self.connections), self.hello_within, self.full);
        let is_full = connections.fetch_add(1, SeqCst) >= self.connections_max;
        host.core.spawn(async move {
            let ended = if is_full {
                Ended::Refused("full", GoodbyeReason::Full, full.into())
            } else {
                serving.run(Some(hello_within)).await
            };
            let link = serving.link();
            match link.core().upgrade() {
                Some(core) if link.is_known() => core.detach(link.id()),
                _ => {}
            }
            serving.finish(ended).await;
            connections.fetch_sub(1, SeqCst);
        });
    }
}

/// The family of a connection, by its first message, which stays there to be read.
async fn family(stream: &socket2::Socket) -> io::Result<Name> {
    let watched = TcpStream::from_std(stream.try_clone()?.into())?;
    let mut head = [0; Preface::FAMILY_BYTES];
    loop {
        match watched.peek(&mut head).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Preface::FAMILY_BYTES => return Ok(Preface::family_in(&head)),
            // The rest of it comes, or the time for a hello ends. Bytes that begin no preface are not waited for.
            bytes if head[..bytes.min(MAGIC.len())] != MAGIC[..bytes.min(MAGIC.len())] => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            _ => tokio::time::sleep(PEEK_PAUSE).await,
        }
    }
}
