//! The numbers of revisions, and the names of sites.

use alloc::string::String;
use core::fmt;
use framing::fields;
use tree::ChunkHash;

fields! {
    /// The number of a revision. A later revision of a site has a greater one, at every place and over every restart
    /// (**NeverBack**).
    ///
    /// The life counts first: it is that of the store which published the revision. A store that was restored from an
    /// older copy has a greater life than the one that was lost, so its revisions are later than those that were lost.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Number {
        /// The life of the store.
        pub life: u64,
        /// The count that people see: `shop@17`. It goes on over all lives.
        pub count: u64,
    }
}

/// Ten years of milliseconds, and as many publishes as a store makes in a hundred years at one a second.
const LIVES_AHEAD_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;
const COUNTS_AHEAD_MAX: u64 = 100 * 365 * 24 * 3600;

impl Number {
    /// Below that of every revision.
    pub const NONE: Self = Self { life: 0, count: 0 };

    /// The highest life and count that a peer is believed to have: one publish adds one.
    pub const MAX: u64 = 1 << 62;

    /// Whether a peer may say that it has such a revision.
    pub(crate) const fn is_sound(self) -> bool {
        self.life <= Self::MAX && self.count <= Self::MAX
    }

    /// Whether a store that was lost can have published this revision after another one, where the store in its place
    /// has begun with the life `born`. Lives are drawn from the time, in milliseconds: a clock may be years ahead, and
    /// a peer that says more than that is not believed, as it would use up the numbers.
    pub(crate) const fn may_follow(self, other: Self, born: u64) -> bool {
        self.life <= born.saturating_add(LIVES_AHEAD_MAX) && self.count <= other.count.saturating_add(COUNTS_AHEAD_MAX)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)
    }
}

/// A revision: an immutable tree under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub number: Number,
    /// The topmost node of its tree.
    pub root: ChunkHash,
}

/// The name of a site: unique in its space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteKey {
    /// The name of the space.
    pub space: String,
    /// The name of the site.
    pub name: String,
}

impl fmt::Display for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
