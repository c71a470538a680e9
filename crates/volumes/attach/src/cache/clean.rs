//! The clean blocks: two files of the cache's directory, and what is known of them in memory.
//!
//! ```text
//!   clean.data     the blocks, one in each slot
//!   clean.table    pages of 4096 bytes, each for 510 slots:
//!                     0  CRC32C u32 of bytes 4..4096 | page u32
//!                     8  cache u64
//!                    16  for each slot: block u32 (all ones: none) | checksum u32 of its bytes (`vfs::checksum`)
//! ```
//! Neither is synced for its own sake: a block whose bytes are not those of its checksum, or whose page is torn, is not
//! cached, and home has it.
//!
//! **VersionsDiffer**: so the table may be on the disk before the bytes that it is of, and a power failure may leave an
//! older version of a block in the slot of a newer one, where home has the newer one. The checksums of the two differ
//! whatever the block has in it, as those of a CRC would not. Entries of earlier versions of this program have a CRC32C:
//! their blocks are dropped when they are read.
//!
//! **DropBeforeFree**: before the log frees a write, no page on the disk says any more that an older version of its
//! blocks is cached. So every page that has lost a block, by a write or by eviction, is written and synced before
//! anything is freed. A start takes no other version of a block whose newest is still in the log, and none of a block
//! that has changed elsewhere; and before it says so to anybody else, those are gone from the disk, too: the next start
//! knows less.

use super::slots::Slots;
use crate::extents::{BLOCK, Blocks, sum_of};
use machines::messages::home::BlockSums;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use vfs::{Doing, File, FileError, Files, How};

const TABLE: &str = "clean.table";
const DATA: &str = "clean.data";
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;
const PAGE_SLOTS: u32 = ((BLOCK - HEADER_BYTES) / ENTRY_BYTES) as u32;
const NONE: u32 = u32::MAX;

/// The most slots: their numbers are of 32 bits, and the last one stands for none.
pub(crate) const SLOTS_MAX: u64 = u32::MAX as u64 - 1;

/// The clean blocks, as they are known in memory, under the volume's lock.
#[derive(Debug)]
pub(crate) struct Clean {
    slots: Slots,
    /// Pages that are not on the disk as they are here.
    changed: BTreeSet<u32>,
    /// Those of them that have lost a block.
    dropped: BTreeSet<u32>,
}

/// The files.
#[derive(Debug)]
pub(crate) struct CleanFiles {
    files: Arc<dyn Files>,
    data: Arc<dyn File>,
    table: Arc<dyn File>,
    cache: u64,
}

/// Pages of the table, to be written.
#[derive(Debug)]
pub(crate) struct Pages(Vec<(u32, Box<[u8; BLOCK]>)>);

impl Clean {
    /// Of a cache that has nothing.
    fn new(count: usize) -> Self {
        Self { slots: Slots::new(count), changed: BTreeSet::new(), dropped: BTreeSet::new() }
    }

    /// The slot of a block and its checksum: a use.
    pub(crate) fn find(&mut self, block: u32) -> Option<(u32, u32)> {
        self.slots.find(block)
    }

    /// The same for one who does not use it.
    pub(crate) fn look(&self, block: u32) -> Option<(u32, u32)> {
        self.slots.look(block)
    }

    /// Whether a slot still has this block.
    pub(crate) fn is_in(&self, slot: u32, block: u32, checksum: u32) -> bool {
        self.slots.block(slot) == Some((block, checksum))
    }

    /// These blocks have changed, or are damaged.
    pub(crate) fn drop_blocks(&mut self, blocks: Blocks) {
        let Self { slots, changed, dropped } = self;
        slots.drop_blocks(blocks, |slot| {
            changed.insert(slot / PAGE_SLOTS);
            dropped.insert(slot / PAGE_SLOTS);
        });
    }

    /// A slot that a block may be written to, to be published or released.
    pub(crate) fn reserve(&mut self) -> Option<u32> {
        let slot = self.slots.reserve()?;
        // It may have been that of a block that is evicted.
        self.changed.insert(slot / PAGE_SLOTS);
        self.dropped.insert(slot / PAGE_SLOTS);
        Some(slot)
    }

    /// A reserved slot has this block now.
    pub(crate) fn publish(&mut self, slot: u32, block: u32, checksum: u32) {
        if self.slots.find(block).is_some() {
            return self.slots.release(slot);
        }
        self.slots.publish(slot, block, checksum);
        self.changed.insert(slot / PAGE_SLOTS);
    }

    /// A reserved slot is not needed.
    pub(crate) fn release(&mut self, slot: u32) {
        self.slots.release(slot);
    }

    /// How many blocks there are, and how many there may be.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.slots.len(), self.slots.count_max())
    }

    /// The pages that must be on the disk before the log frees anything.
    pub(crate) fn take_dropped(&mut self, files: &CleanFiles) -> Pages {
        let dropped = std::mem::take(&mut self.dropped);
        self.changed.retain(|page| !dropped.contains(page));
        self.pages(dropped, files)
    }

    /// All pages that have changed.
    pub(crate) fn take_changed(&mut self, files: &CleanFiles) -> Pages {
        self.dropped.clear();
        let changed = std::mem::take(&mut self.changed);
        self.pages(changed, files)
    }

    fn pages(&self, numbers: BTreeSet<u32>, files: &CleanFiles) -> Pages {
        Pages(numbers.into_iter().map(|number| (number, self.page(number, files.cache))).collect())
    }

    fn page(&self, number: u32, cache: u64) -> Box<[u8; BLOCK]> {
        let mut page = Box::new([0; BLOCK]);
        page[4..8].copy_from_slice(&number.to_le_bytes());
        page[8..16].copy_from_slice(&cache.to_le_bytes());
        for index in 0..PAGE_SLOTS {
            let slot = number.checked_mul(PAGE_SLOTS).and_then(|first| first.checked_add(index));
            let (block, checksum) = slot.and_then(|slot| self.slots.block(slot)).unwrap_or((NONE, 0));
            let at = HEADER_BYTES + index as usize * ENTRY_BYTES;
            page[at..at + 4].copy_from_slice(&block.to_le_bytes());
            page[at + 4..at + 8].copy_from_slice(&checksum.to_le_bytes());
        }
        let crc = crc32c::crc32c(&page[4..]);
        page[..4].copy_from_slice(&crc.to_le_bytes());
        page
    }
}

impl CleanFiles {
    /// Opens the files, or makes them, and takes the blocks that are cached. `keeps` says which may be: none if the
    /// volume has been elsewhere in the meantime, and no block that the log has.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        cache: u64,
        count: usize,
        keeps: impl Fn(u32) -> bool,
    ) -> Result<(Self, Clean), FileError> {
        let open = |name| {
            let file = match files.open(name, How::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => files.open(name, How::Create),
                opened => opened,
            };
            file.doing("open", || files.path(name))
        };
        let (data, table) = (open(DATA)?, open(TABLE)?);
        // Its pages have their room before they are needed: a full disk must not keep a block from being dropped.
        let wanted = (count as u64).div_ceil(PAGE_SLOTS.into()) * BLOCK as u64;
        let size = table.size().doing("read the length of", || files.path(TABLE))?;
        for at in (size..wanted).step_by(BLOCK) {
            table.write_at(at, &[0; BLOCK]).doing("write", || files.path(TABLE))?;
        }
        let files = Self { files, data, table, cache };
        let mut clean = Clean::new(count);
        files.load(&mut clean, keeps)?;
        let rejected = clean.take_dropped(&files);
        files.write_pages(rejected)?;
        Ok((files, clean))
    }

    /// No block is cached any more, durably.
    pub(crate) fn forget(files: &dyn Files) -> Result<(), FileError> {
        match files.remove(TABLE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| files.sync_dir()).doing("remove", || files.path(TABLE)),
        }
    }

    /// The same, while it is open.
    pub(crate) fn forget_all(&self) -> Result<(), FileError> {
        Self::forget(&*self.files)
    }

    /// Looks at the files of a cache that is not open, and tells its blocks: each with its slot, number and checksum.
    pub(crate) fn look(
        files: Arc<dyn Files>,
        cache: u64,
        tell: &mut dyn FnMut(u32, u32, u32),
    ) -> Result<Self, FileError> {
        let open = |name| files.open(name, How::Read).doing("open", || files.path(name));
        let (data, table) = (open(DATA)?, open(TABLE)?);
        let files = Self { files, data, table, cache };
        files.each_entry(&mut |slot, block, checksum, is_there| {
            if let Some(slot) = u32::try_from(slot).ok().filter(|_| is_there) {
                tell(slot, block, checksum);
            }
        })?;
        Ok(files)
    }

    /// The directory of the cache.
    pub(crate) fn directory(&self) -> &dyn Files {
        &*self.files
    }

    fn load(&self, clean: &mut Clean, keeps: impl Fn(u32) -> bool) -> Result<(), FileError> {
        // Slots are taken in their order, so those before the last one that has a block are taken, too.
        let (mut taken, mut rejected) = (Vec::new(), BTreeSet::new());
        let count_max = clean.len().1 as u64;
        self.each_entry(&mut |slot, block, checksum, is_there| {
            if is_there && slot < count_max && keeps(block) {
                taken.push((slot as u32, block, checksum));
            } else {
                rejected.insert((slot / u64::from(PAGE_SLOTS)) as u32);
            }
        })?;
        let mut unused = Vec::new();
        for (slot, block, checksum) in taken {
            while let Some(next) = clean.slots.reserve() {
                if next == slot {
                    clean.publish(slot, block, checksum);
                    break;
                }
                unused.push(next);
            }
        }
        for slot in unused {
            clean.slots.release(slot);
        }
        (clean.changed, clean.dropped) = (rejected.clone(), rejected);
        Ok(())
    }

    /// Tells the blocks that the table names: the slot, the block and its checksum, and whether its data can be there.
    fn each_entry(&self, tell: &mut dyn FnMut(u64, u32, u32, bool)) -> Result<(), FileError> {
        let path = |name| move || self.files.path(name);
        let pages = self.table.size().doing("read the length of", path(TABLE))? / BLOCK as u64;
        let blocks = self.data.size().doing("read the length of", path(DATA))? / BLOCK as u64;
        let mut page = vec![0; BLOCK];
        for number in 0..pages {
            self.table.read_at(number * BLOCK as u64, &mut page).doing("read", path(TABLE))?;
            let field = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
            let cache = u64::from(field(8)) | u64::from(field(12)) << 32;
            let is_valid =
                field(0) == crc32c::crc32c(&page[4..]) && u64::from(field(4)) == number && cache == self.cache;
            for index in 0..u64::from(PAGE_SLOTS) {
                let (slot, at) = (number * u64::from(PAGE_SLOTS) + index, HEADER_BYTES + index as usize * ENTRY_BYTES);
                let block = field(at);
                if is_valid && block != NONE {
                    tell(slot, block, field(at + 4), slot < blocks);
                }
            }
        }
        Ok(())
    }

    /// The sums of the block in a slot, to be compared with home's: of a sound one both are that of its bytes. Of
    /// another one the first is the table's, and what cannot be read has another sum than that.
    pub(crate) fn sums(&self, slot: u32, checksum: u32) -> BlockSums {
        let (kept, mut bytes) = (checksum.max(1), [0; BLOCK]);
        let Ok(()) = self.read(slot, &mut bytes) else { return BlockSums { kept, read: !kept } };
        let read = sum_of(&bytes);
        // An entry of an earlier version is no damage.
        let is_sound = vfs::checksum(&bytes) == checksum || crc32c::crc32c(&bytes) == checksum;
        BlockSums { kept: if is_sound { read } else { kept }, read }
    }

    /// The bytes of the block in a slot, if they are those that were kept there.
    pub(crate) fn read_kept(&self, slot: u32, checksum: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; BLOCK];
        self.read(slot, &mut bytes).ok()?;
        (vfs::checksum(&bytes) == checksum).then_some(bytes)
    }

    /// Reads the blocks of slots that follow each other.
    pub(crate) fn read(&self, slot: u32, into: &mut [u8]) -> Result<(), FileError> {
        self.data.read_at(u64::from(slot) * BLOCK as u64, into).doing("read", || self.files.path(DATA))
    }

    /// The same if nobody has to wait for the disk; says whether they were read.
    pub(crate) fn read_at_hand(&self, slot: u32, into: &mut [u8]) -> Result<bool, FileError> {
        self.data.read_at_hand(u64::from(slot) * BLOCK as u64, into).doing("read", || self.files.path(DATA))
    }

    /// Writes blocks to reserved slots that follow each other.
    pub(crate) fn write(&self, slot: u32, blocks: &[u8]) -> Result<(), FileError> {
        self.data.write_at(u64::from(slot) * BLOCK as u64, blocks).doing("write", || self.files.path(DATA))
    }

    /// Writes pages of the table, durably.
    pub(crate) fn write_pages(&self, pages: Pages) -> Result<(), FileError> {
        let Pages(pages) = pages;
        for (number, page) in &pages {
            let written = self.table.write_at(u64::from(*number) * BLOCK as u64, &page[..]);
            written.doing("write", || self.files.path(TABLE))?;
        }
        if pages.is_empty() { Ok(()) } else { self.table.sync().doing("sync", || self.files.path(TABLE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Memory;

    fn open(files: &Memory, count: usize, keeps: impl Fn(u32) -> bool) -> (CleanFiles, Clean) {
        CleanFiles::open(Arc::new(files.clone()), 9, count, keeps).unwrap()
    }

    fn put(files: &CleanFiles, clean: &mut Clean, block: u32) {
        let (slot, bytes) = (clean.reserve().unwrap(), [block as u8; BLOCK]);
        files.write(slot, &bytes).unwrap();
        clean.publish(slot, block, vfs::checksum(&bytes));
    }

    #[test]
    fn blocks_that_are_on_the_disk_are_found_again() {
        let memory = Memory::default();
        let (files, mut clean) = open(&memory, 2000, |_| true);
        (0..1500).for_each(|block| put(&files, &mut clean, 2 * block));
        clean.drop_blocks(1000..1100);
        files.write_pages(clean.take_changed(&files)).unwrap();
        // The table does not know yet of those that are dropped later.
        clean.drop_blocks(0..10);
        drop((files, clean));
        let (files, mut clean) = open(&memory, 2000, |block| block >= 20);
        assert_eq!(clean.len(), (1500 - 50 - 10, 2000));
        for block in [20, 998, 1100, 2998] {
            let (slot, checksum) = clean.find(block).unwrap();
            let mut bytes = [0; BLOCK];
            files.read(slot, &mut bytes).unwrap();
            assert_eq!((bytes[0], checksum), (block as u8, vfs::checksum(&bytes)));
        }
        assert!([0, 18, 21, 1000].into_iter().all(|block| clean.find(block).is_none()));
        // Every slot can be taken again, and with fewer of them those that are left are used.
        (3000..3560).for_each(|block| put(&files, &mut clean, block));
        assert_eq!(clean.len(), (2000, 2000));
        drop((files, clean));
        assert_eq!(open(&memory, 600, |_| true).1.len().1, 600);
    }

    #[test]
    fn a_block_that_a_start_has_rejected_is_rejected_by_the_next_one() {
        let memory = Memory::default();
        let (files, mut clean) = open(&memory, 2000, |_| true);
        (0..1500).for_each(|block| put(&files, &mut clean, block));
        files.write_pages(clean.take_changed(&files)).unwrap();
        files.data.sync().unwrap();
        memory.sync_dir().unwrap();
        drop((files, clean));
        // Others have had the volume, or the log has something newer: this start says so to home, and dies.
        drop(open(&memory, 2000, |block| block >= 700));
        let left = memory.after_power_failure(&mut vfs::memory::Dice(7));
        let (files, clean) = open(&left, 2000, |_| true);
        assert_eq!(clean.len().0, 800);
        drop((files, clean));
        CleanFiles::forget(&left).unwrap();
        CleanFiles::forget(&left).unwrap();
        let left = left.after_power_failure(&mut vfs::memory::Dice(7));
        assert_eq!(open(&left, 2000, |_| true).1.len().0, 0);
    }

    #[test]
    fn an_entry_of_an_earlier_version_is_no_damage_and_its_block_is_not_read() {
        let (files, mut clean) = open(&Memory::default(), 10, |_| true);
        put(&files, &mut clean, 7);
        let ((slot, checksum), bytes) = (clean.find(7).unwrap(), [7; BLOCK]);
        let before = crc32c::crc32c(&bytes);
        assert_eq!([checksum, before].map(|it| files.sums(slot, it).is_damaged()), [false; 2]);
        assert!(files.sums(slot, !checksum).is_damaged());
        assert_eq!((files.read_kept(slot, checksum), files.read_kept(slot, before)), (Some(bytes.to_vec()), None));
    }

    #[test]
    fn a_page_that_is_damaged_or_of_another_cache_has_no_blocks() {
        let memory = Memory::default();
        let (files, mut clean) = open(&memory, 2000, |_| true);
        (0..1100).for_each(|block| put(&files, &mut clean, block));
        files.write_pages(clean.take_changed(&files)).unwrap();
        drop(files);
        memory.damage(TABLE, |bytes| bytes[BLOCK + 700] ^= 1);
        let (_, mut clean) = open(&memory, 2000, |_| true);
        assert_eq!((clean.len().0, clean.find(600)), (1100 - PAGE_SLOTS as usize, None));
        let other = CleanFiles::open(Arc::new(memory), 8, 2000, |_| true).unwrap().1;
        assert_eq!(other.len().0, 0);
    }
}
