//! What a family says of its bytes: all that framing asks of it.
//!
//! ```text
//!   Inbox, Outbox  --- &dyn Codec --->  End<Hears, Says>  --- Direction --->  an enum of messages  --- Layout ---> each
//!   (any family)                        (one end of a link)                   (one direction)
//! ```
//! A family is an enum of messages for each direction, its [`Direction`], and for each message its
//! [`Layout`](crate::Layout).

use crate::layout::Reader;
use crate::{Batch, Limits, WireError};
use core::any::type_name;
use core::fmt;
use core::marker::PhantomData;
use protocol::{Goodbye, Message, Parcel, Status};

/// What an end of a link knows of a kind of message before any of it has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The message's name.
    pub name: &'static str,
    /// How long its parts may be; `None` if this end never hears it.
    pub limits: Option<Limits>,
    /// Whether it may be the first that this end hears.
    pub may_open: bool,
}

/// The messages of a family in one direction, as frames.
pub trait Direction: Message {
    /// Who hears it, as an error names him behind an article.
    const READER: &'static str;

    /// What may come first, as an error names it.
    const OPENING: &'static str;

    /// The family's kind with this number. No family has [`PIECE`](crate::PIECE).
    fn known(number: u8) -> Option<Known>;

    /// Appends the message, as one frame.
    ///
    /// # Errors
    /// What cannot be received is not sent.
    fn encode(&self, batch: &mut Batch) -> Result<(), WireError>;

    /// Takes a message of this kind apart, which is known and heard.
    ///
    /// # Errors
    /// It is no such message.
    fn decode(number: u8, reader: Reader<'_>) -> Result<Self, WireError>;
}

/// One end of a family's links: what it hears, and what it says.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Who hears here, as an error names him behind an article.
    fn reader(&self) -> &'static str;

    /// What may be heard first, as an error names it.
    fn opening(&self) -> &'static str;

    /// The family's kind with this number.
    fn known(&self, number: u8) -> Option<Known>;

    /// Takes a message apart that is heard here.
    ///
    /// # Errors
    /// It is no message of this kind.
    fn decode(&self, number: u8, reader: Reader<'_>) -> Result<Parcel, WireError>;

    /// Appends a message that is said here, as one frame.
    ///
    /// # Errors
    /// What cannot be received is not sent.
    ///
    /// # Panics
    /// If it is a message that nobody says here.
    fn encode(&self, message: &Parcel, batch: &mut Batch) -> Result<(), WireError>;

    /// The leave that this end takes.
    fn goodbye(&self, goodbye: Goodbye) -> Parcel;

    /// The answer to who asks how this end's node stands, if one can ask here.
    fn status(&self, status: Status) -> Option<Parcel>;
}

/// The end of a link that hears the one and says the other.
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

    fn opening(&self) -> &'static str {
        Hears::OPENING
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

    fn status(&self, status: Status) -> Option<Parcel> {
        Says::status(status).map(Parcel::new)
    }
}

impl<Hears, Says> fmt::Debug for End<Hears, Says> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({} -> {})", type_name::<Hears>(), type_name::<Says>())
    }
}
