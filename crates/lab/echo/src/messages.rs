//! The messages of the family, and how they look as bytes: everything that framing has to know of them.

use alloc::string::{String, ToString};
use bytes::Bytes;
use protocol::order::Pace;
use protocol::{Goodbye, Message};
use wire::{Batch, Codec, Direction, End, Known, Layout, Limits, Meta, Reader, WireError, field};
use zerocopy::little_endian::U64;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The server's end of a link, and its client's.
pub const ECHO: &dyn Codec = End::<ToEcho, ToCaller>::CODEC;
/// The client's end.
pub const CALLER: &dyn Codec = End::<ToCaller, ToEcho>::CODEC;

/// The messages that an echo hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToEcho {
    /// A text to be written down and said again.
    Shout(String),
    /// The caller goes.
    Goodbye(Goodbye),
}

/// The messages that its caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCaller {
    /// The text is durable, as this many are now.
    Heard(u64, String),
    /// So many are durable.
    Count(u64),
    /// The echo goes.
    Goodbye(Goodbye),
}

/// The kinds' numbers. They are the family's own.
const SHOUT: u8 = 1;
const HEARD: u8 = 2;
const COUNT: u8 = 3;
const GOODBYE: u8 = 4;

/// A number and a text, one of which may be nothing.
struct Line(u64, Bytes);

impl Line {
    fn new(number: u64, text: &str) -> Self {
        Self(number, Bytes::copy_from_slice(text.as_bytes()))
    }

    fn text(&self) -> Result<String, WireError> {
        Ok(core::str::from_utf8(&self.1).map_err(|_| WireError::Text)?.to_string())
    }
}

impl Layout for Line {
    const LIMITS: Limits = Limits::fields::<U64>().with_body(TEXT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        field::check_count("bytes of a text", self.1.len(), TEXT_BYTES_MAX)?;
        meta.put(&U64::new(self.0));
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.1)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self(reader.get::<U64>()?.get(), reader.bytes_rest()))
    }
}

impl From<Goodbye> for ToEcho {
    fn from(goodbye: Goodbye) -> Self {
        Self::Goodbye(goodbye)
    }
}

impl From<Goodbye> for ToCaller {
    fn from(goodbye: Goodbye) -> Self {
        Self::Goodbye(goodbye)
    }
}

impl Message for ToEcho {
    fn pace(&self) -> Pace {
        Pace::Ordered
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

impl Message for ToCaller {
    fn pace(&self) -> Pace {
        Pace::Ordered
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

/// A kind, and whether this direction hears it.
fn known(number: u8, heard: &[u8]) -> Option<Known> {
    let (name, limits) = match number {
        SHOUT => ("Shout", Line::LIMITS),
        HEARD => ("Heard", Line::LIMITS),
        COUNT => ("Count", Line::LIMITS),
        GOODBYE => ("Goodbye", Goodbye::LIMITS),
        _ => return None,
    };
    let is_heard = heard.contains(&number);
    Some(Known { name, limits: is_heard.then_some(limits), may_open: is_heard })
}

impl Direction for ToEcho {
    const READER: &'static str = "echo";
    const OPENING: &'static str = "Shout or Goodbye";

    fn known(number: u8) -> Option<Known> {
        known(number, &[SHOUT, GOODBYE])
    }

    fn encode(&self, batch: &mut Batch) -> Result<(), WireError> {
        match self {
            Self::Shout(text) => batch.frame(SHOUT, &Line::new(0, text)),
            Self::Goodbye(goodbye) => batch.frame(GOODBYE, goodbye),
        }
    }

    fn decode(number: u8, reader: Reader<'_>) -> Result<Self, WireError> {
        match number {
            SHOUT => reader.message::<Line>()?.text().map(Self::Shout),
            _ => reader.message().map(Self::Goodbye),
        }
    }
}

impl Direction for ToCaller {
    const READER: &'static str = "caller";
    const OPENING: &'static str = "Heard, Count or Goodbye";

    fn known(number: u8) -> Option<Known> {
        known(number, &[HEARD, COUNT, GOODBYE])
    }

    fn encode(&self, batch: &mut Batch) -> Result<(), WireError> {
        match self {
            Self::Heard(count, text) => batch.frame(HEARD, &Line::new(*count, text)),
            Self::Count(count) => batch.frame(COUNT, &Line::new(*count, "")),
            Self::Goodbye(goodbye) => batch.frame(GOODBYE, goodbye),
        }
    }

    fn decode(number: u8, reader: Reader<'_>) -> Result<Self, WireError> {
        match number {
            HEARD => {
                let line = reader.message::<Line>()?;
                Ok(Self::Heard(line.0, line.text()?))
            }
            COUNT => reader.message::<Line>().map(|line| Self::Count(line.0)),
            _ => reader.message().map(Self::Goodbye),
        }
    }
}
