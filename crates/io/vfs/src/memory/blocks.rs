//! A file's bytes in blocks that its copies share until one of them is written. The tests that break every operation of
//! a run copy a whole directory for each, and a file for each sync.

use crate::aligned::BLOCK;
use std::sync::Arc;

/// The bytes. All behind the end of the last block are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    len: usize,
    blocks: Vec<Arc<[u8; BLOCK]>>,
}

impl Blocks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Cuts the bytes off at a length, or adds zeros.
    pub(super) fn resize(&mut self, len: usize) {
        self.blocks.resize(len.div_ceil(BLOCK), Arc::new([0; BLOCK]));
        if let Some(last) = self.blocks.last_mut().filter(|_| len < self.len && !len.is_multiple_of(BLOCK)) {
            Arc::make_mut(last)[len % BLOCK..].fill(0);
        }
        self.len = len;
    }

    /// Writes bytes at a place, which may lie behind the end.
    pub(super) fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        self.resize(self.len.max(at + bytes.len()));
        while !bytes.is_empty() {
            let (block, from) = (at / BLOCK, at % BLOCK);
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - from));
            Arc::make_mut(&mut self.blocks[block])[from..from + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }

    /// Reads the bytes from a place on; `None` if there are fewer.
    pub(super) fn read(&self, mut at: usize, mut into: &mut [u8]) -> Option<()> {
        if self.len < at + into.len() {
            return None;
        }
        while !into.is_empty() {
            let (block, from) = (at / BLOCK, at % BLOCK);
            let (now, later) = into.split_at_mut(into.len().min(BLOCK - from));
            now.copy_from_slice(&self.blocks[block][from..from + now.len()]);
            (at, into) = (at + now.len(), later);
        }
        Some(())
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes).expect("all of it is there");
        bytes
    }
}

impl From<&[u8]> for Blocks {
    fn from(bytes: &[u8]) -> Self {
        let mut blocks = Self::default();
        blocks.write(0, bytes);
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dice;

    /// The same changes to a vector give the same bytes, and a copy does not change with what it was copied from.
    #[test]
    fn blocks_are_the_bytes_that_were_written() {
        let mut dice = Dice(1);
        let (mut blocks, mut model) = (Blocks::default(), Vec::new());
        for _ in 0..500 {
            let (copy, before) = (blocks.clone(), model.clone());
            let at = dice.roll(5 * BLOCK as u64) as usize;
            if dice.roll(4) == 0 {
                blocks.resize(at);
                model.resize(at, 0);
            } else {
                let bytes = vec![dice.roll(256) as u8; dice.roll(3 * BLOCK as u64) as usize];
                blocks.write(at, &bytes);
                model.resize(model.len().max(at + bytes.len()), 0);
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            assert!(blocks.to_vec() == model && blocks.len() == model.len());
            assert!(copy.to_vec() == before);
            let (from, len) = (dice.roll(5 * BLOCK as u64) as usize, dice.roll(2 * BLOCK as u64) as usize);
            let mut read = vec![0; len];
            let is_there = blocks.read(from, &mut read).is_some();
            assert_eq!(is_there.then_some(&read[..]), model.get(from..from + len));
        }
    }
}
