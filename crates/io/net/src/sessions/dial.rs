//! Opens a machine's upstream sessions, and opens them again whenever they are lost.
//!
//! ```text
//!   Connecting --connected, welcomed--> Up --lost--> Down --after a pause--> (again) --> Up
//!        |                                            ^ |
//!        +-- no server, or no Thorp server -----------+ +-- refused for good --> Over
//! ```

use crate::host::caller::Caller;
use crate::host::clock::Clock;
use crate::host::core::{Connector, Core};
use crate::host::link::{Filter, Link};
use crate::host::tasks::contained;
use crate::sessions::address::{self, AddressError};
use crate::sessions::descriptor::{self, TakeDescriptor};
use crate::sessions::host::Host;
use crate::sessions::peer_family::PeerFamily;
use crate::sessions::state::{ConnectError, SessionState, UpstreamState, describe, given_up};
use crate::threads::assist::Assist;
use crate::threads::serving::Serving;
use crate::transport::receiver::Ended;
use framing::{Codec, WireError, codec_of};
use machine::{Event, Goodbye, Link as Id, Machine, Parcel, Port, RoleId, Upstream, UpstreamId, Welcomed};
use session::dialer::CONNECT_WITHIN;
use session::{Attempt, Dialer, Next, Target, Times};
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use types::{ClientId, GoodbyeReason, Time};

/// How a store or a redirector is reached.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// Where it may be, as `host:port`, or `unix:` and the path of a socket; tried in turn, from the first on whenever
    /// a session was lost. A member of a group first goes where its group has gone.
    pub addresses: Vec<String>,
    /// How long one attempt may take, until there is an answer. Less, where there are other addresses to try.
    pub attempt_within: Duration,
    /// The pause after all have failed for the first time; it doubles with every further one.
    pub pause_min: Duration,
    /// The longest pause. Each is drawn between half and all of its length, so that the clients of a store that
    /// restarts do not come back all at once.
    pub pause_max: Duration,
    /// The codec of the machine that opens the session.
    pub codec: &'static dyn Codec,
    /// Its connections with peers, if it has any.
    pub peers: Option<PeerFamily>,
    /// Takes the descriptor that the other end passes, if it is one of this machine that does.
    pub takes: Option<TakeDescriptor>,
}

impl UpstreamConfig {
    /// Reaches it at one address.
    pub fn new(codec: &'static dyn Codec, address: impl Into<String>) -> Self {
        Self::of(codec, vec![address.into()])
    }

    /// Reaches it at one of the addresses that a user has written, such as `thorp://shed:7412,store:7411`.
    pub fn parse(codec: &'static dyn Codec, text: &str) -> Result<Self, AddressError> {
        Ok(Self::of(codec, address::parse(text)?))
    }

    /// Reaches it at one of several addresses.
    pub fn of(codec: &'static dyn Codec, addresses: Vec<String>) -> Self {
        Self {
            addresses,
            attempt_within: Duration::from_secs(5),
            pause_min: Duration::from_millis(10),
            pause_max: Duration::from_secs(2),
            codec,
            peers: None,
            takes: None,
        }
    }

    /// Reaches a process of this machine at a socket.
    pub fn unix(codec: &'static dyn Codec, path: &str) -> Self {
        Self::new(codec, format!("{UNIX}{path}"))
    }
}

/// The beginning of the address of a process of this machine, before the path of its socket.
const UNIX: &str = "unix:";

/// Looks at what the store or redirector says that we open a session with, for how the session stands.
#[derive(Debug)]
struct ServerFilter {
    host: Weak<Host>,
    address: String,
    state: Arc<SessionState>,
    is_welcome: AtomicBool,
    is_up: AtomicBool,
}

impl Filter for ServerFilter {
    fn check(&self, link: &Link, message: &Parcel, _: bool, events: &mut Vec<Event>) -> Result<(), Ended> {
        if let (Some(Goodbye { reason, text }), Some(core)) = (message.goodbye(), link.core().upgrade()) {
            core.last_words().say(link.id(), *reason, text);
            return Ok(());
        }
        let welcome = message.welcome();
        if welcome == Welcomed::AmongPeers
            && let Some(host) = self.host.upgrade()
        {
            events.extend(host.take_peers(link.id().role, link.connection()));
        }
        if welcome != Welcomed::Not {
            self.is_welcome.store(true, Relaxed);
        }
        Ok(())
    }

    /// The state changes after the machine has handled the welcome, so a waiting caller sees both.
    fn handled(&self) {
        if self.is_welcome.load(Relaxed) && !self.is_up.swap(true, Relaxed) {
            self.state.set(UpstreamState::Up(self.address.clone()));
        }
    }
}

impl Connector for Weak<Host> {
    fn dial(&self, role: RoleId, peer: ClientId, address: String) {
        if let Some(host) = self.upgrade() {
            host.dial_peer(role, peer, address);
        }
    }

    fn open(&self, role: RoleId, upstream: UpstreamId, server: Upstream) {
        if let Some(host) = self.upgrade() {
            host.open_upstream(role, upstream, UpstreamConfig::of(codec_of(&server), server.addresses));
        }
    }

    fn close(&self, role: RoleId, upstream: UpstreamId) {
        if let Some(host) = self.upgrade() {
            host.sessions(role).upstreams.close(upstream);
        }
    }
}

impl Host {
    /// Opens a session of a machine with its only server, and again whenever it is lost, until the host is no more or
    /// the session is refused for good. [`Host::connected`] reports the outcome. A machine with several servers opens
    /// their sessions itself ([`machine::Output::Open`]).
    pub fn connect(&self, role: RoleId, config: UpstreamConfig) {
        self.open_upstream(role, UpstreamId::ONLY, config);
    }

    fn open_upstream(&self, role: RoleId, upstream: UpstreamId, config: UpstreamConfig) {
        let state = self.sessions(role).upstreams.state(upstream);
        if let Some(family) = config.peers {
            // A machine's session is opened once.
            let _ = self.sessions(role).family.set(family);
        }
        self.core.spawn(Opener { host: self.weak(), role, upstream, state, config }.run());
    }

    /// How it stands with the session of a machine with its only server.
    pub fn server_state(&self, role: RoleId) -> UpstreamState {
        self.upstream_state(role, UpstreamId::ONLY)
    }

    /// How it stands with an upstream session of a machine; one that was closed is as one that has yet to be opened.
    pub fn upstream_state(&self, role: RoleId, upstream: UpstreamId) -> UpstreamState {
        self.sessions(role).upstreams.get(upstream)
    }

    /// Waits until the server has welcomed the machine, for at most `within` after the first attempt at every address:
    /// zero means that they are tried once. A server that is not of Thorp, or refuses for good, is told at once.
    ///
    /// On any executor: the time is kept by a task of the host's runtime.
    pub async fn connected(&self, role: RoleId, within: Duration) -> Result<(), ConnectError> {
        let (tell, told) = oneshot::channel();
        let up = self.sessions(role).upstreams.state(UpstreamId::ONLY).come_up(within);
        self.core.spawn(async move {
            // The caller may have stopped waiting.
            let _ = tell.send(up.await);
        });
        told.await.unwrap_or_else(|_| Err(given_up()))
    }

    /// The same on a thread that may wait.
    pub fn wait_connected(&self, role: RoleId, within: Duration) -> Result<(), ConnectError> {
        self.runtime.block_on(self.connected(role, within))
    }
}

/// Keeps a session open.
struct Opener {
    host: Weak<Host>,
    role: RoleId,
    upstream: UpstreamId,
    state: Arc<SessionState>,
    config: UpstreamConfig,
}

/// The errors of the addresses that were tried in this round.
#[derive(Default)]
struct Round(Vec<ConnectError>);

impl Opener {
    async fn run(self) {
        let Some(mut end) = self.host.upgrade().map(|host| host.core.watch_end()) else { return };
        let UpstreamConfig { attempt_within, pause_min, pause_max, .. } = self.config;
        let mut dialer = Dialer::new(self.config.addresses.len(), Times { attempt_within, pause_min, pause_max });
        let mut round = Round::default();
        loop {
            let attempt = dialer.attempt(|| self.way());
            let address = self.address(&attempt.target);
            let dialed = tokio::select! {
                dialed = dial(&address, attempt.connect_within, self.config.takes.as_ref()) => dialed,
                () = self.state.closed() => return,
                _ = end.changed() => return,
            };
            // Not given up with the host: a connection learns of that itself, and has to be taken leave of.
            let (mut why, was_up) = match dialed {
                Ok(stream) => self.serve(stream, &address, &attempt, &mut dialer).await,
                Err(why) => (why, false),
            };
            if self.host.strong_count() == 0 || self.state.is_closed() {
                return;
            }
            if self.is_final(&why) {
                return self.state.set(UpstreamState::Over(why));
            }
            let next = dialer.lost(was_up, || self.has_way());
            if was_up {
                round = Round::default();
            } else if let Target::Configured(_) = attempt.target {
                round.0.push(why);
                if next == Next::InTurn {
                    continue;
                }
                why = std::mem::take(&mut round).summary();
            }
            self.state.set(UpstreamState::Down(why));
            if let Next::After(pause) = next {
                tokio::select! {
                    () = sleep(draw(pause)) => {}
                    () = self.state.closed() => return,
                    _ = end.changed() => return,
                }
            }
        }
    }

    /// The address of what is tried.
    fn address(&self, target: &Target<String>) -> String {
        match target {
            Target::Named(address) => address.clone(),
            Target::Configured(place) => self.config.addresses.get(*place).cloned().unwrap_or_default(),
        }
    }

    /// The host's id of the session.
    fn link(&self) -> Id {
        Id { role: self.role, port: Port::Upstream(self.upstream) }
    }

    /// Where the machine wants to go next, if it knows better than its configuration.
    fn way(&self) -> Option<String> {
        self.ask(|machine, now| machine.way(now, self.upstream))
    }

    /// Whether the machine knows of a way that was not tried yet.
    fn has_way(&self) -> bool {
        self.ask(|machine, _| machine.has_way(self.upstream))
    }

    /// Asks the machine, if there is still a host.
    fn ask<T: Default>(&self, ask: impl FnOnce(&mut dyn Machine, Time) -> T) -> T {
        let mut answer = T::default();
        if let Some(host) = self.host.upgrade() {
            let flush = host.core.call(self.role, |hosted, now| answer = ask(hosted.machine(), now));
            host.core.lead_in_task(flush);
        }
        answer
    }

    /// Whether it is no use to try again.
    fn is_final(&self, why: &ConnectError) -> bool {
        match why {
            ConnectError::Refused { reason, .. } => !self.ask(|machine, _| machine.tries_again(self.upstream, *reason)),
            _ => false,
        }
    }

    /// Runs a session to its end. Returns the reason, and whether the session ever came up.
    async fn serve(
        &self,
        stream: socket2::Socket,
        address: &str,
        attempt: &Attempt<String>,
        dialer: &mut Dialer,
    ) -> (ConnectError, bool) {
        let begun = {
            let Some(host) = self.host.upgrade() else { return (lost(address, "this end is gone"), false) };
            self.begin(&host, stream, address)
        };
        let mut serving = match begun {
            Ok(begun) => begun,
            Err(error) => return (lost(address, &describe(&error)), false),
        };
        let ended = {
            let mut run = pin!(serving.run(Some(attempt.answer_within)));
            tokio::select! {
                ended = &mut run => ended,
                () = self.closed() => run.await,
                () = self.look_back(attempt.earlier(), dialer) => run.await,
            }
        };
        let core = serving.link().core().clone();
        let said = core.upgrade().and_then(|core| {
            self.set_caller(&core, None);
            core.detach(self.link());
            core.last_words().take(self.link())
        });
        let was_up = self.state.is_up();
        let why = explain(address, &ended, said, was_up);
        // The next attempt does not wait for the last words of this session.
        tokio::spawn(contained(core, async move { serving.finish(ended).await }));
        (why, was_up)
    }

    /// Callers read from the socket of the machine's only server, and from no other.
    fn set_caller(&self, core: &Core, caller: Option<Arc<dyn Caller>>) {
        if self.upstream == UpstreamId::ONLY {
            core.role(self.role).set_caller(caller);
        }
    }

    /// Waits until the machine closes the session. A connection that came up in the meantime ends.
    async fn closed(&self) {
        self.state.closed().await;
        if let Some(host) = self.host.upgrade() {
            host.core.end_link(self.link(), GoodbyeReason::Done, String::new());
        }
    }

    /// Looks at the addresses before the one that is used, until somebody listens there and the machine goes back.
    async fn look_back(&self, earlier: usize, dialer: &mut Dialer) {
        if earlier == 0 {
            return pending().await;
        }
        loop {
            sleep(draw(dialer.look_back())).await;
            if !self.ask(|machine, _| machine.looks_back(self.upstream)) {
                continue;
            }
            for address in &self.config.addresses[..earlier] {
                if dial(address, CONNECT_WITHIN, None).await.is_ok() {
                    self.ask(|machine, _| machine.go_back(self.upstream));
                    return;
                }
            }
        }
    }

    /// Makes a stream the host's link.
    fn begin(&self, host: &Host, stream: socket2::Socket, address: &str) -> io::Result<Serving> {
        let (address, state) = (address.to_owned(), Arc::clone(&self.state));
        let (is_welcome, is_up) = (AtomicBool::new(false), AtomicBool::new(false));
        let filter = Arc::new(ServerFilter { host: host.weak(), address, state, is_welcome, is_up });
        let link = self.link();
        let serving = host.runtime.open(&host.core, link, self.config.codec, stream, filter, None)?;
        let link = serving.link();
        // A task that receives is a thread's of the application already.
        let socket = link.connection().id().filter(|_| self.ask(|machine, _| machine.has_callers()));
        let assist = socket.map(|socket| Assist::new(Arc::clone(link), socket)).transpose()?;
        self.set_caller(&host.core, assist.map(|assist| Arc::new(assist) as Arc<dyn Caller>));
        host.core.last_words().take(self.link());
        host.core.attach(self.link(), link.connection());
        Ok(serving)
    }
}

/// A length between half and all of `pause`.
fn draw(pause: Duration) -> Duration {
    // The standard library's hasher is the nearest randomness: each is keyed again.
    let random = RandomState::new().hash_one(()) % 1024;
    pause / 2 + pause * random as u32 / 2048
}

async fn dial(
    address: &str,
    within: Duration,
    takes: Option<&TakeDescriptor>,
) -> Result<socket2::Socket, ConnectError> {
    let no_server = |why| ConnectError::NoServer { address: address.to_owned(), why };
    match timeout(within, connect(address, takes)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(NotConnected::Io(error))) => Err(no_server(describe(&error))),
        Ok(Err(NotConnected::Passed(why))) => Err(ConnectError::NotThorp { address: address.to_owned(), why }),
        Err(_) => Err(no_server(format!("no answer within {} ms", within.as_millis()))),
    }
}

enum NotConnected {
    Io(io::Error),
    /// The descriptor that it passes is not to be taken.
    Passed(String),
}

async fn connect(address: &str, takes: Option<&TakeDescriptor>) -> Result<socket2::Socket, NotConnected> {
    let Some(path) = address.strip_prefix(UNIX) else {
        let connected = TcpStream::connect(address).await.and_then(TcpStream::into_std);
        return connected.map(Into::into).map_err(NotConnected::Io);
    };
    let begun = Clock::now();
    let stream = UnixStream::connect(path).await.map_err(NotConnected::Io)?;
    if let Some(takes) = takes {
        let passed = descriptor::take(&stream, begun).await.map_err(NotConnected::Io)?;
        takes.take(passed).map_err(NotConnected::Passed)?;
    }
    stream.into_std().map(Into::into).map_err(NotConnected::Io)
}

impl Round {
    /// Why none of the addresses will do. Where somebody has answered, what he says tells more than that the others are
    /// not there.
    fn summary(self) -> ConnectError {
        let mut tried = Vec::new();
        let mut last = String::new();
        for why in self.0 {
            match why {
                ConnectError::NoServer { address, why } => {
                    tried.push(address);
                    last = why;
                }
                answered => return answered,
            }
        }
        ConnectError::NoServer { address: tried.join(", "), why: last }
    }
}

/// Why a session ended, or why it never was one.
fn explain(address: &str, ended: &Ended, said: Option<(GoodbyeReason, String)>, was_up: bool) -> ConnectError {
    let not_thorp = |why: String| ConnectError::NotThorp { address: address.to_owned(), why };
    match (ended, said) {
        (_, Some((reason, text))) => ConnectError::Refused { address: address.to_owned(), reason, text },
        (Ended::Malformed(error @ (WireError::Magic { .. } | WireError::First { .. })), None) => {
            not_thorp(error.to_string())
        }
        (Ended::Malformed(error @ WireError::OtherEnd { .. }), None) => not_thorp(error.to_string()),
        (Ended::Malformed(error @ WireError::Protocol { .. }), None) => {
            let (reason, text) = (GoodbyeReason::Protocol, error.to_string());
            ConnectError::Refused { address: address.to_owned(), reason, text }
        }
        (Ended::Malformed(error), None) => lost(address, &error.to_string()),
        (Ended::Refused("silent", _, text), None) => {
            ConnectError::Silent { address: address.to_owned(), why: text.clone() }
        }
        (Ended::Refused(_, _, text), None) => not_thorp(text.clone()),
        (Ended::Lost(None), None) if !was_up => not_thorp("it closes the connection without an answer".into()),
        // It has closed without reading everything that we say at once.
        (Ended::Lost(Some(error)), None) if !was_up && error.kind() == io::ErrorKind::ConnectionReset => {
            not_thorp("it ends the connection without an answer".into())
        }
        (Ended::Lost(None), None) => lost(address, "it closed the connection"),
        (Ended::Lost(Some(error)), None) => lost(address, &describe(error)),
        (Ended::Here, None) => lost(address, "it was given up"),
    }
}

fn lost(address: &str, why: &str) -> ConnectError {
    ConnectError::Lost { address: address.to_owned(), why: why.to_owned() }
}
