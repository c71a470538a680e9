//! The first message of each end of a connection, whatever family follows.
//!
//! ```text
//!   dialer                                         listener
//!     | Preface{protocol, family, end, wants, ..} --> |   the family's first message leaves with it
//!     | <------ Preface{..}, and the family's answer  |   or Goodbye: of another family, version, or no room
//! ```
//! Both ends send theirs without waiting for the other's, so it costs no round trip. An end believes nothing before it
//! has seen that the other end speaks the same family and protocol, from the other side of it: a client that was given
//! the address of a hub is refused by name. The layout stays the same in every protocol. The limits of a session are in
//! its family's answer: they depend on who has opened it.

use crate::codec::Codec;
use crate::field::check_count;
use crate::layout::{Meta, Reader};
use crate::{Field, Name, PROTOCOL, Tail, WireError, messages};
use alloc::vec::Vec;

/// The kind of a preface, in every family.
pub const PREFACE: u8 = 0;

/// The longest identity, in bytes.
const IDENTITY_BYTES_MAX: usize = 4096;

messages! {
    /// An end of a connection introduces itself.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Preface {
        /// The oldest and the newest protocol that it speaks.
        pub protocol: (u16, u16),
        /// The family of the messages that follow.
        pub family: Name,
        /// The end of the family that it is.
        pub end: Name,
        /// The purpose of the connection.
        pub wants: Wants,
        /// Its keep-alive, in milliseconds: the longest silence of the other end's machine. 0 if the family has
        /// heartbeats of its own.
        pub silence_ms: u32,
        /// Its identity: empty, as connections are not encrypted.
        pub identity: Vec<u8> as Tail<IDENTITY_BYTES_MAX>,
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The family's messages.
    Session,
    /// To know how the node stands: an operator's question, which any family answers.
    Status,
}

impl Field for Wants {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        match self {
            Self::Session => 0_u32,
            Self::Status => 1,
        }
        .put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match u32::get(what, reader)? {
            0 => Ok(Self::Session),
            1 => Ok(Self::Status),
            got => Err(WireError::Code { what: "purpose of a connection", got: got.into() }),
        }
    }
}

impl Field for Name {
    const BYTES: usize = Self::BYTES_MAX;

    fn put(&self, meta: &mut Meta<'_>) {
        meta.put(&self.to_bytes());
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self::from_bytes(*reader.get()?))
    }
}

impl Preface {
    /// The bytes of a frame up to the end of the family's name: what a listener has to see of it to know whose the
    /// connection is.
    pub const FAMILY_BYTES: usize = crate::HEADER_BYTES + 2 * u16::BYTES + Name::BYTES_MAX;

    /// The preface of this end, for a session.
    pub fn of(codec: &dyn Codec) -> Self {
        Self {
            protocol: PROTOCOL,
            family: Name::new(codec.family()),
            end: Name::new(codec.reader()),
            wants: Wants::Session,
            silence_ms: 0,
            identity: Vec::new(),
        }
    }

    /// The family of a connection, by the first [`Preface::FAMILY_BYTES`] of its first frame.
    pub fn family_in(frame: &[u8; Self::FAMILY_BYTES]) -> Name {
        let mut name = [0; Name::BYTES_MAX];
        name.copy_from_slice(&frame[Self::FAMILY_BYTES - Name::BYTES_MAX..]);
        Name::from_bytes(name)
    }

    /// Refuses an end that this one has nothing to say to.
    ///
    /// # Errors
    /// It speaks another version or family, it is the same end of this family, or it has an identity, which cannot be
    /// verified without encryption.
    pub fn check(&self, codec: &dyn Codec) -> Result<(), WireError> {
        let (oldest, newest) = self.protocol;
        if newest < PROTOCOL.0 || PROTOCOL.1 < oldest || newest < oldest {
            return Err(WireError::Protocol { got: self.protocol });
        }
        check_count("bytes of an identity", self.identity.len(), 0)?;
        let is_other_end = self.family == Name::new(codec.family()) && self.end == Name::new(codec.speaks_to());
        // Any family answers an operator, and an operator takes any family's answer.
        if is_other_end || self.wants == Wants::Status || codec.is_operator() {
            return Ok(());
        }
        Err(WireError::OtherEnd { expected: codec.speaks_to(), of: codec.family(), end: self.end, family: self.family })
    }
}
