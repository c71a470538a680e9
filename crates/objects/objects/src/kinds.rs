//! The types of a map: that of its keys, and the name of its values' type. They are in its root, in front of the
//! node, and are compared whenever the root is looked at.
//!
//! ```text
//!   bytes: u16le | the type of the keys, see `key` | the name of the values' type
//! ```

use crate::KeyType;
use crate::named::Asked;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::fmt;

/// The types that a caller takes a map to have.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    /// `None`: any map will do, because it is only counted.
    key: Option<KeyType>,
    value: fn() -> Asked,
    /// The map's type, for people.
    pub(crate) name: fn() -> &'static str,
}

impl Kinds {
    pub(crate) const fn of<M, V: DeserializeOwned>(key: KeyType) -> Self {
        Self { key: Some(key), value: Asked::by::<V>, name: type_name::<M> }
    }

    /// The kinds for a map of unknown types.
    pub(crate) const ANY: Self = Self { key: None, value: || Asked::Anything, name: || "a map" };

    /// The bytes that are in front of a root's node.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; 2];
        self.key.expect("a map of any types is not written").push_bytes(&mut bytes);
        bytes.extend_from_slice((self.value)().name().as_bytes());
        let len = bytes.len() as u16 - 2;
        bytes[..2].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    /// The root's node, if these are the bytes of such a map's root.
    #[inline]
    pub(crate) fn node_in<'a>(&self, root: &'a [u8]) -> Result<&'a [u8], Mismatch> {
        let (kinds, node) = split(root).ok_or(Mismatch::Damaged)?;
        let mut name = kinds;
        let Some(key) = self.key else { return Ok(node) };
        let is_key = key.strip(&mut name);
        let is_value = is_key && str::from_utf8(name).is_ok_and(|name| (self.value)().takes(name));
        if is_value { Ok(node) } else { Err(Mismatch::other(kinds)) }
    }
}

/// The bytes in which a root says what it is the root of, and its node.
pub(crate) fn split(root: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = root.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// The description of the map that this is the root of; `None` if it does not say so.
pub(crate) fn describe(root: &[u8]) -> Option<String> {
    match Mismatch::other(split(root)?.0) {
        Mismatch::Other(map) => Some(map),
        Mismatch::Damaged => None,
    }
}

/// Why a root is not that of the map it is considered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It does not say what it is the root of.
    Damaged,
    /// It is that of another map: this one.
    Other(String),
}

impl Mismatch {
    #[cold]
    fn other(mut kinds: &[u8]) -> Self {
        match (KeyType::describe(&mut kinds), str::from_utf8(kinds)) {
            (Some(key), Ok("")) => Self::Other(format!("a map with keys of type {key}")),
            (Some(key), Ok(value)) => Self::Other(format!("a map with keys of type {key} and values of type {value}")),
            _ => Self::Damaged,
        }
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((self.name)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Part {}

    fn kinds<K: Key, V: DeserializeOwned>() -> Kinds {
        Kinds::of::<(K, V), V>(K::TYPE)
    }

    #[test]
    fn a_root_says_what_it_is_the_root_of() {
        let mut root = kinds::<(String, u32), Part>().to_bytes();
        assert_eq!(root, [8, 0, 18, 2, 12, 3, b'P', b'a', b'r', b't']);
        root.push(0);
        assert_eq!(kinds::<(String, u32), Part>().node_in(&root), Ok(&[0][..]));
        let stored = "a map with keys of type (String, u32) and values of type Part";
        let other = Err(Mismatch::Other(stored.into()));
        assert_eq!(kinds::<(String, u64), Part>().node_in(&root), other);
        assert_eq!(kinds::<String, Part>().node_in(&root), other);
        assert_eq!(kinds::<(String, u32), u8>().node_in(&root), other);
        assert_eq!(kinds::<(String, u32), serde_json::Value>().node_in(&root), Ok(&[0][..]));
        for damaged in [&root[..1], &root[..5], &[2, 0, 99, 0][..], &[3, 0, 18, 2, 12]] {
            assert_eq!(kinds::<String, u8>().node_in(damaged), Err(Mismatch::Damaged));
        }
        let many = "a map with keys of type [u8; 300]";
        let root = kinds::<[u8; 300], u8>().to_bytes();
        assert_eq!(kinds::<[u8; 301], u8>().node_in(&root), Err(Mismatch::Other(many.into())));
        let optional = "a map with keys of type Option<char>";
        let root = kinds::<Option<char>, u8>().to_bytes();
        assert_eq!(kinds::<char, u8>().node_in(&root), Err(Mismatch::Other(optional.into())));
    }
}
