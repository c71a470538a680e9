//! Writes: each becomes records of whole blocks, numbered by the owner and appended to the log under one lock.
//!
//! A write asks under that lock whether its client is still there: it may have waited for room in the log, for the
//! log's disk, for the lease, for the rest of a block, or behind others of its batch. So it has its number before
//! anything that a later client writes, or it never gets one.
//!
//! A block that is written in part is read first, and what was read is merged under the lock only if the block has not
//! changed since; else it is read again. So writes to different parts of a block, under way together, all stay.

use super::copies::{CopiesConfig, extent_of};
use super::read::{Version, blocks_of};
use super::requests::{Own, errno};
use super::{Core, State};
use crate::cache::{BLOCKS_MAX, Write};
use crate::extents::{BLOCK, Blocks};
use bytes::Bytes;
use machines::{Declined, RequestId, messages::holder::Content};
use nbd::{Errno, Ticket};
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request to change a range.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) content: Content,
    pub(super) is_fua: bool,
}

/// A part of a change that is one record.
#[derive(Debug)]
enum Part {
    /// Whole blocks.
    Whole(Blocks, Content),
    /// A block that gets some bytes.
    Edge(u32, Range<usize>, Patch),
}

/// The bytes that a part of a block gets.
#[derive(Clone, Debug)]
enum Patch {
    Bytes(Bytes),
    Zeros,
}

/// The interval at which a request that waits asks for its client.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A payload is a part of a read buffer, and keeps that in memory. One that is smaller than this is copied instead.
const COPIED_BYTES_MAX: usize = 16 << 10;

impl Change {
    /// Its records.
    fn parts(self) -> Vec<Part> {
        let Self { offset, len, mut content, .. } = self;
        if let Content::Data(bytes) = &mut content
            && bytes.len() < COPIED_BYTES_MAX
        {
            *bytes = Bytes::copy_from_slice(bytes);
        }
        let (all, end) = (blocks_of(offset, len), offset + len);
        let whole = offset.div_ceil(BLOCK as u64) as u32..(end / BLOCK as u64) as u32;
        let mut parts = Vec::with_capacity(whole.len() / BLOCKS_MAX as usize + 2);
        let edge = |block: u32| {
            let at = u64::from(block) * BLOCK as u64;
            let (from, to) = (offset.max(at), end.min(at + BLOCK as u64));
            let patch = match &content {
                Content::Data(bytes) => Patch::Bytes(bytes.slice((from - offset) as usize..(to - offset) as usize)),
                Content::Zero | Content::Trim => Patch::Zeros,
            };
            Part::Edge(block, (from - at) as usize..(to - at) as usize, patch)
        };
        // A trim is a hint: a part of a block stays.
        let edges = all.clone().filter(|block| !whole.contains(block) && !matches!(content, Content::Trim));
        parts.extend(edges.map(edge));
        match &content {
            Content::Data(bytes) => parts.extend(whole.clone().step_by(BLOCKS_MAX as usize).map(|first| {
                let blocks = first..whole.end.min(first.saturating_add(BLOCKS_MAX));
                let at = |block: u32| (u64::from(block) * BLOCK as u64 - offset) as usize;
                Part::Whole(blocks.clone(), Content::Data(bytes.slice(at(blocks.start)..at(blocks.end))))
            })),
            content if !whole.is_empty() => parts.push(Part::Whole(whole, content.clone())),
            _ => {}
        }
        parts
    }
}

impl Core {
    /// Takes a change; its answer comes by the owner. Returns whether somebody has to make the log durable for that.
    ///
    /// If the client hangs up when some records of it are in the log, these stay, and no more follow: it was not
    /// answered, so any part of it may be there, as after a crash.
    pub(super) fn change(&self, ticket: Ticket, change: Change, own: &Own<'_>) -> bool {
        let replies = own.replies;
        let is_fua = change.is_fua;
        let parts = change.parts();
        if parts.is_empty() {
            replies.done(ticket, Ok(nbd::Answer::Done));
            return false;
        }
        let mut state = self.state();
        if state.is_detaching {
            drop(state);
            replies.done(ticket, Err(Errno::Shutdown));
            return false;
        }
        let was_clean = state.owner.is_clean();
        let request = state.requests.add(ticket, replies, parts.len() as u32);
        for part in parts {
            state = self.put(state, request, &part, is_fua, own);
        }
        let waits = is_fua || self.waits_for_log;
        // The first dirty write has an age that the keeper watches, whoever flushes it.
        if was_clean || std::mem::take(&mut state.is_for_keeper) && !waits {
            self.keep.notify_one();
        }
        self.carry_out(state, Some(own));
        waits
    }

    /// Puts a part into the log, when there is room.
    fn put<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        request: RequestId,
        part: &Part,
        is_fua: bool,
        own: &Own<'_>,
    ) -> MutexGuard<'a, State> {
        let mut merged: Option<(Vec<u8>, Version)> = None;
        loop {
            if Self::is_far_behind(&state) && state.failed.is_none() {
                state = self.await_log(state, own);
            }
            let (blocks, content) = match part {
                Part::Whole(blocks, content) => (blocks.clone(), content.clone()),
                Part::Edge(block, range, patch) => match &merged {
                    Some((bytes, version)) if state.version(*block) == *version => {
                        let mut bytes = bytes.clone();
                        match patch {
                            Patch::Bytes(patch) => bytes[range.clone()].copy_from_slice(patch),
                            Patch::Zeros => bytes[range.clone()].fill(0),
                        }
                        (*block..*block + 1, Content::Data(bytes.into()))
                    }
                    _ => {
                        self.carry_out(state, Some(own));
                        own.stalls();
                        let read = self.read_block(*block, &|| own.is_gone());
                        state = self.state();
                        match read {
                            Ok(read) => merged = Some(read),
                            Err(errno) => {
                                state.requests.finish(request, Err(errno));
                                return state;
                            }
                        }
                        continue;
                    }
                },
            };
            let appended = match own.permit() {
                Some(_permit) if !state.is_closing => self.append(&mut state, request, blocks, content, is_fua),
                Some(_) => Err(Declined::Stopped),
                None => Err(Declined::GivenUp),
            };
            match appended {
                Ok(()) => return state,
                Err(Declined::NoRoom) => state = self.await_room(state, own),
                Err(Declined::LeaseOver) => match self.regain_lease(state, own) {
                    Ok(again) => state = again,
                    Err(errno) => {
                        state = self.state();
                        state.requests.finish(request, Err(errno));
                        return state;
                    }
                },
                Err(declined) => {
                    state.requests.finish(request, Err(errno(declined)));
                    return state;
                }
            }
        }
    }

    /// Appends a record. The caller makes the log durable.
    pub(super) fn append(
        &self,
        state: &mut State,
        request: RequestId,
        blocks: Blocks,
        content: Content,
        is_fua: bool,
    ) -> Result<(), Declined> {
        let extent = extent_of(&blocks);
        let now = self.now();
        let (rewrites, copies) = self.rewrites_and_copies(state, &blocks);
        let write = machines::Write { request, extent, content: &content, is_fua, copies };
        let stamp = state.owner.write(now, write)?;
        let position = self.base + stamp.sequence.0;
        state.dirty.push_rewrite(position, stamp.flush, blocks.clone(), content.clone(), rewrites);
        state.clean.drop_blocks(blocks.clone());
        state.counts.written += blocks.len() as u64;
        let write = Write { epoch: stamp.epoch, flush: stamp.flush, blocks, content };
        state.is_for_keeper |= self.log_write(state, position, write);
        Ok(())
    }

    /// How often one of these blocks was written since it was written back, if that counts, and the copies that a write
    /// of them should have: more, the more often they are written (**AckAtW**).
    fn rewrites_and_copies(&self, state: &State, blocks: &Blocks) -> (u8, u8) {
        match &self.copies {
            Some(CopiesConfig { view, more_copies_after, .. }) if *more_copies_after > 0 => {
                let rewrites = state.dirty.rewrites(blocks);
                (rewrites, view.entry.copies.saturating_add(rewrites / more_copies_after))
            }
            _ => (0, 0),
        }
    }

    /// Waits until the log has more of what is in memory.
    fn await_log<'a>(&'a self, state: MutexGuard<'a, State>, own: &Own<'_>) -> MutexGuard<'a, State> {
        self.await_while(state, own, Self::is_far_behind)
    }

    /// Waits until something has gone home. A write that is not durable cannot go there.
    fn await_room<'a>(&'a self, state: MutexGuard<'a, State>, own: &Own<'_>) -> MutexGuard<'a, State> {
        let seen = state.rooms;
        self.await_while(state, own, |state| state.rooms == seen)
    }

    /// Waits while there is no room for a write, as long as its client is there.
    fn await_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        own: &Own<'_>,
        has_none: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waits = |state: &mut State| has_none(state) && state.failed.is_none() && !state.is_closing;
        self.await_unless_gone(self.begin_wait(state, own), own, None, waits)
    }

    /// Does what others wait for before this thread waits.
    pub(super) fn begin_wait<'a>(&'a self, state: MutexGuard<'a, State>, own: &Own<'_>) -> MutexGuard<'a, State> {
        self.carry_out(state, Some(own));
        own.stalls();
        self.lead(Some(own));
        self.state()
    }

    /// Waits for news of room or of the lease, until a time, and as long as the client is there.
    pub(super) fn await_unless_gone<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        own: &Own<'_>,
        until: Option<Instant>,
        mut waits: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        while waits(&mut state) && !own.is_gone() {
            let left = until.map_or(LOOK_EVERY, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            let waited = self.room.wait_timeout_while(state, left.min(LOOK_EVERY), &mut waits);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

/// Whether a range is one that a volume can have.
pub(super) fn is_inside(size: u64, offset: u64, len: u64) -> Result<(), Errno> {
    offset.checked_add(len).filter(|&end| end <= size).map(drop).ok_or(Errno::Invalid)
}
