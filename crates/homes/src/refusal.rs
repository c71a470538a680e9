//! Why a response is not stored.

use core::fmt;

/// Why a response was not stored. It is given to the request that has fetched it, and to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The home has no hub, or its lease is over.
    Away,
    /// The ticket is of an earlier life of the home, or too old.
    TicketVoid,
    /// An update of one of its dependencies is about to become visible.
    Marked,
    /// One of its dependencies was updated since it was asked for.
    Touched,
    /// It has too many dependencies.
    TooMany,
    /// The table is full.
    Full,
}

impl NotStored {
    /// The reason's name, as it is counted and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::TicketVoid => "ticket_void",
            Self::Marked => "marked",
            Self::Touched => "touched",
            Self::TooMany => "too_many_dependencies",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Away => "the home has no lease from its hub",
            Self::TicketVoid => "it was asked for before the home's memory begins",
            Self::Marked => "an update of what it depends on is about to become visible",
            Self::Touched => "what it depends on was updated while it was on its way",
            Self::TooMany => "it has more than 1024 dependencies",
            Self::Full => "the home's table is full",
        })
    }
}

impl core::error::Error for NotStored {}
