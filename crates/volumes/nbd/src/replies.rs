//! Replies, from answers to bytes.
//!
//! A session with structured replies has what was read in chunks, holes as holes, and errors with a text; what has no
//! payload is a simple reply in every session, since that is the shortest.

use super::limits::{EXTENTS_MAX, TEXT_BYTES_MAX};
use super::numbers::{ALLOCATION_ID, CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, chunk, extent};
use super::outbox::Pending;
use crate::device::{Answer, Errno, Extent, Form, Piece, Ticket};

/// Adds the reply to a request. Returns whether it is a success.
pub(super) fn put(to: &mut Pending, ticket: &Ticket, outcome: Result<Answer, Errno>, why: &str) -> bool {
    match outcome.and_then(|answer| checked(ticket, answer)) {
        Ok(Answer::Done) => put_simple(to, ticket, 0),
        Ok(Answer::Read(pieces)) if ticket.form == Form::Chunks => put_chunks(to, ticket, &pieces),
        Ok(Answer::Read(pieces)) => {
            if ticket.form == Form::OneChunk {
                put_chunk(to, ticket, chunk::DONE, chunk::OFFSET_DATA, 8 + ticket.len);
                to.head(&ticket.offset.to_be_bytes());
            } else {
                put_simple(to, ticket, 0);
            }
            pieces.iter().for_each(|piece| match piece {
                Piece::Data(data) => to.data(data.clone()),
                Piece::Zeros(len) => to.zeros(*len),
            });
        }
        Ok(Answer::Extents(extents)) => put_extents(to, ticket, &extents),
        Err(errno) => {
            put_error(to, ticket, errno, why);
            return false;
        }
    }
    true
}

/// An answer that is not of the request's kind or length would put the stream out of step; it is the device's failure.
fn checked(ticket: &Ticket, answer: Answer) -> Result<Answer, Errno> {
    let read = |pieces: &[Piece]| pieces.iter().map(Piece::len).sum::<u64>();
    let fits = match (&answer, ticket.form) {
        (Answer::Read(pieces), Form::Simple | Form::Chunks | Form::OneChunk) => read(pieces) == u64::from(ticket.len),
        (Answer::Done, Form::Simple | Form::Status) => true,
        (Answer::Extents(extents), Form::Extents | Form::OneExtent) => extents.first().is_some_and(|it| it.len > 0),
        _ => false,
    };
    debug_assert!(fits, "{ticket:?} was answered by {answer:?}");
    fits.then_some(answer).ok_or(Errno::Io)
}

fn put_simple(to: &mut Pending, ticket: &Ticket, errno: u32) {
    to.head([SIMPLE_REPLY_MAGIC, errno].map(u32::to_be_bytes).as_flattened());
    to.head(&ticket.cookie.to_be_bytes());
}

fn put_chunk(to: &mut Pending, ticket: &Ticket, flags: u16, kind: u16, len: u32) {
    to.head(&CHUNK_MAGIC.to_be_bytes());
    to.head([flags, kind].map(u16::to_be_bytes).as_flattened());
    to.head(&ticket.cookie.to_be_bytes());
    to.head(&len.to_be_bytes());
}

/// A chunk for each piece. The last of them ends the reply: everything is at hand, so nothing can fail any more.
fn put_chunks(to: &mut Pending, ticket: &Ticket, pieces: &[Piece]) {
    let mut offset = ticket.offset;
    let mut pieces = pieces.iter().filter(|piece| !piece.is_empty()).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { chunk::DONE } else { 0 };
        match piece {
            Piece::Data(data) => {
                put_chunk(to, ticket, flags, chunk::OFFSET_DATA, 8 + data.len() as u32);
                to.head(&offset.to_be_bytes());
                to.data(data.clone());
            }
            Piece::Zeros(len) => {
                put_chunk(to, ticket, flags, chunk::OFFSET_HOLE, 12);
                to.head(&offset.to_be_bytes());
                to.head(&len.to_be_bytes());
            }
        }
        offset += piece.len();
    }
}

fn put_extents(to: &mut Pending, ticket: &Ticket, extents: &[Extent]) {
    let (most, limit) = match ticket.form {
        Form::OneExtent => (1, u64::from(ticket.len)),
        _ => (EXTENTS_MAX, u64::MAX),
    };
    let joined = join(extents, ticket.len.into());
    let list = &joined[..joined.len().min(most)];
    put_chunk(to, ticket, chunk::DONE, chunk::BLOCK_STATUS, 4 + 8 * list.len() as u32);
    to.head(&ALLOCATION_ID.to_be_bytes());
    for it in list {
        let flags = if it.is_hole { extent::HOLE } else { 0 } | if it.is_zero { extent::ZERO } else { 0 };
        to.head([it.len.min(limit) as u32, flags].map(u32::to_be_bytes).as_flattened());
    }
}

/// The longest length of an extent on the wire: what fits, on a block's boundary.
const EXTENT_BYTES_MAX: u64 = u32::MAX as u64 & !0xFFFF;

/// Joins peers of one kind, and ends the list with the extent in which the range ends, or with the first that is
/// longer than a reply can say.
fn join(extents: &[Extent], len: u64) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
    let mut covered = 0;
    for it in extents.iter().filter(|it| it.len > 0) {
        match joined.last_mut() {
            Some(last) if (last.is_hole, last.is_zero) == (it.is_hole, it.is_zero) => last.len += it.len,
            _ if covered >= len => break,
            Some(last) if last.len > EXTENT_BYTES_MAX => break,
            _ => joined.push(*it),
        }
        covered += it.len;
    }
    if let Some(last) = joined.last_mut() {
        last.len = last.len.min(EXTENT_BYTES_MAX);
    }
    joined
}

fn put_error(to: &mut Pending, ticket: &Ticket, errno: Errno, why: &str) {
    if matches!(ticket.form, Form::Simple) {
        return put_simple(to, ticket, errno.number());
    }
    let text = if why.len() <= TEXT_BYTES_MAX { why } else { "" };
    put_chunk(to, ticket, chunk::DONE, chunk::ERROR, 6 + text.len() as u32);
    to.head(&errno.number().to_be_bytes());
    to.head(&(text.len() as u16).to_be_bytes());
    to.head(text.as_bytes());
}
