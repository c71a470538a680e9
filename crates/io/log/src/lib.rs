//! A log: an append-only sequence of records in a ring of preallocated segments, written in blocks, flush by flush. The
//! writer says what the records are, with [`Records`].
//!
//! A new log is made by [`Log::create`]. After a start [`Scan`] gives its records and [`Log::resume`] continues behind
//! them; then [`Log::append`] queues records, and [`Log::flush`] makes durable everything that has queued up. A
//! directory holds one log. The smallest log is that of the tests, `tests/notes.rs`.
//!
//! | to change | see |
//! |---|---|
//! | what a log knows of its records | `records.rs` |
//! | who flushes, and what is flushed together | `queue.rs` |
//! | how a flush is laid out | `flush.rs`, `frame.rs` |
//! | which segments there are | `ring.rs`, `segment.rs` |
//! | what is read after a start | `scan.rs`, `windows.rs` |
//! | what is read while the log is written | `places.rs` |
//!
//! ```text
//!   generation 7                generation 8                           generation 6 (free)
//!   +------+-------+-----+--+   +------+-----------+------+-----~      +------+-----~
//!   |header| flush |flush|fl|   |header|ush | flush| old ...          |header| old ...
//!   +------+-------+-----+--+   +------+-----------+------+-----~      +------+-----~
//!   block 0  frames ... padding to a block
//! ```
//! A flush is everything that was made durable together: the frames of one or more records, one behind the other,
//! padded to a block. It begins at a block's boundary, so no block is ever written twice in a generation, and a torn
//! write can hurt only what was not acknowledged. It is written at once, or, when it is large, part by part; nothing of
//! it counts before it is whole. A record that does not fit into what is left of a part or of a segment continues in
//! the next one.
//!
//! # Invariants
//! 1. One flush is in flight at a time, and a flush is acknowledged only when all of its blocks are durable. So a valid
//!    frame of flush `n + 1`, in whatever state that flush is, proves that flush `n` was durable.
//! 2. Flush numbers and positions are consecutive over all generations and incarnations. An incarnation is the number
//!    of a start of the process; it is durable before the first flush of that one, so `(incarnation, flush)` names one
//!    flush for ever.
//! 3. A segment is begun again only when a durable frame, or the header of the newest generation, says that nothing in
//!    it is needed. So the newest segment with a valid header tells where recovery begins: by its header or by its
//!    frames.
//! 4. A segment's header is written with the first flush in the segment, so it may be there without that flush, or that
//!    flush without it. Before recovery writes anything else it blanks the headers behind the tail: of one generation
//!    there is one segment.
//! 5. A flush that is torn over an older generation's bytes is not completed by them: the checksum of a body is no CRC,
//!    as the bodies of two records may have the same one whatever is in them (`vfs::checksum`). Frames of format 1 have
//!    one.
//!
//! # Torn tail or corruption
//! Recovery takes flushes one after another, each as a whole or not at all, until one is not exactly what it must be:
//! every frame's checksums, generation, offset, flush number, incarnation and position. Call the first bad one `n + 1`.
//!
//! - If anywhere behind it stands a valid frame of a flush above `n + 1`, then `n + 1` was durable once (1) and may
//!   have been acknowledged: it is corruption, and the log refuses to open.
//! - If it is known from elsewhere that a record was durable (a store's page home remembers that at every install and
//!   at every clean close) that has not been found by then: likewise.
//! - Else nothing proves that `n + 1` was ever acknowledged: it is the torn tail of a crash. It is cut as a whole, and
//!   the next flush, `n + 1` of a later incarnation, is written over its beginning. The bytes of it that remain behind
//!   that flush are never taken for anything: its flush number is no longer the next one (2).
//!
//! The one thing that this cannot tell from a torn tail is damage to the very last flush before a crash. A clean close
//! writes a mark, a flush without records, whose only use should be behind the last record.
//!
//! An old generation is never taken for the new one, because its generations and flush numbers are lower than those
//! that are due.

mod flush;
mod frame;
mod places;
mod queue;
mod records;
mod ring;
mod scan;
mod segment;
#[cfg(test)]
mod tests;
mod windows;

pub use frame::HEADER_BYTES;
pub use queue::{Durable, Log, Made};
pub use records::Records;
pub use ring::Limits;
pub use scan::{Progress, Scan};
pub use segment::{LogId, is_segment};
