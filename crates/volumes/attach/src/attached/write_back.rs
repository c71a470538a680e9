//! The way home: the newest version of each block in the flush epochs that the owner names, in large pieces.

use super::{Core, State};
use crate::cache::{Kept, Pages};
use crate::extents::{BLOCK, Blocks, ExtentMap};
use crate::home::{HomeError, PIECE_BYTES_MAX, Piece};
use bytes::Bytes;
use machines::WriteBack;
use std::sync::{MutexGuard, PoisonError};
use vfs::{FileError, contain};

/// The blocks of one write-back.
struct Plan {
    back: WriteBack,
    is_joined: bool,
    /// The write of each block.
    newest: ExtentMap<u64>,
}

/// Where the bytes of a run of blocks are.
enum Source {
    /// In memory: the log has not got them, and never will.
    Memory(Bytes),
    /// In the log, in the record of a write of these blocks.
    Log(u64, Blocks),
    /// Zeros; whether the range may become a hole.
    Zeros(bool),
}

impl Core {
    /// The thread that writes home.
    pub(super) fn write_back(&self) {
        loop {
            let waits = |state: &mut State| state.to_home.is_none() && !state.is_closing && state.failed.is_none();
            let state = self.write_back.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
            if state.is_closing || state.failed.is_some() {
                return;
            }
            drop(state);
            self.write_back_once();
        }
    }

    /// Writes home what the owner has named, if it has named something.
    pub(super) fn write_back_once(&self) {
        let Some(plan) = self.plan() else { return };
        let mut clean = NowClean { put: Vec::new(), room: self.state().clean.len().1 / 4 };
        let mut unread = None;
        let installed = contain(|| Ok(self.install(&plan, &mut clean, &mut unread)));
        if let Err(error) = installed.unwrap_or_else(|panic| Err(panic.into())) {
            clean.release(&mut self.state());
            return match unread {
                // To ask a disk again is in vain. Where there are copies, holders bring them home when this host is
                // silent.
                Some(why) => self.fail(format!("the cache has writes that are not home, and cannot be read: {why}")),
                None => self.is_not_home(&error),
            };
        }
        self.is_home(plan.back, clean);
    }

    fn plan(&self) -> Option<Plan> {
        let mut state = self.state();
        let back = state.to_home.take()?;
        let through = self.base + back.through.sequence.0;
        // The writes that a start has found may be home in part already.
        let is_joined = back.is_joined || self.base + back.after.sequence.0 < state.recovered;
        Some(Plan { back, is_joined, newest: state.dirty.newest_through(through) })
    }

    /// Writes home. `unread` is why the cache's disk could not be read for it, if that was so.
    fn install(&self, plan: &Plan, clean: &mut NowClean, unread: &mut Option<String>) -> Result<(), HomeError> {
        let epoch = self.state().owner.epoch();
        self.forget_cache(plan.back.after)?;
        self.home.install(epoch, plan.back, plan.is_joined, &mut |put| {
            clean.begin_anew(self);
            let mut gathered = Gathered { clean: &mut *clean, first: 0, bytes: Vec::new() };
            for (blocks, position) in plan.newest.iter() {
                match self.source(position, &blocks) {
                    Source::Zeros(is_hole) => {
                        gathered.put(put)?;
                        put(Piece::Zeros { blocks, is_hole })?;
                    }
                    Source::Memory(bytes) => {
                        let into = gathered.add(blocks.clone(), put)?;
                        into.copy_from_slice(&bytes);
                        gathered.added(self, position, blocks);
                    }
                    Source::Log(position, record) => {
                        let into = gathered.add(blocks.clone(), put)?;
                        let read = self.read_for_home(position, &record, &blocks, into);
                        read.inspect_err(|error| *unread = self.is_over(error).then(|| error.to_string()))?;
                        gathered.added(self, position, blocks);
                    }
                }
            }
            gathered.put(put)
        })
    }

    fn source(&self, position: u64, blocks: &Blocks) -> Source {
        let state = self.state();
        let write = state.dirty.write(position);
        match &write.kept {
            Kept::Zeros { is_hole } => Source::Zeros(*is_hole),
            // Only counted writes are written back, so the log has them, unless it is lost, or damaged there.
            Kept::Memory(_) if state.lost_cache.is_some() || state.dirty.is_mended(position) => {
                Source::Memory(write.in_memory(blocks).expect("it is in memory"))
            }
            Kept::Log | Kept::Memory(_) => Source::Log(position, write.blocks.clone()),
        }
    }

    fn read_for_home(&self, position: u64, record: &Blocks, blocks: &Blocks, into: &mut [u8]) -> Result<(), FileError> {
        if self.read_log(position, record, blocks, into)? {
            return Ok(());
        }
        let what = format!("write {position} is not home, and the log has freed it");
        Err(FileError::Corrupt { file: "the log".into(), offset: 0, what })
    }

    /// Whether nothing can continue when this keeps writes from home. A damaged one may be repaired on the disk, as
    /// long as no request waits for home.
    fn is_over(&self, error: &FileError) -> bool {
        matches!(error, FileError::Io { .. }) || self.state().lost_cache.is_some()
    }

    /// Everything through there is home, durably.
    fn is_home(&self, back: WriteBack, clean: NowClean) {
        let through = self.base + back.through.sequence.0;
        let (dropped, is_lost) = {
            let mut state = self.state();
            let was_far_behind = Self::is_far_behind(&state);
            clean.publish(&mut state);
            state.dirty.home(through);
            state.write_backs += 1;
            state.home_error = None;
            if was_far_behind {
                self.room.notify_all();
            }
            (state.clean.take_dropped(&self.clean), state.lost_cache.is_some())
        };
        let mut frees = false;
        if !is_lost {
            match self.clean.write_pages(dropped) {
                Ok(()) => frees = self.log.free_before(through + 1),
                Err(error) => self.cache_failed(&error),
            }
        }
        let mut state = self.state();
        state.wants_flush |= frees;
        let now = self.now();
        state.owner.home_durable(now, back.through);
        self.keep.notify_one();
        self.carry_out(state, None);
    }

    /// Home has refused: the owner tries again after a while, and the log keeps everything.
    fn is_not_home(&self, error: &HomeError) {
        if error.went_back() {
            return self.home_went_back(error);
        }
        let mut state = self.state();
        state.home_error = Some(error.to_string());
        let now = self.now();
        match error.ended() {
            Some(epoch) => state.owner.home_ended(epoch),
            None => state.owner.home_failed(now),
        }
        self.keep.notify_one();
        self.carry_out(state, None);
        self.drained.notify_all();
    }

    /// Says that this cache has nothing any more, and leaves a mark behind the last record, so that a later damage to
    /// it cannot pass for a torn tail.
    pub(super) fn close(&self) -> Result<(), String> {
        let changed = {
            let mut state = self.state();
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            if state.is_detached {
                return Ok(());
            }
            if !state.owner.is_clean() {
                return Err("a write came in the meantime".to_owned());
            }
            state.owner.stop();
            state.clean.take_changed(&self.clean)
        };
        if !self.is_cache_lost() {
            self.close_cache(changed)?;
        }
        if self.is_cache_lost() {
            self.home.forget_cache().map_err(|error| error.to_string())?;
        }
        self.home.release().map_err(|error| error.to_string())?;
        self.cache_lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.state().is_detached = true;
        Ok(())
    }

    /// Leaves a cache that has nothing which is not written back, for the next attachment. It may be lost by that.
    fn close_cache(&self, changed: Pages) -> Result<(), String> {
        match self.clean.write_pages(changed).and_then(|()| self.remember_home()) {
            Ok(()) => {
                self.log.mark();
                self.lead(None);
            }
            Err(error) => self.cache_failed(&error),
        }
        // Home must not be free before the log is: a start would write home what somebody has changed there since.
        let is_open = !self.is_cache_lost() && (self.log.has_failed() || self.log.is_stuck());
        if is_open { Err("the log could not be closed".to_owned()) } else { Ok(()) }
    }

    fn is_cache_lost(&self) -> bool {
        self.state().lost_cache.is_some()
    }

    /// Waits until everything is written back, and the registry knows it if there is one.
    pub(super) fn drain(&self) -> Result<(), String> {
        let mut state = self.state();
        // An error of before need not come again.
        state.home_error = None;
        let now = self.now();
        if self.copies.is_some() {
            state.owner.detach(now);
        } else {
            state.owner.drain(now);
        }
        self.keep.notify_one();
        self.carry_out(state, None);
        self.lead(None);
        let is_done = |state: &State| state.owner.is_clean() && (self.copies.is_none() || state.is_released);
        // Writes that are in memory alone wait for home as long as that takes.
        let is_vain = |state: &State| state.home_error.is_some() && state.lost_cache.is_none() || self.log.is_stuck();
        let waits = |state: &mut State| !is_done(state) && state.failed.is_none() && !is_vain(state);
        let state: MutexGuard<'_, State> =
            self.drained.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        match state.failed.as_ref().or(state.home_error.as_ref()) {
            Some(why) if !state.owner.is_clean() => Err(why.clone()),
            None if !state.owner.is_clean() => Err("the cache's disk has no room for what waits".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Blocks on their way home, in slots of the clean blocks, which they are when they are written back.
#[derive(Debug)]
struct NowClean {
    /// The slot, the block, its checksum and its write.
    put: Vec<(u32, u32, u32, u64)>,
    /// How many more there may be: what is read often must not all leave for what was written.
    room: usize,
}

impl NowClean {
    /// A home that was busy asks for everything again.
    fn begin_anew(&mut self, core: &Core) {
        self.room += self.put.len();
        let mut state = core.state();
        self.put.drain(..).for_each(|(slot, ..)| state.clean.release(slot));
    }

    fn add(&mut self, core: &Core, position: u64, first: u32, bytes: &[u8]) {
        let count = (bytes.len() / BLOCK).min(self.room);
        let put = core.put_clean(first, &bytes[..count * BLOCK]);
        self.room -= put.len();
        self.put.extend(put.into_iter().map(|(slot, block, checksum)| (slot, block, checksum, position)));
    }

    /// They are written back: those that were not written again are clean.
    fn publish(self, state: &mut State) {
        for (slot, block, checksum, position) in self.put {
            if state.dirty.newest(block) == Some(position) {
                state.clean.publish(slot, block, checksum);
            } else {
                state.clean.release(slot);
            }
        }
    }

    fn release(self, state: &mut State) {
        self.put.into_iter().for_each(|(slot, ..)| state.clean.release(slot));
    }
}

/// Blocks one behind the other, to be written as one piece.
struct Gathered<'a> {
    clean: &'a mut NowClean,
    first: u32,
    bytes: Vec<u8>,
}

impl Gathered<'_> {
    /// Makes room for blocks of a write, which should be filled in; lets go of what is gathered before when it is
    /// enough or not followed by them.
    fn add(
        &mut self,
        blocks: Blocks,
        put: &mut dyn FnMut(Piece) -> Result<(), FileError>,
    ) -> Result<&mut [u8], FileError> {
        let is_next = self.first as usize + self.bytes.len() / BLOCK == blocks.start as usize;
        if !is_next || self.bytes.len() + blocks.len() * BLOCK > PIECE_BYTES_MAX {
            self.put(put)?;
            self.first = blocks.start;
        }
        let before = self.bytes.len();
        self.bytes.resize(before + blocks.len() * BLOCK, 0);
        Ok(&mut self.bytes[before..])
    }

    /// They are filled in.
    fn added(&mut self, core: &Core, position: u64, blocks: Blocks) {
        let bytes = &self.bytes[self.bytes.len() - blocks.len() * BLOCK..];
        self.clean.add(core, position, blocks.start, bytes);
    }

    fn put(&mut self, put: &mut dyn FnMut(Piece) -> Result<(), FileError>) -> Result<(), FileError> {
        if !self.bytes.is_empty() {
            put(Piece::Bytes(self.first, std::mem::take(&mut self.bytes).into()))?;
        }
        Ok(())
    }
}
