//! The log: an append-only sequence of records in a ring of preallocated segments, written in blocks, flush by flush.
//!
//! ```text
//!   segment of lap 7            segment of lap 8                       segment of lap 6 (free)
//!   +------+-------+-----+--+   +------+-----------+------+-----~      +------+-----~
//!   |header| flush |flush|fl|   |header|ush | flush| old lap ...       |header| old ...
//!   +------+-------+-----+--+   +------+-----------+------+-----~      +------+-----~
//!   block 0  frames ... padding to a block
//! ```
//! A flush is all that was made durable together: the frames of one or more records, one behind the other, padded to a
//! block. It begins at a block's boundary, so no block is ever written twice in a lap, and a torn write can hurt only
//! what was not acknowledged. It is written at once, or, when it is large, part by part; nothing of it counts before it
//! is whole. A record that does not fit into what is left of a part or of a segment goes on in the next one.
//!
//! # Invariants
//! 1. One flush is in flight at a time, and a flush is acknowledged only when all of its blocks are durable. So a valid
//!    frame of flush `n + 1`, in whatever state that flush is, proves that flush `n` was durable.
//! 2. Flush numbers and positions are consecutive over all laps and lives. A life is the process's incarnation; it is
//!    durable before the first flush of that life, so `(life, flush)` names one flush for ever.
//! 3. A segment is begun anew only when a durable frame, or the header of the newest lap, says that nothing in it is
//!    needed. So the newest segment with a valid header tells where recovery begins: by its header or by its frames.
//! 4. A segment's header is written with the first flush in the segment, so it may be there without that flush, or
//!    that flush without it. Before recovery writes anything else it blanks the headers behind the tail: of one lap there is one segment.
//!
//! # Torn tail or corruption
//! Recovery takes flushes one after another, each as a whole or not at all, until one is not exactly what it must be:
//! every frame's checksums, lap, offset, flush number, life and position. Call the first bad one `n + 1`.
//!
//! - If anywhere behind it stands a valid frame of a flush above `n + 1`, then `n + 1` was durable once (1) and may
//!   have been acknowledged: it is corruption, and the store refuses to open.
//! - If the page home, which remembers what was durable at its last install and at every clean close, knows of a record
//!   that has not been found by then: likewise.
//! - Else nothing proves that `n + 1` was ever acknowledged: it is the torn tail of a crash. It is cut as a whole, and
//!   the next flush, `n + 1` of a later life, is written over its beginning. What remains of it behind that flush is
//!   never taken for anything: its flush number is not the next one any more (2).
//!
//! The one thing that this cannot tell from a torn tail is damage to the very last flush before a crash. A clean close
//! writes a mark, a flush without records, whose only use is to be behind the last record.
//!
//! An old lap is never taken for the new one, because its laps and flush numbers are lower than those that are due.

mod flush;
pub(crate) mod frame;
pub(crate) mod record;
mod ring;
mod scan;
pub(crate) mod segment;
mod windows;

pub(crate) use ring::{Batch, Limits, Ring};
pub use scan::Progress;
pub(crate) use scan::Scan;
