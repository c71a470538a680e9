//! The errors, sorted by what the caller should do about them.

use core::fmt;
use database::Cure;
use std::time::Duration;
use types::limits::{BYTE_VALUE_BYTES_MAX, BYTES_PER_READ_MAX, OBJECT_BYTES_MAX};
use types::{GoodbyeReason, ObjectId, PageId, Refusal, TxnId};

pub use types::Caller;

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of an error, for people.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why something was not done. [`Error::caller`] says what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The transaction has read what others have changed since. It has no effect; `transact` begins it again.
    Doomed,
    /// The store refused the commit. It has no effect; `transact` tries again where that can help.
    Refused(Refusal),
    /// The transaction was tried again and again, and others were faster each time. One that reads a large map from one
    /// end to the other while others write to it all the time ends so: read such a map in parts, a range of keys in
    /// each transaction. Each part is of one moment then, and the whole is not.
    #[non_exhaustive]
    Contended {
        /// How often it was tried.
        tries: u32,
        /// For how long.
        waited: Duration,
        /// The error of the last try.
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
    /// The byte value would be longer than a byte value can be.
    ByteValueTooLong(u64),
    /// More bytes of a byte value were asked for than are read at a time.
    ReadTooLong(u64),
    /// The store has no room.
    StoreFull,
    /// The store could not be reached, or has not answered, for as long as the client is patient.
    Unreachable,
    /// The store has ended the session for good.
    SessionEnded(GoodbyeReason, String),
    /// The database has stopped in this process, because of this: its disk has failed, or a part of it has panicked.
    /// Everything that was committed is safe.
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
        /// The object or name that was looked at.
        what: String,
        /// The kind of value that is stored.
        stored: String,
        /// The kind that was asked for.
        asked: String,
        /// The reason why it is not the kind asked for, if it could have been.
        why: Option<String>,
    },
    /// The value cannot be stored: its `Serialize` says so, or its `Deserialize` could not read it back.
    #[non_exhaustive]
    Encode {
        /// The type.
        type_name: &'static str,
        /// The reason.
        why: String,
    },
    /// The object holds what this library would never have written there.
    #[non_exhaustive]
    Damaged {
        /// The object.
        object: ObjectId,
        /// The damage.
        what: &'static str,
    },
    /// The store cannot read a page of its home, because the file is damaged there. Only this operation has failed. The
    /// transaction can use objects of other pages.
    #[non_exhaustive]
    PageDamaged {
        /// The page.
        page: PageId,
        /// The damage, and the file that has it.
        what: String,
    },
    /// The store was opened to be read only, see [`crate::Builder::read_only`].
    ReadOnly,
    /// A store could not be opened, or a server not be reached.
    Open(String),
    /// The store has no space of this name, and it was not to be made.
    NoSuchSpace(String),
    /// This is not a name of a space.
    SpaceName(String),
    /// The store has as many spaces as a store can have.
    TooManySpaces,
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

    /// The class of the error, by what the caller should do; `None` for the application's own errors.
    pub fn caller(&self) -> Option<Caller> {
        Some(match self {
            Self::Contended { .. } => Caller::Retry,
            Self::Application(_) => return None,
            error => error.of_database().map_or(Caller::Correct, |error| error.caller()),
        })
    }

    /// How running the transaction again can help, if it can.
    pub(crate) fn cure(&self) -> Option<Cure> {
        Cure::of(&self.of_database()?)
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
            Self::Contended { tries, waited, last } => {
                write!(f, "gave up after {tries} tries in {waited:.1?}; the last one: {last}")
            }
            Self::CursorOfAnother => {
                write!(f, "the cursor belongs to another transaction: make one in each transaction, inside its closure")
            }
            Self::ObjectTooLarge(bytes) => {
                write!(f, "an object of {bytes} bytes is larger than the limit of {} MiB", OBJECT_BYTES_MAX >> 20)
            }
            Self::KeyTooLong(bytes) => {
                write!(f, "a key of {bytes} bytes is longer than the limit of {}", crate::key::KEY_BYTES_MAX)
            }
            Self::ByteValueTooLong(bytes) => {
                let limit = BYTE_VALUE_BYTES_MAX >> 30;
                write!(f, "a byte value of {bytes} bytes is longer than the limit of {limit} GiB")
            }
            Self::ReadTooLong(bytes) => {
                let limit = BYTES_PER_READ_MAX >> 20;
                write!(f, "a read of {bytes} bytes is longer than the limit of {limit} MiB: read them in parts")
            }
            Self::NoSuchObject(object) => {
                write!(f, "object {object} is gone: it was deleted, or the transaction that created it had no effect")
            }
            Self::Format { object, format } => {
                let ours = crate::format::FORMAT;
                write!(f, "object {object} is in format {format}, and this version reads format {ours}: ")?;
                write!(f, "dump the store with the version that wrote it, and load it with this one")
            }
            Self::WrongKind { what, stored, asked, why } => {
                write!(f, "{what} is {stored}, and {asked} was asked for")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::Encode { type_name, why } => write!(f, "a value of type {type_name} cannot be stored: {why}"),
            Self::Application(error) => write!(f, "{error}"),
            error => match error.of_database() {
                Some(error) => error.fmt(f),
                None => unreachable!("whatever is not of the database stands above"),
            },
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

/// An error of the layer below is the error of the same name here.
impl From<database::Error> for Error {
    fn from(error: database::Error) -> Self {
        use database::Error as Below;
        match error {
            Below::Doomed => Self::Doomed,
            Below::Nested => Self::Nested,
            Below::Closed => Self::Closed,
            Below::Forked => Self::Forked,
            Below::Ended => Self::Ended,
            Below::TransactionTooLarge => Self::TransactionTooLarge,
            Below::StoreFull => Self::StoreFull,
            Below::ReadOnly => Self::ReadOnly,
            Below::PageDamaged { page, what } => Self::PageDamaged { page, what },
            Below::Unreachable => Self::Unreachable,
            Below::Refused(it) => Self::Refused(it),
            Below::Stopped(it) => Self::Stopped(it),
            Below::OutcomeUnknown(it) => Self::OutcomeUnknown(it),
            Below::Open(it) => Self::Open(it),
            Below::NoSuchSpace(it) => Self::NoSuchSpace(it),
            Below::SpaceName(it) => Self::SpaceName(it),
            Below::TooManySpaces => Self::TooManySpaces,
            Below::Damaged { object, what } => Self::Damaged { object, what },
            Below::SessionEnded(reason, text) => Self::SessionEnded(reason, text),
        }
    }
}

impl Error {
    /// The inverse: the same error as the database says it, if it is one of those.
    pub(crate) fn of_database(&self) -> Option<database::Error> {
        use database::Error as Below;
        Some(match self {
            Self::Doomed => Below::Doomed,
            Self::ReadOnly => Below::ReadOnly,
            Self::PageDamaged { page, what } => Below::PageDamaged { page: *page, what: what.clone() },
            Self::Nested => Below::Nested,
            Self::Closed => Below::Closed,
            Self::Forked => Below::Forked,
            Self::Ended => Below::Ended,
            Self::TransactionTooLarge => Below::TransactionTooLarge,
            Self::StoreFull => Below::StoreFull,
            Self::Unreachable => Below::Unreachable,
            Self::Refused(refusal) => Below::Refused(refusal.clone()),
            Self::Stopped(why) => Below::Stopped(why.clone()),
            Self::OutcomeUnknown(txn) => Below::OutcomeUnknown(*txn),
            Self::Open(text) => Below::Open(text.clone()),
            Self::NoSuchSpace(name) => Below::NoSuchSpace(name.clone()),
            Self::SpaceName(name) => Below::SpaceName(name.clone()),
            Self::TooManySpaces => Below::TooManySpaces,
            Self::Damaged { object, what } => Below::Damaged { object: *object, what },
            Self::SessionEnded(reason, text) => Below::SessionEnded(*reason, text.clone()),
            _ => return None,
        })
    }
}
