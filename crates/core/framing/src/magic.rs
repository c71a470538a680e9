//! The bytes that tell a Thorp stream from any other.

/// How every frame begins.
pub const MAGIC: [u8; 2] = *b"Th";
