//! Versions: the update counts of a master.

use core::fmt;

/// An update count of one master. A page's or slot's version is the count of the last update that changed it; zero is
/// a page that nothing was ever written to. Versions of different masters are never compared.
///
/// ```text
///    63             44 43                                  0
///   +-----------------+-------------------------------------+
///   | epoch (20 bits) | number (44 bits)                    |
///   +-----------------+-------------------------------------+
/// ```
/// The epoch is that of the sequencer that gave the count, and zero in a store of one node. Counts are compared as
/// whole integers, so each count of a later epoch is above all counts of earlier ones. The reasons for these bits are
/// in `docs/decisions/0047-counts-before-the-log.md`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The version of what was never written.
    pub const ZERO: Self = Self(0);

    /// The count in its epoch.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    /// The count before it; zero has none.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The count that follows.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The bits of a count below its epoch.
const NUMBER_BITS: u32 = 44;

/// A term of a store's sequencer. A store of one node has one for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The first count that can be given in it.
    pub const fn first(self) -> Version {
        Version(((self.0 as u64) << NUMBER_BITS) | 1)
    }
}

/// A term of a shard's master. Each is one higher than the last of the shard, and requests to the master name it, so
/// that a request of an earlier term has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opening(pub u32);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
