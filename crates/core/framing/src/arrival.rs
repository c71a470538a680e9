//! Memory for what arrives: it grows with the bytes that have come, whatever length was announced.

use alloc::vec::Vec;

/// The most that is allocated for a part of a frame before any of it has arrived, in bytes. From then on the room at
/// most doubles with what has arrived.
pub(crate) const UNSEEN_BYTES_MAX: usize = 64 * 1024;

/// Moves bytes from the front of `arrived` into `part` until it has `len` of them.
pub(crate) fn fill(part: &mut Vec<u8>, len: usize, arrived: &mut &[u8]) {
    while part.len() < len && !arrived.is_empty() {
        make_room(part, len);
        let room = part.capacity().min(len) - part.len();
        let (taken, rest) = arrived.split_at(room.min(arrived.len()));
        part.extend_from_slice(taken);
        *arrived = rest;
    }
}

/// Makes room in `part` for more of its `len` bytes, by no more than has arrived: an announced length costs its sender
/// as much as it costs us.
pub(crate) fn make_room(part: &mut Vec<u8>, len: usize) {
    if part.len() == part.capacity() && part.len() < len {
        let missing = len - part.len();
        part.reserve_exact(missing.min(part.len().max(UNSEEN_BYTES_MAX)));
    }
}
