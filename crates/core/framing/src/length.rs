//! How long the parts of a frame may be, put together from the types of what is in them.

use core::fmt;
use types::limits::MESSAGE_BYTES_MAX;
use zerocopy::little_endian::U16;

/// The length of an empty text: its length field.
pub(crate) const TEXT_BYTES_MIN: usize = size_of::<U16>();

/// How long the parts of a frame of one kind may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    meta_min: usize,
    meta_max: usize,
    body_max: usize,
}

impl Limits {
    /// No meta, and no body.
    pub const NOTHING: Self = Self::bytes(0);

    /// A meta of this many bytes, and no body.
    pub const fn bytes(bytes: usize) -> Self {
        Self { meta_min: bytes, meta_max: bytes, body_max: 0 }
    }

    /// A meta of exactly these fields, and no body.
    pub const fn fields<T>() -> Self {
        Self::bytes(size_of::<T>())
    }

    /// And another part behind this one.
    pub const fn and(self, other: Self) -> Self {
        Self {
            meta_min: self.meta_min + other.meta_min,
            meta_max: self.meta_max + other.meta_max,
            body_max: self.body_max + other.body_max,
        }
    }

    /// And a text of at most `bytes_max` bytes, behind its length.
    pub const fn and_text(self, bytes_max: usize) -> Self {
        Self { meta_min: self.meta_min + TEXT_BYTES_MIN, ..self }.and_up_to(TEXT_BYTES_MIN + bytes_max)
    }

    /// And at most `count_max` of these fields.
    pub const fn and_many<T>(self, count_max: usize) -> Self {
        self.and_up_to(count_max * size_of::<T>())
    }

    /// And at most this many bytes more in the meta.
    pub const fn and_up_to(self, bytes_max: usize) -> Self {
        Self { meta_max: self.meta_max + bytes_max, ..self }
    }

    /// And in the meta as much more as a message may have: only its size is known to be bounded.
    pub const fn and_more(self) -> Self {
        Self { meta_max: MESSAGE_BYTES_MAX, ..self }
    }

    /// And a body of at most this many bytes.
    pub const fn with_body(self, bytes_max: usize) -> Self {
        Self { body_max: bytes_max, ..self }
    }

    /// Whether a meta and a body may be this long.
    pub const fn allow(self, meta: usize, body: usize) -> bool {
        self.meta_min <= meta && meta <= self.meta_max && body <= self.body_max
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meta_min, meta_max, body_max } = self;
        write!(f, "{meta_min} to {meta_max} bytes of meta and at most {body_max} of body")
    }
}
