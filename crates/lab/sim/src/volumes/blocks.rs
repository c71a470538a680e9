//! The blocks of a volume, each told by the write that it has.

use crate::violation::{Check, ensure};
use machines::{Content, Extent, Record, Stamp};
use std::ops::Range;

/// The size of a block: room for the number of a write.
pub(crate) const BLOCK: u64 = 16;

/// The blocks of a volume when it is largest.
pub(crate) const BLOCKS: usize = 4;

/// The write that each block has.
pub(crate) type Image = [Stamp; BLOCKS];

/// The blocks of an extent.
pub(crate) fn blocks(extent: Extent) -> Range<usize> {
    let end = (extent.offset + extent.len) / BLOCK;
    (extent.offset / BLOCK) as usize..(end as usize).min(BLOCKS)
}

pub(crate) fn extent(blocks: Range<usize>) -> Extent {
    Extent { offset: blocks.start as u64 * BLOCK, len: blocks.len() as u64 * BLOCK }
}

/// The contents of a write: its number, over and over.
pub(crate) fn data(number: u64, extent: Extent) -> Content {
    let block = [number.to_le_bytes(), number.to_le_bytes()].concat();
    Content::Data(block.repeat((extent.len / BLOCK) as usize).into())
}

/// The contents of a record are those that its write had.
pub(crate) fn check(record: &Record, number: u64) -> Check {
    let is_it = match &record.content {
        Content::Data(_) => record.content == data(number, record.extent),
        Content::Trim | Content::Zero => true,
    };
    ensure(is_it, "contents", || format!("{:?} does not have what write {number} gave it", record.stamp))
}
