//! The values that the simulated application writes: each says where it stands and who wrote it, so that a read can be
//! checked by looking.

use bytes::Bytes;
use core::fmt;
use types::{ObjectId, PageId, SlotNo};

/// One write of one attempt at a transaction: no two writes of a run have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp {
    pub(crate) attempt: u32,
    pub(crate) write: u32,
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}w{}", self.attempt, self.write)
    }
}

const BYTES: usize = 18;
/// As many pages as values refer to.
const HOT_PAGES: u32 = 6;
/// Stands for the place of an object that was written before it had one.
const NOWHERE: ObjectId = ObjectId::new(PageId::new(u32::MAX, u32::MAX), u16::MAX);

/// The value that `stamp` writes to `object`, followed by `padding` bytes that depend on the stamp.
pub(crate) fn encode(object: Option<ObjectId>, stamp: Stamp, padding: usize) -> Bytes {
    let object = object.unwrap_or(NOWHERE);
    let mut value = Vec::with_capacity(BYTES + padding);
    value.extend_from_slice(&object.page.to_bits().to_le_bytes());
    value.extend_from_slice(&object.slot.to_le_bytes());
    value.extend_from_slice(&stamp.attempt.to_le_bytes());
    value.extend_from_slice(&stamp.write.to_le_bytes());
    value.resize(BYTES + padding, stamp.attempt as u8);
    value.into()
}

/// Where a value refers to, as the store is told: to objects among the hot pages that depend on who wrote it.
pub(crate) fn references(value: &[u8], found: &mut dyn FnMut(ObjectId)) {
    let Some((head, _)) = value.split_at_checked(BYTES) else { return };
    let space = PageId::from_bits(u64::from_le_bytes(head[..8].try_into().expect("eight bytes"))).space;
    for i in 0..3 {
        let number = (u32::from(head[10]) + i * (u32::from(head[14]) + 1)) % HOT_PAGES;
        found(ObjectId::new(PageId::new(space, number), SlotNo::from(head[10] % 4)));
    }
}

/// The write of the value that is in `object`; `None` if nobody can have written it.
pub(crate) fn decode(object: ObjectId, value: &[u8]) -> Option<Stamp> {
    let (head, padding) = value.split_at_checked(BYTES)?;
    let u32_at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let page = PageId::from_bits(u64::from_le_bytes(head[..8].try_into().expect("eight bytes")));
    let place = ObjectId::new(page, u16::from_le_bytes(head[8..10].try_into().expect("two bytes")));
    let stamp = Stamp { attempt: u32_at(10), write: u32_at(14) };
    let intact = padding.iter().all(|&byte| byte == stamp.attempt as u8);
    (intact && (place == object || place == NOWHERE)).then_some(stamp)
}
