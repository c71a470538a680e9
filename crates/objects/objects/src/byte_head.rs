//! The root of a byte value, to the byte: how long the value is, and where its pages are.
//!
//! ```text
//!   length: u64le | depth: u8 | id of the top page: space u32le, page u32le, slot u16le
//! ```
//! Depth 0 says that the top page is the value's only page. Else it is a table, of this many levels, see `byte_table`.
//! Without any page the id is all zeros: no page of a byte value is the first of its space. The slot is always 0.

use crate::ids::{ID_BYTES, id_from, push_id};
use types::limits::BYTE_VALUE_BYTES_MAX;
use types::{ObjectId, PageId};

/// The bytes of a value in one page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The entries of a table.
pub(crate) const FAN_OUT: u64 = 512;

/// The levels of tables above the pages of the longest value.
pub(crate) const DEPTH_MAX: u8 = 3;

const BYTES: usize = 8 + 1 + ID_BYTES;

const _: () = assert!(capacity(DEPTH_MAX) == BYTE_VALUE_BYTES_MAX, "the limit is what the deepest tables lead to");

/// The longest value that this many levels of tables lead to, in bytes.
pub(crate) const fn capacity(depth: u8) -> u64 {
    PAGE_BYTES * FAN_OUT.pow(depth as u32)
}

/// The content of a byte value's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The value's length, in bytes.
    pub(crate) len: u64,
    /// The levels of tables.
    pub(crate) depth: u8,
    /// The first slot of the top table, or of the only page.
    pub(crate) top: Option<ObjectId>,
}

impl Head {
    /// A value of no bytes.
    pub(crate) const EMPTY: Self = Self { len: 0, depth: 0, top: None };

    /// The head in these bytes, if they are one.
    pub(crate) fn parse(content: &[u8]) -> Option<Self> {
        let (len, rest) = content.split_first_chunk::<8>().filter(|_| content.len() == BYTES)?;
        let (&depth, id) = rest.split_first()?;
        let (len, top) = (u64::from_le_bytes(*len), id_from(id));
        if depth > DEPTH_MAX || len > capacity(depth) || top.slot != 0 {
            return None;
        }
        let has_none = top == ObjectId::new(PageId::new(0, 0), 0);
        (has_none || top.page.number > 0).then_some(Self { len, depth, top: (!has_none).then_some(top) })
    }

    pub(crate) fn push_bytes(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes.push(self.depth);
        push_id(bytes, self.top.unwrap_or(ObjectId::new(PageId::new(0, 0), 0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let top = Some(ObjectId::new(PageId::new(1, 0x0203), 0));
        let mut golden = Vec::new();
        Head { len: 0x0405, depth: 1, top }.push_bytes(&mut golden);
        assert_eq!(golden, [5, 4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 3, 2, 0, 0, 0, 0]);
        assert_eq!(Head::parse(&golden), Some(Head { len: 0x0405, depth: 1, top }));
        let mut empty = Vec::new();
        Head::EMPTY.push_bytes(&mut empty);
        assert_eq!((Head::parse(&empty), empty), (Some(Head::EMPTY), vec![0; BYTES]));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let bytes = |len: u64, depth: u8, id: [u8; ID_BYTES]| [&len.to_le_bytes()[..], &[depth], &id].concat();
        let id = [0, 0, 0, 0, 7, 0, 0, 0, 0, 0];
        assert!(Head::parse(&bytes(capacity(3), 3, id)).is_some());
        assert_eq!(Head::parse(&bytes(capacity(3) + 1, 3, id)), None);
        assert_eq!(Head::parse(&bytes(4097, 0, id)), None);
        assert_eq!(Head::parse(&bytes(1, 4, id)), None);
        assert_eq!(Head::parse(&bytes(1, 1, [0, 0, 0, 0, 7, 0, 0, 0, 1, 0])), None);
        assert_eq!(Head::parse(&bytes(1, 1, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(Head::parse(&bytes(1, 1, id)[1..]), None);
        assert_eq!(Head::parse(&[bytes(1, 1, id), vec![0]].concat()), None);
    }
}
