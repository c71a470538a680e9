//! Object ids in the bytes of objects.

use types::{ObjectId, PageId};

/// The bytes of an object id.
pub(crate) const ID_BYTES: usize = 10;

/// Appends the ten bytes of an id.
pub(crate) fn push_id(bytes: &mut Vec<u8>, id: ObjectId) {
    bytes.extend_from_slice(&id.page.space.to_le_bytes());
    bytes.extend_from_slice(&id.page.number.to_le_bytes());
    bytes.extend_from_slice(&id.slot.to_le_bytes());
}

/// The id in ten bytes.
///
/// # Panics
/// If there are fewer.
pub(crate) fn id_from(bytes: &[u8]) -> ObjectId {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    ObjectId::new(PageId::new(word(0), word(4)), u16::from_le_bytes([bytes[8], bytes[9]]))
}
