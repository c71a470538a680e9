//! A node of a map's B+tree, to the byte. One node is one object.
//!
//! ```text
//!   0      1          3                  3 + 2n
//!   +------+----------+------------------+---------------------------------------------+
//!   | kind | n: u16le | n x end: u16le   | n x (key length: u16le, key, payload)       |
//!   +------+----------+------------------+---------------------------------------------+
//! ```
//! Entries are in key order; `end` counts from the first entry. The payload of a leaf's entry is the value, `00` then
//! its bytes, or `01` then the id of the object that holds it. The payload of an inner node's entry is the id of a
//! child, and its key is the least that the child may hold; the first entry's key is empty, below all keys.

use crate::ids::{ID_BYTES, id_from, push_id};
use types::ObjectId;

/// The size past which a node is split, in bytes: four nodes in a page, and each a unit of conflict.
pub(crate) const NODE_BYTES_TARGET: usize = 2048;

/// The size below which a node joins a sibling that has room for it.
pub(crate) const NODE_BYTES_LEAST: usize = NODE_BYTES_TARGET / 4;

/// The longest value that is in a leaf.
pub(crate) const VALUE_BYTES_MAX: usize = NODE_BYTES_TARGET / 4;

const HEADER_BYTES: usize = 3;
const LEAF: u8 = 0;
const INNER: u8 = 1;
const HERE: u8 = 0;
const ELSEWHERE: u8 = 1;

const _: () = assert!(crate::key::KEY_BYTES_MAX + VALUE_BYTES_MAX + 16 <= NODE_BYTES_TARGET, "an entry fits a node");

/// A node read in place.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    leaf: bool,
    ends: &'a [u8],
    entries: &'a [u8],
}

impl<'a> View<'a> {
    /// The node in these bytes, if they are one; entries are checked when they are looked at.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let count = usize::from(u16::from_le_bytes([header[1], header[2]]));
        let (ends, entries) = rest.split_at_checked(2 * count)?;
        let leaf = match header[0] {
            LEAF => true,
            INNER if count > 0 => false,
            _ => return None,
        };
        Some(Self { leaf, ends, entries })
    }

    pub(crate) fn is_leaf(self) -> bool {
        self.leaf
    }

    pub(crate) fn len(self) -> usize {
        self.ends.len() / 2
    }

    /// The key and the payload of an entry.
    pub(crate) fn entry(self, i: usize) -> Option<(&'a [u8], &'a [u8])> {
        let start = if i == 0 { 0 } else { self.end(i - 1)? };
        let (len, rest) = self.entries.get(start..self.end(i)?)?.split_first_chunk::<2>()?;
        rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
    }

    /// How many of the entries, which are in order, come before the first that is not `below`.
    pub(crate) fn count_below(self, below: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if below(self.entry(middle)?.0) { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// The payload under `key` in a leaf; nothing is an empty one, which no value has.
    pub(crate) fn find(self, key: &[u8]) -> Option<&'a [u8]> {
        let at = self.count_below(|k| k < key)?;
        if at == self.len() {
            return Some(&[]);
        }
        let (found, payload) = self.entry(at)?;
        Some(if found == key { payload } else { &[] })
    }

    /// The child of an inner node.
    pub(crate) fn child(self, i: usize) -> Option<ObjectId> {
        let (_, payload) = self.entry(i)?;
        (payload.len() == ID_BYTES).then(|| id_from(payload))
    }

    fn end(self, i: usize) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(*self.ends.get(2 * i..)?.first_chunk()?)))
    }
}

/// The value under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload<B> {
    /// The value's bytes.
    Here(B),
    /// The object that holds the value.
    Elsewhere(ObjectId),
}

impl<'a> Payload<&'a [u8]> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&HERE, value) => Some(Self::Here(value)),
            (&ELSEWHERE, id) if id.len() == ID_BYTES => Some(Self::Elsewhere(id_from(id))),
            _ => None,
        }
    }
}

impl<B: AsRef<[u8]>> Payload<B> {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Here(value) => [&[HERE], value.as_ref()].concat(),
            Self::Elsewhere(id) => {
                let mut bytes = vec![ELSEWHERE];
                push_id(&mut bytes, *id);
                bytes
            }
        }
    }
}

/// A node taken apart, to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    pub(crate) leaf: bool,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Entry {
    /// An inner node's entry.
    pub(crate) fn child(key: Vec<u8>, child: ObjectId) -> Self {
        let mut payload = Vec::with_capacity(ID_BYTES);
        push_id(&mut payload, child);
        Self { key, payload }
    }

    fn bytes(&self) -> usize {
        2 + 2 + self.key.len() + self.payload.len()
    }
}

impl TreeNode {
    /// A leaf without entries: the empty map.
    pub(crate) const EMPTY: Self = Self { leaf: true, entries: Vec::new() };

    /// The node in these bytes, if they are one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let view = View::parse(bytes)?;
        let entry = |i| view.entry(i).map(|(key, payload)| Entry { key: key.to_vec(), payload: payload.to_vec() });
        let entries: Vec<Entry> = (0..view.len()).map(entry).collect::<Option<_>>()?;
        let whole = view.leaf || entries.iter().all(|entry| entry.payload.len() == ID_BYTES);
        whole.then_some(Self { leaf: view.leaf, entries })
    }

    /// Appends the node's bytes.
    pub(crate) fn push_bytes(&self, bytes: &mut Vec<u8>) {
        bytes.push(if self.leaf { LEAF } else { INNER });
        bytes.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        let mut end = 0;
        for entry in &self.entries {
            end += entry.bytes() - 2;
            bytes.extend_from_slice(&(end as u16).to_le_bytes());
        }
        for Entry { key, payload } in &self.entries {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(payload);
        }
    }

    /// The node's size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        HEADER_BYTES + self.entries.iter().map(Entry::bytes).sum::<usize>()
    }

    /// Where `key` stands, or would stand.
    pub(crate) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.key.as_slice().cmp(key))
    }

    /// The child in an inner node's entry.
    pub(crate) fn child(&self, i: usize) -> ObjectId {
        id_from(&self.entries[i].payload)
    }

    /// Splits the upper entries off, and gives the least key that they may hold. After an entry was added at the end
    /// only that one goes, so that keys that come in order leave full nodes behind; else the upper half.
    pub(crate) fn split(&mut self, added_at: usize) -> (Vec<u8>, Self) {
        let last = self.entries.len() - 1;
        let at = if added_at == last { last } else { self.middle() };
        let mut upper = Self { leaf: self.leaf, entries: self.entries.split_off(at) };
        let first = &mut upper.entries[0].key;
        let separator =
            if self.leaf { shortest_between(&self.entries[at - 1].key, first) } else { std::mem::take(first) };
        (separator, upper)
    }

    /// Takes in all entries of its right sibling, of which `separator` is the least key.
    pub(crate) fn join(&mut self, separator: &[u8], mut right: Self) {
        if !self.leaf {
            right.entries[0].key = separator.to_vec();
        }
        self.entries.append(&mut right.entries);
    }

    fn middle(&self) -> usize {
        let (half, mut bytes) = (self.bytes() / 2, 0);
        let over = self.entries.iter().position(|entry| {
            bytes += entry.bytes();
            bytes > half
        });
        over.unwrap_or(0).clamp(1, self.entries.len() - 1)
    }
}

/// The shortest key above `low` and not above `high`: what leads to a leaf need not be a key in it.
fn shortest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let shared = low.iter().zip(high).take_while(|(l, h)| l == h).count();
    high[..=shared].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::PageId;

    fn entry(key: &[u8], value: &[u8]) -> Entry {
        Entry { key: key.to_vec(), payload: Payload::Here(value).to_bytes() }
    }

    fn bytes(node: &TreeNode) -> Vec<u8> {
        let mut bytes = Vec::new();
        node.push_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let node = TreeNode { leaf: true, entries: vec![entry(b"a", b"x"), entry(b"bc", b"")] };
        let golden = [0, 2, 0, 5, 0, 10, 0, 1, 0, b'a', 0, b'x', 2, 0, b'b', b'c', 0];
        assert_eq!(bytes(&node), golden);
        assert_eq!(node.bytes(), golden.len());
        let child = ObjectId::new(PageId::new(0, 5), 6);
        let inner = TreeNode { leaf: false, entries: vec![Entry::child(Vec::new(), child)] };
        assert_eq!(bytes(&inner), [1, 1, 0, 12, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0]);
        assert_eq!(TreeNode::parse(&bytes(&inner)), Some(inner));
    }

    #[test]
    fn a_separator_is_as_short_as_it_can_be() {
        assert_eq!(shortest_between(b"apple", b"banana"), b"b");
        assert_eq!(shortest_between(b"ban", b"banana"), b"bana");
        assert_eq!(shortest_between(b"band", b"bank"), b"bank");
    }

    proptest! {
        /// Split and joined again, a node is itself; between the two every key is on its side of the separator.
        #[test]
        fn split_and_join(keys in proptest::collection::btree_set("[ab]{0,5}", 2..60), added in 0..60usize) {
            let entries: Vec<Entry> = keys.iter().map(|key| entry(key.as_bytes(), b"value")).collect();
            let whole = TreeNode { leaf: true, entries };
            let mut left = whole.clone();
            let (separator, right) = left.split(added.min(keys.len() - 1));
            prop_assert!(!left.entries.is_empty() && !right.entries.is_empty());
            prop_assert!(left.entries.iter().all(|entry| entry.key < separator));
            prop_assert!(right.entries.iter().all(|entry| entry.key >= separator));
            left.join(&separator, right);
            prop_assert_eq!(&left, &whole);
            let bytes = bytes(&whole);
            let view = View::parse(&bytes).unwrap();
            for (i, key) in keys.iter().enumerate() {
                prop_assert_eq!(view.find(key.as_bytes()), view.entry(i).map(|(_, payload)| payload));
            }
            prop_assert_eq!(view.find(b"c"), Some(&[][..]));
        }

        /// Bytes that are no node are refused or read as some node, never a panic.
        #[test]
        fn any_bytes_are_a_node_or_none(mut bytes: Vec<u8>, count in 0..5u16, leaf: bool) {
            if bytes.len() >= 3 {
                bytes[0] = u8::from(!leaf);
                bytes[1..3].copy_from_slice(&count.to_le_bytes());
            }
            let _ = TreeNode::parse(&bytes);
            if let Some(view) = View::parse(&bytes) {
                let _ = (view.find(b"key"), view.child(0), view.entry(7));
            }
        }
    }
}
