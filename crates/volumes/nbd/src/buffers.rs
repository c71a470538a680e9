//! Memory that requests are received into. A payload lies where it was received until the device is done with it, which
//! is long after the next ones have come; then the memory is used again. Memory that is new to the process costs more
//! than to fill it.

use super::limits::{BUFFER_BYTES, BUFFERS_BYTES_MAX};
use bytes::Bytes;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of all connections of a server that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

/// Memory that is being filled. It goes back when the last one that reads it is done with it.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    len: usize,
    home: Arc<Buffers>,
}

impl Buffers {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for this many bytes, and not for many more.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Buffer {
        let fits = |memory: &Vec<u8>| (bytes..=bytes + bytes / 2).contains(&memory.len());
        let mut free = self.lock();
        // Memory that was used last is the nearest to the processor.
        let found = free.iter().rposition(fits).map(|at| free.remove(at));
        drop(free);
        let memory = found.unwrap_or_else(|| vec![0; bytes.next_multiple_of(BUFFER_BYTES)]);
        Buffer { memory, len: 0, home: self.clone() }
    }

    /// Takes memory back, and lets go of what was used longest ago if it is more than should be kept.
    fn give(&self, memory: Vec<u8>) {
        let mut gone = Vec::new();
        let mut free = self.lock();
        free.push(memory);
        let mut bytes: usize = free.iter().map(Vec::len).sum();
        while bytes > BUFFERS_BYTES_MAX {
            let oldest = free.remove(0);
            bytes -= oldest.len();
            gone.push(oldest);
        }
    }
}

impl Buffer {
    /// The bytes that are in it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Where more go, up to so many in all.
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = bytes.min(self.memory.len());
        &mut self.memory[self.len..end]
    }

    /// So many more are in it.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.len += bytes;
    }

    /// Adds bytes for which there is room.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.memory[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Has room for this many in all.
    pub(super) fn reserve(&mut self, bytes: usize) {
        if self.memory.len() < bytes {
            let mut larger = self.home.take(bytes);
            larger.put(self.bytes());
            *self = larger;
        }
    }

    /// Its bytes, to be read.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = mem::take(&mut self.memory);
        if !memory.is_empty() {
            self.home.give(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_its_last_reader_is_gone() {
        let buffers = Arc::new(Buffers::default());
        let mut buffer = buffers.take(1 << 20);
        buffer.put(b"payload");
        let whole = buffer.freeze();
        let (payload, at) = (whole.slice(3..), whole.as_ptr());
        drop(whole);
        assert!(buffers.lock().is_empty());
        assert_eq!(&payload[..], b"load");
        drop(payload);
        let again = buffers.take(1 << 20);
        assert_eq!((again.memory.as_ptr(), again.bytes()), (at, &b""[..]));
    }

    #[test]
    fn a_buffer_that_grows_keeps_its_bytes_and_little_is_kept_for_long() {
        let buffers = Arc::new(Buffers::default());
        let mut buffer = buffers.take(BUFFER_BYTES);
        let size = buffer.memory.len();
        buffer.put(&vec![7; size]);
        buffer.reserve(size + 1);
        assert!(buffer.bytes() == vec![7; size] && buffer.room(size + 1).len() == 1);
        // A small request takes no large memory.
        drop(buffers.take(1 << 24));
        assert!(buffers.take(1 << 20).memory.len() <= 2 << 20);
        let many: Vec<_> = (0..100).map(|_| buffers.take(1 << 20)).collect();
        drop((many, buffer));
        assert!(buffers.lock().iter().map(Vec::len).sum::<usize>() <= BUFFERS_BYTES_MAX);
    }
}
