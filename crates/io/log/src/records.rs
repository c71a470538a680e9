//! The facts that a log must know of its records.

use bytes::Bytes;
use std::fmt;
use vfs::Malformed;

/// The records of a log: how they look on disk. A log knows nothing else of them.
pub trait Records: fmt::Debug + Send + Sync + 'static {
    /// A record.
    type Record: fmt::Debug + Send;

    /// The longest body, in bytes. A longer one is refused before it is appended; a scan takes nothing longer for a
    /// record.
    const BODY_BYTES_MAX: u32;

    /// Whether records are read back while the log is written, with [`crate::Log::read`]: then it keeps the place of
    /// each record that is needed, 12 bytes of memory.
    const READ_BACK: bool = false;

    /// The record's kind, by which it is decoded: any number but 0.
    fn kind(record: &Self::Record) -> u8;

    /// The length of the record's body, in bytes.
    fn body_bytes(record: &Self::Record) -> usize;

    /// Returns the record's body to `put`, part by part.
    fn encode(record: &Self::Record, put: &mut impl FnMut(&[u8]));

    /// The record of a body, whose checksums are right; its values may be slices of the body's memory.
    ///
    /// # Errors
    /// If it is none of this kind.
    fn decode(kind: u8, body: Bytes) -> Result<Self::Record, Malformed>;
}
