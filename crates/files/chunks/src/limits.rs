//! Sizes and counts.

/// The largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The largest chunk that is a value in the table, in bytes; a larger one is a file, or an object in a bucket.
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

/// The chunks that a walk reads from a bucket at a time.
pub(crate) const BUCKET_READS_MAX: usize = 32;

#[cfg(feature = "object-storage")]
pub(crate) use of_buckets::*;

/// Bounds of what is asked of a bucket.
#[cfg(feature = "object-storage")]
mod of_buckets {
    use super::CHUNK_BYTES_MAX;
    use std::time::Duration;

    /// The objects that are written at a time, and their bytes together. A line of 3 Mbit/s carries those within
    /// [`REQUEST_WITHIN`].
    pub(crate) const BUCKET_REQUESTS_MAX: usize = 64;
    pub(crate) const BUCKET_BYTES_MAX: usize = 8 << 20;

    /// The names that are listed at a time: as many as S3 sends in one answer.
    pub(crate) const BUCKET_LIST_OBJECTS: usize = 1000;

    /// How long it may take to connect, and a request with its answer.
    pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
    pub(crate) const REQUEST_WITHIN: Duration = Duration::from_secs(30);

    /// For how long, and how often, a request that fails is tried again.
    pub(crate) const RETRY_WITHIN: Duration = Duration::from_secs(20);
    pub(crate) const RETRIES_MAX: usize = 10;

    /// How long all tries of a request may take.
    pub(crate) const BUCKET_WITHIN: Duration = Duration::from_secs(60);

    const _: () = assert!(CHUNK_BYTES_MAX <= BUCKET_BYTES_MAX, "each chunk can be written");
    const _: () = assert!(RETRY_WITHIN.as_secs() + REQUEST_WITHIN.as_secs() <= BUCKET_WITHIN.as_secs());
}

const _: () = assert!(SMALL_BYTES_MAX < CHUNK_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX <= u32::MAX as usize, "the table has lengths of 32 bits");
