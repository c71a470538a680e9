//! The family of the volumes front end: the messages between a holder of copies and owners, or hosts that take over.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOLDER`] | a holder | `ToHolder` | `FromHolder` |
//! | [`OWNER`] | an owner, or a host that takes over | `FromHolder` | `ToHolder` |

use crate::codec::{Codec, End};
use crate::family::family;
use crate::field::{check_count, check_order, flag};
use crate::layout::{Layout, Meta, Reader};
use crate::{Limits, WireError};
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::Goodbye;
use protocol::volumes::{
    Content, Copy, Counted, Entry, Epoch, Extent, Fetch, FlushEpoch, Forget, Free, FromHolder, HeldVolume, Kept,
    Leaving, List, ListVolumes, Listed, Open, Opened, PartitionId, Record, Refused, Sequence, Stamp, Stream, ToHolder,
    VolumeId, Volumes,
};
use types::limits::{COPIES_PER_LIST_MAX, VOLUME_WRITE_BYTES_MAX, VOLUMES_PER_ANSWER_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A holder's end of a link.
pub const HOLDER: &dyn Codec = End::<ToHolder, FromHolder>::CODEC;

/// The end of an owner, or of a host that takes over.
pub const OWNER: &dyn Codec = End::<FromHolder, ToHolder>::CODEC;

family! {
    ToHolder, heard by "holder", opened by "Open, List, ListVolumes or Goodbye" {
        1 Open opens,
        2 Copy,
        3 Free,
        4 List opens,
        5 Fetch,
        12 Goodbye opens,
        13 Forget,
        20 ListVolumes opens,
    }
    FromHolder, heard by "owner", opened by "Opened, Refused, Listed, Volumes, Leaving or Goodbye" {
        6 Opened opens,
        7 Counted,
        8 Refused opens,
        9 Listed opens,
        10 Kept,
        11 Leaving opens,
        21 Volumes opens,
        12 Goodbye opens,
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct StampMeta {
    epoch: U64,
    sequence: U64,
    flush: U64,
}

impl From<Stamp> for StampMeta {
    fn from(stamp: Stamp) -> Self {
        Self { epoch: stamp.epoch.0.into(), sequence: stamp.sequence.0.into(), flush: stamp.flush.0.into() }
    }
}

impl From<&StampMeta> for Stamp {
    fn from(meta: &StampMeta) -> Self {
        let StampMeta { epoch, sequence, flush } = meta;
        Self { epoch: Epoch(epoch.get()), sequence: Sequence(sequence.get()), flush: FlushEpoch(flush.get()) }
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ExtentMeta {
    offset: U64,
    len: U64,
}

impl From<Extent> for ExtentMeta {
    fn from(extent: Extent) -> Self {
        Self { offset: extent.offset.into(), len: extent.len.into() }
    }
}

/// An extent of a volume, which has a length and an end.
pub(crate) fn extent(meta: &ExtentMeta) -> Result<Extent, WireError> {
    let extent = Extent { offset: meta.offset.get(), len: meta.len.get() };
    if extent.len == 0 || extent.end().is_none() {
        return Err(WireError::Code { what: "length of an extent", got: extent.len });
    }
    Ok(extent)
}

const DATA: u32 = 0;
const TRIM: u32 = 1;
const ZERO: u32 = 2;

pub(crate) fn content_code(content: &Content) -> U32 {
    U32::new(match content {
        Content::Data(_) => DATA,
        Content::Trim => TRIM,
        Content::Zero => ZERO,
    })
}

/// The content of an extent: its bytes are the body.
pub(crate) fn get_content(reader: &mut Reader<'_>, code: U32, extent: Extent) -> Result<Content, WireError> {
    let content = match code.get() {
        DATA => Content::Data(reader.bytes_rest()),
        TRIM => Content::Trim,
        ZERO => Content::Zero,
        got => return Err(WireError::Code { what: "content of a write", got: got.into() }),
    };
    let code = WireError::Code { what: "bytes of a write", got: content.len() };
    if content.fits(extent) { Ok(content) } else { Err(code) }
}

fn put_content(content: &Content) -> Result<(), WireError> {
    check_count("bytes of a write", content.len() as usize, VOLUME_WRITE_BYTES_MAX)
}

pub(crate) fn body(content: &Content) -> Option<&Bytes> {
    if let Content::Data(data) = content { Some(data) } else { None }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OpenMeta {
    volume: U64,
    epoch: U64,
    revision: U64,
    home: StampMeta,
}

impl Layout for Open {
    const LIMITS: Limits = Limits::fields::<OpenMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let (volume, epoch) = (self.volume.0.into(), self.epoch.0.into());
        meta.put(&OpenMeta { volume, epoch, revision: self.revision.into(), home: self.home.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let OpenMeta { volume, epoch, revision, home } = reader.get()?;
        let (volume, epoch) = (VolumeId(volume.get()), Epoch(epoch.get()));
        Ok(Self { volume, epoch, revision: revision.get(), home: home.into() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListMeta {
    volume: U64,
    epoch: U64,
    after: StampMeta,
}

impl Layout for List {
    const LIMITS: Limits = Limits::fields::<ListMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&ListMeta { volume: self.volume.0.into(), epoch: self.epoch.0.into(), after: self.after.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let ListMeta { volume, epoch, after } = reader.get()?;
        Ok(Self { volume: VolumeId(volume.get()), epoch: Epoch(epoch.get()), after: after.into() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CopyMeta {
    stamp: StampMeta,
    extent: ExtentMeta,
    content: U32,
    is_back: U32,
}

impl Layout for Copy {
    const LIMITS: Limits = Limits::fields::<CopyMeta>().with_body(VOLUME_WRITE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let Record { stamp, extent, content } = &self.record;
        put_content(content)?;
        let is_back = u32::from(self.stream == Stream::Back).into();
        let (stamp, extent) = ((*stamp).into(), (*extent).into());
        meta.put(&CopyMeta { stamp, extent, content: content_code(content), is_back });
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        body(&self.record.content).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let CopyMeta { stamp, extent: place, content, is_back } = reader.get()?;
        let stream = if flag("stream", *is_back)? { Stream::Back } else { Stream::Live };
        let extent = extent(place)?;
        let content = get_content(reader, *content, extent)?;
        Ok(Self { stream, record: Record { stamp: stamp.into(), extent, content } })
    }
}

/// A message that is one stamp.
macro_rules! stamp {
    ($($message:ident $field:ident)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::fields::<StampMeta>();

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                meta.put(&StampMeta::from(self.$field));
                Ok(())
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let stamp: &StampMeta = reader.get()?;
                Ok(Self { $field: stamp.into() })
            }
        })+
    };
}

stamp! { Free through Fetch stamp }

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OpenedMeta {
    partition: U64,
    live: U64,
    back: U64,
    credit: U64,
}

impl Layout for Opened {
    const LIMITS: Limits = Limits::fields::<OpenedMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let Self { partition, live, back, credit } = *self;
        let (live, back) = (live.0.into(), back.0.into());
        meta.put(&OpenedMeta { partition: partition.0.into(), live, back, credit: credit.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let OpenedMeta { partition, live, back, credit } = reader.get()?;
        let (live, back) = (Sequence(live.get()), Sequence(back.get()));
        Ok(Self { partition: PartitionId(partition.get()), live, back, credit: credit.get() })
    }
}

impl Layout for Counted {
    const LIMITS: Limits = Limits::fields::<[U64; 3]>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&[self.live.0, self.back.0, self.credit].map(U64::new));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [live, back, credit] = reader.get::<[U64; 3]>()?.map(U64::get);
        Ok(Self { live: Sequence(live), back: Sequence(back), credit })
    }
}

impl Layout for Refused {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.epoch.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { epoch: Epoch(reader.get::<U64>()?.get()) })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListedMeta {
    partition: U64,
    home: StampMeta,
    is_last: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryMeta {
    stamp: StampMeta,
    extent: ExtentMeta,
}

impl Layout for Listed {
    const LIMITS: Limits = Limits::fields::<ListedMeta>().and_many::<EntryMeta>(COPIES_PER_LIST_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("copies of a list", self.copies.len(), COPIES_PER_LIST_MAX)?;
        let (partition, home, is_last) = (self.partition.0.into(), self.home.into(), u32::from(self.is_last).into());
        meta.put(&ListedMeta { partition, home, is_last });
        let entry = |it: &Entry| EntryMeta { stamp: it.stamp.into(), extent: it.extent.into() };
        meta.put_all(self.copies.iter().map(entry));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let ListedMeta { partition, home, is_last } = reader.get()?;
        let home = home.into();
        let is_last = flag("end of a list", *is_last)?;
        let entries = reader.rest::<EntryMeta>()?.iter();
        let copies = entries.map(|it| Ok(Entry { stamp: (&it.stamp).into(), extent: extent(&it.extent)? }));
        let copies = copies.collect::<Result<Vec<_>, _>>()?;
        check_order("copies of a list", copies.iter().map(|it| it.stamp))?;
        Ok(Self { partition: PartitionId(partition.get()), home, copies, is_last })
    }
}

impl Layout for ListVolumes {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.from.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { from: VolumeId(reader.get::<U64>()?.get()) })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct VolumesMeta {
    partition: U64,
    is_last: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeldMeta {
    volume: U64,
    epoch: U64,
    revision: U64,
    last: StampMeta,
    bytes: U64,
}

impl Layout for Volumes {
    const LIMITS: Limits = Limits::fields::<VolumesMeta>().and_many::<HeldMeta>(VOLUMES_PER_ANSWER_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("volumes of an answer", self.volumes.len(), VOLUMES_PER_ANSWER_MAX)?;
        meta.put(&VolumesMeta { partition: self.partition.0.into(), is_last: u32::from(self.is_last).into() });
        let held = |it: &HeldVolume| HeldMeta {
            volume: it.volume.0.into(),
            epoch: it.epoch.0.into(),
            revision: it.revision.into(),
            last: it.last.into(),
            bytes: it.bytes.into(),
        };
        meta.put_all(self.volumes.iter().map(held));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let VolumesMeta { partition, is_last } = reader.get()?;
        let is_last = flag("end of volumes", *is_last)?;
        let held = |it: &HeldMeta| HeldVolume {
            volume: VolumeId(it.volume.get()),
            epoch: Epoch(it.epoch.get()),
            revision: it.revision.get(),
            last: (&it.last).into(),
            bytes: it.bytes.get(),
        };
        let volumes = reader.rest::<HeldMeta>()?.iter().map(held).collect::<Vec<_>>();
        check_order("volumes of an answer", volumes.iter().map(|it| it.volume))?;
        Ok(Self { partition: PartitionId(partition.get()), volumes, is_last })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct KeptMeta {
    stamp: StampMeta,
    offset: U64,
    len: U64,
    content: U32,
    is_there: U32,
}

impl Layout for Kept {
    const LIMITS: Limits = Limits::fields::<KeptMeta>().with_body(VOLUME_WRITE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let none = (Extent { offset: 0, len: 0 }, Content::Trim);
        let (extent, content) = self.record.as_ref().unwrap_or(&none);
        put_content(content)?;
        meta.put(&KeptMeta {
            stamp: self.stamp.into(),
            offset: extent.offset.into(),
            len: extent.len.into(),
            content: content_code(content),
            is_there: u32::from(self.record.is_some()).into(),
        });
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.record.as_ref().and_then(|(_, content)| body(content)).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let KeptMeta { stamp, offset, len, content, is_there } = reader.get()?;
        let stamp = stamp.into();
        if !flag("whether a copy is there", *is_there)? {
            return Ok(Self { stamp, record: None });
        }
        let extent = extent(&ExtentMeta { offset: *offset, len: *len })?;
        let content = get_content(reader, *content, extent)?;
        Ok(Self { stamp, record: Some((extent, content)) })
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

empty! { Leaving Forget }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;
    use crate::Direction;
    use crate::{HEADER_BYTES, Inbox, frames_of};
    use alloc::vec;
    use protocol::{Message, Parcel};
    use types::GoodbyeReason;

    const STAMP: Stamp = Stamp { epoch: Epoch(1), sequence: Sequence(2), flush: FlushEpoch(3) };
    const EXTENT: Extent = Extent { offset: 4096, len: 5 };

    fn pass<M: Direction + Clone>(says: &'static dyn Codec, hears: &'static dyn Codec, message: M) {
        let bytes = frames_of(says, &Parcel::new(message.clone())).unwrap();
        assert_eq!(Inbox::within_session(hears).next(&mut &bytes[..]), Ok(Some(Parcel::new(message))));
    }

    fn hear(hears: &'static dyn Codec, bytes: &[u8]) -> WireError {
        Inbox::within_session(hears).next(&mut &bytes[..]).expect_err("it is none")
    }

    fn data() -> Content {
        Content::Data(Bytes::from_static(b"hello"))
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        let record = |content| Record { stamp: STAMP, extent: EXTENT, content };
        let to: Vec<ToHolder> = vec![
            Open { volume: VolumeId(7), epoch: Epoch(1), revision: 8, home: STAMP }.into(),
            Copy { stream: Stream::Live, record: record(data()) }.into(),
            Copy { stream: Stream::Back, record: record(Content::Trim) }.into(),
            Copy { stream: Stream::Live, record: record(Content::Zero) }.into(),
            Free { through: STAMP }.into(),
            Forget.into(),
            List { volume: VolumeId(7), epoch: Epoch(2), after: Stamp::ZERO }.into(),
            Fetch { stamp: STAMP }.into(),
            ListVolumes { from: VolumeId(7) }.into(),
            Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
        ];
        for message in to {
            pass(OWNER, HOLDER, message);
        }
        let entry = |sequence| Entry { stamp: Stamp { sequence: Sequence(sequence), ..STAMP }, extent: EXTENT };
        let held =
            |volume| HeldVolume { volume: VolumeId(volume), epoch: Epoch(4), revision: 8, last: STAMP, bytes: 4096 };
        let from: Vec<FromHolder> = vec![
            Volumes { partition: PartitionId(9), volumes: vec![held(7), held(8)], is_last: true }.into(),
            Volumes { partition: PartitionId(9), volumes: vec![], is_last: false }.into(),
            Opened { partition: PartitionId(9), live: Sequence(1), back: Sequence(2), credit: u64::MAX }.into(),
            Counted { live: Sequence(1), back: Sequence(0), credit: 4096 }.into(),
            Refused { epoch: Epoch(4) }.into(),
            Listed { partition: PartitionId(9), home: STAMP, copies: vec![entry(1), entry(2)], is_last: true }.into(),
            Listed { partition: PartitionId(9), home: STAMP, copies: vec![], is_last: false }.into(),
            Kept { stamp: STAMP, record: Some((EXTENT, data())) }.into(),
            Kept { stamp: STAMP, record: None }.into(),
            Leaving.into(),
        ];
        for message in from {
            pass(HOLDER, OWNER, message);
        }
    }

    #[test]
    fn contents_have_the_length_of_their_extent() {
        let copy = Copy { stream: Stream::Live, record: Record { stamp: STAMP, extent: EXTENT, content: data() } };
        let bytes = frames_of(OWNER, &Parcel::new(ToHolder::from(copy))).unwrap();
        let length_at = HEADER_BYTES + size_of::<StampMeta>() + size_of::<U64>();
        for (length, what, got) in
            [(0u64, "length of an extent", 0), (u64::MAX, "length of an extent", u64::MAX), (4, "bytes of a write", 5)]
        {
            let mut bytes = bytes.clone();
            bytes[length_at..][..8].copy_from_slice(&length.to_le_bytes());
            assert_eq!(hear(HOLDER, &bytes), WireError::Code { what, got });
        }
        let code_at = length_at + size_of::<U64>();
        for (at, what) in [(code_at, "content of a write"), (code_at + size_of::<U32>(), "stream")] {
            let mut bytes = bytes.clone();
            bytes[at] = 9;
            assert_eq!(hear(HOLDER, &bytes), WireError::Code { what, got: 9 });
        }
    }

    #[test]
    fn a_list_is_in_order_and_bounded() {
        let entry = Entry { stamp: STAMP, extent: EXTENT };
        let listed =
            |copies| FromHolder::from(Listed { partition: PartitionId(9), home: STAMP, copies, is_last: true });
        let twice = frames_of(HOLDER, &Parcel::new(listed(vec![entry, entry]))).unwrap();
        assert_eq!(hear(OWNER, &twice), WireError::Order { what: "copies of a list" });
        let held = HeldVolume { volume: VolumeId(7), epoch: Epoch(1), revision: 1, last: STAMP, bytes: 1 };
        let volumes = |volumes| FromHolder::from(Volumes { partition: PartitionId(9), volumes, is_last: true });
        let twice = frames_of(HOLDER, &Parcel::new(volumes(vec![held; 2]))).unwrap();
        assert_eq!(hear(OWNER, &twice), WireError::Order { what: "volumes of an answer" });
        let many = listed(vec![entry; COPIES_PER_LIST_MAX + 1]).encode(&mut Batch::default());
        assert!(matches!(many, Err(WireError::Count { .. })));
    }

    #[test]
    fn a_write_that_is_too_large_is_not_sent() {
        let len = VOLUME_WRITE_BYTES_MAX + 1;
        let content = Content::Data(vec![0; len].into());
        let record = Record { stamp: STAMP, extent: Extent { offset: 0, len: len as u64 }, content };
        let copy = ToHolder::from(Copy { stream: Stream::Live, record });
        assert!(matches!(copy.encode(&mut Batch::default()), Err(WireError::Count { .. })));
    }

    #[test]
    fn every_goodbye_is_known_for_one() {
        let goodbye = Goodbye { reason: GoodbyeReason::Done, text: "ends".into() };
        assert!(ToHolder::from(goodbye.clone()).goodbye().is_some() && FromHolder::from(goodbye).goodbye().is_some());
    }
}
