//! The family of lookups in a home's table.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`TABLE`] | the responder beside a home | `ToTable` | `FromTable` |
//! | [`CACHE`] | a cache | `FromTable` | `ToTable` |

use crate::codec::{Codec, End};
use crate::family::family;
use crate::field::check_count;
use crate::layout::{Layout, Meta, Reader};
use crate::{Limits, WireError};
use protocol::Goodbye;
use protocol::look_ups::{FromTable, Head, Read, ToTable, Window, Words};
use types::Time;
use types::limits::{ENDPOINT_NAME_BYTES_MAX, LOOK_UPS_PER_MESSAGE_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The responder's end of a link.
pub const TABLE: &dyn Codec = End::<ToTable, FromTable>::CODEC;

/// The cache's end.
pub const CACHE: &dyn Codec = End::<FromTable, ToTable>::CODEC;

family! {
    ToTable, heard by "version table", opened by "Read or Goodbye" {
        1 Read opens,
        3 Goodbye opens,
    }
    FromTable, heard by "cache that looks up", opened by "Words or Goodbye" {
        2 Words opens,
        3 Goodbye opens,
        4 Window,
    }
}

impl Layout for Read {
    const LIMITS: Limits = Limits::fields::<U64>().and_many::<U32>(LOOK_UPS_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("lookups", self.slots.len(), LOOK_UPS_PER_MESSAGE_MAX)?;
        meta.put(&U64::new(self.id));
        meta.put_all(self.slots.iter().map(|&slot| U32::new(slot)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = reader.get::<U64>()?.get();
        Ok(Self { id, slots: reader.rest::<U32>()?.iter().map(|slot| slot.get()).collect() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WordsMeta {
    id: U64,
    life: U64,
    generation: U64,
    lease: U64,
    now: U64,
    fills: U64,
}

impl Layout for Words {
    const LIMITS: Limits = Limits::fields::<WordsMeta>().and_many::<U64>(LOOK_UPS_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("lookups", self.words.len(), LOOK_UPS_PER_MESSAGE_MAX)?;
        let Head { life, generation, lease, now, fills } = self.head;
        meta.put(&WordsMeta {
            id: self.id.into(),
            life: life.into(),
            generation: generation.into(),
            lease: lease.0.into(),
            now: now.0.into(),
            fills: fills.into(),
        });
        meta.put_all(self.words.iter().map(|&word| U64::new(word)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<WordsMeta>()?;
        let head = Head {
            life: meta.life.get(),
            generation: meta.generation.get(),
            lease: Time(meta.lease.get()),
            now: Time(meta.now.get()),
            fills: meta.fills.get(),
        };
        let words = reader.rest::<U64>()?.iter().map(|word| word.get()).collect();
        Ok(Self { id: meta.id.get(), head, words })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WindowMeta {
    base: U64,
    key: U64,
    slots: U32,
}

impl Layout for Window {
    const LIMITS: Limits = Limits::fields::<WindowMeta>().and_many::<u8>(ENDPOINT_NAME_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of an endpoint's name", self.name.len(), ENDPOINT_NAME_BYTES_MAX)?;
        meta.put(&WindowMeta { base: self.base.into(), key: self.key.into(), slots: self.slots.into() });
        meta.put(&self.name[..]);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let WindowMeta { base, key, slots } = reader.get::<WindowMeta>()?;
        let (base, key, slots) = (base.get(), key.get(), slots.get());
        Ok(Self { name: reader.rest::<u8>()?.to_vec(), base, key, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Direction};
    use crate::{Inbox, frames_of};
    use alloc::vec;
    use protocol::Parcel;

    fn passed(says: &'static dyn Codec, hears: &'static dyn Codec, parcel: &Parcel) -> Parcel {
        let bytes = frames_of(says, parcel).unwrap();
        Inbox::new(hears).next(&mut &bytes[..]).unwrap().unwrap()
    }

    fn opening() -> FromTable {
        let head = Head { life: 0, generation: 0, lease: Time(0), now: Time(0), fills: 0 };
        Words { id: 1, head, words: vec![] }.into()
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        for count in [0, 1, LOOK_UPS_PER_MESSAGE_MAX] {
            let read = Parcel::new(ToTable::from(Read { id: 7, slots: vec![u32::MAX; count] }));
            assert_eq!(passed(CACHE, TABLE, &read), read);
            let head = Head { life: 1, generation: u64::MAX, lease: Time(2), now: Time(3), fills: 4 };
            let words = Parcel::new(FromTable::from(Words { id: 7, head, words: vec![u64::MAX; count] }));
            assert_eq!(passed(TABLE, CACHE, &words), words);
        }
        for bytes in [0, ENDPOINT_NAME_BYTES_MAX] {
            let window = FromTable::from(Window { name: vec![7; bytes], base: u64::MAX, key: 2, slots: u32::MAX });
            let (words, window) = (Parcel::new(opening()), Parcel::new(window));
            let bytes = [frames_of(TABLE, &words).unwrap(), frames_of(TABLE, &window).unwrap()].concat();
            let (mut inbox, mut arrived) = (Inbox::new(CACHE), &bytes[..]);
            assert_eq!(inbox.next(&mut arrived), Ok(Some(words)));
            assert_eq!(inbox.next(&mut arrived), Ok(Some(window)));
        }
    }

    #[test]
    fn a_window_is_not_said_first_and_its_name_is_bounded() {
        let window = |bytes| FromTable::from(Window { name: vec![7; bytes], base: 1, key: 2, slots: 3 });
        let bytes = frames_of(TABLE, &Parcel::new(window(16))).unwrap();
        assert!(Inbox::new(CACHE).next(&mut &bytes[..]).is_err());
        let long = window(ENDPOINT_NAME_BYTES_MAX + 1).encode(&mut Batch::default());
        assert!(matches!(long, Err(WireError::Count { .. })));
    }

    #[test]
    fn too_many_at_a_time_are_not_sent_and_not_taken() {
        let read = ToTable::from(Read { id: 1, slots: vec![0; LOOK_UPS_PER_MESSAGE_MAX + 1] });
        assert!(matches!(read.encode(&mut Batch::default()), Err(WireError::Count { .. })));
        assert!(!Read::LIMITS.allow(size_of::<U64>() + (LOOK_UPS_PER_MESSAGE_MAX + 1) * size_of::<U32>(), 0));
    }
}
