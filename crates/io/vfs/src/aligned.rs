//! Buffers that start at a block's boundary in memory, as writes past the page cache want them. Without `unsafe`: the
//! allocation is a block larger than what is used of it, and the bytes begin where the boundary falls.

/// The unit of writes past the page cache, in bytes.
pub const BLOCK: usize = 4096;

/// A growing run of bytes that starts at a block's boundary in memory.
#[derive(Debug, Default)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// A run of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let memory = vec![0; len + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start, len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes there is memory for.
    pub fn capacity(&self) -> usize {
        self.memory.len().saturating_sub(self.start)
    }

    /// Forgets the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes room for `more` bytes.
    pub fn reserve(&mut self, more: usize) {
        let need = self.len + more;
        if need > self.capacity() {
            let mut larger = Self::zeroed(need.max(2 * self.capacity()));
            larger.len = self.len;
            larger.bytes_mut().copy_from_slice(self.bytes());
            *self = larger;
        }
    }

    /// Adds bytes at the end.
    pub fn put(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let at = self.start + self.len;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds zeros until the length is a whole number of blocks.
    pub fn pad(&mut self) {
        self.put(&[0; BLOCK][..self.len.next_multiple_of(BLOCK) - self.len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_aligned_and_keeps_its_bytes() {
        let (mut aligned, mut plain) = (Aligned::default(), Vec::new());
        for i in 0..3000_u32 {
            aligned.put(&i.to_le_bytes());
            plain.extend_from_slice(&i.to_le_bytes());
            assert_eq!(aligned.bytes().as_ptr().align_offset(BLOCK), 0);
        }
        assert_eq!(aligned.bytes(), plain);
        aligned.pad();
        plain.resize(3 * BLOCK, 0);
        assert_eq!(aligned.bytes(), plain);
        aligned.clear();
        aligned.put(b"x");
        aligned.pad();
        assert_eq!((aligned.len(), aligned.bytes()[1]), (BLOCK, 0));
    }
}
