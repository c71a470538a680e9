//! Reads: each block from the newest place that has it.

use super::status::Reads;
use super::{Core, State};
use crate::cache::{Kept, Writes, places_in_body};
use crate::extents::{BLOCK, Blocks};
use crate::far::Asked;
use crate::home::{Home, HomeError};
use bytes::Bytes;
use log::Log;
use nbd::{Answer, Errno};
use smallvec::SmallVec;
use vfs::FileError;

/// Where a run of blocks is read.
#[derive(Debug)]
pub(super) enum Source {
    /// In memory.
    Memory(Bytes),
    /// In the log, in the record at a position, of a write of these blocks.
    Log(u64, Blocks),
    /// They are zeros.
    Zeros,
    /// In the clean blocks, from this slot on, with these checksums.
    Clean(u32, SmallVec<[u32; 1]>),
    /// At home, where it may have been asked for.
    Home(Option<Asked>),
}

/// Whether a thread may wait for a disk, or for home.
#[derive(Clone, Copy)]
enum Waits<'a> {
    /// Until nobody wants what it reads.
    Until(&'a dyn Fn() -> bool),
    /// It reads no more than is in memory, the system's page cache included.
    No,
}

/// It is wanted for as long as it takes.
const ALWAYS: Waits<'static> = Waits::Until(&|| false);

/// Where the blocks of a read are.
#[derive(Debug)]
pub(super) struct Found {
    blocks: Blocks,
    sources: SmallVec<[(Blocks, Source); 2]>,
    /// How many write-backs had ended.
    write_backs: u64,
}

/// Blocks that were read, some of them at home.
#[derive(Debug)]
pub(super) struct AtHome {
    found: Found,
    bytes: Bytes,
}

/// The version of a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Its newest write that was not written back.
    newest: Option<u64>,
    /// How many write-backs had ended.
    write_backs: u64,
}

/// The blocks that have bytes of a range.
pub(super) fn blocks_of(offset: u64, len: u64) -> Blocks {
    (offset / BLOCK as u64) as u32..(offset + len).div_ceil(BLOCK as u64) as u32
}

impl State {
    /// Where these blocks are now.
    pub(super) fn find(&mut self, blocks: Blocks) -> Found {
        let Self { dirty, clean, .. } = self;
        let mut sources: SmallVec<[(Blocks, Source); 2]> = SmallVec::new();
        for (piece, newest) in dirty.pieces(blocks.clone()) {
            let Some(position) = newest else {
                piece.for_each(|block| add_clean(&mut sources, block, clean.find(block)));
                continue;
            };
            let write = dirty.write(position);
            let source = match &write.kept {
                Kept::Memory(_) => Source::Memory(write.in_memory(&piece).expect("it is in memory")),
                Kept::Log => Source::Log(position, write.blocks.clone()),
                Kept::Zeros { .. } => Source::Zeros,
            };
            sources.push((piece, source));
        }
        Found { blocks, sources, write_backs: self.write_backs }
    }

    /// The version of a block now.
    pub(super) fn version(&self, block: u32) -> Version {
        Version { newest: self.dirty.newest(block), write_backs: self.write_backs }
    }

    /// Whether what was read of home was the newest: nothing of it is dirty, and nothing has gone home in the meantime.
    fn is_still_home(&self, found: &Found) -> bool {
        let is_home = |(blocks, source): &(Blocks, Source)| {
            !matches!(source, Source::Home(_)) || self.dirty.pieces(blocks.clone()).all(|(_, newest)| newest.is_none())
        };
        self.write_backs == found.write_backs && found.sources.iter().all(is_home)
    }
}

/// Adds a block that is not dirty: to the last run, if it continues there.
fn add_clean(sources: &mut SmallVec<[(Blocks, Source); 2]>, block: u32, found: Option<(u32, u32)>) {
    match (sources.last_mut(), found) {
        (Some((blocks, Source::Home(_))), None) => blocks.end += 1,
        (Some((blocks, Source::Clean(first, checksums))), Some((slot, checksum)))
            if *first + blocks.len() as u32 == slot =>
        {
            blocks.end += 1;
            checksums.push(checksum);
        }
        (_, Some((slot, checksum))) => {
            sources.push((block..block + 1, Source::Clean(slot, SmallVec::from_buf([checksum]))));
        }
        (_, None) => sources.push((block..block + 1, Source::Home(None))),
    }
}

impl Found {
    /// How many blocks are where.
    pub(super) fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        for (blocks, source) in &self.sources {
            let count = match source {
                Source::Memory(_) | Source::Log(..) | Source::Zeros => &mut reads.dirty,
                Source::Clean(..) => &mut reads.clean,
                Source::Home(_) => &mut reads.home,
            };
            *count += blocks.len() as u64;
        }
        reads
    }

    /// The answer to a read of one piece that is in memory: nothing is copied.
    fn in_memory(&self, offset: u64, len: u32) -> Option<Answer> {
        match &self.sources[..] {
            [(_, Source::Zeros)] => Some(Answer::zeros(len)),
            [(_, Source::Memory(bytes))] => Some(part(bytes, offset, len)),
            _ => None,
        }
    }

    /// Asks for what is at home, if that is elsewhere.
    pub(super) fn ask(&mut self, home: &Home) {
        for (blocks, source) in &mut self.sources {
            if let Source::Home(asked) = source {
                *asked = home.ask(blocks);
            }
        }
    }

    /// Its blocks.
    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The part of it that is read at home.
    pub(super) fn at_home(mut self) -> Self {
        self.sources.retain(|(_, source)| matches!(source, Source::Home(_)));
        self
    }

    /// Whether some of it is read at home.
    pub(super) fn has_home(&self) -> bool {
        self.sources.iter().any(|(_, source)| matches!(source, Source::Home(_)))
    }
}

/// The bytes of a range among those of the blocks that it lies in.
fn part(bytes: &Bytes, offset: u64, len: u32) -> Answer {
    let skip = (offset % BLOCK as u64) as usize;
    Answer::data(bytes.slice(skip..skip + len as usize))
}

impl Core {
    /// Reads a range if all of it is in memory, the system's page cache included.
    pub(super) fn read_at_hand(&self, offset: u64, len: u32, found: &mut Found) -> Option<Answer> {
        found.in_memory(offset, len).or_else(|| {
            if found.has_home() {
                return None;
            }
            let mut bytes = vec![0; found.blocks.len() * BLOCK];
            // An error is told by the read that waits, which comes next.
            let is_read = self.try_read(found, &mut bytes, Waits::No).unwrap_or(false);
            is_read.then(|| part(&bytes.into(), offset, len))
        })
    }

    /// Reads a range, until nobody wants it. The blocks that were read at home are given, too.
    pub(super) fn read(
        &self,
        offset: u64,
        len: u32,
        found: Found,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(Answer, Option<AtHome>), Errno> {
        let (bytes, found) = self.read_blocks(found, Waits::Until(is_unwanted))?;
        let bytes = Bytes::from(bytes);
        let answer = part(&bytes, offset, len);
        Ok((answer, found.has_home().then_some(AtHome { found, bytes })))
    }

    /// Reads one block, unless it is unwanted, and returns it with its version.
    pub(super) fn read_block(&self, block: u32, is_unwanted: &dyn Fn() -> bool) -> Result<(Vec<u8>, Version), Errno> {
        loop {
            let (found, version) = {
                let mut state = self.state();
                (state.find(block..block + 1), state.version(block))
            };
            let (bytes, _) = self.read_blocks(found, Waits::Until(is_unwanted))?;
            if self.state().version(block) == version {
                return Ok((bytes, version));
            }
        }
    }

    /// Reads whole blocks, again if something has changed in the meantime.
    fn read_blocks(&self, mut found: Found, waits: Waits<'_>) -> Result<(Vec<u8>, Found), Errno> {
        let mut bytes = vec![0; found.blocks.len() * BLOCK];
        loop {
            let read = self.try_read(&mut found, &mut bytes, waits);
            let is_read = read.map_err(|error| self.note_unless_unwanted(&error))?;
            let mut state = self.state();
            if is_read && (!found.has_home() || state.is_still_home(&found)) {
                return Ok((bytes, found));
            }
            found = state.find(found.blocks);
        }
    }

    /// Returns whether everything was still where it had been found, and at hand for a thread that does not wait.
    fn try_read(&self, found: &mut Found, bytes: &mut [u8], waits: Waits<'_>) -> Result<bool, HomeError> {
        for (blocks, source) in &mut found.sources {
            let from = (blocks.start - found.blocks.start) as usize * BLOCK;
            let into = &mut bytes[from..from + blocks.len() * BLOCK];
            match source {
                Source::Memory(bytes) => into.copy_from_slice(bytes),
                Source::Zeros => into.fill(0),
                Source::Home(asked) => match waits {
                    Waits::Until(is_unwanted) => self.home.read(blocks.start, asked.take(), into, is_unwanted)?,
                    Waits::No => return Ok(false),
                },
                Source::Clean(slot, checksums) => {
                    if !self.read_clean(*slot, checksums, blocks, into, waits) {
                        return Ok(false);
                    }
                }
                Source::Log(position, record) => {
                    if !self.read_log_by(*position, record, blocks, into, waits)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads clean blocks; says whether they were still there. Those that are damaged, or cannot be read, are not any
    /// more.
    fn read_clean(&self, slot: u32, checksums: &[u32], blocks: &Blocks, into: &mut [u8], waits: Waits<'_>) -> bool {
        let read = match waits {
            Waits::Until(_) => self.clean.read(slot, into).map(|()| true),
            Waits::No => self.clean.read_at_hand(slot, into),
        };
        let mut is_read = read.unwrap_or_else(|error| {
            // Home has them. Of what was read no checksum is right.
            self.note(&error);
            into.fill(0);
            true
        });
        if !is_read {
            return false;
        }
        for (at, (block, bytes)) in (0..).zip(blocks.clone().zip(into.chunks_exact(BLOCK))) {
            let checksum = checksums[at as usize];
            if vfs::checksum(bytes) != checksum {
                is_read = false;
                let mut state = self.state();
                if state.clean.is_in(slot + at, block, checksum) {
                    state.clean.drop_blocks(block..block + 1);
                }
            }
        }
        is_read
    }

    /// Reads what was found at home, and caches it. Returns whether home has given it.
    pub(super) fn keep_found(&self, mut found: Found) -> bool {
        let mut bytes = vec![0; found.blocks.len() * BLOCK];
        let read = self.try_read(&mut found, &mut bytes, ALWAYS);
        if matches!(read, Ok(true)) {
            self.keep_clean(&AtHome { found, bytes: bytes.into() });
        }
        read.is_ok()
    }

    /// Caches what was read at home, if it is still the newest.
    pub(super) fn keep_clean(&self, read: &AtHome) {
        let AtHome { found, bytes } = read;
        for (blocks, _) in found.sources.iter().filter(|(_, source)| matches!(source, Source::Home(_))) {
            let from = (blocks.start - found.blocks.start) as usize * BLOCK;
            let put = self.put_clean(blocks.start, &bytes[from..from + blocks.len() * BLOCK]);
            let mut state = self.state();
            let is_newest = state.is_still_home(found);
            for (slot, block, checksum) in put {
                if is_newest {
                    state.clean.publish(slot, block, checksum);
                } else {
                    state.clean.release(slot);
                }
            }
        }
    }

    /// Writes blocks to slots, which should be published or released, with their block and checksum. Where there is no
    /// room they are not cached.
    pub(super) fn put_clean(&self, first: u32, bytes: &[u8]) -> Vec<(u32, u32, u32)> {
        let (reserved, mut has_trouble): (Vec<_>, bool) = {
            let mut state = self.state();
            if state.lost_cache.is_some() {
                return Vec::new();
            }
            let reserved = (0..bytes.len() / BLOCK).map_while(|_| state.clean.reserve()).collect();
            (reserved, state.clean_error.is_some())
        };
        let mut put = Vec::with_capacity(reserved.len());
        let mut at = 0;
        for run in reserved.chunk_by(|one, next| one + 1 == *next) {
            let part = &bytes[at * BLOCK..(at + run.len()) * BLOCK];
            let trouble = self.clean.write(run[0], part).err().map(|error| error.to_string());
            let is_written = trouble.is_none();
            // Without trouble the lock is not taken for it.
            if has_trouble || !is_written {
                has_trouble = !is_written;
                self.state().clean_error = trouble;
            }
            for (slot, block) in run.iter().zip(part.chunks_exact(BLOCK)) {
                if is_written {
                    put.push((*slot, first + at as u32, vfs::checksum(block)));
                } else {
                    self.state().clean.release(*slot);
                }
                at += 1;
            }
        }
        put
    }

    /// Reads blocks of a record of the log; says whether it was still there.
    pub(super) fn read_log(
        &self,
        position: u64,
        record: &Blocks,
        blocks: &Blocks,
        into: &mut [u8],
    ) -> Result<bool, FileError> {
        self.read_log_by(position, record, blocks, into, ALWAYS)
    }

    fn read_log_by(
        &self,
        position: u64,
        record: &Blocks,
        blocks: &Blocks,
        into: &mut [u8],
        waits: Waits<'_>,
    ) -> Result<bool, FileError> {
        match waits {
            Waits::Until(_) => read_record(&self.log, position, record, blocks, into),
            Waits::No => {
                read_checked(|from, into| self.log.read_at_hand(position, from, into), position, record, blocks, into)
            }
        }
    }
}

/// Reads blocks of a record of a log; says whether it was still there.
pub(super) fn read_record(
    log: &Log<Writes>,
    position: u64,
    record: &Blocks,
    blocks: &Blocks,
    into: &mut [u8],
) -> Result<bool, FileError> {
    read_checked(|from, into| log.read(position, from, into), position, record, blocks, into)
}

/// The same, by this way of reading a part of it.
fn read_checked(
    read: impl Fn(usize, &mut [u8]) -> Result<bool, FileError>,
    position: u64,
    record: &Blocks,
    blocks: &Blocks,
    into: &mut [u8],
) -> Result<bool, FileError> {
    let (checksum, first) = places_in_body(record, blocks.start);
    let mut checksums: SmallVec<[u8; 64]> = SmallVec::from_elem(0, 4 * blocks.len());
    if !read(checksum, &mut checksums)? || !read(first, into)? {
        return Ok(false);
    }
    for ((block, bytes), crc) in blocks.clone().zip(into.chunks_exact(BLOCK)).zip(checksums.chunks_exact(4)) {
        let (expected, got) = (u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]), crc32c::crc32c(bytes));
        if expected != got {
            let what = format!("block {block} of write {position} has checksum {got:08x}, expected {expected:08x}");
            return Err(FileError::Corrupt { file: "the log of the cache".into(), offset: 0, what });
        }
    }
    Ok(true)
}
