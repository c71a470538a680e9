//! The names of families and of their ends, as a preface has them.

use core::fmt;

/// A short name, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; Name::BYTES_MAX]);

impl Name {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// A name, as far as it goes.
    pub fn new(name: &str) -> Self {
        let (mut bytes, name) = ([0; Self::BYTES_MAX], &name.as_bytes()[..name.len().min(Self::BYTES_MAX)]);
        bytes[..name.len()].copy_from_slice(name);
        Self(bytes)
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES_MAX]) -> Self {
        Self(bytes)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES_MAX] {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "{}", self.0[..end].escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
