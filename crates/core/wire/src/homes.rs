//! The family of the web front end: the messages between a hub, its homes and its updaters.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HUB`] | a hub | `ToHub` | `FromHub` |
//! | [`HOME`] | a home, or an updater | `FromHub` | `ToHub` |

use crate::codec::{Codec, End};
use crate::family::family;
use crate::field::{check_count, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::{Limits, WireError};
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::Goodbye;
use protocol::homes::{
    CaughtUp, Dependency, Fence, FromHub, Introduce, Join, Lease, Leave, Mark, Marked, Released, Renew, Reset,
    SourceName, ToHub, Unmark, Update, UpdateId, Visible,
};
use types::Time;
use types::limits::{DEPENDENCIES_KEPT_MAX, DEPENDENCY_BYTES_MAX, SOURCE_NAME_BYTES_MAX};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The hub's end of a link.
pub const HUB: &dyn Codec = End::<ToHub, FromHub>::CODEC;

/// The end of a home, or of an updater.
pub const HOME: &dyn Codec = End::<FromHub, ToHub>::CODEC;

family! {
    ToHub, heard by "hub", opened by "Join, Introduce or Goodbye" {
        1 Join opens,
        2 Renew,
        3 Marked,
        4 Introduce opens,
        5 Update,
        6 Visible,
        12 Goodbye opens,
        13 CaughtUp,
        14 Leave,
    }
    FromHub, heard by "home or updater", opened by "Reset, Lease or Goodbye" {
        7 Reset opens,
        8 Mark,
        9 Unmark,
        10 Lease opens,
        11 Released,
        12 Goodbye opens,
    }
}

/// A message that says all by its kind.
macro_rules! empty {
    ($($message:ident)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::fields::<()>();

            fn put(&self, _: &mut Meta<'_>) -> Result<(), WireError> {
                Ok(())
            }

            fn get(_: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(Self)
            }
        })+
    };
}

empty! { Reset Leave }

/// A message that is one number.
macro_rules! number {
    ($($message:ident: |$this:ident| $number:expr, |$got:ident| $made:expr;)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::fields::<U64>();

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                let $this = self;
                meta.put(&U64::new($number));
                Ok(())
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let $got = reader.get::<U64>()?.get();
                Ok($made)
            }
        })+
    };
}

number! {
    Renew: |this| this.asked.0, |got| Self { asked: Time(got) };
    Marked: |this| this.update.0, |got| Self { update: UpdateId(got) };
    Unmark: |this| this.update.0, |got| Self { update: UpdateId(got) };
    Visible: |this| this.id, |got| Self { id: got };
    Released: |this| this.id, |got| Self { id: got };
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Life {
    life: U64,
    asked: U64,
}

impl Layout for Join {
    const LIMITS: Limits = Limits::fields::<Life>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&Life { life: self.life.into(), asked: self.asked.0.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let Life { life, asked } = reader.get()?;
        Ok(Self { life: life.get(), asked: Time(asked.get()) })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FenceMeta {
    term: U64,
    number: U64,
}

impl From<Fence> for FenceMeta {
    fn from(fence: Fence) -> Self {
        Self { term: fence.term.into(), number: fence.number.into() }
    }
}

impl From<&FenceMeta> for Fence {
    fn from(fence: &FenceMeta) -> Self {
        Self { term: fence.term.get(), number: fence.number.get() }
    }
}

impl Layout for CaughtUp {
    const LIMITS: Limits = Limits::fields::<FenceMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&FenceMeta::from(self.fence));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { fence: reader.get::<FenceMeta>()?.into() })
    }
}

const SOURCE: &str = "name of a source";

/// An updater that speaks for no source gives an empty name.
impl Layout for Introduce {
    const LIMITS: Limits = Limits::fields::<(Life, FenceMeta)>().and_text(SOURCE_NAME_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&Life { life: self.life.into(), asked: self.asked.0.into() });
        meta.put(&FenceMeta::from(self.fence));
        put_text(meta, SOURCE, self.source.as_ref().map_or("", SourceName::as_str), SOURCE_NAME_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let Life { life, asked } = reader.get()?;
        let fence = reader.get::<FenceMeta>()?.into();
        let name = get_text(reader, SOURCE, SOURCE_NAME_BYTES_MAX)?;
        let source = if name.is_empty() { None } else { Some(SourceName::new(name).ok_or(WireError::Text)?) };
        Ok(Self { life: life.get(), asked: Time(asked.get()), source, fence })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LeaseMeta {
    asked: U64,
    lease_ms: U32,
}

impl Layout for Lease {
    const LIMITS: Limits = Limits::fields::<LeaseMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&LeaseMeta { asked: self.asked.0.into(), lease_ms: self.lease_ms.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let LeaseMeta { asked, lease_ms } = reader.get()?;
        Ok(Self { asked: Time(asked.get()), lease_ms: lease_ms.get() })
    }
}

/// Names behind a number: each its length and its bytes, to the end of the meta. A response has the most of them; an
/// update of as many is one of everything.
pub(crate) const NAMED: Limits =
    Limits::fields::<U64>().and_up_to(DEPENDENCIES_KEPT_MAX * (size_of::<U16>() + DEPENDENCY_BYTES_MAX));

pub(crate) fn put_named(meta: &mut Meta<'_>, number: u64, dependencies: &[Dependency]) -> Result<(), WireError> {
    check_count("dependencies", dependencies.len(), DEPENDENCIES_KEPT_MAX)?;
    meta.put(&U64::new(number));
    for dependency in dependencies {
        meta.put(&U16::new(dependency.name().len() as u16));
        meta.put(dependency.name());
    }
    Ok(())
}

pub(crate) fn get_named(reader: &mut Reader<'_>) -> Result<(u64, Vec<Dependency>), WireError> {
    let number = reader.get::<U64>()?.get();
    let mut dependencies = Vec::new();
    while !reader.is_at_end() {
        check_count("dependencies", dependencies.len() + 1, DEPENDENCIES_KEPT_MAX)?;
        let len = usize::from(reader.get::<U16>()?.get());
        let name = Bytes::copy_from_slice(reader.many::<u8>(len)?);
        let code = WireError::Code { what: "length of a dependency", got: len as u64 };
        dependencies.push(Dependency::new(name).ok_or(code)?);
    }
    Ok((number, dependencies))
}

impl Layout for Update {
    const LIMITS: Limits = NAMED;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_named(meta, self.id, &self.dependencies)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        get_named(reader).map(|(id, dependencies)| Self { id, dependencies })
    }
}

impl Layout for Mark {
    const LIMITS: Limits = NAMED;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_named(meta, self.update.0, &self.dependencies)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        get_named(reader).map(|(number, dependencies)| Self { update: UpdateId(number), dependencies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Direction};
    use crate::{HEADER_BYTES, Inbox, frames_of};
    use alloc::vec;
    use protocol::{Message, Parcel};
    use types::GoodbyeReason;

    fn pass<M: Direction + Clone>(says: &'static dyn Codec, hears: &'static dyn Codec, opening: M, message: M) {
        for message in [opening, message] {
            let parcel = || Parcel::new(message.clone());
            let bytes = frames_of(says, &parcel()).unwrap();
            let mut inbox = Inbox::within_session(hears);
            assert_eq!(inbox.next(&mut &bytes[..]), Ok(Some(parcel())));
        }
    }

    fn names() -> Vec<Dependency> {
        [&b"*"[..], b"item:42", &[7; DEPENDENCY_BYTES_MAX]].map(|name| Dependency::new(name.to_vec()).unwrap()).into()
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        let fence = Fence { term: 2, number: u64::MAX };
        let to: Vec<ToHub> = vec![
            Renew { asked: Time(9) }.into(),
            Marked { update: UpdateId(7) }.into(),
            Introduce { life: 5, asked: Time(6), source: None, fence: Fence::NONE }.into(),
            Introduce { life: 5, asked: Time(6), source: SourceName::new("s".repeat(SOURCE_NAME_BYTES_MAX)), fence }
                .into(),
            CaughtUp { fence }.into(),
            Leave.into(),
            Update { id: 3, dependencies: names() }.into(),
            Visible { id: 3 }.into(),
            Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
        ];
        for message in to {
            pass(HOME, HUB, Join { life: u64::MAX, asked: Time(1) }.into(), message);
        }
        let from: Vec<FromHub> = vec![
            Mark { update: UpdateId(1), dependencies: names() }.into(),
            Mark { update: UpdateId(2), dependencies: vec![] }.into(),
            Unmark { update: UpdateId(1) }.into(),
            Lease { asked: Time(5), lease_ms: 700 }.into(),
            Released { id: 3 }.into(),
        ];
        for message in from {
            pass(HUB, HOME, Reset.into(), message);
        }
    }

    #[test]
    fn an_update_of_too_many_names_is_not_sent() {
        let dependencies = vec![Dependency::ALL; DEPENDENCIES_KEPT_MAX + 1];
        let update = ToHub::from(Update { id: 1, dependencies });
        assert!(matches!(update.encode(&mut Batch::default()), Err(WireError::Count { .. })));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let mark = Mark { update: UpdateId(1), dependencies: names() };
        let bytes = frames_of(HUB, &Parcel::new(FromHub::from(mark))).unwrap();
        let length_at = HEADER_BYTES + size_of::<U64>();
        for (length, error) in [
            (0, WireError::Code { what: "length of a dependency", got: 0 }),
            (DEPENDENCY_BYTES_MAX + 1, WireError::Code { what: "length of a dependency", got: 257 }),
            (0xFFFF, WireError::Short { kind: "Mark" }),
        ] {
            let mut bytes = bytes.clone();
            bytes[length_at..][..2].copy_from_slice(&(length as u16).to_le_bytes());
            assert_eq!(Inbox::within_session(HOME).next(&mut &bytes[..]), Err(error));
        }
    }

    #[test]
    fn every_goodbye_is_known_for_one() {
        let goodbye = Goodbye { reason: GoodbyeReason::Done, text: "ends".into() };
        assert!(ToHub::from(goodbye.clone()).goodbye().is_some() && FromHub::from(goodbye).goodbye().is_some());
    }
}
