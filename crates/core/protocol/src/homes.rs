//! The family of the web front end: the hub of an origin with its homes and its updaters.
//!
//! ```text
//!   home                         hub                         updater or source
//!     | Join{life} -------------> |                             |
//!     | <-- Reset, Mark{u}*, Joined{lease}                      |
//!     |                           | <------- Introduce{life, source?, fence}
//!     |                           | Lease --------------------> |   for what is released to it
//!     |                           | <------- Update{id, deps}   |   the hub gives it the next number u
//!     | <------------- Mark{u}    |                             |
//!     | Marked{u} --------------> |  all homes have             |
//!     |                           |  Released{id} ------------> |   the update may become visible
//!     |                           | <------- Visible{id}        |   it is: every new reader sees it
//!     | <----------- Unmark{u}    |                             |
//!     |                           | <------- CaughtUp{fence}    |   of a source: what is to come, it announces
//!     | Renew{asked} -----------> |                             |
//!     | <-- Lease{asked, length}  |   behind the marks that the hub has told of before
//!     | Leave ------------------> |   its table answers nothing any more: it is waited for no longer
//! ```
//! A home hears everything from its hub in one order, renewals of its lease among them: one that is behind with its
//! marks is never renewed past what it has not heard (**RenewInOrder**).

use crate::Goodbye;
use crate::directions::ordered_messages;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use types::Time;
use types::limits::{DEPENDENCY_BYTES_MAX, SOURCE_NAME_BYTES_MAX};

/// A name that web responses depend on and updates change, such as `item:42` or `table:items`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency(Bytes);

impl Dependency {
    /// The name of everything that an origin serves.
    pub const ALL: Self = Self(Bytes::from_static(b"*"));

    /// A dependency of this name, which is `None` if it is empty or longer than
    /// [`DEPENDENCY_BYTES_MAX`](types::limits::DEPENDENCY_BYTES_MAX).
    pub fn new(name: impl Into<Bytes>) -> Option<Self> {
        let name = name.into();
        (1..=DEPENDENCY_BYTES_MAX).contains(&name.len()).then_some(Self(name))
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The name of a source: a place that data changes in, such as a database, of whose changes a hub should be told before
/// they are visible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(String);

impl SourceName {
    /// A name of a source, which is `None` if it is empty, longer than
    /// [`SOURCE_NAME_BYTES_MAX`](types::limits::SOURCE_NAME_BYTES_MAX) or has control characters.
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let is_one = (1..=SOURCE_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        is_one.then_some(Self(name))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fencing number of a source: whoever gets hold of the source later has a greater one, so that one who was stopped
/// in the meantime is known by his. The term counts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Such as the timeline of a database.
    pub term: u64,
    /// Such as a position in its log.
    pub number: u64,
}

impl Fence {
    /// That of an updater which has never got hold of its source.
    pub const NONE: Self = Self { term: 0, number: 0 };
}

/// The number of an update of an origin, which its hub has given it; they count up within a life of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId(pub u64);

/// A home's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The number of this life of the home, drawn at random: two lives have different ones.
    pub life: u64,
    /// When the home has asked, by its own clock.
    pub asked: Time,
}

/// A home or an updater asks for more of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew {
    /// When it has asked, by its own clock.
    pub asked: Time,
}

/// No response that depends on what this update changes is used any more, at this home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The update.
    pub update: UpdateId,
}

/// A home ends: it has taken back the lease of its table, which nobody believes any more (**LeaveWhenRevoked**).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leave;

/// An updater's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduce {
    /// The number of this life of the updater, drawn at random: its updates under way are known by it when it comes
    /// again.
    pub life: u64,
    /// When the updater has asked, by its own clock.
    pub asked: Time,
    /// The name of the source that it speaks for, if it does for one.
    pub source: Option<SourceName>,
    /// Its number there, once it has caught up.
    pub fence: Fence,
}

/// A source has announced everything that has become visible before, or that may become so by what it released before:
/// from here on its own updates tell all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtUp {
    /// Its number there.
    pub fence: Fence,
}

/// An updater is about to make these changes visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The updater's number for it.
    pub id: u64,
    /// Everything that it changes.
    pub dependencies: Vec<Dependency>,
}

/// Every new reader sees the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The updater's number for it.
    pub id: u64,
}

/// The home's earlier marks mean nothing any more, nor does what it has stored: it begins again with what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset;

/// An update is about to become visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub update: UpdateId,
    /// Everything that it changes.
    pub dependencies: Vec<Dependency>,
}

/// An update is visible to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmark {
    /// Its number.
    pub update: UpdateId,
}

/// A home answers for its table for this long, from when it has asked; the first one says that it has learned of all
/// outstanding marks. To an updater, releases stand for this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When it has asked, by its own clock.
    pub asked: Time,
    /// For how long, in milliseconds.
    pub lease_ms: u32,
}

/// No cache uses any more what the update changes: it may become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The updater's number for it.
    pub id: u64,
}

ordered_messages! {
    /// The messages to a hub.
    pub enum ToHub {
        /// A home begins.
        Join(Join),
        /// Wants its lease renewed.
        Renew(Renew),
        /// Has marked an update.
        Marked(Marked),
        /// A home answers nothing any more.
        Leave(Leave),
        /// An updater begins.
        Introduce(Introduce),
        /// Wants to make an update visible.
        Update(Update),
        /// It is visible.
        Visible(Visible),
        /// Everything of its source before is announced.
        CaughtUp(CaughtUp),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

ordered_messages! {
    /// The messages of a hub, to its homes and its updaters.
    pub enum FromHub {
        /// Begin again.
        Reset(Reset),
        /// An update is about to become visible.
        Mark(Mark),
        /// It is.
        Unmark(Unmark),
        /// A lease.
        Lease(Lease),
        /// An updater may continue.
        Released(Released),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use alloc::vec;

    /// **RenewInOrder**: no message to a home passes another.
    #[test]
    fn a_lease_does_not_pass_a_mark() {
        let all: Vec<FromHub> = vec![
            Reset.into(),
            Mark { update: UpdateId(1), dependencies: vec![Dependency::ALL] }.into(),
            Unmark { update: UpdateId(1) }.into(),
            Lease { asked: Time(1), lease_ms: 1 }.into(),
        ];
        for message in &all {
            assert!(all.iter().all(|earlier| !message.pace().may_pass(earlier.pace())), "{message:?}");
        }
    }

    #[test]
    fn a_name_has_bytes_and_not_too_many() {
        assert!(Dependency::new("").is_none());
        assert!(Dependency::new(vec![b'a'; DEPENDENCY_BYTES_MAX + 1]).is_none());
        assert_eq!(Dependency::new("*"), Some(Dependency::ALL));
    }
}
