//! How the value of an object stands in its slot, to the byte.
//!
//! ```text
//!   inline   0x00, then the value
//!   chain    0x01, total: u32le, head: object id       the value is in chunks, listed by the head
//!   head     object id of each chunk, in order          (an object of its own, near the slot)
//!   chunk    up to CHUNK_BYTES of the value             (an object of its own, alone in its page)
//!   object id: volume u32le, page u32le, slot u16le
//! ```
//! A descriptor of a chain is shorter than the reference that every slot of a full page still has room for, so a
//! value can always be moved out.

use crate::{Error, Result};
use types::limits::{OBJECT_BYTES_MAX, PAGE_BYTES_GROWTH, PAGE_BYTES_MAX, SLOT_BYTES_MAX};
use types::{ObjectId, PageId};

/// The longest value that stays in its slot. A longer one fills most of a page at its growth limit by itself.
pub(crate) const INLINE_BYTES_MAX: usize = PAGE_BYTES_GROWTH - 64;

/// The bytes of a value in one chunk.
pub(crate) const CHUNK_BYTES: usize = 60 * 1024;

/// The bytes of an object id.
pub(crate) const ID_BYTES: usize = 10;

const INLINE: u8 = 0;
const CHAIN: u8 = 1;
const CHAIN_BYTES: usize = 1 + 4 + ID_BYTES;

const _: () = {
    assert!(CHAIN_BYTES <= 24, "a page at its growth limit has room for references of 24 bytes");
    assert!(INLINE_BYTES_MAX + 1 + 8 <= PAGE_BYTES_GROWTH);
    assert!(CHUNK_BYTES <= SLOT_BYTES_MAX && CHUNK_BYTES + 8 <= PAGE_BYTES_MAX);
    // The head of the longest chain is one slot.
    assert!(OBJECT_BYTES_MAX.div_ceil(CHUNK_BYTES) * ID_BYTES <= INLINE_BYTES_MAX);
};

/// Where a large value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The value's length, in bytes.
    pub(crate) total: usize,
    /// The object that lists the chunks.
    pub(crate) head: ObjectId,
}

/// A slot's bytes, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// Where it is.
    Chain(Chain),
}

impl<'a> Slot<'a> {
    /// The value, if it is in the slot itself.
    #[inline]
    pub(crate) fn inline(bytes: &'a [u8]) -> Option<&'a [u8]> {
        match bytes.split_first() {
            Some((&INLINE, value)) => Some(value),
            _ => None,
        }
    }

    /// Understands what `object` holds.
    #[inline]
    pub(crate) fn parse(object: ObjectId, bytes: &'a [u8]) -> Result<Self> {
        match bytes.split_first() {
            Some((&INLINE, value)) => Ok(Self::Inline(value)),
            Some((&CHAIN, chain)) if chain.len() == CHAIN_BYTES - 1 => {
                let (total, head) = chain.split_at(4);
                let total = u32::from_le_bytes(total.try_into().expect("split at four")) as usize;
                if total > OBJECT_BYTES_MAX {
                    return Err(Error::damaged(object, "it claims to be larger than an object can be"));
                }
                Ok(Self::Chain(Chain { total, head: id_from(head) }))
            }
            _ => Err(Error::damaged(object, "its first byte is none that a value has")),
        }
    }
}

impl Chain {
    /// The bytes for the slot.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHAIN_BYTES);
        bytes.push(CHAIN);
        bytes.extend_from_slice(&(self.total as u32).to_le_bytes());
        push_id(&mut bytes, self.head);
        bytes
    }
}

/// The start of an inline value: what follows is the value.
pub(crate) fn inline(capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + capacity);
    bytes.push(INLINE);
    bytes
}

/// Appends the ten bytes of an id.
pub(crate) fn push_id(bytes: &mut Vec<u8>, id: ObjectId) {
    bytes.extend_from_slice(&id.page.volume.to_le_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let head = ObjectId::new(PageId::new(1, 0x0203), 4);
        let chain = Chain { total: 0x0506, head };
        assert_eq!(chain.to_bytes(), [1, 6, 5, 0, 0, 1, 0, 0, 0, 3, 2, 0, 0, 4, 0]);
        let root = ObjectId::root(0);
        assert_eq!(Slot::parse(root, &chain.to_bytes()).unwrap(), Slot::Chain(chain));
        assert_eq!(Slot::parse(root, &[0, 7]).unwrap(), Slot::Inline(&[7]));
    }

    #[test]
    fn what_is_no_value_is_refused_by_name() {
        for bytes in [&[][..], &[2], &[1, 0, 0], &[1; 16], &[1, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            let error = Slot::parse(ObjectId::root(7), bytes).unwrap_err();
            assert!(error.to_string().starts_with("object 7/0.0 is damaged"), "{error}");
        }
    }
}
