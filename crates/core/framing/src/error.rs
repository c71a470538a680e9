//! Why some bytes are not a message, or a message cannot become bytes.

use crate::{Limits, Name};
use core::fmt;

/// Why some bytes are not a message. All but [`WireError::TooLarge`] are the peer's doing and end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The stream does not begin as Thorp's do: the peer speaks something else.
    Magic {
        /// The bytes in place of [`crate::MAGIC`].
        got: [u8; 2],
    },
    /// The header's check word does not fit its other fields: they are not to be believed.
    Check {
        /// The word that the other fields call for.
        expected: u32,
        /// The word that stands there.
        got: u32,
    },
    /// A flag that this version does not know.
    Flags {
        /// The flags.
        got: u8,
    },
    /// No message of the family has this number.
    Kind {
        /// The number.
        got: u8,
    },
    /// A message that this end of a link never receives.
    Direction {
        /// The end that reads.
        reader: &'static str,
        /// The message.
        got: &'static str,
    },
    /// The first message is not a preface.
    First {
        /// The number of the message.
        got: u8,
    },
    /// The other end speaks no protocol that this one does.
    Protocol {
        /// The oldest and the newest that it speaks.
        got: (u16, u16),
    },
    /// The other end is none that this one speaks to.
    OtherEnd {
        /// The end that this one speaks to.
        expected: &'static str,
        /// Its family.
        of: &'static str,
        /// The end that has connected, or has been reached.
        end: Name,
        /// Its family.
        family: Name,
    },
    /// The header announces lengths that a message of this kind cannot have.
    Lengths {
        /// The message.
        kind: &'static str,
        /// The lengths that it may have.
        expected: Limits,
        /// Announced bytes of meta.
        meta: u32,
        /// Announced bytes of body.
        body: u32,
    },
    /// A frame that is larger than any may be: its message should have come in pieces.
    Whole {
        /// The message.
        kind: &'static str,
        /// The frame's size in bytes.
        bytes: usize,
    },
    /// A piece of a piece.
    Nested,
    /// A piece without a byte of its message.
    Empty,
    /// More messages in pieces under way than may be.
    Pieced {
        /// How many there may be.
        max: usize,
    },
    /// More bytes announced by the messages in pieces under way than may be.
    PiecedBytes {
        /// How many there may be.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// The meta or the body ends before what it announced.
    Short {
        /// The message.
        kind: &'static str,
    },
    /// Bytes are left over after the message.
    Long {
        /// The message.
        kind: &'static str,
    },
    /// More of something than a message may have.
    Count {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// A slot that no page can have.
    Slot {
        /// The slot, or the bitmap's last slot.
        got: usize,
    },
    /// Something that must be in ascending order is not, or is there twice.
    Order {
        /// The limit's name.
        what: &'static str,
    },
    /// A number that stands for none of the choices.
    Code {
        /// Of what.
        what: &'static str,
        /// The number.
        got: u64,
    },
    /// A text that is not UTF-8.
    Text,
    /// The sender's own message is larger than any message may be.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}

impl WireError {
    /// The reason's name, as it is counted and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Magic { .. } => "magic",
            Self::Check { .. } => "check",
            Self::Flags { .. } => "flags",
            Self::Kind { .. } => "kind",
            Self::Direction { .. } => "direction",
            Self::First { .. } => "first",
            Self::Protocol { .. } => "protocol",
            Self::OtherEnd { .. } => "other_end",
            Self::Lengths { .. } => "lengths",
            Self::Whole { .. } => "whole",
            Self::Nested => "nested",
            Self::Empty => "empty",
            Self::Pieced { .. } => "pieced",
            Self::PiecedBytes { .. } => "pieced_bytes",
            Self::Short { .. } => "short",
            Self::Long { .. } => "long",
            Self::Count { .. } => "count",
            Self::Slot { .. } => "slot",
            Self::Order { .. } => "order",
            Self::Code { .. } => "code",
            Self::Text => "text",
            Self::TooLarge { .. } => "too_large",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic { got } => {
                write!(f, "expected a Thorp stream, which begins with {:?}, got {got:?}", crate::MAGIC)
            }
            Self::Check { expected, got } => write!(f, "expected header check {expected:#010x}, got {got:#010x}"),
            Self::Flags { got } => write!(f, "expected no flags, got {got:#04x}"),
            Self::Kind { got } => write!(f, "expected a kind of message that is known here, got number {got}"),
            Self::Direction { reader, got } => write!(f, "expected a message for a {reader}, got {got}"),
            Self::First { got } => write!(f, "expected a preface first, got a message of number {got}"),
            Self::Protocol { got: (oldest, newest) } => {
                let (first, last) = crate::PROTOCOL;
                write!(f, "expected a protocol from {first} to {last}, got {oldest} to {newest}")
            }
            Self::OtherEnd { expected, of, end, family } => {
                write!(f, "expected a {expected} (family {of}), got a {end} (family {family})")
            }
            Self::Lengths { kind, expected, meta, body } => {
                write!(f, "expected {kind} with {expected}, got {meta} and {body}")
            }
            Self::Whole { kind, bytes } => {
                let max = types::limits::FRAME_BYTES_MAX;
                write!(f, "expected a frame of at most {max} bytes, got {kind} of {bytes}, which is to come in pieces")
            }
            Self::Nested => write!(f, "expected a piece of a message, got a piece of a piece"),
            Self::Empty => write!(f, "expected a piece with some of its message, got an empty one"),
            Self::Pieced { max } => write!(f, "expected at most {max} messages in pieces at a time, got another"),
            Self::PiecedBytes { max, got } => {
                write!(f, "expected messages in pieces of at most {max} bytes together, got {got}")
            }
            Self::Short { kind } => write!(f, "{kind} ends before what it announces"),
            Self::Long { kind } => write!(f, "{kind} has bytes left over at its end"),
            Self::Count { what, max, got } => write!(f, "expected at most {max} {what}, got {got}"),
            Self::Slot { got } => {
                write!(f, "expected a slot below {}, got {got}", types::limits::SLOTS_MAX)
            }
            Self::Order { what } => write!(f, "expected {what} in ascending order, each once"),
            Self::Code { what, got } => write!(f, "{got} stands for no {what}"),
            Self::Text => write!(f, "expected text in UTF-8"),
            Self::TooLarge { bytes } => {
                write!(f, "expected a message of at most {} bytes, got {bytes}", types::limits::MESSAGE_BYTES_MAX)
            }
        }
    }
}

impl core::error::Error for WireError {}
