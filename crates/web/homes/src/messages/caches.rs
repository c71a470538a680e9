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
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOME`] | a home | `ToHome` | `FromHome` |
//! | [`CACHE`] | a cache | `FromHome` | `ToHome` |

use crate::messages::hub::{Dependency, Names, OneName, Released};
use alloc::vec::Vec;
use core::fmt;
use framing::{Codec, End, Field, FieldLayout, Limits, Meta, Reader, WireError, family, fields, messages};
use machine::Goodbye;
use types::Time;

messages! {
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
}

fields! {
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

messages! {
    /// A response that was asked for after the ticket was read wants a slot.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Store {
        /// The ticket.
        pub ticket: Ticket,
        /// The cache's number for the question.
        pub id: u64,
        /// Everything that the response depends on.
        pub dependencies: Vec<Dependency> as Names,
    }

    /// The answer to [`Store`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Stored {
        /// The cache's number for the question.
        pub id: u64,
        /// The slot, or why there is none.
        pub outcome: Result<Proof, NotStored> as SlotOrReason,
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
        pub dependencies: Vec<Dependency> as Names,
    }

    /// Asks how many stored responses depend on something.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Count {
        /// The cache's number for the question.
        pub id: u64,
        /// The dependency.
        pub dependency: Dependency as OneName,
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
        pub dependencies: Vec<Dependency> as Names,
    }
}

/// A number and a proof. The number is zero if the response is stored; else it is the reason's, from 1, and the proof
/// is of nothing.
#[derive(Debug)]
pub struct SlotOrReason;

impl FieldLayout<Result<Proof, NotStored>> for SlotOrReason {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + Proof::BYTES);

    fn put(outcome: &Result<Proof, NotStored>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let number = |why| NotStored::ALL.iter().position(|one| one == why).expect("all are there") + 1;
        let (number, proof) = match outcome {
            Ok(proof) => (0, *proof),
            Err(why) => (number(why), Proof { generation: 0, word: 0, slot: 0 }),
        };
        (number as u32).put(meta);
        proof.put(meta);
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Result<Proof, NotStored>, WireError> {
        let (number, proof) = (u32::get(what, reader)?, Proof::get(what, reader)?);
        let Some(at) = number.checked_sub(1) else { return Ok(Ok(proof)) };
        let why = NotStored::ALL.get(at as usize);
        let error = WireError::Code { what: "reason why a response is not stored", got: number.into() };
        Ok(Err(*why.ok_or(error)?))
    }
}

family! {
    of "home";

    /// The messages of a cache to its home.
    pub enum ToHome, heard by "home of caches", in order {
        /// Begins, or asks whether the home is there.
        1 Attach,
        /// Wants a slot.
        2 Store,
        /// Gives one back.
        3 Free,
        /// Asks what a response depends on.
        4 Describe,
        /// Asks what depends on something.
        5 Count,
        /// A change has been made.
        6 Changed,
        /// Ends the session, with the reason.
        39 Goodbye,
    }

    /// The messages of a home to its caches.
    pub enum FromHome, heard by "cache", in order {
        /// It is there.
        7 Attached,
        /// A slot, or none.
        8 Stored,
        /// The dependencies of a response.
        9 Described,
        /// How many responses depend on something.
        10 Counted,
        /// No cache answers without a change.
        11 Released,
        /// Ends the session, with the reason.
        39 Goodbye,
    }
}

/// The home's end of a link.
pub const HOME: &dyn Codec = End::<ToHome, FromHome>::CODEC;

/// The cache's end.
pub const CACHE: &dyn Codec = End::<FromHome, ToHome>::CODEC;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use framing::{Direction, HEADER_BYTES, Inbox, frames_of};
    use machine::Parcel;
    use types::GoodbyeReason;
    use types::limits::{DEPENDENCIES_KEPT_MAX, DEPENDENCY_BYTES_MAX};

    fn pass<M: Direction + Clone>(says: &'static dyn Codec, hears: &'static dyn Codec, messages: &[M]) {
        let mut inbox = Inbox::within_session(hears);
        for message in messages {
            let parcel = Parcel::new(message.clone());
            let bytes = frames_of(says, &parcel).unwrap();
            assert_eq!(inbox.next(&mut &bytes[..]), Ok(Some(parcel)));
        }
    }

    const PROOF: Proof = Proof { generation: u64::MAX, word: 2, slot: u32::MAX };

    fn names(count: usize) -> Vec<Dependency> {
        vec![Dependency::new(vec![7; DEPENDENCY_BYTES_MAX]).unwrap(); count]
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        let ticket = Ticket { life: 5, clock: u64::MAX };
        let to: Vec<ToHome> = vec![
            Attach { asked: Time(1) }.into(),
            Store { id: 1, ticket, dependencies: names(DEPENDENCIES_KEPT_MAX) }.into(),
            Store { id: 2, ticket, dependencies: vec![] }.into(),
            Free { proof: PROOF }.into(),
            Describe { id: 3, proof: PROOF }.into(),
            Count { id: 4, dependency: Dependency::ALL }.into(),
            Changed { id: 5, dependencies: names(2) }.into(),
            Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
        ];
        pass(CACHE, HOME, &to);
        let mut from: Vec<FromHome> = vec![
            Attached { asked: Time(1), life: 5 }.into(),
            Stored { id: 1, outcome: Ok(PROOF) }.into(),
            Described { id: 3, dependencies: names(1) }.into(),
            Counted { id: 4, responses: u64::MAX }.into(),
            Released { id: 5 }.into(),
        ];
        from.extend(NotStored::ALL.map(|why| FromHome::from(Stored { id: 2, outcome: Err(why) })));
        pass(HOME, CACHE, &from);
    }

    fn refused(
        says: &'static dyn Codec,
        hears: &'static dyn Codec,
        message: &Parcel,
        at: usize,
        byte: u8,
    ) -> WireError {
        let mut bytes = frames_of(says, message).unwrap();
        bytes[HEADER_BYTES + at] = byte;
        let mut inbox = Inbox::within_session(hears);
        inbox.next(&mut &bytes[..]).unwrap_err()
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let stored = Parcel::new(FromHome::from(Stored { id: 1, outcome: Err(NotStored::Full) }));
        let got = refused(HOME, CACHE, &stored, 8, 7);
        assert_eq!(got, WireError::Code { what: "reason why a response is not stored", got: 7 });
        let count = Parcel::new(ToHome::from(Count { id: 1, dependency: Dependency::ALL }));
        assert_eq!(refused(CACHE, HOME, &count, 8, 2), WireError::Short { kind: "Count" });
    }
}
