//! Why a connection to the database is given up, after which the watcher continues with another one; and why a database
//! is not set up or undone.

use crate::refusal::StreamError;
use crate::tls_error::TlsError;
use coherence::Ended;
use std::{fmt, io};

/// Tables that a refusal names.
const NAMED_MAX: usize = 10;

/// Why there is no connection, or no longer.
#[derive(Debug)]
pub enum WatchError {
    /// The network.
    Io(io::Error),
    /// An ordinary query.
    Query(tokio_postgres::Error),
    /// The server refuses what it was asked for.
    Refused {
        /// Its code: five letters and digits.
        code: String,
        /// Its text.
        text: String,
    },
    /// It wants a kind of authentication that is not known here.
    Authentication,
    /// There is no TLS, and there has to be.
    Tls(TlsError),
    /// Something else was sent than was asked for.
    Unexpected(&'static str),
    /// The stream makes no sense.
    Stream(StreamError),
    /// The server has ended the stream.
    Ended,
    /// Nothing was heard for too long.
    Silent,
    /// The slot is not this watcher's any more.
    SlotLost,
    /// Another session has the lock under which watchers of this slot begin and end.
    Locked {
        /// The slot.
        slot: String,
        /// The session, if it has not let go since.
        by: Option<Locked>,
    },
    /// Nothing was learned of the hub for this long that it may have given updates up.
    HubSilent,
    /// The hub of this process has ended.
    Hub,
}

/// A session of the database that has a watcher's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Its process at the server.
    pub process: i32,
    /// The name of its application, which it chose itself: it may be empty.
    pub application: String,
    /// Its role; empty if it has none.
    pub role: String,
}

impl From<io::Error> for WatchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TlsError> for WatchError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl From<tokio_postgres::Error> for WatchError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Query(error)
    }
}

impl From<StreamError> for WatchError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<Ended> for WatchError {
    fn from(_: Ended) -> Self {
        Self::Hub
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection to the database: {error}"),
            Self::Query(error) => match error.as_db_error() {
                Some(refused) => write!(f, "the database refuses: {} ({})", refused.message(), refused.code().code()),
                None => write!(f, "the database: {error}"),
            },
            Self::Refused { code, text } => write!(f, "the database refuses: {text} ({code})"),
            Self::Authentication => {
                f.write_str("expected authentication by password, MD5 or SCRAM-SHA-256; set one of them in pg_hba.conf")
            }
            Self::Tls(error) => write!(f, "TLS to the database: {error}"),
            Self::Unexpected(what) => write!(f, "the database has sent {what}"),
            Self::Stream(error) => write!(f, "the stream of changes: {error}"),
            Self::Ended => f.write_str("the database has ended the connection"),
            Self::Silent => f.write_str("nothing was heard of the database for too long"),
            Self::SlotLost => f.write_str(
                "the server has taken the slot away: it believed this watcher gone, or somebody has ended its connection",
            ),
            Self::Locked { slot, by: Some(Locked { process, application, role }) } => write!(
                f,
                "process {process} of the database (application '{application}', role '{role}') holds the advisory lock of \
                 slot '{slot}', and keeps its watchers from beginning and ending: end that session, as with SELECT \
                 pg_terminate_backend({process})"
            ),
            Self::Locked { slot, by: None } => {
                write!(f, "another session has held the advisory lock of slot '{slot}', and has let go of it since")
            }
            Self::HubSilent => f.write_str("nothing was heard of the hub for too long"),
            Self::Hub => f.write_str("the hub of this process has ended"),
        }
    }
}

impl std::error::Error for WatchError {}

/// Why nothing was made or undone, or no more than what was said before.
#[derive(Debug)]
pub enum SetupError {
    /// The database.
    Database(WatchError),
    /// It is set up already: `remove` comes first.
    Made,
    /// It was not set up.
    NotMade,
    /// It was set up by these names.
    OtherNames {
        /// The name of the publication.
        publication: String,
        /// The name of the slot.
        slot: String,
    },
    /// A name is that of something else.
    Taken {
        /// A schema, a slot or an event trigger.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Tables whose updates would be refused if they were published.
    NoIdentity(Vec<String>),
    /// `wal_level` is not `logical`.
    WalLevel(String),
    /// The standbys cannot be named beside a watcher.
    Standbys(String),
    /// There is no role of that name.
    NoRole(String),
    /// A watcher still runs.
    Watched,
    /// It was stopped while it waited: what was made is undone.
    Stopped,
    /// The server does not read its settings again.
    NotRead,
}

impl From<WatchError> for SetupError {
    fn from(error: WatchError) -> Self {
        Self::Database(error)
    }
}

impl From<tokio_postgres::Error> for SetupError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Made => f.write_str("this database is set up already; undo that first"),
            Self::NotMade => f.write_str("this database was not set up, so there is nothing to undo"),
            Self::OtherNames { publication, slot } => {
                write!(f, "this database was set up with --slot {slot} --publication {publication}: name these")
            }
            Self::Taken { kind, name } => write!(f, "there is a {kind} called {name} already: choose another --slot"),
            Self::NoIdentity(tables) => {
                let named = tables.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = if tables.len() > NAMED_MAX { ", and others" } else { "" };
                write!(
                    f,
                    "PostgreSQL would refuse UPDATE and DELETE of tables that have no primary key and are published: \
                     {named}{more}. Say ALTER TABLE ... REPLICA IDENTITY FULL for each, or make a publication of the \
                     tables that responses are made from"
                )
            }
            Self::WalLevel(level) => {
                write!(f, "wal_level is {level}: say ALTER SYSTEM SET wal_level = logical, and start the server again")
            }
            Self::Standbys(names) => write!(
                f,
                "synchronous_standby_names is {names}, which waits for some of several; PostgreSQL has no list that says \
                 `these as before, and the watcher always`. Have all of them waited for, or none"
            ),
            Self::NoRole(role) => write!(f, "there is no role '{role}': nobody was guarded"),
            Self::Watched => f.write_str("a watcher is connected: stop it first"),
            Self::Stopped => f.write_str("stopped before it was done: everything is as before"),
            Self::NotRead => f.write_str("the server has not read its settings again within 10 s; see its log"),
        }
    }
}

impl std::error::Error for SetupError {}
