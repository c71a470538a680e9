//! Why a connection to the database is given up. The watcher goes on with another one; until then commits wait.

use crate::refusal::StreamError;
use std::{fmt, io};

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
    /// An address that asks for TLS.
    Tls,
    /// Something else was sent than was asked for.
    Unexpected(&'static str),
    /// The stream makes no sense.
    Stream(StreamError),
    /// The server has ended the stream.
    Ended,
    /// Nothing was heard for too long.
    Silent,
    /// Nothing was heard of the hub for so long that it may have given updates up.
    HubSilent,
    /// The hub of this process has ended.
    Hub,
}

impl From<io::Error> for WatchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
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
            Self::Tls => {
                f.write_str("there is no TLS to the database yet: use sslmode=disable on a network that you trust")
            }
            Self::Unexpected(what) => write!(f, "the database has sent {what}"),
            Self::Stream(error) => write!(f, "the stream of changes: {error}"),
            Self::Ended => f.write_str("the database has ended the connection"),
            Self::Silent => f.write_str("nothing was heard of the database for too long"),
            Self::HubSilent => f.write_str("nothing was heard of the hub for too long"),
            Self::Hub => f.write_str("the hub of this process has ended"),
        }
    }
}

impl std::error::Error for WatchError {}
