//! The lives of a holder's directory, each from a start to its end: a copy of it, or an older state, is not taken for
//! the holder (**LatestLife**).
//!
//! ```text
//!   marker                         registry
//!   life 6, next -                 life 6        a copy has this, too: it waits until the other must be dead
//!   life 6, next 7 (durable)
//!                                  life 7        of two copies one is first: the other one's 6 is not the registry's any more
//!   life 7, next -
//! ```
//! A start between these steps finds the registry at either of the two lives that its marker names.
//!
//! Within a life a device may lose what it had said was on stable media. A log without its end is not taken for whole
//! (**WholeLog**): beside it stands how far it has come.

use crate::rule::Rule;
use types::Broken;

/// A life of a holder. Its number is drawn at random, so copies of a directory are told apart that were both started as
/// often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// Counts the starts of the holder's directory.
    pub incarnation: u32,
    /// Its number.
    pub number: u64,
}

/// Whether a log through position `last` has everything that is known to have been on stable media, through position
/// `known`.
pub fn is_whole(last: u64, known: u64, broken: Broken<Rule>) -> bool {
    last >= known || broken.is(Rule::WholeLog)
}

impl Life {
    /// Whether the registry, which has this life, knows of none after `other`: it is that one, or was restored from
    /// before it.
    pub fn is_within(self, other: Self) -> bool {
        self == other || self.incarnation < other.incarnation
    }

    /// The life that a directory begins from at a start: of the two that its marker names, `self` and the next one,
    /// that which the registry has. `None` if the registry knows of a later one: this is a copy of the directory, or an
    /// older state of it. A registry that has forgotten it, or has an earlier life, as it was restored itself, takes it
    /// as it is.
    pub fn at_start(self, next: Option<Self>, registered: Option<Self>, broken: Broken<Rule>) -> Option<Self> {
        let Some(registered) = registered else { return Some(self) };
        let life = if next == Some(registered) { registered } else { self };
        (registered.is_within(life) || broken.is(Rule::LatestLife)).then_some(life)
    }
}
