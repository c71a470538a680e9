//! What each message says of its own bytes, and the reader that takes them apart.

use crate::body::Body;
use crate::{Kind, Limits, WireError};
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use protocol::{
    Ack, Arrived, AskOutcome, AskStatus, CommitReply, CommitRequest, Departed, Fetch, FindLeader, Goodbye, Grant,
    Granted, Hello, Help, Intent, Lead, Leader, Leased, LeftOut, Members, Message, NoHelp, Notices, Page, PeerHello,
    PeerPage, Ping, Pong, Promise, Reachable, Rejoin, Rejoined, Released, Revalidate, Revalidated, Status, Welcome,
};
use types::limits::PIECE_BYTES_MAX;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message's layout. Each conversation has a file with those of its messages.
pub(crate) trait Layout: Sized {
    /// Its number.
    const KIND: Kind;

    /// How long its parts may be.
    const LIMITS: Limits;

    /// Checks what the sender owes to the receiver's limits, and appends the fixed-layout part.
    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError>;

    /// The pieces of its raw part.
    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::empty()
    }

    /// Takes the message apart.
    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Where the fixed-layout part goes.
pub(crate) struct Meta<'a>(pub(crate) &'a mut BytesMut);

impl Meta<'_> {
    /// Appends a field, or a struct or slice of fields.
    pub(crate) fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, fields: &T) {
        self.0.extend_from_slice(fields.as_bytes());
    }

    /// Appends each.
    pub(crate) fn put_all<T: IntoBytes + Immutable>(&mut self, all: impl Iterator<Item = T>) {
        all.for_each(|one| self.put(&one));
    }
}

/// Takes a frame apart from front to back. Whatever is there is known to be there before it is asked for room.
pub(crate) struct Reader<'a> {
    kind: Kind,
    meta: &'a [u8],
    body: Body,
}

impl<'a> Reader<'a> {
    /// The next fields of the meta, in place.
    pub(crate) fn get<T>(&mut self) -> Result<&'a T, WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (fields, rest) = T::ref_from_prefix(self.meta).map_err(|_| WireError::Short { kind: self.kind })?;
        self.meta = rest;
        Ok(fields)
    }

    /// The next `count` fields of the meta, in place.
    pub(crate) fn many<T>(&mut self, count: usize) -> Result<&'a [T], WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (fields, rest) =
            <[T]>::ref_from_prefix_with_elems(self.meta, count).map_err(|_| WireError::Short { kind: self.kind })?;
        self.meta = rest;
        Ok(fields)
    }

    /// The rest of the meta as fields, in place.
    pub(crate) fn rest<T>(&mut self) -> Result<&'a [T], WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let fields = self.many(self.meta.len() / size_of::<T>())?;
        if self.meta.is_empty() { Ok(fields) } else { Err(WireError::Long { kind: self.kind }) }
    }

    /// Whether nothing of the meta is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.meta.is_empty()
    }

    /// `count` things, each of which takes at least `bytes_min` of what is left of the meta.
    pub(crate) fn list<T>(
        &mut self,
        count: usize,
        bytes_min: usize,
        mut get: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        if count.saturating_mul(bytes_min) > self.meta.len() {
            return Err(WireError::Short { kind: self.kind });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(get(self)?);
        }
        Ok(list)
    }

    /// The next `len` bytes of the body.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, WireError> {
        if len > self.body.bytes() {
            return Err(WireError::Short { kind: self.kind });
        }
        Ok(self.body.take(len))
    }

    /// The rest of the body.
    pub(crate) fn bytes_rest(&mut self) -> Bytes {
        self.body.take(self.body.bytes())
    }

    fn message<T: Layout>(mut self) -> Result<T, WireError> {
        let message = T::get(&mut self)?;
        let nothing_left = self.meta.is_empty() && self.body.bytes() == 0;
        if nothing_left { Ok(message) } else { Err(WireError::Long { kind: self.kind }) }
    }
}

/// Takes a frame apart whose header has been checked.
pub(crate) fn decode(kind: Kind, meta: &[u8], body: Body) -> Result<Message, WireError> {
    let reader = Reader { kind, meta, body };
    Ok(match kind {
        Kind::Hello => Message::Hello(reader.message()?),
        Kind::Welcome => Message::Welcome(reader.message()?),
        Kind::Goodbye => Message::Goodbye(reader.message()?),
        Kind::Rejoin => Message::Rejoin(reader.message()?),
        Kind::Rejoined => Message::Rejoined(reader.message()?),
        Kind::Ping => Message::Ping(reader.message()?),
        Kind::Pong => Message::Pong(reader.message()?),
        Kind::Fetch => Message::Fetch(reader.message()?),
        Kind::Page => Message::Page(reader.message()?),
        Kind::LeftOut => Message::LeftOut(reader.message()?),
        Kind::Released => Message::Released(reader.message()?),
        Kind::Commit => Message::Commit(reader.message()?),
        Kind::AskOutcome => Message::AskOutcome(reader.message()?),
        Kind::CommitReply => Message::CommitReply(reader.message()?),
        Kind::Notices => Message::Notices(reader.message()?),
        Kind::Ack => Message::Ack(reader.message()?),
        Kind::Grant => Message::Grant(reader.message()?),
        Kind::Granted => Message::Granted(reader.message()?),
        Kind::Reachable => Message::Reachable(reader.message()?),
        Kind::Help => Message::Help(reader.message()?),
        Kind::NoHelp => Message::NoHelp(reader.message()?),
        Kind::PeerPage => Message::PeerPage(reader.message()?),
        Kind::Arrived => Message::Arrived(reader.message()?),
        Kind::PeerHello => Message::PeerHello(reader.message()?),
        Kind::Revalidate => Message::Revalidate(reader.message()?),
        Kind::Revalidated => Message::Revalidated(reader.message()?),
        Kind::Departed => Message::Departed(reader.message()?),
        Kind::Lead => Message::Lead(reader.message()?),
        Kind::FindLeader => Message::FindLeader(reader.message()?),
        Kind::Leader => Message::Leader(reader.message()?),
        Kind::Members => Message::Members(reader.message()?),
        Kind::Leased => Message::Leased(reader.message()?),
        Kind::Intent => Message::Intent(reader.message()?),
        Kind::Promise => Message::Promise(reader.message()?),
        Kind::AskStatus => Message::AskStatus(reader.message()?),
        Kind::Status => Message::Status(reader.message()?),
        Kind::Piece => return Err(WireError::Nested),
    })
}

/// How long the parts of a frame of this kind may be.
pub(crate) const fn limits_of(kind: Kind) -> Limits {
    match kind {
        Kind::Hello => Hello::LIMITS,
        Kind::Welcome => Welcome::LIMITS,
        Kind::Goodbye => Goodbye::LIMITS,
        Kind::Rejoin => Rejoin::LIMITS,
        Kind::Rejoined => Rejoined::LIMITS,
        Kind::Ping => Ping::LIMITS,
        Kind::Pong => Pong::LIMITS,
        Kind::Fetch => Fetch::LIMITS,
        Kind::Page => Page::LIMITS,
        Kind::LeftOut => LeftOut::LIMITS,
        Kind::Released => Released::LIMITS,
        Kind::Commit => CommitRequest::LIMITS,
        Kind::AskOutcome => AskOutcome::LIMITS,
        Kind::CommitReply => CommitReply::LIMITS,
        Kind::Notices => Notices::LIMITS,
        Kind::Ack => Ack::LIMITS,
        Kind::Grant => Grant::LIMITS,
        Kind::Granted => Granted::LIMITS,
        Kind::Reachable => Reachable::LIMITS,
        Kind::Help => Help::LIMITS,
        Kind::NoHelp => NoHelp::LIMITS,
        Kind::PeerPage => PeerPage::LIMITS,
        Kind::Arrived => Arrived::LIMITS,
        Kind::PeerHello => PeerHello::LIMITS,
        Kind::Revalidate => Revalidate::LIMITS,
        Kind::Revalidated => Revalidated::LIMITS,
        Kind::Departed => Departed::LIMITS,
        Kind::Lead => Lead::LIMITS,
        Kind::FindLeader => FindLeader::LIMITS,
        Kind::Leader => Leader::LIMITS,
        Kind::Members => Members::LIMITS,
        Kind::Leased => Leased::LIMITS,
        Kind::Intent => Intent::LIMITS,
        Kind::Promise => Promise::LIMITS,
        Kind::AskStatus => AskStatus::LIMITS,
        Kind::Status => Status::LIMITS,
        // The number of the message that it is a piece of.
        Kind::Piece => Limits::fields::<U64>().with_body(PIECE_BYTES_MAX),
    }
}
