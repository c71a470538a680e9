//! Keys that were removed for good. Their records stay on disk until the segments are begun again, and must not come
//! back with a start before that.
//!
//! A key is noted with the position of the writer: records of it before that are void. The file is a run of notes, each
//! with a checksum; what a crash leaves of the last one is none, and its remover was not told yet that it is done.

use crate::directory::REMOVED;
use crc32c::crc32c;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use vfs::{File, Files, How, read_small, replace_small};

/// The largest file. Beyond, all records before the newest note are void.
const BYTES_MAX: u64 = 4 << 20;

/// The bytes of a note beside its key: position, size of the key, checksum.
const NOTE_BYTES: usize = 4 + 8 + 8 + 2 + 4;

/// A place in the order of everything that is ever written: the process, the generation of the segment, and the place
/// in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) life: u32,
    pub(crate) generation: u64,
    pub(crate) at: u64,
}

/// The keys, each with the position before which its records are void.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    keys: HashMap<Box<[u8]>, Position>,
    /// Before this all records are void.
    all: Position,
}

impl Removed {
    pub(crate) fn is_void(&self, key: &[u8], position: Position) -> bool {
        position < self.all || self.keys.get(key).is_some_and(|removed| position < *removed)
    }

    fn note(&mut self, key: &[u8], position: Position) {
        if key.is_empty() {
            self.all = self.all.max(position);
            self.keys.clear();
        } else {
            self.keys.insert(key.into(), position);
        }
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct Removals {
    file: Arc<dyn File>,
    bytes: u64,
}

impl Removals {
    /// Makes it again, without notes.
    pub(crate) fn clear(files: &dyn Files) -> io::Result<()> {
        replace_small(files, REMOVED, &[])
    }

    /// The notes.
    pub(crate) fn read(files: &dyn Files) -> io::Result<Removed> {
        let bytes = read_small(files, REMOVED, 2 * BYTES_MAX)?;
        let (mut removed, mut at) = (Removed::default(), 0);
        while let Some((key, position)) = read_note(&bytes[at..]) {
            removed.note(key, position);
            at += NOTE_BYTES + key.len();
        }
        Ok(removed)
    }

    /// Keeps those notes alone that can still be about a record: none is in a generation before the oldest. That has to
    /// be durable first: after a power failure the file of records may be what it was before.
    pub(crate) fn shorten(files: &dyn Files, removed: &Removed, oldest: u64, records: &dyn File) -> io::Result<()> {
        if removed.keys.is_empty() && removed.all == Position::default() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        if removed.all.generation >= oldest {
            write_note(&mut bytes, &[], removed.all);
        }
        for (key, position) in removed.keys.iter().filter(|(_, position)| position.generation >= oldest) {
            write_note(&mut bytes, key, *position);
        }
        records.sync()?;
        replace_small(files, REMOVED, &bytes)
    }

    /// Opens it for more.
    pub(crate) fn open(files: &dyn Files) -> io::Result<Self> {
        let file = files.open(REMOVED, How::Write)?;
        Ok(Self { bytes: file.size()?, file })
    }

    /// Notes that records of these keys before a position are void, durably.
    pub(crate) fn note<'a>(
        &mut self,
        files: &dyn Files,
        keys: impl Iterator<Item = &'a [u8]>,
        position: Position,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        keys.for_each(|key| write_note(&mut bytes, key, position));
        if self.bytes + bytes.len() as u64 > BYTES_MAX {
            bytes.clear();
            write_note(&mut bytes, &[], position);
            replace_small(files, REMOVED, &bytes)?;
            *self = Self::open(files)?;
            return Ok(());
        }
        self.file.write_at(self.bytes, &bytes)?;
        self.file.sync()?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn write_note(out: &mut Vec<u8>, key: &[u8], position: Position) {
    let begin = out.len();
    out.extend_from_slice(&position.life.to_le_bytes());
    out.extend_from_slice(&position.generation.to_le_bytes());
    out.extend_from_slice(&position.at.to_le_bytes());
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    let crc = crc32c(&out[begin..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

fn read_note(bytes: &[u8]) -> Option<(&[u8], Position)> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let life = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let position = Position { life, generation: number(4)?, at: number(12)? };
    let key_bytes: usize = u16::from_le_bytes(bytes.get(20..22)?.try_into().ok()?).into();
    let (noted, rest) = bytes.split_at_checked(22 + key_bytes)?;
    let crc = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
    (crc32c(noted) == crc).then_some((&noted[22..], position))
}
