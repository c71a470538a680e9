//! Sizes and counts.

/// The largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The largest chunk that is a value in the table, in bytes; a larger one is a file.
pub const SMALL_BYTES_MAX: usize = 32 << 10;

/// The room in the table's file that may be unused beside as many bytes as it has at most.
pub(crate) const TABLE_UNUSED_BYTES_MAX: u64 = 16 << 20;

/// The memory that redb may use for pages of the table, in bytes.
pub(crate) const TABLE_CACHE_BYTES: usize = 64 << 20;

/// The files that a `put` has open at a time.
pub(crate) const FILES_OPEN_MAX: usize = 64;

/// The chunks that a walk reads from the table at a time, and a sweep removes in one transaction.
pub(crate) const PAGE_CHUNKS: usize = 1024;

/// How often a read is tried again because a write found the disk full at the same time.
pub(crate) const READ_ATTEMPTS: usize = 16;

/// The largest marker, in bytes.
pub(crate) const MARKER_BYTES_MAX: u64 = 4096;

const _: () = assert!(SMALL_BYTES_MAX < CHUNK_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX <= u32::MAX as usize, "the table has lengths of 32 bits");
