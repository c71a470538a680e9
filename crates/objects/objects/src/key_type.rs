//! The types of keys, as maps remember them.
//!
//! | number | type | what follows |
//! |---|---|---|
//! | 1 to 5 | `u8` `u16` `u32` `u64` `u128` | |
//! | 6 to 10 | `i8` `i16` `i32` `i64` `i128` | |
//! | 11 to 15 | `bool` `String` `Vec<u8>` `Ref` `char` | |
//! | 16 | `[u8; N]` | N u32le |
//! | 17 | `Option<K>` | the type K |
//! | 18 | a tuple | how many u8, then the type of each |
//! | 19 | a type of the application's | bytes of its name u8, its name |

/// The type of a key: types with different encodings differ. A map remembers that of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`.
    U128,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `i128`.
    I128,
    /// `bool`.
    Bool,
    /// `String`.
    String,
    /// `Vec<u8>`.
    Bytes,
    /// [`crate::Ref`], to whatever.
    Ref,
    /// `char`.
    Char,
    /// `[u8; N]`.
    Array(u32),
    /// `Option` of a key.
    Option(&'static KeyType),
    /// Keys one after the other, at most 255.
    Tuple(&'static [KeyType]),
    /// A type of the application's own, by a name of its choice of at most 255 bytes.
    Named(&'static str),
}

/// How people call the types that are a number alone, the first one of which is 1.
const PLAIN: [&str; 15] =
    ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "bool", "String", "Vec<u8>", "Ref", "char"];

// The numbers of the others.
const ARRAY: u8 = 16;
const OPTION: u8 = 17;
const TUPLE: u8 = 18;
const NAMED: u8 = 19;

/// A type in the store that is nested deeper than this is damaged.
const DEPTH_MAX: usize = 16;

impl KeyType {
    const fn number(self) -> u8 {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 3,
            Self::U64 => 4,
            Self::U128 => 5,
            Self::I8 => 6,
            Self::I16 => 7,
            Self::I32 => 8,
            Self::I64 => 9,
            Self::I128 => 10,
            Self::Bool => 11,
            Self::String => 12,
            Self::Bytes => 13,
            Self::Ref => 14,
            Self::Char => 15,
            Self::Array(_) => ARRAY,
            Self::Option(_) => OPTION,
            Self::Tuple(_) => TUPLE,
            Self::Named(_) => NAMED,
        }
    }

    /// Appends the type, as it is in the store.
    pub(crate) fn push_bytes(self, bytes: &mut Vec<u8>) {
        bytes.push(self.number());
        match self {
            Self::Array(len) => bytes.extend_from_slice(&len.to_le_bytes()),
            Self::Option(inner) => inner.push_bytes(bytes),
            Self::Tuple(parts) => {
                bytes.push(parts.len() as u8);
                for part in parts {
                    part.push_bytes(bytes);
                }
            }
            Self::Named(name) => {
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(name.as_bytes());
            }
            _ => {}
        }
    }

    /// Whether the bytes begin with this type; it is taken off them.
    #[inline]
    pub(crate) fn strip(self, bytes: &mut &[u8]) -> bool {
        strip(bytes, &[self.number()])
            && match self {
                Self::Array(len) => strip(bytes, &len.to_le_bytes()),
                Self::Option(inner) => inner.strip(bytes),
                Self::Tuple(parts) => strip(bytes, &[parts.len() as u8]) && parts.iter().all(|part| part.strip(bytes)),
                Self::Named(name) => strip(bytes, &[name.len() as u8]) && strip(bytes, name.as_bytes()),
                _ => true,
            }
    }

    /// The type that the bytes begin with, for people; it is taken off them.
    pub(crate) fn describe(bytes: &mut &[u8]) -> Option<String> {
        describe(bytes, 0)
    }
}

#[inline]
fn strip(bytes: &mut &[u8], prefix: &[u8]) -> bool {
    bytes.strip_prefix(prefix).map(|rest| *bytes = rest).is_some()
}

fn describe(bytes: &mut &[u8], depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match *bytes.split_off_first()? {
        ARRAY => {
            let len = bytes.split_off(..4)?;
            format!("[u8; {}]", u32::from_le_bytes(len.try_into().ok()?))
        }
        OPTION => format!("Option<{}>", describe(bytes, depth + 1)?),
        TUPLE => {
            let count = *bytes.split_off_first()?;
            let parts = (0..count).map(|_| describe(bytes, depth + 1)).collect::<Option<Vec<_>>>()?;
            format!("({})", parts.join(", "))
        }
        NAMED => {
            let len = usize::from(*bytes.split_off_first()?);
            str::from_utf8(bytes.split_off(..len)?).ok()?.to_owned()
        }
        plain => (*PLAIN.get(usize::from(plain).checked_sub(1)?)?).to_owned(),
    })
}
