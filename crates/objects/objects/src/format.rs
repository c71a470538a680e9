//! The first byte of an object: the format, in its upper half, and what the object is (see `value`).

/// The format of objects.
pub(crate) const FORMAT: u8 = 2;

const CHAINED: u8 = 4;

/// How a slot begins that only the object which leads to it knows: a part of a chain, or of a byte value.
pub(crate) const PART: u8 = FORMAT << 4 | 8;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes, as they were given.
    Bytes,
    /// A value that says what it is.
    Value,
    /// A node of a map.
    Node,
    /// The root node of a map, which says what it is a map of.
    Map,
    /// The root of a byte value.
    ByteValue = 9,
}

impl Kind {
    /// The first byte of such an object that is in its slot.
    pub(crate) const fn inline(self) -> u8 {
        FORMAT << 4 | self as u8
    }

    /// The first byte of one whose value is in a chain.
    pub(crate) const fn chain(self) -> u8 {
        self.inline() | CHAINED
    }

    /// Whether only its map changes it.
    pub(crate) fn is_of_map(self) -> bool {
        matches!(self, Self::Node | Self::Map)
    }

    /// Whether only its byte value changes it.
    pub(crate) fn is_of_byte_value(self) -> bool {
        self == Self::ByteValue
    }

    /// The kind and whether it is a chain, by the first byte.
    pub(crate) fn parse(first: u8) -> Option<(Self, bool)> {
        if first == Self::ByteValue.inline() {
            return Some((Self::ByteValue, false));
        }
        let kinds = [Self::Bytes, Self::Value, Self::Node, Self::Map];
        let kind = *kinds.get(usize::from(first & 3))?;
        (first & !(3 | CHAINED) == FORMAT << 4).then_some((kind, first & CHAINED != 0))
    }
}
