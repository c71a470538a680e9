//! The bytes that tell a Thorp stream from any other, and its versions.

/// How every frame begins.
pub const MAGIC: [u8; 2] = *b"Th";

/// The oldest and the newest protocol that this code speaks, in every family.
pub const PROTOCOL: (u16, u16) = (10, 10);
