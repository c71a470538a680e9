//! What can go wrong, sorted by what the caller is to do about it.

use client::TxnError;
use core::fmt;
use std::time::Duration;
use types::limits::{OBJECT_BYTES_MAX, TXN_BYTES_MAX};
use types::{GoodbyeReason, ObjectId, Refusal, TxnId};

pub use types::Caller;

/// What an operation of this library gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What lies behind an error, for people.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why something was not done. [`Error::caller`] says what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The transaction has read what others have changed since. It has no effect; `transact` begins it again.
    Doomed,
    /// The store refused the commit. It has no effect; `transact` tries again where that can help.
    Refused(Refusal),
    /// The transaction was tried again and again, and others were faster each time. One that reads a large map from one end
    /// to the other while others write to it all the time ends so: read such a map in parts, a range of keys in each
    /// transaction. Each part is of one moment then, and the whole is not.
    #[non_exhaustive]
    Contended {
        /// How often it was tried.
        tries: u32,
        /// For how long.
        waited: Duration,
        /// What the last try ended with.
        last: Box<Error>,
    },
    /// A transaction was begun inside of another one on the same database.
    Nested,
    /// The database was closed, by this handle or by another one to the same database.
    Closed,
    /// The process has forked since the database was opened: the child has neither its threads nor its connection.
    Forked,
    /// The transaction has ended: its handle is of no use any more.
    Ended,
    /// The cursor was used in another transaction before: what it has read is that one's.
    CursorOfAnother,
    /// The transaction writes more than one transaction may.
    TransactionTooLarge,
    /// The object is larger than an object can be.
    ObjectTooLarge(usize),
    /// The key of a map is longer than a key can be.
    KeyTooLong(usize),
    /// The store has no room.
    StoreFull,
    /// The store could not be reached, or has not answered, for as long as the client is patient.
    Unreachable,
    /// The store has ended the session for good.
    SessionEnded(GoodbyeReason, String),
    /// The database has stopped in this process, because of this: its disk has failed, or a part of it has panicked. What
    /// was committed is safe.
    Stopped(String),
    /// The commit was sent, and the store can no longer say whether it took effect.
    OutcomeUnknown(TxnId),
    /// The object is gone: it was deleted, or the transaction that created it had no effect. Its place may be another
    /// object's now.
    NoSuchObject(ObjectId),
    /// The object was written in another format than this version reads.
    #[non_exhaustive]
    Format {
        /// The object.
        object: ObjectId,
        /// Its format.
        format: u8,
    },
    /// Something else is stored than was asked for.
    #[non_exhaustive]
    WrongKind {
        /// What was looked at: an object, or a name.
        what: String,
        /// What it is.
        stored: String,
        /// What was asked for.
        asked: String,
        /// What it lacks, if it could have been that.
        why: Option<String>,
    },
    /// The value cannot be stored: its `Serialize` says so, or its `Deserialize` could not read it back.
    #[non_exhaustive]
    Encode {
        /// The type.
        type_name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The object holds what this library would never have written there.
    #[non_exhaustive]
    Damaged {
        /// The object.
        object: ObjectId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A store could not be opened, or a server not be reached.
    Open(String),
    /// An error of the application: the transaction was aborted and has no effect.
    Application(Cause),
}

impl Error {
    /// Wraps an error of the application, to end a transaction with it.
    ///
    /// ```
    /// # use objects as thorp;
    /// let error = thorp::Error::application("the account is overdrawn");
    /// assert_eq!(error.to_string(), "the account is overdrawn");
    /// ```
    pub fn application(error: impl Into<Cause>) -> Self {
        Self::Application(error.into())
    }

    /// What the caller is to do; `None` for the application's own errors.
    pub fn caller(&self) -> Option<Caller> {
        Some(match self {
            Self::Doomed | Self::Contended { .. } => Caller::Retry,
            Self::Refused(refusal) => refusal.caller(),
            Self::StoreFull => Caller::MakeRoom,
            Self::Unreachable | Self::SessionEnded(..) | Self::Stopped(_) | Self::Closed | Self::Forked => {
                Caller::Reconnect
            }
            Self::OutcomeUnknown(_) => Caller::Look,
            Self::Damaged { .. } => Caller::Repair,
            Self::Application(_) => return None,
            _ => Caller::Correct,
        })
    }

    pub(crate) fn wrong_kind(
        what: impl Into<String>,
        stored: impl Into<String>,
        asked: impl Into<String>,
        why: Option<String>,
    ) -> Self {
        Self::WrongKind { what: what.into(), stored: stored.into(), asked: asked.into(), why }
    }

    pub(crate) fn damaged(object: ObjectId, what: &'static str) -> Self {
        Self::Damaged { object, what }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doomed => write!(f, "others have changed what the transaction read: begin it again"),
            Self::Refused(refusal) => write!(f, "the commit was refused: {refusal}"),
            Self::Contended { tries, waited, last } => {
                write!(f, "gave up after {tries} tries in {waited:.1?}; the last one: {last}")
            }
            Self::Ended => write!(f, "the transaction has ended: begin another"),
            Self::Nested => {
                write!(f, "a transaction was begun inside of another one: do both with the outer one's 'tx'")
            }
            Self::Closed => write!(f, "the database was closed: open it again"),
            Self::Forked => write!(f, "the database was opened before this process forked: open it again in the child"),
            Self::CursorOfAnother => {
                write!(f, "the cursor belongs to another transaction: make one in each transaction, inside its closure")
            }
            Self::TransactionTooLarge => {
                write!(f, "the transaction writes more than {} MiB: split it", TXN_BYTES_MAX >> 20)
            }
            Self::ObjectTooLarge(bytes) => {
                write!(f, "an object of {bytes} bytes is larger than the limit of {} MiB", OBJECT_BYTES_MAX >> 20)
            }
            Self::KeyTooLong(bytes) => {
                write!(f, "a key of {bytes} bytes is longer than the limit of {}", crate::key::KEY_BYTES_MAX)
            }
            Self::StoreFull => write!(f, "the store is full: free space on its disk, or give it a larger one"),
            Self::Unreachable => write!(
                f,
                "the store has not answered for as long as this client waits: is it running, and the network up?"
            ),
            Self::SessionEnded(reason, text) => write!(f, "the store ended the session ({}): {text}", reason.name()),
            Self::Stopped(why) => {
                write!(f, "the database has stopped: {why}; what was committed is safe: open it again")
            }
            Self::OutcomeUnknown(txn) => write!(f, "whether transaction {txn:?} took effect is not known: look"),
            Self::NoSuchObject(object) => {
                write!(f, "object {object} is gone: it was deleted, or the transaction that created it had no effect")
            }
            Self::Format { object, format } => {
                let ours = crate::value::FORMAT;
                write!(f, "object {object} is in format {format}, and this version reads format {ours}: ")?;
                write!(f, "dump the store with the version that wrote it, and load it with this one")
            }
            Self::WrongKind { what, stored, asked, why } => {
                write!(f, "{what} is {stored}, and {asked} was asked for")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::Encode { type_name, why } => write!(f, "a value of type {type_name} cannot be stored: {why}"),
            Self::Damaged { object, what } => {
                write!(f, "object {object} is damaged ({what}): check the store with 'thorp doctor'")
            }
            Self::Open(text) => write!(f, "{text}"),
            Self::Application(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Contended { last, .. } => Some(last),
            Self::Application(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl Error {
    /// What the client says, for the application.
    pub(crate) fn of_client(error: TxnError) -> Self {
        match error {
            TxnError::Doomed => Self::Doomed,
            TxnError::TooLarge => Self::TransactionTooLarge,
            TxnError::Ended => Self::Ended,
            TxnError::Unreachable => Self::Unreachable,
            TxnError::Refused(reason, text) => Self::SessionEnded(reason, text),
            TxnError::Stopped(why) => Self::Stopped(why),
            TxnError::StoreFull => Self::StoreFull,
        }
    }
}
