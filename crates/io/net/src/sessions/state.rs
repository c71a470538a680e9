//! How it stands with a session that a host opens.

use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use types::GoodbyeReason;

/// The state of an upstream session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// Nothing has come of it yet.
    Connecting,
    /// The store or redirector at this address has welcomed us.
    Up(String),
    /// The session is tried again.
    Down(ConnectError),
    /// The session is not tried again.
    Over(ConnectError),
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// No process answers at the address.
    NoServer {
        /// The address, or the list of addresses that were tried.
        address: String,
        /// The system's words.
        why: String,
    },
    /// Something answers that is neither a Thorp store nor a redirector.
    NotThorp {
        /// The address.
        address: String,
        /// How that shows.
        why: String,
    },
    /// Something takes the connection and says nothing: a store that was stopped, or nothing of ours.
    Silent {
        /// The address.
        address: String,
        /// For how long.
        why: String,
    },
    /// The store or redirector does not want the session.
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
        /// The system's words.
        why: String,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer { address, why } => write!(f, "no server at {address}: {why}"),
            Self::NotThorp { address, why } => {
                write!(f, "what answers at {address} is not a Thorp store or redirector: {why}")
            }
            Self::Silent { address, why } => {
                write!(f, "what listens at {address} takes connections and does not answer: {why}")
            }
            Self::Refused { address, reason, text } => {
                write!(f, "the store or redirector at {address} refuses the session ({}): {text}", reason.name())
            }
            Self::Lost { address, why } => {
                write!(f, "lost the connection to the store or redirector at {address}: {why}")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

/// How it stands with a session that a host opens, for all who want to know.
#[derive(Debug)]
pub(crate) struct SessionState {
    state: watch::Sender<UpstreamState>,
    /// Its machine has closed it.
    closed: watch::Sender<bool>,
}

impl SessionState {
    pub(crate) fn new() -> Self {
        Self { state: watch::Sender::new(UpstreamState::Connecting), closed: watch::Sender::new(false) }
    }

    pub(crate) fn get(&self) -> UpstreamState {
        self.state.borrow().clone()
    }

    pub(crate) fn set(&self, state: UpstreamState) {
        self.state.send_replace(state);
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), UpstreamState::Up(_))
    }

    /// The session is opened no more.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the session is opened no more.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as this value.
        let _ = self.closed.subscribe().wait_for(|is_closed| *is_closed).await;
    }

    /// Waits for the session as [`crate::Host::connected`] does.
    pub(crate) fn come_up(&self, within: Duration) -> impl Future<Output = Result<(), ConnectError>> + use<> {
        come_up(self.state.subscribe(), within)
    }
}

async fn come_up(mut state: watch::Receiver<UpstreamState>, within: Duration) -> Result<(), ConnectError> {
    if state.wait_for(|state| *state != UpstreamState::Connecting).await.is_err() {
        return Err(given_up());
    }
    let deadline = Instant::now() + within;
    loop {
        let why = match state.borrow_and_update().clone() {
            UpstreamState::Up(_) => return Ok(()),
            UpstreamState::Over(why) | UpstreamState::Down(why @ ConnectError::NotThorp { .. }) => return Err(why),
            UpstreamState::Down(why) => why,
            UpstreamState::Connecting => unreachable!("it is left only once"),
        };
        match timeout_at(deadline, state.changed()).await {
            Ok(changed) => changed.map_err(|_| given_up())?,
            Err(_) => return Err(why),
        }
    }
}

/// The error of an attempt whose host has gone.
pub(crate) fn given_up() -> ConnectError {
    ConnectError::NoServer { address: "any address".into(), why: "this end is gone".into() }
}

/// The system's words without its numbers.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        io::ErrorKind::TimedOut => "timed out".into(),
        _ => error.to_string(),
    }
}
