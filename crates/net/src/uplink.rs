//! Opens a session, and opens it again whenever it is lost.
//!
//! ```text
//!   Connecting --connected, welcomed--> Up --lost--> Down --after a pause--> (again) --> Up
//!        |                                            ^ |
//!        +-- no server, or no Thorp store ------------+ +-- refused for good --> Over
//! ```

use crate::assist::Assist;
use crate::connection::{Connection, Ended, Peer, Why};
use crate::host::Host;
use crate::link::Link;
use crate::socket::Socket;
use protocol::{Goodbye, Message};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use types::GoodbyeReason;
use wire::WireError;

/// How a store is reached.
#[derive(Clone, Debug)]
pub struct UplinkConfig {
    /// Where it may be, as `host:port`; tried in turn.
    pub addresses: Vec<String>,
    /// How long one attempt may take, until the store has answered.
    pub attempt_within: Duration,
    /// The pause after the first failure; it doubles with every further one.
    pub pause_min: Duration,
    /// The longest pause. Each is drawn between half and all of its length, so that the clients of a store that
    /// restarts do not come back all at once.
    pub pause_max: Duration,
}

impl UplinkConfig {
    /// Reaches a store at one address.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            addresses: vec![address.into()],
            attempt_within: Duration::from_secs(5),
            pause_min: Duration::from_millis(10),
            pause_max: Duration::from_secs(2),
        }
    }
}

/// How it stands with the uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UplinkState {
    /// Nothing has come of it yet.
    Connecting,
    /// The store at this address has welcomed us.
    Up(String),
    /// It is tried again.
    Down(ConnectError),
    /// It is not tried again.
    Over(ConnectError),
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody answers at the address.
    NoServer {
        /// The address, or all that were tried.
        address: String,
        /// What the system says.
        why: String,
    },
    /// Something answers that is no Thorp store.
    NotThorp {
        /// The address.
        address: String,
        /// How that shows.
        why: String,
    },
    /// The store does not want the session.
    Refused {
        /// The address.
        address: String,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
    /// The session was there, and the connection broke.
    Lost {
        /// The address.
        address: String,
        /// What the system says.
        why: String,
    },
}

impl ConnectError {
    /// Whether it will be the same next time.
    fn is_final(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.is_final())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer { address, why } => write!(f, "no server at {address}: {why}"),
            Self::NotThorp { address, why } => write!(f, "what answers at {address} is no Thorp store: {why}"),
            Self::Refused { address, reason, text } => {
                write!(f, "the store at {address} refuses the session ({}): {text}", reason.name())
            }
            Self::Lost { address, why } => write!(f, "lost the connection to the store at {address}: {why}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// What a host knows of its uplink.
#[derive(Debug)]
pub(crate) struct Uplink {
    state: watch::Sender<UplinkState>,
    /// Why either end has ended the session, until the uplink's task has taken note.
    last_word: Mutex<Option<(GoodbyeReason, String)>>,
    /// How a thread of the application's reads, while there is a connection.
    assist: Mutex<Option<Arc<Assist>>>,
}

impl Uplink {
    pub(crate) fn new() -> Self {
        let state = watch::Sender::new(UplinkState::Connecting);
        Self { state, last_word: Mutex::default(), assist: Mutex::default() }
    }

    /// One of the two ends has ended the session. The first word counts: the second is an answer to it.
    pub(crate) fn hung_up(&self, reason: GoodbyeReason, text: &str) {
        self.last_word().get_or_insert_with(|| (reason, text.to_owned()));
    }

    fn last_word(&self) -> MutexGuard<'_, Option<(GoodbyeReason, String)>> {
        self.last_word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread that waits for something else than this uplink's socket may have to look up.
    pub(crate) fn kick(&self) {
        if let Some(assist) = &*self.assisting() {
            assist.kick();
        }
    }

    /// Reads on the caller's thread until `woken`, if there is a connection that no other thread of the application's
    /// reads.
    pub(crate) fn assist(&self, host: &Host, woken: &dyn Fn() -> bool) {
        let assist = self.assisting().clone();
        if let Some(assist) = assist {
            assist.run(host, woken);
        }
    }

    fn set_assist(&self, assist: Option<Arc<Assist>>) {
        let old = std::mem::replace(&mut *self.assisting(), assist);
        if let Some(old) = old {
            old.kick();
        }
    }

    fn assisting(&self) -> MutexGuard<'_, Option<Arc<Assist>>> {
        self.assist.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches what comes in for how the session stands.
    pub(crate) fn heard(&self, address: &str, message: &Message) {
        match message {
            Message::Welcome(_) => drop(self.state.send_replace(UplinkState::Up(address.to_owned()))),
            Message::Goodbye(Goodbye { reason, text }) => self.hung_up(*reason, text),
            _ => {}
        }
    }

    fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), UplinkState::Up(_))
    }
}

impl Host {
    /// Opens a session with a store, and again whenever it is lost, until the host is no more or the store refuses for
    /// good. [`Host::connected`] tells what comes of it.
    pub fn connect(&self, config: UplinkConfig) {
        let (host, mut end) = (self.weak(), self.watch_end());
        self.runtime().spawn(async move {
            tokio::select! {
                () = run(host, config) => {}
                _ = end.changed() => {}
            }
        });
    }

    /// How it stands with the uplink.
    pub fn uplink_state(&self) -> UplinkState {
        self.uplink.state.borrow().clone()
    }

    /// Waits until the store has welcomed us, for at most `within` after the first attempt at every address: zero
    /// means that they are tried once. What is no Thorp store, or refuses for good, is told at once.
    ///
    /// On any executor: the time is kept by a task of the host's runtime.
    pub async fn connected(&self, within: Duration) -> Result<(), ConnectError> {
        let (tell, told) = oneshot::channel();
        let state = self.uplink.state.subscribe();
        self.runtime().spawn(async move {
            // Who does not wait any more does not want to know.
            let _ = tell.send(come_up(state, within).await);
        });
        told.await.unwrap_or_else(|_| Err(given_up()))
    }

    /// The same on a thread that may wait.
    pub fn wait_connected(&self, within: Duration) -> Result<(), ConnectError> {
        self.runtime().block_on(self.connected(within))
    }
}

async fn come_up(mut state: watch::Receiver<UplinkState>, within: Duration) -> Result<(), ConnectError> {
    if state.wait_for(|state| *state != UplinkState::Connecting).await.is_err() {
        return Err(given_up());
    }
    let deadline = Instant::now() + within;
    loop {
        let why = match state.borrow_and_update().clone() {
            UplinkState::Up(_) => return Ok(()),
            UplinkState::Over(why) | UplinkState::Down(why @ ConnectError::NotThorp { .. }) => return Err(why),
            UplinkState::Down(why) => why,
            UplinkState::Connecting => unreachable!("it is left only once"),
        };
        match timeout_at(deadline, state.changed()).await {
            Ok(changed) => changed.map_err(|_| given_up())?,
            Err(_) => return Err(why),
        }
    }
}

/// What becomes of an attempt whose host has gone.
fn given_up() -> ConnectError {
    ConnectError::NoServer { address: "any address".into(), why: "the client has ended before".into() }
}

async fn run(host: Weak<Host>, config: UplinkConfig) {
    let mut pause = config.pause_min;
    loop {
        let (why, was_up) = match timeout(config.attempt_within, dial(&config.addresses)).await {
            Ok(Ok((stream, address))) => serve(&host, stream, &address, &config).await,
            Ok(Err(why)) => (why, false),
            Err(_) => {
                let why = format!("no answer within {} ms", config.attempt_within.as_millis());
                (ConnectError::NoServer { address: config.addresses.join(", "), why }, false)
            }
        };
        let is_final = why.is_final();
        let Some(host) = host.upgrade() else { return };
        host.uplink.state.send_replace(if is_final { UplinkState::Over(why) } else { UplinkState::Down(why) });
        drop(host);
        if is_final {
            return;
        }
        pause = if was_up { config.pause_min } else { pause };
        sleep(draw(pause)).await;
        pause = (pause * 2).min(config.pause_max);
    }
}

/// A length between half and all of `pause`.
fn draw(pause: Duration) -> Duration {
    // The standard library's hasher is the nearest randomness: each is keyed anew.
    let random = RandomState::new().hash_one(()) % 1024;
    pause / 2 + pause * random as u32 / 2048
}

/// Connects to the first address that takes us.
async fn dial(addresses: &[String]) -> Result<(TcpStream, String), ConnectError> {
    let mut why = String::from("no address is given");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok((stream, address.clone())),
            Err(error) => why = describe(&error),
        }
    }
    Err(ConnectError::NoServer { address: addresses.join(", "), why })
}

/// The system's words without its numbers.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        io::ErrorKind::TimedOut => "timed out".into(),
        _ => error.to_string(),
    }
}

/// Runs a session to its end; gives why it ended and whether it ever was one.
async fn serve(host: &Weak<Host>, stream: TcpStream, address: &str, config: &UplinkConfig) -> (ConnectError, bool) {
    let begun = {
        let Some(host) = host.upgrade() else { return (lost(address, "the client is gone"), false) };
        begin(&host, stream, address)
    };
    let (connection, why) = match begun {
        Ok(begun) => begun,
        Err(error) => return (lost(address, &describe(&error)), false),
    };
    let ended = connection.run(why, config.attempt_within).await;
    let (mut said, mut was_up) = (None, false);
    if let Some(host) = host.upgrade() {
        host.uplink.set_assist(None);
        host.detach(connection.link());
        (said, was_up) = (host.uplink.last_word().take(), host.uplink.is_up());
    }
    let why = explain(address, &ended, said, was_up);
    // The next attempt does not wait for this one's last words.
    tokio::spawn(async move { connection.finish(ended).await });
    (why, was_up)
}

/// Makes a stream the host's uplink.
fn begin(host: &Host, stream: TcpStream, address: &str) -> io::Result<(Arc<Connection>, Why)> {
    let socket = Socket::new(stream.into_std()?, host.runtime().reactor())?;
    let link = Arc::new(Link::new(node::Link::Uplink, socket, Arc::clone(host.counters())));
    let (connection, why) = Connection::new(host.weak(), link, Peer::Store(address.to_owned()));
    // A task that receives is a thread's of the application's already.
    let assist = host.runtime().reactor().map(|_| Assist::new(Arc::clone(&connection)));
    host.uplink.last_word().take();
    host.uplink.set_assist(assist.transpose()?.map(Arc::new));
    host.attach(connection.link());
    Ok((connection, why))
}

/// Why a session ended, or why it never was one.
fn explain(address: &str, ended: &Ended, said: Option<(GoodbyeReason, String)>, was_up: bool) -> ConnectError {
    let not_thorp = |why: String| ConnectError::NotThorp { address: address.to_owned(), why };
    match (ended, said) {
        (_, Some((reason, text))) => ConnectError::Refused { address: address.to_owned(), reason, text },
        (Ended::Malformed(error @ WireError::Magic { .. }), None) => not_thorp(error.to_string()),
        (Ended::Malformed(error), None) => lost(address, &error.to_string()),
        (Ended::Refused(_, _, text), None) => not_thorp(text.clone()),
        (Ended::Lost(None), None) if !was_up => not_thorp("it closes the connection without an answer".into()),
        (Ended::Lost(None), None) => lost(address, "it closed the connection"),
        (Ended::Lost(Some(error)), None) => lost(address, &describe(error)),
        (Ended::Here, None) => lost(address, "it was given up"),
    }
}

fn lost(address: &str, why: &str) -> ConnectError {
    ConnectError::Lost { address: address.to_owned(), why: why.to_owned() }
}
