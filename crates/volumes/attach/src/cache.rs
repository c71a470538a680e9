//! The cache of an attached volume: a log of the writes that are not written back, and what is known of them in memory.

mod clean;
mod dirty;
mod record;
mod slots;

pub(crate) use clean::{Clean, CleanFiles, Pages, SLOTS_MAX};
pub(crate) use dirty::{DirtyWrites, Kept};
pub(crate) use record::{BLOCKS_MAX, Write, Writes, places_in_body};
