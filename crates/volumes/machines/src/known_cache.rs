//! A volume's cache, as a home of the same host remembers it. A cache that was put back from an older copy, or lost
//! the end of its log, is recognized.
//!
//! ```text
//!   cache                              home
//!   numbers 7, last write 30           attachment 7, all through 20 is here
//!   numbers 7 9 (durable)
//!                                      attachment 9
//!   writes 31 to 40, written back                    all through 40 is here
//! ```
//! A start between these steps finds one of its numbers at home. A copy from before lacks number 9
//! (**NumberAttachments**), and a copy from after has fewer than 40 writes (**WholeLog**). Either would read and
//! write back older data.

use crate::life::is_whole;
use crate::registry::HostId;
use crate::rule::Rule;
use core::fmt;
use types::Broken;

/// The cache that home was written from last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCache {
    /// The number of the last attachment.
    pub attachment: HostId,
    /// The last write of the cache's log that was written back.
    pub through: u64,
}

/// A cache that is older than its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWentBack {
    /// The volume was attached since with a later state of the cache.
    Attached,
    /// Its log ends before the last write that was written back.
    Cut {
        /// The last write of the log.
        last: u64,
        /// The last write that was written back.
        through: u64,
    },
}

impl KnownCache {
    /// Compares it with a cache that remembers `numbers`, and whose log ends with the write `last`.
    ///
    /// # Errors
    /// It is older.
    pub fn expect(self, numbers: &[HostId], last: u64, broken: Broken<Rule>) -> Result<(), CacheWentBack> {
        if !numbers.contains(&self.attachment) && !broken.is(Rule::NumberAttachments) {
            return Err(CacheWentBack::Attached);
        }
        let through = self.through;
        if is_whole(last, through, broken) { Ok(()) } else { Err(CacheWentBack::Cut { last, through }) }
    }
}

impl fmt::Display for CacheWentBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached => f.write_str("the volume was attached since with a later state of this cache"),
            Self::Cut { last, through } => {
                write!(f, "its log ends with write {last}, and home has everything through write {through}")
            }
        }
    }
}
