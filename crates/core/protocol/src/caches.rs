//! The family of a home and the caches beside it, where they are processes of their own.
//!
//! ```text
//!   cache                              home
//!     | Attach{asked} ------------------> |
//!     | <----------- Attached{asked, life}|
//!     |                                   |   the origin is asked, under a ticket that was read in the home's table
//!     | Store{id, ticket, deps} --------> |
//!     | <------------------- Stored{id}   |   the response has a slot, or a reason why not
//!     | Free{proof} --------------------> |   it is not kept any longer
//!     | Changed{id, deps} --------------> |   a change has been made: the home announces it to its hub
//!     | <----------------- Released{id}   |   no cache answers without it
//! ```
//! The slots of a cache are free when its session is over. Lookups are no part of it: a cache reads the home's table.

use crate::Goodbye;
use crate::directions::ordered_messages;
use crate::homes::{Dependency, Released};
use alloc::vec::Vec;
use core::fmt;
use types::Time;

/// A cache's first message. Said again, it asks whether the home is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// When the cache has asked, by its own clock.
    pub asked: Time,
}

/// The answer to [`Attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// When the cache has asked, by its own clock.
    pub asked: Time,
    /// The home's life.
    pub life: u64,
}

/// When a response was asked for, by the clock of its home: taken before the request goes to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The home's life.
    pub life: u64,
    /// The time by its clock, which counts unmarkings.
    pub clock: u64,
}

/// Where a response's word is, and what it was when the response was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The generation of the table.
    pub generation: u64,
    /// The word.
    pub word: u64,
    /// Its place.
    pub slot: u32,
}

/// Why a response was not stored. It is given to the request that has fetched it, and to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The home has no hub, or its lease is over; or there is no home.
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
    /// All reasons, in the order of their numbers on the wire.
    pub const ALL: [Self; 6] = [Self::Away, Self::TicketVoid, Self::Marked, Self::Touched, Self::TooMany, Self::Full];

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

/// A response that was asked for after the ticket was read wants a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The cache's number for the question.
    pub id: u64,
    /// The ticket.
    pub ticket: Ticket,
    /// Everything that the response depends on.
    pub dependencies: Vec<Dependency>,
}

/// The answer to [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The cache's number for the question.
    pub id: u64,
    /// The slot, or why there is none.
    pub outcome: Result<Proof, NotStored>,
}

/// A stored response is not kept any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Its proof.
    pub proof: Proof,
}

/// Asks what a stored response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe {
    /// The cache's number for the question.
    pub id: u64,
    /// The response's proof.
    pub proof: Proof,
}

/// The answer to [`Describe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The cache's number for the question.
    pub id: u64,
    /// The dependencies; none if the response is not current.
    pub dependencies: Vec<Dependency>,
}

/// Asks how many stored responses depend on something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The cache's number for the question.
    pub id: u64,
    /// The dependency.
    pub dependency: Dependency,
}

/// The answer to [`Count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The cache's number for the question.
    pub id: u64,
    /// The number of responses.
    pub responses: u64,
}

/// A change has been made, which no cache may answer without from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The cache's number for the change.
    pub id: u64,
    /// Everything that it changes.
    pub dependencies: Vec<Dependency>,
}

ordered_messages! {
    /// The messages of a cache to its home.
    pub enum ToHome {
        /// Begins, or asks whether the home is there.
        Attach(Attach),
        /// Wants a slot.
        Store(Store),
        /// Gives one back.
        Free(Free),
        /// Asks what a response depends on.
        Describe(Describe),
        /// Asks what depends on something.
        Count(Count),
        /// A change has been made.
        Changed(Changed),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

ordered_messages! {
    /// The messages of a home to its caches.
    pub enum FromHome {
        /// It is there.
        Attached(Attached),
        /// A slot, or none.
        Stored(Stored),
        /// The dependencies of a response.
        Described(Described),
        /// How many responses depend on something.
        Counted(Counted),
        /// No cache answers without a change.
        Released(Released),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}
