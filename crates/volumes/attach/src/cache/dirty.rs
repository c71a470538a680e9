//! The writes that are not written back: what each put where, and which of them is the newest of each block.
//!
//! ```text
//!   blocks -> newest write -> memory, until it is durable in the log; then the log
//!          -> none         -> clean blocks, or home
//! ```

use crate::extents::{BLOCK, Blocks, ExtentMap};
use bytes::Bytes;
use machines::messages::holder::{Content, FlushEpoch};
use std::collections::VecDeque;

/// Where the contents of a write are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In memory: the log has not got it yet.
    Memory(Bytes),
    /// In the log.
    Log,
    /// Nowhere: it is zeros; whether the range may become a hole.
    Zeros {
        /// See above.
        is_hole: bool,
    },
}

/// A write that is not written back.
#[derive(Clone, Debug)]
pub(crate) struct DirtyWrite {
    pub(crate) blocks: Blocks,
    pub(crate) flush: FlushEpoch,
    pub(crate) kept: Kept,
    /// How often one of its blocks was written before, since it was written back.
    pub(crate) rewrites: u8,
}

impl DirtyWrite {
    /// The bytes of some of its blocks, if they are in memory.
    pub(crate) fn in_memory(&self, blocks: &Blocks) -> Option<Bytes> {
        let Kept::Memory(bytes) = &self.kept else { return None };
        let first = (blocks.start - self.blocks.start) as usize * BLOCK;
        Some(bytes.slice(first..first + blocks.len() * BLOCK))
    }
}

/// The writes that are not written back. A write's position is its place in the log, and its sequence.
#[derive(Debug)]
pub(crate) struct DirtyWrites {
    /// The position of the first write.
    first: u64,
    writes: VecDeque<DirtyWrite>,
    /// Everything before this position is durable.
    durable: u64,
    /// The bytes that are in memory.
    memory_bytes: u64,
    newest: ExtentMap<u64>,
}

impl DirtyWrites {
    /// None; the first will have this position.
    pub(crate) fn new(first: u64) -> Self {
        Self { first, writes: VecDeque::new(), durable: first, memory_bytes: 0, newest: ExtentMap::default() }
    }

    /// Adds a write, behind all others, which nobody wants to know the rewrites of.
    pub(crate) fn push(&mut self, position: u64, flush: FlushEpoch, blocks: Blocks, content: Content) {
        self.push_rewrite(position, flush, blocks, content, 0);
    }

    /// Adds a write, behind all others, that rewrites a block so often since it was written back.
    pub(crate) fn push_rewrite(
        &mut self,
        position: u64,
        flush: FlushEpoch,
        blocks: Blocks,
        content: Content,
        rewrites: u8,
    ) {
        assert_eq!(position, self.first + self.writes.len() as u64, "writes come in order");
        self.newest.insert(blocks.clone(), position);
        self.memory_bytes += content.len();
        let kept = match content {
            Content::Data(bytes) => Kept::Memory(bytes),
            Content::Zero => Kept::Zeros { is_hole: false },
            Content::Trim => Kept::Zeros { is_hole: true },
        };
        self.writes.push_back(DirtyWrite { blocks, flush, kept, rewrites });
    }

    /// How often one of these blocks was written since it was written back.
    pub(crate) fn rewrites(&self, blocks: &Blocks) -> u8 {
        let of = |position| self.write(position).rewrites.saturating_add(1);
        self.newest.pieces(blocks.clone()).filter_map(|(_, newest)| newest.map(of)).max().unwrap_or(0)
    }

    /// The log has everything through a position: the memory is free.
    pub(crate) fn durable(&mut self, through: u64) {
        for position in self.durable.max(self.first)..=through {
            let write = &mut self.writes[(position - self.first) as usize];
            if let Kept::Memory(bytes) = &write.kept {
                self.memory_bytes -= bytes.len() as u64;
                write.kept = Kept::Log;
            }
        }
        self.durable = self.durable.max(through + 1);
    }

    /// The log's record of a write is damaged, and these are the bytes. They stay in memory until they are written
    /// back.
    pub(crate) fn mend(&mut self, position: u64, bytes: Bytes) {
        let Some(at) = position.checked_sub(self.first) else { return };
        let write = self.writes.get_mut(at as usize).filter(|it| it.blocks.len() * BLOCK == bytes.len());
        if let Some(write) = write.filter(|it| it.kept == Kept::Log) {
            self.memory_bytes += bytes.len() as u64;
            write.kept = Kept::Memory(bytes);
        }
    }

    /// Whether a write is in memory as its record in the log is damaged.
    pub(crate) fn is_mended(&self, position: u64) -> bool {
        let is_memory = |it: &DirtyWrite| matches!(it.kept, Kept::Memory(_));
        position < self.durable && self.find(position).is_some_and(is_memory)
    }

    /// Everything through a position is home.
    pub(crate) fn home(&mut self, through: u64) {
        while self.first <= through {
            let Some(write) = self.writes.pop_front() else { break };
            if let Kept::Memory(bytes) = &write.kept {
                self.memory_bytes -= bytes.len() as u64;
            }
            self.newest.remove_if(write.blocks, |position| position <= through);
            self.first += 1;
        }
    }

    /// The position of the first of them, or of the next one.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// A write.
    pub(crate) fn write(&self, position: u64) -> &DirtyWrite {
        &self.writes[(position - self.first) as usize]
    }

    /// A write, if it is not written back.
    pub(crate) fn find(&self, position: u64) -> Option<&DirtyWrite> {
        self.writes.get(position.checked_sub(self.first)? as usize)
    }

    /// The newest write of a block.
    pub(crate) fn newest(&self, block: u32) -> Option<u64> {
        self.newest.get(block)
    }

    /// These blocks in order, run by run, with their newest write if they have one.
    pub(crate) fn pieces(&self, blocks: Blocks) -> impl Iterator<Item = (Blocks, Option<u64>)> + '_ {
        self.newest.pieces(blocks)
    }

    /// Of the writes through a position, the newest of each block: what home gets.
    pub(crate) fn newest_through(&self, through: u64) -> ExtentMap<u64> {
        let mut newest = ExtentMap::default();
        for (position, write) in (self.first..=through).zip(&self.writes) {
            newest.insert(write.blocks.clone(), position);
        }
        newest
    }

    /// The bytes of writes that the log has not got yet.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: FlushEpoch = FlushEpoch(1);

    fn data(mark: u8, blocks: usize) -> Content {
        Content::Data(vec![mark; blocks * BLOCK].into())
    }

    #[test]
    fn the_newest_write_counts_until_it_is_home() {
        let mut dirty = DirtyWrites::new(5);
        dirty.push(5, FLUSH, 0..4, data(5, 4));
        dirty.push(6, FLUSH, 2..3, Content::Trim);
        dirty.push(7, FLUSH, 3..8, data(7, 5));
        let pieces: Vec<_> = dirty.pieces(0..10).collect();
        assert_eq!(pieces, [(0..2, Some(5)), (2..3, Some(6)), (3..8, Some(7)), (8..10, None)]);
        assert_eq!(dirty.write(7).in_memory(&(4..6)).unwrap(), vec![7; 2 * BLOCK]);
        dirty.durable(6);
        assert_eq!((dirty.write(5).in_memory(&(0..1)), dirty.write(7).kept == Kept::Log), (None, false));
        // A later write hides nothing of the first two from home.
        assert_eq!(dirty.newest_through(6).iter().collect::<Vec<_>>(), [(0..2, 5), (2..3, 6), (3..4, 5)]);
        dirty.home(6);
        assert_eq!((dirty.newest(2), dirty.newest(3), dirty.len()), (None, Some(7), 1));
    }

    #[test]
    fn what_goes_home_out_of_memory_is_in_memory_no_more() {
        let mut dirty = DirtyWrites::new(1);
        dirty.push(1, FLUSH, 0..4, data(1, 4));
        dirty.push(2, FLUSH, 2..4, data(2, 2));
        dirty.durable(1);
        assert_eq!(dirty.memory_bytes(), 2 * BLOCK as u64);
        dirty.home(2);
        assert_eq!((dirty.memory_bytes(), dirty.len()), (0, 0));
    }

    #[test]
    fn rewrites_are_counted_until_a_block_is_home() {
        let mut dirty = DirtyWrites::new(1);
        for (position, blocks) in [(1, 0..4), (2, 2..3), (3, 3..8), (4, 2..3)] {
            let rewrites = dirty.rewrites(&blocks);
            dirty.push_rewrite(position, FLUSH, blocks, Content::Zero, rewrites);
        }
        let counts = |dirty: &DirtyWrites| [0..2, 2..3, 2..4, 5..9, 9..10].map(|blocks| dirty.rewrites(&blocks));
        assert_eq!(counts(&dirty), [1, 3, 3, 2, 0]);
        dirty.home(3);
        assert_eq!(counts(&dirty), [0, 3, 3, 0, 0]);
    }
}
