//! Keys of maps: bytes in the same order as the values they stand for.
//!
//! | type | bytes |
//! |---|---|
//! | unsigned integers, `char` | big-endian |
//! | signed integers | big-endian, the sign bit flipped |
//! | `bool` | one byte |
//! | strings, `Vec<u8>` | the bytes, `00` as `00 ff`, then `00 01` |
//! | `[u8; N]` | the bytes |
//! | `Option` | `00`, or `01` and the key |
//! | tuples | one after the other |
//! | references | space, page, slot, stamp |
//!
//! A string's end sorts before every byte that could follow in a longer one, so a shorter string comes first in
//! tuples too.

use crate::{KeyType, Ref};
use types::{ObjectId, PageId};

/// The longest key, in bytes of its encoding: a page's worth of keys must still branch.
pub const KEY_BYTES_MAX: usize = 1024;

/// A key to look up in a map: the borrowed forms of keys, too.
pub trait EncodeKey {
    /// Appends the key's bytes.
    fn encode_key(&self, bytes: &mut Vec<u8>);
}

/// A key of a [`crate::Map`]: its encoding is in the order of its values.
///
/// ```
/// # use objects as thorp;
/// use thorp::EncodeKey;
/// let bytes = |key: (&str, i32)| {
///     let mut bytes = Vec::new();
///     key.encode_key(&mut bytes);
///     bytes
/// };
/// assert!(bytes(("wheel", -1)) < bytes(("wheel", 7)));
/// assert!(bytes(("wheel", 7)) < bytes(("wheels", -1)));
/// ```
pub trait Key: EncodeKey + Sized {
    /// The name that a map keeps of the type, to refuse keys of another one. It stays what it is for as long as there
    /// are maps with such keys.
    const TYPE: KeyType;

    /// Takes the key from the front of `bytes`; `None` if they are no key of this type.
    fn decode_key(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! integer_keys {
    ($flip:expr; $($int:ty, $type:ident;)*) => { $(
        impl EncodeKey for $int {
            fn encode_key(&self, bytes: &mut Vec<u8>) {
                let flipped = *self ^ if $flip { <$int>::MIN } else { 0 };
                bytes.extend_from_slice(&flipped.to_be_bytes());
            }
        }

        impl Key for $int {
            const TYPE: KeyType = KeyType::$type;

            fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
                let (int, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_be_bytes(*int) ^ if $flip { <$int>::MIN } else { 0 })
            }
        }
    )* };
}

integer_keys!(false; u8, U8; u16, U16; u32, U32; u64, U64; u128, U128;);
integer_keys!(true; i8, I8; i16, I16; i32, I32; i64, I64; i128, I128;);

impl EncodeKey for bool {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }
}

impl Key for bool {
    const TYPE: KeyType = KeyType::Bool;

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        match u8::decode_key(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl EncodeKey for char {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        u32::from(*self).encode_key(bytes);
    }
}

impl Key for char {
    const TYPE: KeyType = KeyType::Char;

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_u32(u32::decode_key(bytes)?)
    }
}

/// All have the same length, so nothing need mark the end.
impl<const N: usize> EncodeKey for [u8; N] {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    const TYPE: KeyType = {
        assert!(N <= KEY_BYTES_MAX, "a key of so many bytes is longer than a key can be");
        KeyType::Array(N as u32)
    };

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*key)
    }
}

/// `None` comes before all others.
impl<K: EncodeKey> EncodeKey for Option<K> {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        self.is_some().encode_key(bytes);
        if let Some(key) = self {
            key.encode_key(bytes);
        }
    }
}

impl<K: Key> Key for Option<K> {
    const TYPE: KeyType = KeyType::Option(&K::TYPE);

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        Some(if bool::decode_key(bytes)? { Some(K::decode_key(bytes)?) } else { None })
    }
}

const ESCAPE: u8 = 0;
const ESCAPED_ZERO: u8 = 0xff;
const END: u8 = 1;

impl EncodeKey for [u8] {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.len() + 2);
        for &byte in self {
            bytes.push(byte);
            if byte == ESCAPE {
                bytes.push(ESCAPED_ZERO);
            }
        }
        bytes.extend_from_slice(&[ESCAPE, END]);
    }
}

impl EncodeKey for Vec<u8> {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        self.as_slice().encode_key(bytes);
    }
}

impl Key for Vec<u8> {
    const TYPE: KeyType = KeyType::Bytes;

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        let mut key = Self::new();
        loop {
            let zero = bytes.iter().position(|&byte| byte == ESCAPE)?;
            key.extend_from_slice(&bytes[..zero]);
            let mark = *bytes.get(zero + 1)?;
            *bytes = &bytes[zero + 2..];
            match mark {
                END => return Some(key),
                ESCAPED_ZERO => key.push(ESCAPE),
                _ => return None,
            }
        }
    }
}

impl EncodeKey for str {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().encode_key(bytes);
    }
}

impl EncodeKey for String {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().encode_key(bytes);
    }
}

impl Key for String {
    const TYPE: KeyType = KeyType::String;

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Vec::decode_key(bytes)?).ok()
    }
}

impl<K: EncodeKey + ?Sized> EncodeKey for &K {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        (**self).encode_key(bytes);
    }
}

impl<T: ?Sized> EncodeKey for Ref<T> {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        let ObjectId { page, slot } = self.id();
        (page.space, page.number, slot, self.stamp()).encode_key(bytes);
    }
}

impl<T: ?Sized> Key for Ref<T> {
    const TYPE: KeyType = KeyType::Ref;

    fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
        let (space, number, slot, stamp) = Key::decode_key(bytes)?;
        Some(Self::new(ObjectId::new(PageId::new(space, number), slot), stamp))
    }
}

macro_rules! tuple_keys {
    ($($part:ident $at:tt),*) => {
        impl<$($part: EncodeKey),*> EncodeKey for ($($part,)*) {
            fn encode_key(&self, bytes: &mut Vec<u8>) {
                $(self.$at.encode_key(bytes);)*
            }
        }

        impl<$($part: Key),*> Key for ($($part,)*) {
            const TYPE: KeyType = KeyType::Tuple(&[$($part::TYPE),*]);

            fn decode_key(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode_key(bytes)?,)*))
            }
        }
    };
}

tuple_keys!(A 0, B 1);
tuple_keys!(A 0, B 1, C 2);
tuple_keys!(A 0, B 1, C 2, D 3);

/// A key's bytes.
pub(crate) fn encode<K: EncodeKey + ?Sized>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    key.encode_key(&mut bytes);
    bytes
}

/// The key of all of `bytes`.
pub(crate) fn decode<K: Key>(mut bytes: &[u8]) -> Option<K> {
    let key = K::decode_key(&mut bytes)?;
    bytes.is_empty().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Debug;

    /// The order of the bytes is the order of the keys, and the bytes are the key.
    fn check<K: Key + Ord + Debug>(a: &K, b: &K) {
        let (bytes_a, bytes_b) = (encode(a), encode(b));
        assert_eq!(bytes_a.cmp(&bytes_b), a.cmp(b), "{a:?} and {b:?}");
        assert_eq!(decode::<K>(&bytes_a).as_ref(), Some(a));
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a: (i64, u16, i8), b: (i64, u16, i8)) {
            check(&a, &b);
            check(&a.0, &b.0);
            check(&(a.2, a.1), &(b.2, b.1));
        }

        /// Few letters, zero among them: most pairs share a prefix, which is where escapes matter.
        #[test]
        fn bytes_keep_their_order(a in "[\u{0}\u{1}a\u{ff}]{0,4}", b in "[\u{0}\u{1}a\u{ff}]{0,4}", c: u8, d: u8) {
            check(&a, &b);
            check(&a.as_bytes().to_vec(), &b.as_bytes().to_vec());
            check(&(a.clone(), c), &(b.clone(), d));
            check(&(c, a.clone(), true), &(d, b, false));
        }

        #[test]
        fn characters_arrays_and_options_keep_their_order(
            a: (char, [u8; 3], Option<i16>),
            b: (char, [u8; 3], Option<i16>),
            c in proptest::option::of("[\u{0}ab]{0,2}"),
            d in proptest::option::of("[\u{0}ab]{0,2}"),
        ) {
            check(&a, &b);
            check(&a.0, &b.0);
            check(&a.1, &b.1);
            check(&a.2, &b.2);
            check(&(c.clone(), a.0), &(d.clone(), b.0));
            check(&Some(c), &Some(d));
        }

        #[test]
        fn any_bytes_are_a_key_or_none(bytes: Vec<u8>) {
            let _ = decode::<(String, u32)>(&bytes);
            let _ = decode::<(Option<char>, [u8; 2])>(&bytes);
            let _ = decode::<Ref<u8>>(&bytes);
        }
    }
}
