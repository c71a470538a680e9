//! How many chunks may be on their way at a time: as many as come to some bytes, by the size of the last ones.

/// The bytes that may be on their way, about, and the least and the most number of chunks.
const BYTES: usize = 32 * 1024 * 1024;
const LEAST: usize = 8;
const MOST: usize = 1024;

/// The size of a chunk before any has come.
const FIRST_BYTES: usize = 32 * 1024;

/// A window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The mean size of the last chunks, in bytes.
    mean: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { mean: FIRST_BYTES }
    }
}

impl Window {
    /// Returns whether one more may be on its way when `under_way` chunks are.
    pub(crate) fn allows(self, under_way: usize) -> bool {
        under_way < (BYTES / self.mean.max(1)).clamp(LEAST, MOST)
    }

    /// A chunk of this size has come.
    pub(crate) fn saw(&mut self, bytes: usize) {
        self.mean = (self.mean * 7 + bytes) / 8;
    }
}
