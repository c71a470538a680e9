//! The file beside a home that has a checksum for each of its blocks.
//!
//! ```text
//!   two slots of 4096 bytes, written in turn, of which the later one counts:
//!     0  magic "THORPSUM" | 8  format u32 | the size of a region, as the power of two of 1024 blocks, u32
//!    16  revision u64 | 24  identity u64 of the volume's file | 32  when that was changed u64 | 40  identity u64 of this file
//!    48  1 if nobody has the volume open u32; else a number of the machine's boot in which all sums are those of what was
//!        written, or 0 | 52  CRC32C u32 of the slot with zeros here
//!    56  0 u64
//!    64  a bit for each region whose sums are not to be trusted
//!   8192  4 bytes for each block: its CRC32C, 1 if that is 0; and 0 if nobody knows
//! ```
//! A sum that is refused wrongly is worse than none. So nothing here waits for the sums themselves to be durable:
//! 1. Before a block is written its region's bit is durable (*marked*). A start in another boot forgets the sums of
//!    marked regions: after a crash of the machine the block and its sum may be of different writes.
//! 2. A region's bit goes only when its blocks were synced, and its sums after that. It stays for a minute at least, so
//!    a volume that is written all the time costs one sync of this file a minute, besides one for regions that were not
//!    written before.
//! 3. Sums of a volume's file that was closed, and that somebody else has written or exchanged since, are all
//!    forgotten. So are those of a copy of this file.
//! 4. A sum is zero from before its block is written until after that. So a process that is killed leaves no sum of
//!    another write, and a start in the same boot trusts the sums of marked regions, too.
//! 5. Nobody may write to the file of an open volume, also after its process was killed. If that file is another one,
//!    or was changed since this one was, all blocks are compared before the first is read. The sums stay, so blocks of
//!    an older file are refused.

#[cfg(test)]
mod tests;

use super::check::{Checks, HomeCheck};
use super::mark::Left;
use crate::extents::{BLOCK, Blocks, sum_of};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use vfs::{Doing, Fields, File, FileError, Files, How, Malformed};

const MAGIC: [u8; 8] = *b"THORPSUM";
const FORMAT: u32 = 2;
/// Has no boot.
const FORMAT_OF_BEFORE: u32 = 1;
const CLOSED: u32 = 1;
const CRC_AT: usize = 52;
const BITS_AT: usize = 64;
const SUMS_AT: u64 = 2 * BLOCK as u64;

/// The regions of a volume at the most.
const REGIONS_MAX: usize = (BLOCK - BITS_AT) * 8;
/// The blocks of the smallest region, whose sums take one block of this file.
const REGION_BLOCKS_MIN: u64 = 1024;

/// So many regions are marked together where one is written behind another.
const AHEAD: usize = 16;
/// Marks of regions that nobody writes any more go after this long, with the next mark that comes.
const MARKED_FOR: Duration = Duration::from_secs(60);

/// After a crash the times of the two files may be apart by this much, in nanoseconds.
const APART_NS: u64 = 10_000_000_000;

/// The sums of a few blocks are zeroed by a write, which is faster than a hole.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The blocks that are compared between two reports of progress.
const REPORTED_BLOCKS: u64 = 16 << 10;

/// Some regions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Regions(Box<[u8]>);

impl Regions {
    fn none() -> Self {
        Self(vec![0; REGIONS_MAX / 8].into())
    }

    fn add(&mut self, region: usize) {
        self.0[region / 8] |= 1 << (region % 8);
    }

    fn has(&self, region: usize) -> bool {
        self.0[region / 8] & 1 << (region % 8) != 0
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    fn has_all(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| other & !own == 0)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..REGIONS_MAX).filter(|region| self.has(*region))
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The same where regions are so many times as large, as a power of two.
    fn widened(&self, by: u32) -> Self {
        let mut wide = Self::none();
        self.iter().for_each(|region| wide.add(region >> by));
        wide
    }
}

/// The state of both files, as a slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    shift: u32,
    revision: u64,
    identity: u64,
    modified: u64,
    own_identity: u64,
    is_closed: bool,
    /// Until this boot ends all sums are right; 0 if nobody knows.
    boot: u32,
    marked: Regions,
}

/// How the volume's file is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// As it was left, but for what a crash does to it.
    AsLeft,
    /// Changed or exchanged while nobody had it open.
    Changed,
    /// Changed or exchanged while it was open, or by a crash.
    Unsure,
}

/// The facts that are known of a volume when it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    /// Its sums are made, if there are none.
    pub(crate) makes: bool,
    /// Its file as it was at its last mark.
    pub(crate) left: Option<Left>,
    pub(crate) checks: &'a Checks,
}

/// The checksums of a home that is open.
#[derive(Debug)]
pub(super) struct Sums {
    file: Arc<dyn File>,
    path: PathBuf,
    raw: Arc<dyn File>,
    revision: u64,
    shift: u32,
    /// The slot of the last revision says that the volume is open, and which regions are marked.
    is_open: bool,
    marked: Regions,
    /// Regions with blocks that were not synced yet, and those whose sums were not, since their blocks were.
    unsynced: Regions,
    unsummed: Regions,
    /// When marks were let go last.
    freed_at: Instant,
    /// Something has failed here: sums are no longer looked at, and what is marked stays so.
    is_off: Arc<AtomicBool>,
    /// The machine's boot, and that of the last slot.
    boot: u32,
    slot_boot: u32,
    /// The blocks that differed in the check when it was opened.
    damaged: u64,
}

impl Sums {
    /// Opens the sums of a volume's file. If there are none that file is made, or not: `None`.
    pub(super) fn open(
        files: &dyn Files,
        name: &str,
        raw: Arc<dyn File>,
        Opening { makes, left, checks }: Opening<'_>,
    ) -> Result<Option<Self>, FileError> {
        let path = files.path(name);
        let opened = match files.open(name, How::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && makes => files.open(name, How::Create),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened,
        };
        let file = opened.doing("open", || path.clone())?;
        let found = newest_slot(&*file).doing("read", || path.clone())?;
        let blocks = raw.size().doing("read the length of", || path.clone())? / BLOCK as u64;
        let mut sums = Self {
            file,
            path,
            raw,
            revision: found.as_ref().map_or(0, |slot| slot.revision),
            shift: shift_of(blocks),
            is_open: false,
            marked: Regions::none(),
            unsynced: Regions::none(),
            unsummed: Regions::none(),
            freed_at: Instant::now(),
            is_off: Arc::default(),
            boot: checks.boot,
            slot_boot: 0,
            damaged: 0,
        };
        let seen = match &found {
            Some(slot) => sums.look(slot, left).doing("look at", || sums.path.clone())?,
            None => Seen::Changed,
        };
        let begun = match found.filter(|_| seen != Seen::Changed) {
            Some(slot) => sums.go_on(slot, blocks),
            None => sums.begin_anew(blocks),
        };
        match begun {
            // No block is written before its region is marked; none is checked until there is room for sums.
            Err(error) if error.is_full() => sums.is_off.store(true, Relaxed),
            begun => begun?,
        }
        if seen == Seen::Unsure && !sums.is_off.load(Relaxed) {
            sums.damaged = sums.check(blocks, checks).doing("compare", || sums.path.clone())?;
        }
        Ok(Some(sums))
    }

    /// The file, for readers.
    pub(super) fn file(&self) -> (Arc<dyn File>, Arc<AtomicBool>) {
        (self.file.clone(), self.is_off.clone())
    }

    /// The blocks that differed in the check when it was opened.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }

    fn look(&self, slot: &Slot, left: Option<Left>) -> io::Result<Seen> {
        if slot.own_identity != identity(&*self.file)? {
            return Ok(Seen::Changed);
        }
        let is_as_left = match left.filter(|left| !left.is_closed && !slot.is_closed) {
            Some(left) => self.is_left(slot, left)?,
            None => self.is_its(slot)?,
        };
        Ok(match left {
            _ if is_as_left => Seen::AsLeft,
            Some(left) if !left.is_closed => Seen::Unsure,
            _ => Seen::Changed,
        })
    }

    /// Whether the file of a volume that was open is the one that was left, and was not changed after the last of its
    /// sums.
    fn is_left(&self, slot: &Slot, left: Left) -> io::Result<bool> {
        let now = Left::of(&*self.raw, left.is_closed)?;
        // A block is written between two writes of its sum. After a power failure the times are of any of these writes.
        // Times that are further apart cost a comparison, and nothing else.
        let apart = if self.trusts(slot) { 0 } else { APART_NS };
        let last = modified(&*self.file)?.max(left.modified);
        let is_in_time = (left.modified.saturating_sub(apart)..=last.saturating_add(apart)).contains(&now.modified);
        Ok(is_in_time && [left.identity, slot.identity] == [now.identity; 2])
    }

    /// Whether the sums of a slot's marked regions are right.
    fn trusts(&self, slot: &Slot) -> bool {
        !slot.is_closed && slot.boot != 0 && slot.boot == self.boot
    }

    /// Whether a slot is of the volume's file as it is, and of this one.
    fn is_its(&self, slot: &Slot) -> io::Result<bool> {
        let raw_modified = modified(&*self.raw)?;
        let is_left = if slot.is_closed {
            slot.modified == raw_modified
        } else {
            // Written by others in the meantime, or put back from a copy.
            let latest = modified(&*self.file)?.saturating_add(APART_NS);
            (slot.modified.saturating_sub(APART_NS)..=latest).contains(&raw_modified)
        };
        Ok(is_left && slot.identity == identity(&*self.raw)? && slot.own_identity == identity(&*self.file)?)
    }

    /// Nobody knows any sum.
    fn begin_anew(&mut self, blocks: u64) -> Result<(), FileError> {
        // Before a slot says that what is there is right.
        let emptied = self.file.set_len(0).and_then(|()| self.file.set_len(len_of(blocks)));
        emptied.and_then(|()| self.file.sync()).doing("empty", || self.path.clone())?;
        self.write(Regions::none(), true)
    }

    fn go_on(&mut self, slot: Slot, blocks: u64) -> Result<(), FileError> {
        let needed = std::mem::replace(&mut self.shift, slot.shift);
        let is_right = self.trusts(&slot);
        // The first write needs a slot of this boot.
        (self.is_open, self.slot_boot) = (!slot.is_closed && slot.boot == self.boot, slot.boot);
        self.marked = slot.marked;
        let is_short = self.file.size().map(|len| len < len_of(blocks));
        // One that was cut off has no sums there.
        let extended = is_short.and_then(|is_short| if is_short { self.file.set_len(len_of(blocks)) } else { Ok(()) });
        let zeroed = extended.and_then(|()| if is_right { Ok(()) } else { self.zero(&self.marked) });
        zeroed.doing("write", || self.path.clone())?;
        // They are not durably gone yet, or their blocks are not durable.
        let pending = if is_right { &mut self.unsynced } else { &mut self.unsummed };
        pending.add_all(&self.marked);
        self.widen(needed);
        Ok(())
    }

    /// Compares all blocks whose sums are known with them. Returns how many differ.
    fn check(&self, blocks: u64, checks: &Checks) -> io::Result<u64> {
        // An older file may be shorter: the rest of its blocks are gone.
        let summed = self.file.size()?.saturating_sub(SUMS_AT) / 4;
        let (mut damaged, mut bytes) = (0, Vec::new());
        let tell = |done: u64, damaged| {
            let (bytes, bytes_total) = (done * BLOCK as u64, summed * BLOCK as u64);
            checks.tell(HomeCheck { path: &self.path, bytes, bytes_total, damaged });
        };
        for first in (0..summed).step_by(REGION_BLOCKS_MIN as usize) {
            if first.is_multiple_of(REPORTED_BLOCKS) {
                tell(first, damaged);
            }
            damaged += self.check_some(first, REGION_BLOCKS_MIN.min(summed - first), blocks, &mut bytes)?;
        }
        tell(summed, damaged);
        Ok(damaged)
    }

    /// The same for `count` blocks from `first` on, of a file of `blocks`.
    fn check_some(&self, first: u64, count: u64, blocks: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
        let known = kept(&*self.file, first as u32, count as usize)?;
        if known.iter().all(|sum| *sum == 0) {
            return Ok(0);
        }
        let there = count.min(blocks.saturating_sub(first)) as usize;
        bytes.resize(there * BLOCK, 0);
        if self.raw.read_at(first * BLOCK as u64, bytes).is_err() {
            // A block that the disk cannot read is no sign of another file, and reads of it fail anyway.
            return Ok(0);
        }
        let differ =
            bytes.chunks(BLOCK).zip(&known).filter(|(block, sum)| **sum != 0 && sum_of(block) != **sum).count();
        let gone = known[there..].iter().filter(|sum| **sum != 0).count();
        Ok((differ + gone) as u64)
    }

    /// Forgets the sums of regions.
    fn zero(&self, regions: &Regions) -> io::Result<()> {
        let size = self.file.size()?;
        regions.iter().try_for_each(|region| {
            let (at, end) = (self.region_at(region), self.region_at(region + 1).min(size));
            if at < end { self.file.zero(at, end - at, true) } else { Ok(()) }
        })
    }

    /// Regions become larger, if they have to.
    fn widen(&mut self, shift: u32) {
        if let Some(by) = shift.checked_sub(self.shift).filter(|by| *by > 0) {
            for regions in [&mut self.marked, &mut self.unsynced, &mut self.unsummed] {
                *regions = regions.widened(by);
            }
            (self.shift, self.is_open) = (shift, false);
        }
    }

    fn region_at(&self, region: usize) -> u64 {
        SUMS_AT + region as u64 * (REGION_BLOCKS_MIN << self.shift) * 4
    }

    fn region_of(&self, block: u32) -> usize {
        (u64::from(block) / (REGION_BLOCKS_MIN << self.shift)) as usize
    }

    /// These blocks are about to be written: from now on a crash may leave any of them with the sum of another time.
    pub(super) fn expect<'a>(&mut self, blocks: impl IntoIterator<Item = &'a Blocks>) -> Result<(), FileError> {
        let (mut needed, mut ahead) = (Regions::none(), Regions::none());
        for blocks in blocks {
            let (first, last) = (self.region_of(blocks.start), self.region_of(blocks.end.saturating_sub(1)));
            (first..=last).for_each(|region| needed.add(region));
            let is_behind = first > 0 && self.marked.has(first - 1) && !self.marked.has(last);
            if is_behind {
                (last..(last + AHEAD).min(REGIONS_MAX)).for_each(|region| ahead.add(region));
            }
        }
        self.unsynced.add_all(&needed);
        let is_due = self.freed_at.elapsed() >= MARKED_FOR && !self.is_off.load(Relaxed);
        if self.is_open && self.marked.has_all(&needed) && !is_due {
            return Ok(());
        }
        let mut marked = if is_due { self.unsummed.clone() } else { self.marked.clone() };
        for regions in [&self.unsynced, &ahead] {
            marked.add_all(regions);
        }
        self.write(marked, false)?;
        if is_due {
            self.freed_at = Instant::now();
        }
        Ok(())
    }

    /// Writes a slot, durably, and all sums with it.
    fn write(&mut self, marked: Regions, is_closed: bool) -> Result<(), FileError> {
        let revision = self.revision + 1;
        let boot = if self.is_off.load(Relaxed) { 0 } else { self.boot };
        let look = || {
            Ok(Slot {
                shift: self.shift,
                revision,
                identity: identity(&*self.raw)?,
                modified: modified(&*self.raw)?,
                own_identity: identity(&*self.file)?,
                is_closed,
                boot,
                marked: marked.clone(),
            })
        };
        let written = look().and_then(|slot| self.file.write_at(revision % 2 * BLOCK as u64, &encode(&slot)));
        if let Err(error) = written.and_then(|()| self.file.sync()) {
            // Nobody knows which of the sums that were written are durable.
            self.is_off.store(true, Relaxed);
            return Err(error).doing("write", || self.path.clone());
        }
        (self.revision, self.is_open, self.slot_boot, self.marked) = (revision, !is_closed, boot, marked);
        self.unsummed.clear();
        Ok(())
    }

    /// These blocks are written next: until that is done nobody knows their sums.
    pub(super) fn begin(&mut self, blocks: &Blocks) -> Result<(), FileError> {
        if !self.is_off.load(Relaxed) {
            match ZEROS.get(..4 * blocks.len()) {
                Some(zeros) => self.did(&self.file.write_at(sums_at(blocks.start), zeros)),
                None => self.forget(blocks),
            }
        }
        if self.is_off.load(Relaxed) && self.slot_boot != 0 {
            // Before a block differs from a sum that could not be changed.
            self.write(self.marked.clone(), false)?;
        }
        Ok(())
    }

    /// These whole blocks were written.
    pub(super) fn set(&mut self, first: u32, bytes: &[u8]) {
        let sums: Vec<u8> = bytes.chunks(BLOCK).flat_map(|block| sum_of(block).to_le_bytes()).collect();
        self.did(&self.file.write_at(sums_at(first), &sums));
    }

    /// Nobody knows the sums of these blocks any more.
    pub(super) fn forget(&mut self, blocks: &Blocks) {
        self.did(&self.file.zero(sums_at(blocks.start), 4 * blocks.len() as u64, true));
    }

    /// Sums that could not be written are no longer looked at, as some are of earlier writes.
    fn did(&self, done: &io::Result<()>) {
        if done.is_err() {
            self.is_off.store(true, Relaxed);
        }
    }

    /// All blocks that were written are durable.
    pub(super) fn synced(&mut self) {
        self.unsummed.add_all(&self.unsynced);
        self.unsynced.clear();
    }

    /// The blocks that were written may be lost, or not: nobody knows their sums.
    pub(super) fn lost(&mut self) {
        self.did(&self.zero(&self.unsynced));
    }

    /// The volume's file is about to have another size: sums behind the nearer end are gone, durably so.
    pub(super) fn resize(&mut self, from: u64, to: u64) -> Result<(), FileError> {
        let [from, to] = [from, to].map(|size| size / BLOCK as u64);
        self.widen(shift_of(to));
        self.expect([&(from.min(to).saturating_sub(1) as u32..from.max(to) as u32)])?;
        let cut = self.file.set_len(len_of(from.min(to))).and_then(|()| self.file.set_len(len_of(to)));
        cut.doing("resize", || self.path.clone())
    }

    /// The volume's file is left, durable, until it is opened again.
    pub(super) fn close(&mut self) -> Result<(), FileError> {
        if !self.is_open || self.is_off.load(Relaxed) {
            return Ok(());
        }
        self.synced();
        // Before the slot, which says that all of them are right.
        self.file.sync().doing("sync", || self.path.clone())?;
        self.write(Regions::none(), true)
    }
}

/// The sums of some blocks, as they are kept.
pub(super) fn kept(file: &dyn File, first: u32, blocks: usize) -> io::Result<Vec<u32>> {
    let mut bytes = vec![0; 4 * blocks];
    file.read_at(sums_at(first), &mut bytes)?;
    Ok(bytes.chunks_exact(4).map(|sum| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]])).collect())
}

fn sums_at(first: u32) -> u64 {
    SUMS_AT + 4 * u64::from(first)
}

fn len_of(blocks: u64) -> u64 {
    SUMS_AT + 4 * blocks
}

/// The size of regions of a volume.
fn shift_of(blocks: u64) -> u32 {
    let regions = blocks.div_ceil(REGION_BLOCKS_MIN).div_ceil(REGIONS_MAX as u64).max(1);
    regions.next_power_of_two().trailing_zeros()
}

fn identity(file: &dyn File) -> io::Result<u64> {
    Ok(file.identity()?.unwrap_or(0))
}

fn modified(file: &dyn File) -> io::Result<u64> {
    Ok(file.modified()?.unwrap_or(0))
}

fn newest_slot(file: &dyn File) -> io::Result<Option<Slot>> {
    let size = file.size()?;
    let mut newest: Option<Slot> = None;
    for at in [0, BLOCK as u64] {
        let mut bytes = vec![0; BLOCK];
        if size >= at + BLOCK as u64 {
            file.read_at(at, &mut bytes)?;
        }
        let slot = decode(&bytes).ok();
        if slot.as_ref().is_some_and(|slot| newest.as_ref().is_none_or(|newest| newest.revision < slot.revision)) {
            newest = slot;
        }
    }
    Ok(newest)
}

fn encode(slot: &Slot) -> [u8; BLOCK] {
    let Slot { shift, revision, identity, modified, own_identity, is_closed, boot, marked } = slot;
    let mut bytes = [0; BLOCK];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&shift.to_le_bytes());
    for (into, field) in bytes[16..48].chunks_exact_mut(8).zip([revision, identity, modified, own_identity]) {
        into.copy_from_slice(&field.to_le_bytes());
    }
    let open = if *boot == CLOSED { 0 } else { *boot };
    bytes[48..52].copy_from_slice(&if *is_closed { CLOSED } else { open }.to_le_bytes());
    bytes[BITS_AT..].copy_from_slice(&marked.0);
    let crc = crc32c::crc32c(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A slot; one of another format is none, and its sums are forgotten.
fn decode(bytes: &[u8]) -> Result<Slot, Malformed> {
    let mut fields = Fields::new(bytes.to_vec().into());
    let (magic, format, shift) = (fields.take(8)?, fields.u32()?, fields.u32()?);
    let (revision, identity, modified) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (own_identity, state, crc) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let mut summed = bytes.to_vec();
    summed[CRC_AT..CRC_AT + 4].fill(0);
    let is_known = [FORMAT_OF_BEFORE, FORMAT].contains(&format);
    if magic[..] != MAGIC || !is_known || shift > 16 || crc32c::crc32c(&summed) != crc {
        return Err(Malformed);
    }
    let (marked, is_closed) = (Regions(bytes[BITS_AT..].into()), state == CLOSED);
    let boot = if is_closed { 0 } else { state };
    Ok(Slot { shift, revision, identity, modified, own_identity, is_closed, boot, marked })
}
