//! A bounded cache of records in a directory. It may lose any record at any time, and never gives a wrong one.
//!
//! ```text
//!   put --> unwritten --> writer --> | segment | segment | segment (open) | segment | ...
//!                                         ^                                    |
//!                                         +---- used since? written again <----+ the oldest one is next
//! ```
//! The file of records is a ring of segments, each written from its begin to its end. When all have been written, the
//! oldest is begun again: its records that were used since are written again, the most used first, and the others
//! leave. It is FIFO with reinsertion, whose writes are sequential.
//!
//! 1. **Nothing is synced** but the marker and the removals: a crash may lose records. Each has checksums over all of
//!    it, which are compared before any of its bytes leave here, and they name the place, the generation of the segment
//!    and the epoch of the cache: a record that was cut, mixed or moved is none.
//! 2. **A segment that is read is not begun again**: each reader holds a pin, and the writer takes the next one.
//! 3. **An index in memory** finds a record by the hash of its key, which its reader compares with the key itself. It
//!    is made again at a start, by the table at the end of each segment, or record by record where there is none.
//! 4. **A full or failing disk** costs records, and nothing else: it is notified of once, and tried again.
//!
//! | module | duty |
//! |---|---|
//! | `format` | what is on disk, to the byte |
//! | `directory` | whose directory it is: lock and marker |
//! | `removals` | keys that must not come back with a start |
//! | `area` | the file of records: places, pins, reads |
//! | `index` | which records there are |
//! | `recover` | the index, made again at a start |
//! | `record` | a record as users give and get it |
//! | `cache` | the whole: put, find, open, remove; and its writer |
//! | `writer` | records on their way to the disk: the open segment |

mod area;
mod cache;
mod directory;
mod format;
mod index;
mod record;
mod recover;
mod removals;
#[cfg(test)]
mod tests;
mod writer;

pub use area::{Extent, ReadError};
pub use cache::{Config, DiskCache, Displaced, Missing, Size, Trouble};
pub use directory::OpenError;
pub use format::{Label, READ_BYTES_MAX};
pub use index::Held;
pub use record::{Opened, Record, Source};
