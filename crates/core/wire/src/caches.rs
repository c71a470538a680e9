//! The family of a home and the caches beside it.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOME`] | a home | `ToHome` | `FromHome` |
//! | [`CACHE`] | a cache | `FromHome` | `ToHome` |

use crate::codec::{Codec, End};
use crate::family::family;
use crate::homes::{NAMED, get_named, put_named};
use crate::layout::{Layout, Meta, Reader};
use crate::{Limits, WireError};
use protocol::Goodbye;
use protocol::caches::{
    Attach, Attached, Changed, Count, Counted, Describe, Described, Free, FromHome, NotStored, Proof, Store, Stored,
    Ticket, ToHome,
};
use protocol::homes::Released;
use types::Time;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The home's end of a link.
pub const HOME: &dyn Codec = End::<ToHome, FromHome>::CODEC;

/// The cache's end.
pub const CACHE: &dyn Codec = End::<FromHome, ToHome>::CODEC;

family! {
    ToHome, heard by "home of caches", opened by "Attach or Goodbye" {
        1 Attach opens,
        2 Store,
        3 Free,
        4 Describe,
        5 Count,
        6 Changed,
        12 Goodbye opens,
    }
    FromHome, heard by "cache", opened by "Attached or Goodbye" {
        7 Attached opens,
        8 Stored,
        9 Described,
        10 Counted,
        11 Released,
        12 Goodbye opens,
    }
}

impl Layout for Attach {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.asked.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { asked: Time(reader.get::<U64>()?.get()) })
    }
}

/// A message of two numbers.
macro_rules! numbers {
    ($($message:ident: |$this:ident| $one:expr, $other:expr; |$first:ident, $second:ident| $made:expr;)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::fields::<[U64; 2]>();

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                let $this = self;
                meta.put(&[U64::new($one), U64::new($other)]);
                Ok(())
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let [first, second] = reader.get::<[U64; 2]>()?;
                let ($first, $second) = (first.get(), second.get());
                Ok($made)
            }
        })+
    };
}

numbers! {
    Attached: |this| this.asked.0, this.life; |asked, life| Self { asked: Time(asked), life };
    Counted: |this| this.id, this.responses; |id, responses| Self { id, responses };
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Place {
    generation: U64,
    word: U64,
    slot: U32,
}

impl From<&Proof> for Place {
    fn from(proof: &Proof) -> Self {
        let Proof { generation, word, slot } = *proof;
        Self { generation: generation.into(), word: word.into(), slot: slot.into() }
    }
}

impl From<&Place> for Proof {
    fn from(place: &Place) -> Self {
        Self { generation: place.generation.get(), word: place.word.get(), slot: place.slot.get() }
    }
}

impl Layout for Free {
    const LIMITS: Limits = Limits::fields::<Place>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&Place::from(&self.proof));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { proof: reader.get::<Place>()?.into() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoredMeta {
    id: U64,
    /// Zero if the response is stored; else the reason's number, from 1, and the place is zero.
    code: U32,
    place: Place,
}

impl Layout for Stored {
    const LIMITS: Limits = Limits::fields::<StoredMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let nowhere = Proof { generation: 0, word: 0, slot: 0 };
        let (code, proof) = match &self.outcome {
            Ok(proof) => (0, proof),
            Err(why) => (NotStored::ALL.iter().position(|one| one == why).expect("all are there") + 1, &nowhere),
        };
        meta.put(&StoredMeta { id: self.id.into(), code: (code as u32).into(), place: proof.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let StoredMeta { id, code, place } = reader.get()?;
        let outcome = match code.get() as usize {
            0 => Ok(place.into()),
            number => {
                let error = WireError::Code { what: "reason why a response is not stored", got: number as u64 };
                Err(*NotStored::ALL.get(number - 1).ok_or(error)?)
            }
        };
        Ok(Self { id: id.get(), outcome })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescribeMeta {
    id: U64,
    place: Place,
}

impl Layout for Describe {
    const LIMITS: Limits = Limits::fields::<DescribeMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&DescribeMeta { id: self.id.into(), place: (&self.proof).into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let DescribeMeta { id, place } = reader.get()?;
        Ok(Self { id: id.get(), proof: place.into() })
    }
}

impl Layout for Store {
    const LIMITS: Limits = NAMED.and_up_to(size_of::<[U64; 2]>());

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&[U64::new(self.ticket.life), U64::new(self.ticket.clock)]);
        put_named(meta, self.id, &self.dependencies)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [life, clock] = reader.get::<[U64; 2]>()?;
        let ticket = Ticket { life: life.get(), clock: clock.get() };
        get_named(reader).map(|(id, dependencies)| Self { id, ticket, dependencies })
    }
}

/// A message of a number and names.
macro_rules! named {
    ($($message:ident)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = NAMED;

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                put_named(meta, self.id, &self.dependencies)
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                get_named(reader).map(|(id, dependencies)| Self { id, dependencies })
            }
        })+
    };
}

named! { Described Changed }

impl Layout for Count {
    const LIMITS: Limits = NAMED;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_named(meta, self.id, core::slice::from_ref(&self.dependency))
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (id, mut dependencies) = get_named(reader)?;
        let count = dependencies.len();
        let error = WireError::Count { what: "dependencies that are counted", max: 1, got: count };
        let dependency = dependencies.pop().filter(|_| count == 1).ok_or(error)?;
        Ok(Self { id, dependency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::{HEADER_BYTES, Inbox, frames_of};
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use protocol::Parcel;
    use protocol::homes::Dependency;
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

    #[test]
    fn nothing_but_a_beginning_comes_first() {
        let free = Parcel::new(ToHome::from(Free { proof: PROOF }));
        let bytes = frames_of(CACHE, &free).unwrap();
        let error = Inbox::new(HOME).next(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains("Attach or Goodbye"), "{error}");
    }
}
