//! The chunks that a relay keeps for its group: those that were used last, up to a number of bytes.

use alloc::collections::BTreeMap;
use bytes::Bytes;
use tree::ChunkHash;
use types::Map;

/// The chunks.
#[derive(Debug)]
pub(super) struct ChunkCache {
    chunks: Map<ChunkHash, (Bytes, u64)>,
    /// By when they were used.
    used: BTreeMap<u64, ChunkHash>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
}

impl ChunkCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { chunks: Map::default(), used: BTreeMap::new(), clock: 0, bytes: 0, bytes_max }
    }

    /// A chunk, if it is here.
    pub(super) fn get(&mut self, hash: &ChunkHash) -> Option<Bytes> {
        let (bytes, used) = self.chunks.get_mut(hash)?;
        self.used.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.used.insert(self.clock, *hash);
        Some(bytes.clone())
    }

    /// Keeps a chunk, in the place of those that were not used for the longest time.
    pub(super) fn put(&mut self, hash: ChunkHash, bytes: Bytes) {
        if bytes.len() > self.bytes_max || self.chunks.contains_key(&hash) {
            return;
        }
        self.bytes += bytes.len();
        self.clock += 1;
        self.used.insert(self.clock, hash);
        self.chunks.insert(hash, (bytes, self.clock));
        self.make_room();
    }

    /// Keeps at most so many bytes from now on.
    pub(super) fn keep_bytes(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.used.pop_first() else { break };
            if let Some((bytes, _)) = self.chunks.remove(&oldest) {
                self.bytes -= bytes.len();
            }
        }
    }

    /// The number of chunks, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.chunks.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_chunks_that_were_used_last_stay() {
        let mut cache = ChunkCache::new(10);
        let [a, b, c, d] = [1, 2, 3, 4].map(|byte| Bytes::from(vec![byte; 4]));
        let [at_a, at_b, at_c, at_d] = [&a, &b, &c, &d].map(|bytes| ChunkHash::of(bytes));
        cache.put(at_a, a.clone());
        cache.put(at_b, b);
        assert_eq!(cache.get(&at_a), Some(a.clone()));
        cache.put(at_c, c.clone());
        assert_eq!((cache.get(&at_a), cache.get(&at_b), cache.get(&at_c)), (Some(a), None, Some(c.clone())));
        assert_eq!(cache.size(), (2, 8));
        cache.put(at_d, Bytes::from(vec![4; 11]));
        assert_eq!((cache.get(&at_d), cache.size()), (None, (2, 8)), "it is larger than all of the cache");
        cache.keep_bytes(4);
        assert_eq!((cache.get(&at_c), cache.size()), (Some(c), (1, 4)));
    }
}
