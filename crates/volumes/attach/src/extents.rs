//! Extents of blocks, and a map from blocks to values that keeps one entry for each run of blocks with the same value.

use std::collections::BTreeMap;
use std::ops::Range;

/// The unit that is cached, copied and written home, in bytes.
pub const BLOCK: usize = 4096;

/// A run of blocks: the numbers of the first one and of the one behind the last.
pub(crate) type Blocks = Range<u32>;

/// The checksum of a block as it is kept beside it, CRC32C; never 0, which says that nobody knows.
pub(crate) fn sum_of(block: &[u8]) -> u32 {
    crc32c::crc32c(block).max(1)
}

/// A map from blocks to values. Its size is the number of runs, so a trim of a whole volume is one entry.
#[derive(Clone, Debug)]
pub(crate) struct ExtentMap<T> {
    /// By its first block: the block behind its last, and its value. Runs do not overlap.
    runs: BTreeMap<u32, (u32, T)>,
}

impl<T> Default for ExtentMap<T> {
    fn default() -> Self {
        Self { runs: BTreeMap::new() }
    }
}

impl<T: Copy> ExtentMap<T> {
    /// Returns all of these blocks a value, in the place of what they had.
    pub(crate) fn insert(&mut self, blocks: Blocks, value: T) {
        if blocks.is_empty() {
            return;
        }
        self.remove_if(blocks.clone(), |_| true);
        self.runs.insert(blocks.start, (blocks.end, value));
    }

    /// Takes the value of those of these blocks whose value is so.
    pub(crate) fn remove_if(&mut self, blocks: Blocks, mut is_so: impl FnMut(T) -> bool) {
        let mut from = blocks.start;
        while let Some((run, value)) = self.next(from).filter(|(run, _)| run.start < blocks.end) {
            from = run.end;
            if !is_so(value) {
                continue;
            }
            self.runs.remove(&run.start);
            if run.start < blocks.start {
                self.runs.insert(run.start, (blocks.start, value));
            }
            if run.end > blocks.end {
                self.runs.insert(blocks.end, (run.end, value));
            }
        }
    }

    /// The value of a block.
    pub(crate) fn get(&self, block: u32) -> Option<T> {
        self.next(block).filter(|(run, _)| run.contains(&block)).map(|(_, value)| value)
    }

    /// These blocks from the first to the last, run by run, with their value if they have one.
    pub(crate) fn pieces(&self, blocks: Blocks) -> impl Iterator<Item = (Blocks, Option<T>)> + '_ {
        let mut from = blocks.start;
        std::iter::from_fn(move || {
            if from >= blocks.end {
                return None;
            }
            let (piece, value) = match self.next(from) {
                Some((run, value)) if run.start <= from => (from..run.end.min(blocks.end), Some(value)),
                Some((run, _)) => (from..run.start.min(blocks.end), None),
                None => (from..blocks.end, None),
            };
            from = piece.end;
            Some((piece, value))
        })
    }

    /// All runs, in the order of their blocks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Blocks, T)> + '_ {
        self.runs.iter().map(|(&start, &(end, value))| (start..end, value))
    }

    /// The first run that ends behind a block's beginning.
    fn next(&self, block: u32) -> Option<(Blocks, T)> {
        let before = self.runs.range(..=block).next_back().filter(|(_, (end, _))| *end > block);
        let (&start, &(end, value)) = before.or_else(|| self.runs.range(block..).next())?;
        Some((start..end, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Dice;

    #[test]
    fn a_map_of_extents_is_a_map_of_blocks() {
        const BLOCKS: u64 = 60;
        let mut dice = Dice(1);
        let mut map = ExtentMap::default();
        let mut model = [None::<u64>; BLOCKS as usize];
        for step in 0..20_000 {
            let (one, other) = (dice.roll(BLOCKS + 1) as u32, dice.roll(BLOCKS + 1) as u32);
            let blocks = one.min(other)..one.max(other);
            let slots = blocks.start as usize..blocks.end as usize;
            if dice.roll(3) == 0 {
                let limit = step - dice.roll(step + 1);
                map.remove_if(blocks.clone(), |value| value <= limit);
                model[slots.clone()].iter_mut().for_each(|slot| *slot = slot.filter(|&value| value > limit));
            } else {
                map.insert(blocks.clone(), step);
                model[slots.clone()].fill(Some(step));
            }
            let pieces: Vec<_> = map.pieces(blocks.clone()).collect();
            assert_eq!(pieces.first().map(|(piece, _)| piece.start), (!blocks.is_empty()).then_some(blocks.start));
            assert!(pieces.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
            let flat = pieces.into_iter().flat_map(|(piece, value)| piece.map(move |_| value));
            assert!(flat.eq(model[slots].iter().copied()));
            let block = dice.roll(BLOCKS) as u32;
            assert_eq!(map.get(block), model[block as usize]);
        }
        assert!(map.iter().all(|(run, _)| !run.is_empty()));
    }
}
