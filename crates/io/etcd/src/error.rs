//! Why a call has no answer, for the person who must act.

use std::fmt;
use std::time::Duration;

/// Why a call of etcd failed. The outcome of a transaction is then unknown.
#[derive(Debug)]
pub enum EtcdError {
    /// No connection to an endpoint.
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// The system's words.
        why: String,
    },
    /// An endpoint has not answered in time.
    Silent {
        /// The endpoint.
        endpoint: String,
        /// The time that it had.
        within: Duration,
    },
    /// etcd refuses the call.
    Refused {
        /// The endpoint.
        endpoint: String,
        /// Its words.
        why: String,
    },
    /// The server at the endpoint does not answer as etcd does.
    NotEtcd {
        /// The endpoint.
        endpoint: String,
        /// The expected answer, and how this one differs.
        why: String,
    },
    /// The client cannot work on this machine.
    System(std::io::Error),
}

impl EtcdError {
    /// Whether another endpoint may answer.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut check = |endpoint: &str, what: fmt::Arguments<'_>| {
            write!(f, "etcd at {endpoint} {what}; check it with 'curl http://{endpoint}/health'")
        };
        match self {
            Self::Unreachable { endpoint, why } => check(endpoint, format_args!("cannot be reached: {why}")),
            Self::Silent { endpoint, within } => check(endpoint, format_args!("has not answered within {within:?}")),
            Self::Refused { endpoint, why } => check(endpoint, format_args!("refuses: {why}")),
            Self::NotEtcd { endpoint, why } => {
                write!(
                    f,
                    "the server at {endpoint} does not answer as etcd 3.4 or later does: {why}; check the address"
                )
            }
            Self::System(error) => write!(f, "etcd cannot be called: {error}"),
        }
    }
}

impl std::error::Error for EtcdError {}
