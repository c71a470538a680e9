//! Messages on their way out: what leaves next.
//!
//! ```text
//!   urgent    pings and pongs
//!   prompt    whatever keeps its order: small frames, and pieces of large messages, in batches of about a quantum
//!   yielding  large commits, each in pieces, in turns
//!   trailing  what waits for the large commits before it
//! ```
//! 1. The rules of which message may pass which are in [`Pace`], and nowhere else.
//! 2. A large message yields after every quantum, so nothing that may pass it waits for more than one.
//! 3. Small messages without end do not hold a large one up for good: after some quanta of them one of its pieces
//!    leaves.
//! 4. Of a family in which nothing passes anything, more leaves together: there is nobody whom that keeps waiting, and
//!    each write to a socket costs its way through the system.

use crate::batch::Batch;
use crate::codec::Codec;
use crate::{HEADER_BYTES, PREFACE, Preface, WireError};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use machine::{Pace, Parcel};
use types::limits::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, PIECE_BYTES_MAX, PIECED_BYTES_MAX, PIECED_MESSAGES_MAX};

/// Large commits that take turns: room for one more large message of those that keep their order.
const TURNS_MAX: usize = PIECED_MESSAGES_MAX - 1;
const TURNS_BYTES_MAX: usize = PIECED_BYTES_MAX - MESSAGE_BYTES_MAX;

/// The bytes that leave together where nothing passes anything.
const ORDERED_BYTES_MAX: usize = 16 * PIECE_BYTES_MAX;

/// The bytes of other messages that may leave before a piece of one that yields to them.
const YIELD_BYTES_MAX: usize = 4 * PIECE_BYTES_MAX;

/// Messages on their way out.
#[derive(Debug)]
pub struct Outbox {
    codec: &'static dyn Codec,
    /// So many bytes leave together, or a little more.
    quantum: usize,
    urgent: Batch,
    /// The first batch, and those behind it.
    prompt: Batch,
    prompt_behind: VecDeque<Batch>,
    /// Large messages that take turns, and those that wait for a place among them.
    turns: VecDeque<Large>,
    yielding: VecDeque<Large>,
    trailing: VecDeque<Trailing>,
    bytes: usize,
    /// The bytes that have left since a large message was waiting and none of it left.
    yielded: usize,
    /// The number of the last message that was cut to pieces.
    last: u64,
}

/// A large message, as far as it has not left.
#[derive(Debug)]
struct Large {
    number: u64,
    frame: Batch,
    /// Of the whole frame.
    bytes: usize,
}

/// The frames that wait until the large messages through this number have left.
#[derive(Debug)]
struct Trailing {
    after: u64,
    frames: Batch,
}

/// Everything that a message is on a connection that carries no other, behind the preface.
///
/// # Errors
/// A message that cannot be received is not sent.
pub fn frames_of(codec: &'static dyn Codec, message: &Parcel) -> Result<Vec<u8>, WireError> {
    let (mut out, mut bytes) = (Outbox::new(codec), Vec::new());
    out.push(message)?;
    while !out.is_empty() {
        let mut batch = Batch::default();
        out.next(&mut batch);
        bytes.extend(batch.chunks().flatten());
    }
    Ok(bytes)
}

/// The frame of a preface.
pub fn preface_frame(codec: &'static dyn Codec, preface: &Preface) -> Vec<u8> {
    let (mut out, mut batch) = (Outbox::begin(codec, preface), Batch::default());
    out.next(&mut batch);
    batch.chunks().flatten().copied().collect()
}

impl Outbox {
    /// Only a preface on its way from this end: it leaves with the first message.
    pub fn begin(codec: &'static dyn Codec, preface: &Preface) -> Self {
        let mut out = Self::new(codec);
        // It is small, and nothing passes what is urgent.
        let framed = out.urgent.frame(PREFACE, preface);
        debug_assert!(framed.is_ok(), "a preface has no part that grows");
        out.bytes = out.urgent.bytes();
        out
    }

    /// Nothing on its way from this end, behind its preface.
    pub fn new(codec: &'static dyn Codec) -> Self {
        Self {
            codec,
            quantum: if codec.is_ordered() { ORDERED_BYTES_MAX } else { PIECE_BYTES_MAX },
            urgent: Batch::default(),
            prompt: Batch::default(),
            prompt_behind: VecDeque::new(),
            turns: VecDeque::new(),
            yielding: VecDeque::new(),
            trailing: VecDeque::new(),
            bytes: 0,
            yielded: 0,
            last: 0,
        }
    }

    /// From now on messages are said at this end: the preface of the other end has shown what its connection is for.
    pub fn speak(&mut self, codec: &'static dyn Codec) {
        self.codec = codec;
    }

    /// The end that all of it comes from.
    pub fn codec(&self) -> &'static dyn Codec {
        self.codec
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The message is larger than a receiver takes, and was not taken.
    ///
    /// # Panics
    /// If it is a message that is not said at this end.
    pub fn push(&mut self, message: &Parcel) -> Result<(), WireError> {
        match message.pace() {
            Pace::Urgent => self.bytes += append(self.codec, &mut self.urgent, message)?,
            Pace::Trailing if self.some_yield() => self.push_trailing(message)?,
            pace @ (Pace::Opening | Pace::Ordered | Pace::Yielding | Pace::Trailing) => {
                self.push_prompt(message, pace)?;
            }
        }
        Ok(())
    }

    fn push_prompt(&mut self, message: &Parcel, pace: Pace) -> Result<(), WireError> {
        if self.last_prompt().bytes() >= self.quantum {
            self.prompt_behind.push_back(Batch::default());
        }
        let codec = self.codec;
        let batch = self.last_prompt();
        let mark = batch.mark();
        let bytes = append(codec, batch, message)?;
        if bytes <= FRAME_BYTES_MAX {
            self.bytes += bytes;
            return Ok(());
        }
        let mut frame = batch.split_off(mark);
        self.last += 1;
        let number = self.last;
        self.bytes += pieced_bytes(bytes);
        if pace == Pace::Yielding {
            self.yielding.push_back(Large { number, frame, bytes });
            return Ok(());
        }
        while !frame.is_empty() {
            self.push_piece(frame.cut(number, PIECE_BYTES_MAX));
        }
        Ok(())
    }

    /// Adds a piece of a large message to the last batch, if they may leave together.
    fn push_piece(&mut self, piece: Batch) {
        let quantum = self.quantum;
        let last = self.last_prompt();
        if last.bytes() + piece.bytes() <= quantum {
            last.append_batch(piece);
        } else {
            self.prompt_behind.push_back(piece);
        }
    }

    fn push_trailing(&mut self, message: &Parcel) -> Result<(), WireError> {
        let after = self.last;
        if self.trailing.back().is_none_or(|last| last.after != after) {
            self.trailing.push_back(Trailing { after, frames: Batch::default() });
        }
        let frames = &mut self.trailing.back_mut().expect("just seen to").frames;
        self.bytes += append(self.codec, frames, message)?;
        Ok(())
    }

    fn last_prompt(&mut self) -> &mut Batch {
        self.prompt_behind.back_mut().unwrap_or(&mut self.prompt)
    }

    /// The number of bytes that wait to leave.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Puts what leaves next in the place of an empty batch: about a quantum of it, or less. Leaves the batch empty if
    /// nothing waits.
    pub fn next(&mut self, batch: &mut Batch) {
        debug_assert!(batch.is_empty(), "what was taken leaves first");
        if !self.urgent.is_empty() {
            mem::swap(batch, &mut self.urgent);
        } else if !self.next_prompt(batch) {
            self.next_yielding(batch);
        }
        self.bytes -= batch.bytes();
    }

    fn next_prompt(&mut self, batch: &mut Batch) -> bool {
        while self.prompt.is_empty()
            && let Some(next) = self.prompt_behind.pop_front()
        {
            self.prompt = next;
        }
        let some_yield = self.some_yield();
        if self.prompt.is_empty() || (some_yield && self.yielded >= YIELD_BYTES_MAX) {
            return false;
        }
        mem::swap(batch, &mut self.prompt);
        self.yielded = if some_yield { self.yielded + batch.bytes() } else { 0 };
        true
    }

    /// Whether anything waits that lets others go first.
    fn some_yield(&self) -> bool {
        !self.turns.is_empty() || !self.yielding.is_empty() || !self.trailing.is_empty()
    }

    fn next_yielding(&mut self, batch: &mut Batch) {
        self.yielded = 0;
        let first = self.turns.iter().chain(self.yielding.front()).map(|large| large.number).min();
        let is_due = |trailing: &Trailing| first.is_none_or(|first| first > trailing.after);
        if self.trailing.front().is_some_and(is_due)
            && let Some(trailing) = self.trailing.pop_front()
        {
            *batch = trailing.frames;
            return;
        }
        self.fill_turns();
        let Some(mut large) = self.turns.pop_front() else { return };
        *batch = large.frame.cut(large.number, PIECE_BYTES_MAX);
        if !large.frame.is_empty() {
            self.turns.push_back(large);
        }
    }

    /// Gives large messages their places, as many as the other end takes at a time.
    fn fill_turns(&mut self) {
        let mut bytes: usize = self.turns.iter().map(|large| large.bytes).sum();
        while self.turns.len() < TURNS_MAX
            && self.yielding.front().is_some_and(|next| bytes + next.bytes <= TURNS_BYTES_MAX)
            && let Some(next) = self.yielding.pop_front()
        {
            bytes += next.bytes;
            self.turns.push_back(next);
        }
    }
}

/// The length in pieces of a frame of this many bytes.
fn pieced_bytes(bytes: usize) -> usize {
    bytes + bytes.div_ceil(PIECE_BYTES_MAX) * (HEADER_BYTES + size_of::<u64>())
}

/// Appends a message to a batch; gives the bytes of its frame.
fn append(codec: &dyn Codec, batch: &mut Batch, message: &Parcel) -> Result<usize, WireError> {
    let before = batch.bytes();
    codec.encode(message, batch)?;
    Ok(batch.bytes() - before)
}
