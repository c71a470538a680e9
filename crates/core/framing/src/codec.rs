//! The interface between framing, which knows no family, and the families.
//!
//! ```text
//!   Inbox, Outbox  --- &dyn Codec --->  End<Hears, Says>  --- Direction --->  an enum of messages  --- Layout ---> each
//!   (any family)                        (one end of a link)                   (one direction)
//! ```
//! A family is an enum of messages for each direction, its [`Direction`], and for each message its
//! [`Layout`](crate::Layout).

use crate::layout::Reader;
use crate::{Batch, Limits, WireError};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::type_name;
use core::fmt;
use core::marker::PhantomData;
use machine::{Goodbye, Message, Opaque, Parcel, Upstream};

/// The family of operators, who ask nodes of any other family for their status.
pub(crate) const OPERATORS: &str = "status";

/// A kind of message, as an end of a link knows it before any message has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The message's name.
    pub name: &'static str,
    /// The lengths that its parts may have; `None` if this end never hears it.
    pub limits: Option<Limits>,
}

/// The messages of a family in one direction, as frames.
pub trait Direction: Message {
    /// The name of the end that hears it, as it follows an article in an error.
    const READER: &'static str;

    /// The family's name.
    const FAMILY: &'static str;

    /// The family's kind with this number. No family has [`PIECE`](crate::PIECE) or [`PREFACE`](crate::PREFACE).
    fn known(number: u8) -> Option<Known>;

    /// Appends the message, as one frame.
    ///
    /// # Errors
    /// The message is larger than a receiver takes.
    fn encode(&self, batch: &mut Batch) -> Result<(), WireError>;

    /// Takes a message apart whose kind is known and heard.
    ///
    /// # Errors
    /// The bytes are no such message.
    fn decode(number: u8, reader: Reader<'_>) -> Result<Self, WireError>;
}

/// One end of a family's links: what it hears, and what it says.
pub trait Codec: fmt::Debug + Send + Sync {
    /// The name of this end, as it follows an article in an error about a message that it hears.
    fn reader(&self) -> &'static str;

    /// The family's name.
    fn family(&self) -> &'static str;

    /// The name of the other end.
    fn speaks_to(&self) -> &'static str;

    /// Whether this end asks nodes of any family how they stand.
    fn is_operator(&self) -> bool {
        self.family() == OPERATORS
    }

    /// Whether nothing that is said here passes anything that was said before it.
    fn is_ordered(&self) -> bool;

    /// The family's kind with this number.
    fn known(&self, number: u8) -> Option<Known>;

    /// Takes a message apart that is heard here.
    ///
    /// # Errors
    /// The bytes are no message of this kind.
    fn decode(&self, number: u8, reader: Reader<'_>) -> Result<Parcel, WireError>;

    /// Appends a message that is said here, as one frame.
    ///
    /// # Errors
    /// The message is larger than a receiver takes.
    ///
    /// # Panics
    /// If it is a message that is not said here: its sender has the wrong link.
    fn encode(&self, message: &Parcel, batch: &mut Batch) -> Result<(), WireError>;

    /// A goodbye of this end.
    fn goodbye(&self, goodbye: Goodbye) -> Parcel;
}

/// A server at these addresses, with which a machine opens a session with this codec.
pub fn upstream(codec: &'static dyn Codec, addresses: Vec<String>) -> Upstream {
    Upstream { addresses, codec: Opaque::new(codec) }
}

/// The codec with which a machine opens a session.
///
/// # Panics
/// If the machine has given something else in its place.
pub fn codec_of(upstream: &Upstream) -> &'static dyn Codec {
    let codec = upstream.codec.get::<&'static dyn Codec>();
    *codec.unwrap_or_else(|| panic!("expected a codec, got {:?}", upstream.codec))
}

/// The end of a link that hears the one direction and says the other.
pub struct End<Hears, Says>(PhantomData<fn() -> (Hears, Says)>);

impl<Hears, Says> End<Hears, Says> {
    const NEW: Self = Self(PhantomData);
}

impl<Hears: Direction, Says: Direction> End<Hears, Says> {
    /// The end.
    pub const CODEC: &'static dyn Codec = &Self::NEW;
}

impl<Hears: Direction, Says: Direction> Codec for End<Hears, Says> {
    fn reader(&self) -> &'static str {
        Hears::READER
    }

    fn family(&self) -> &'static str {
        Hears::FAMILY
    }

    fn speaks_to(&self) -> &'static str {
        Says::READER
    }

    fn is_ordered(&self) -> bool {
        Says::IS_ORDERED
    }

    fn known(&self, number: u8) -> Option<Known> {
        Hears::known(number)
    }

    fn decode(&self, number: u8, reader: Reader<'_>) -> Result<Parcel, WireError> {
        Hears::decode(number, reader).map(Parcel::new)
    }

    fn encode(&self, message: &Parcel, batch: &mut Batch) -> Result<(), WireError> {
        let Some(message) = message.get::<Says>() else {
            panic!("expected a message {}, got {message:?}", type_name::<Says>());
        };
        message.encode(batch)
    }

    fn goodbye(&self, goodbye: Goodbye) -> Parcel {
        Parcel::new(Says::from(goodbye))
    }
}

impl<Hears, Says> fmt::Debug for End<Hears, Says> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({} -> {})", type_name::<Hears>(), type_name::<Says>())
    }
}
