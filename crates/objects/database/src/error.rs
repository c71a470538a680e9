//! The errors below every front end, sorted by what the caller should do about them.

use client::TxnError;
use std::fmt;
use types::limits::{SPACE_NAME_BYTES_MAX, SPACES_MAX, TXN_BYTES_MAX};
use types::{Caller, GoodbyeReason, ObjectId, PageId, Refusal, TxnId};

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was not done. [`Error::caller`] says what to do about it.
#[derive(Debug)]
pub enum Error {
    /// The transaction has read what others have changed since. It has no effect.
    Doomed,
    /// The store refused the commit. It has no effect.
    Refused(Refusal),
    /// A transaction was begun inside of another one's body, on the same database.
    Nested,
    /// The database was closed.
    Closed,
    /// The process has forked since the database was opened: the child has neither its threads nor its connection.
    Forked,
    /// The transaction has ended.
    Ended,
    /// The transaction writes more than one transaction may.
    TransactionTooLarge,
    /// The store has no room.
    StoreFull,
    /// The store was opened to be read only.
    ReadOnly,
    /// The store could not be reached, or has not answered, for as long as the client is patient.
    Unreachable,
    /// The store has ended the session for good.
    SessionEnded(GoodbyeReason, String),
    /// The database has stopped in this process: its disk has failed, or a part of it has panicked.
    Stopped(String),
    /// The commit was sent, and the store can no longer say whether it took effect.
    OutcomeUnknown(TxnId),
    /// A store could not be opened, or a server not be reached.
    Open(String),
    /// The store has no space of this name.
    NoSuchSpace(String),
    /// This is not a name of a space, or it is one that the registry of volumes has.
    SpaceName(String),
    /// The store has as many spaces as a store can have.
    TooManySpaces,
    /// The object holds what this library would never have written there.
    Damaged {
        /// The object.
        object: ObjectId,
        /// The damage.
        what: &'static str,
    },
    /// The store cannot read a page of its home. The transaction can use other pages.
    PageDamaged {
        /// The page.
        page: PageId,
        /// The damage, and the file that has it.
        what: String,
    },
}

impl Error {
    /// The class of the error, by what the caller should do.
    pub fn caller(&self) -> Caller {
        match self {
            Self::Doomed => Caller::Retry,
            Self::Refused(refusal) => refusal.caller(),
            Self::StoreFull => Caller::MakeRoom,
            Self::Unreachable | Self::SessionEnded(..) | Self::Stopped(_) | Self::Closed | Self::Forked => {
                Caller::Reconnect
            }
            Self::OutcomeUnknown(_) => Caller::Look,
            Self::Damaged { .. } | Self::PageDamaged { .. } => Caller::Repair,
            Self::Nested
            | Self::Ended
            | Self::TransactionTooLarge
            | Self::ReadOnly
            | Self::Open(_)
            | Self::NoSuchSpace(_)
            | Self::SpaceName(_)
            | Self::TooManySpaces => Caller::Correct,
        }
    }

    /// The client's error of a transaction.
    pub(crate) fn of_client(error: TxnError) -> Self {
        match error {
            TxnError::Doomed => Self::Doomed,
            TxnError::TooLarge => Self::TransactionTooLarge,
            TxnError::Ended => Self::Ended,
            TxnError::Unreachable => Self::Unreachable,
            TxnError::Refused(reason, text) => Self::SessionEnded(reason, text),
            TxnError::Stopped(why) => Self::Stopped(why),
            TxnError::StoreFull => Self::StoreFull,
            TxnError::ReadOnly => Self::ReadOnly,
            TxnError::Damaged(page, what) => Self::PageDamaged { page, what },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doomed => write!(f, "others have changed what the transaction read: begin it again"),
            Self::Refused(refusal) => write!(f, "the commit was refused: {refusal}"),
            Self::Ended => write!(f, "the transaction has ended: begin another"),
            Self::Nested => {
                write!(f, "a transaction was begun inside of another one: do both with the outer one's 'tx'")
            }
            Self::Closed => write!(f, "the database was closed: open it again"),
            Self::Forked => write!(f, "the database was opened before this process forked: open it again in the child"),
            Self::TransactionTooLarge => {
                write!(f, "the transaction writes more than {} MiB: split it", TXN_BYTES_MAX >> 20)
            }
            Self::StoreFull => write!(f, "the store is full: free space on its disk, or give it a larger one"),
            Self::ReadOnly => write!(
                f,
                "the store was opened to be read only: if its directory cannot be written, copy it to where it can"
            ),
            Self::Unreachable => write!(
                f,
                "the store has not answered for as long as this client waits: is it running, and the network up?"
            ),
            Self::SessionEnded(reason, text) => write!(f, "the store ended the session ({}): {text}", reason.name()),
            Self::Stopped(why) => {
                write!(f, "the database has stopped: {why}; what was committed is safe: open it again")
            }
            Self::OutcomeUnknown(txn) => write!(f, "whether transaction {txn:?} took effect is not known: look"),
            Self::Open(text) => write!(f, "{text}"),
            Self::NoSuchSpace(name) => write!(f, "the store has no space '{name}': check the name, or make it"),
            Self::SpaceName(name) => write!(
                f,
                "'{name}' is not a name of a space: it begins with a letter of ASCII, and has at most {SPACE_NAME_BYTES_MAX} \
                 of these, digits, '-', '_' and '.'; 'thorp.volumes' and 'thorp.members' belong to the registry of \
                 volumes"
            ),
            Self::TooManySpaces => {
                write!(f, "the store has {SPACES_MAX} spaces, and no room for another: use one that is there")
            }
            Self::Damaged { object, what } => {
                write!(f, "object {object} is damaged ({what}): check the store with 'thorp doctor'")
            }
            Self::PageDamaged { page, what } => write!(
                f,
                "page {page} is damaged in the store ({what}): copy out what is whole with 'thorp doctor --salvage', or \
                 restore the store from a copy"
            ),
        }
    }
}

impl std::error::Error for Error {}
