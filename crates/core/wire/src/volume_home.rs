//! The family of a volume's home in another process.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOME`] | homes of volumes | `ToHome` | `FromHome` |
//! | [`OWNER`] | an owner, or a host that takes over | `FromHome` | `ToHome` |
//!
//! Homes may listen at the address of a store: no number of a message that may come first here is one there.

use crate::codec::{Codec, End as LinkEnd};
use crate::family::family;
use crate::field::{check_count, cut, flag};
use crate::layout::{Layout, Meta, Reader};
use crate::volumes::{ExtentMeta, StampMeta, body, content_code, extent, get_content};
use crate::{Limits, WireError};
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::Goodbye;
use protocol::volume_home::{
    Answered, Begin, BlockSums, Create, Done, Durable, End, Fence, Fenced, FoundHome, FromHome, Homes, Keep, ListHomes,
    Map, NotDone, Open, Opened, Put, Read, Recall, Recalled, Remove, RemoveHome, Resize, Run, Runs, Scrub, Scrubbed,
    Snapshot, ToHome, Took, Unread,
};
use protocol::volumes::{Epoch, Extent, VolumeId};
use types::limits::{
    GOODBYE_TEXT_BYTES_MAX, VOLUME_ENTRY_BYTES_MAX, VOLUME_HOMES_PER_ANSWER_MAX, VOLUME_PART_BYTES_MAX,
    VOLUME_RUNS_PER_ANSWER_MAX, VOLUME_SUMS_PER_ANSWER_MAX,
};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The blocks of a volume.
const BLOCK_BYTES: u64 = 4096;

/// The end of homes.
pub const HOME: &dyn Codec = LinkEnd::<ToHome, FromHome>::CODEC;

/// The end of an owner, or of a host that takes over.
pub const OWNER: &dyn Codec = LinkEnd::<FromHome, ToHome>::CODEC;

family! {
    ToHome, heard by "home", opened by "Open, Create, ListHomes or Goodbye" {
        129 Open opens,
        130 Create opens,
        131 Fence,
        132 Begin,
        133 Put,
        134 End,
        135 Read,
        136 Map,
        137 Resize,
        138 Snapshot,
        139 Remove,
        149 ListHomes opens,
        150 RemoveHome,
        160 Keep,
        161 Recall,
        163 Scrub,
        148 Goodbye opens,
    }
    FromHome, heard by "owner", opened by "Opened, NotDone, Homes or Goodbye" {
        140 Opened opens,
        141 Fenced,
        142 Took,
        143 Durable,
        144 Done,
        145 NotDone opens,
        146 Answered,
        147 Runs,
        151 Homes opens,
        162 Recalled,
        164 Scrubbed,
        165 Unread,
        148 Goodbye opens,
    }
}

/// A message that is some numbers.
macro_rules! numbers {
    ($($message:ident { $($field:ident: $wrap:expr, $unwrap:expr;)+ })+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::fields::<[U64; [$(stringify!($field)),+].len()]>();

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                meta.put(&[$(U64::new($unwrap(self.$field))),+]);
                Ok(())
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let &[$($field),+] = reader.get::<[U64; [$(stringify!($field)),+].len()]>()?;
                Ok(Self { $($field: $wrap($field.get())),+ })
            }
        })+
    };
}

const fn same(number: u64) -> u64 {
    number
}

const fn of_volume(VolumeId(number): VolumeId) -> u64 {
    number
}

const fn of_epoch(Epoch(number): Epoch) -> u64 {
    number
}

numbers! {
    Open { volume: VolumeId, of_volume; }
    Create { volume: VolumeId, of_volume; size: same, same; }
    Fence { epoch: Epoch, of_epoch; owner: same, same; }
    Resize { epoch: Epoch, of_epoch; size: same, same; }
    Snapshot { to: VolumeId, of_volume; }
    Remove { epoch: Epoch, of_epoch; }
    Took { bytes: same, same; }
    ListHomes { from: VolumeId, of_volume; }
    RemoveHome { volume: VolumeId, of_volume; unwritten_s: same, same; }
    Recall { id: same, same; }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BeginMeta {
    epoch: U64,
    through: StampMeta,
    is_joined: U32,
}

impl Layout for Begin {
    const LIMITS: Limits = Limits::fields::<BeginMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let Self { epoch, through, is_joined } = *self;
        let is_joined = u32::from(is_joined).into();
        meta.put(&BeginMeta { epoch: epoch.0.into(), through: through.into(), is_joined });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let BeginMeta { epoch, through, is_joined } = reader.get()?;
        let is_joined = flag("whether a write-back is joined", *is_joined)?;
        Ok(Self { epoch: Epoch(epoch.get()), through: through.into(), is_joined })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PutMeta {
    extent: ExtentMeta,
    content: U32,
}

impl Layout for Put {
    const LIMITS: Limits = Limits::fields::<PutMeta>().with_body(VOLUME_PART_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of a part", self.content.len() as usize, VOLUME_PART_BYTES_MAX)?;
        meta.put(&PutMeta { extent: self.extent.into(), content: content_code(&self.content) });
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        body(&self.content).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let PutMeta { extent: place, content } = reader.get()?;
        let extent = extent(place)?;
        Ok(Self { extent, content: get_content(reader, *content, extent)? })
    }
}

impl Layout for End {
    const LIMITS: Limits = Limits::fields::<U32>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U32::new(self.is_whole.into()));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { is_whole: flag("whether a write-back is whole", *reader.get()?)? })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AskMeta {
    id: U64,
    extent: ExtentMeta,
}

fn put_question(meta: &mut Meta<'_>, id: u64, extent: Extent) {
    meta.put(&AskMeta { id: id.into(), extent: extent.into() });
}

fn get_question(reader: &mut Reader<'_>) -> Result<(u64, Extent), WireError> {
    let AskMeta { id, extent: place } = reader.get()?;
    Ok((id.get(), extent(place)?))
}

impl Layout for Read {
    const LIMITS: Limits = Limits::fields::<AskMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_question(meta, self.id, self.extent);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (id, extent) = get_question(reader)?;
        if extent.len > VOLUME_PART_BYTES_MAX as u64 {
            return Err(WireError::Code { what: "length of a read", got: extent.len });
        }
        Ok(Self { id, extent })
    }
}

impl Layout for Map {
    const LIMITS: Limits = Limits::fields::<AskMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_question(meta, self.id, self.extent);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (id, extent) = get_question(reader)?;
        Ok(Self { id, extent })
    }
}

impl Layout for Scrub {
    const LIMITS: Limits = Limits::fields::<AskMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_question(meta, self.id, self.extent);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (id, extent) = get_question(reader)?;
        let is_whole = extent.offset.is_multiple_of(BLOCK_BYTES) && extent.len.is_multiple_of(BLOCK_BYTES);
        if !is_whole || extent.len > VOLUME_SUMS_PER_ANSWER_MAX as u64 * BLOCK_BYTES {
            return Err(WireError::Code { what: "extent of a scrub", got: extent.len });
        }
        Ok(Self { id, extent })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SumsMeta {
    kept: U32,
    read: U32,
}

impl Layout for Scrubbed {
    const LIMITS: Limits = Limits::fields::<U64>().and_many::<SumsMeta>(VOLUME_SUMS_PER_ANSWER_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("checksums of blocks", self.sums.len(), VOLUME_SUMS_PER_ANSWER_MAX)?;
        meta.put(&U64::new(self.id));
        meta.put_all(self.sums.iter().map(|sums| SumsMeta { kept: sums.kept.into(), read: sums.read.into() }));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = reader.get::<U64>()?.get();
        let sums = |meta: &SumsMeta| BlockSums { kept: meta.kept.get(), read: meta.read.get() };
        Ok(Self { id, sums: reader.rest::<SumsMeta>()?.iter().map(sums).collect() })
    }
}

/// The question's number, then a text to the end of the meta.
impl Layout for Unread {
    const LIMITS: Limits = Limits::fields::<U64>().and_up_to(GOODBYE_TEXT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.id));
        meta.put(cut(&self.why, GOODBYE_TEXT_BYTES_MAX).as_bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = reader.get::<U64>()?.get();
        let why = core::str::from_utf8(reader.rest::<u8>()?).map_err(|_| WireError::Text)?;
        Ok(Self { id, why: why.to_owned() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OpenedMeta {
    epoch: U64,
    owner: U64,
    generation: U64,
    mark: StampMeta,
    size: U64,
    window: U64,
}

impl Layout for Opened {
    const LIMITS: Limits = Limits::fields::<OpenedMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let Self { epoch, owner, generation, mark, size, window } = *self;
        let (epoch, mark) = (epoch.0.into(), mark.into());
        let (owner, generation, size, window) = (owner.into(), generation.into(), size.into(), window.into());
        meta.put(&OpenedMeta { epoch, owner, generation, mark, size, window });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let OpenedMeta { epoch, owner, generation, mark, size, window } = reader.get()?;
        let (epoch, owner, generation) = (Epoch(epoch.get()), owner.get(), generation.get());
        Ok(Self { epoch, owner, generation, mark: mark.into(), size: size.get(), window: window.get() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FencedMeta {
    epoch: U64,
    mark: StampMeta,
}

impl Layout for Fenced {
    const LIMITS: Limits = Limits::fields::<FencedMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&FencedMeta { epoch: self.epoch.0.into(), mark: self.mark.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let FencedMeta { epoch, mark } = reader.get()?;
        Ok(Self { epoch: Epoch(epoch.get()), mark: mark.into() })
    }
}

impl Layout for Durable {
    const LIMITS: Limits = Limits::fields::<StampMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&StampMeta::from(self.mark));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mark: &StampMeta = reader.get()?;
        Ok(Self { mark: mark.into() })
    }
}

impl Layout for Done {
    const LIMITS: Limits = Limits::fields::<()>();

    fn put(&self, _: &mut Meta<'_>) -> Result<(), WireError> {
        Ok(())
    }

    fn get(_: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self)
    }
}

const ENDED: u32 = 0;
const BUSY: u32 = 1;
const NO_VOLUME: u32 = 2;
const EXISTS: u32 = 3;
const GIVEN_UP: u32 = 4;
const FAILED: u32 = 5;
const RECENT: u32 = 6;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NotDoneMeta {
    why: U32,
    number: U64,
}

/// The reason's code and its number, then a text to the end of the meta.
impl Layout for NotDone {
    const LIMITS: Limits = Limits::fields::<NotDoneMeta>().and_up_to(GOODBYE_TEXT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let (why, number, text) = match self {
            Self::Ended(epoch) => (ENDED, epoch.0, ""),
            Self::Busy => (BUSY, 0, ""),
            Self::NoVolume => (NO_VOLUME, 0, ""),
            Self::Exists => (EXISTS, 0, ""),
            Self::GivenUp => (GIVEN_UP, 0, ""),
            Self::Recent(seconds) => (RECENT, *seconds, ""),
            Self::Failed(text) => (FAILED, 0, text.as_str()),
        };
        meta.put(&NotDoneMeta { why: why.into(), number: number.into() });
        meta.put(cut(text, GOODBYE_TEXT_BYTES_MAX).as_bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let NotDoneMeta { why, number } = reader.get()?;
        let text = core::str::from_utf8(reader.rest::<u8>()?).map_err(|_| WireError::Text)?;
        match (why.get(), number.get(), text) {
            (ENDED, epoch, "") => Ok(Self::Ended(Epoch(epoch))),
            (BUSY, 0, "") => Ok(Self::Busy),
            (NO_VOLUME, 0, "") => Ok(Self::NoVolume),
            (EXISTS, 0, "") => Ok(Self::Exists),
            (GIVEN_UP, 0, "") => Ok(Self::GivenUp),
            (RECENT, seconds, "") => Ok(Self::Recent(seconds)),
            (FAILED, 0, text) => Ok(Self::Failed(text.to_owned())),
            (got, ..) => Err(WireError::Code { what: "reason of a home", got: got.into() }),
        }
    }
}

impl Layout for Answered {
    const LIMITS: Limits = Limits::fields::<U64>().with_body(VOLUME_PART_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of an answer", self.data.len(), VOLUME_PART_BYTES_MAX)?;
        meta.put(&U64::new(self.id));
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        Some(&self.data).filter(|data| !data.is_empty()).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { id: reader.get::<U64>()?.get(), data: reader.bytes_rest() })
    }
}

impl Layout for Keep {
    const LIMITS: Limits = Limits::fields::<[U64; 2]>().with_body(VOLUME_ENTRY_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of an entry", self.entry.len(), VOLUME_ENTRY_BYTES_MAX)?;
        meta.put(&[U64::new(self.epoch.0), U64::new(self.revision)]);
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        Some(&self.entry).filter(|entry| !entry.is_empty()).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [epoch, revision] = reader.get::<[U64; 2]>()?.map(U64::get);
        let entry = reader.bytes_rest();
        // Home has it on a line of a text.
        let text = core::str::from_utf8(&entry).ok().filter(|text| !text.contains('\n'));
        text.ok_or(WireError::Text)?;
        Ok(Self { epoch: Epoch(epoch), revision, entry })
    }
}

impl Layout for Recalled {
    const LIMITS: Limits = Limits::fields::<U64>().with_body(VOLUME_ENTRY_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of an entry", self.entry.len(), VOLUME_ENTRY_BYTES_MAX)?;
        meta.put(&U64::new(self.id));
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        Some(&self.entry).filter(|entry| !entry.is_empty()).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { id: reader.get::<U64>()?.get(), entry: reader.bytes_rest() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RunMeta {
    len: U64,
    is_hole: U32,
}

impl Layout for Runs {
    const LIMITS: Limits = Limits::fields::<U64>().and_many::<RunMeta>(VOLUME_RUNS_PER_ANSWER_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("runs of a volume", self.runs.len(), VOLUME_RUNS_PER_ANSWER_MAX)?;
        meta.put(&U64::new(self.id));
        meta.put_all(
            self.runs.iter().map(|run| RunMeta { len: run.len.into(), is_hole: u32::from(run.is_hole).into() }),
        );
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let id = reader.get::<U64>()?.get();
        let mut total = 0_u64;
        let run = |meta: &RunMeta| {
            let len = meta.len.get();
            let sum = total.checked_add(len).filter(|_| len > 0);
            total = sum.ok_or(WireError::Code { what: "length of a run", got: len })?;
            Ok(Run { len, is_hole: flag("whether a run is a hole", meta.is_hole)? })
        };
        let runs = reader.rest::<RunMeta>()?.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { id, runs })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FoundMeta {
    volume: U64,
    size: U64,
    disk_bytes: U64,
    unwritten_s: U64,
    is_whole: U32,
}

impl Layout for Homes {
    const LIMITS: Limits = Limits::fields::<U32>().and_many::<FoundMeta>(VOLUME_HOMES_PER_ANSWER_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("homes of an answer", self.homes.len(), VOLUME_HOMES_PER_ANSWER_MAX)?;
        meta.put(&U32::new(self.is_last.into()));
        meta.put_all(self.homes.iter().map(|home| FoundMeta {
            volume: home.volume.0.into(),
            size: home.size.into(),
            disk_bytes: home.disk_bytes.into(),
            unwritten_s: home.unwritten_s.into(),
            is_whole: u32::from(home.is_whole).into(),
        }));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let is_last = flag("whether homes are the last", *reader.get()?)?;
        let mut before = None;
        let home = |meta: &FoundMeta| {
            let FoundMeta { volume, size, disk_bytes, unwritten_s, is_whole } = meta;
            let volume = volume.get();
            // The next question is for those behind the last one: each answer has to come further.
            if before.replace(volume).is_some_and(|before| before >= volume) {
                return Err(WireError::Code { what: "order of homes", got: volume });
            }
            Ok(FoundHome {
                volume: VolumeId(volume),
                size: size.get(),
                disk_bytes: disk_bytes.get(),
                unwritten_s: unwritten_s.get(),
                is_whole: flag("whether a home is whole", *is_whole)?,
            })
        };
        let homes = reader.rest::<FoundMeta>()?.iter().map(home).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { homes, is_last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::store::{CLIENT, SERVER};
    use crate::{HEADER_BYTES, Inbox, frames_of};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use core::fmt::Write;
    use protocol::Parcel;
    use protocol::volumes::{Content, FlushEpoch, Sequence, Stamp};
    use types::GoodbyeReason;

    const STAMP: Stamp = Stamp { epoch: Epoch(1), sequence: Sequence(2), flush: FlushEpoch(3) };
    const EXTENT: Extent = Extent { offset: 4096, len: 5 };

    fn to_home() -> Vec<ToHome> {
        let put = |content| Put { extent: EXTENT, content };
        vec![
            Open { volume: VolumeId(7) }.into(),
            Create { volume: VolumeId(7), size: 4096 }.into(),
            Fence { epoch: Epoch(2), owner: 9 }.into(),
            Begin { epoch: Epoch(2), through: STAMP, is_joined: true }.into(),
            put(Content::Data(Bytes::from_static(b"hello"))).into(),
            put(Content::Trim).into(),
            put(Content::Zero).into(),
            End { is_whole: true }.into(),
            Read { id: 8, extent: EXTENT }.into(),
            Map { id: 8, extent: EXTENT }.into(),
            Resize { epoch: Epoch(2), size: 8192 }.into(),
            Snapshot { to: VolumeId(10) }.into(),
            Remove { epoch: Epoch(2) }.into(),
            Keep { epoch: Epoch(2), revision: 5, entry: Bytes::from_static(b"{}") }.into(),
            Recall { id: 8 }.into(),
            Scrub { id: 8, extent: Extent { offset: 4096, len: 8192 } }.into(),
            ListHomes { from: VolumeId(7) }.into(),
            RemoveHome { volume: VolumeId(7), unwritten_s: 60 }.into(),
            Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
        ]
    }

    fn found(volume: u64, is_whole: bool) -> FoundHome {
        FoundHome { volume: VolumeId(volume), size: 8192, disk_bytes: 4096, unwritten_s: 5, is_whole }
    }

    fn from_home() -> Vec<FromHome> {
        let run = |len, is_hole| Run { len, is_hole };
        vec![
            Opened { epoch: Epoch(2), owner: 9, generation: 11, mark: STAMP, size: 4096, window: 65536 }.into(),
            Fenced { epoch: Epoch(2), mark: STAMP }.into(),
            Took { bytes: 512 }.into(),
            Durable { mark: STAMP }.into(),
            Done.into(),
            NotDone::Ended(Epoch(3)).into(),
            NotDone::Busy.into(),
            NotDone::NoVolume.into(),
            NotDone::Exists.into(),
            NotDone::GivenUp.into(),
            NotDone::Recent(5).into(),
            NotDone::Failed("full".into()).into(),
            Answered { id: 8, data: Bytes::from_static(b"hello") }.into(),
            Answered { id: 8, data: Bytes::new() }.into(),
            Runs { id: 8, runs: vec![run(4096, true), run(512, false)] }.into(),
            Recalled { id: 8, entry: Bytes::from_static(b"{}") }.into(),
            Scrubbed { id: 8, sums: vec![BlockSums { kept: 0, read: 1 }, BlockSums { kept: 2, read: 3 }] }.into(),
            Unread { id: 8, why: "worn".into() }.into(),
            Homes { homes: vec![found(7, true), found(8, false)], is_last: true }.into(),
            Goodbye { reason: GoodbyeReason::Full, text: String::new() }.into(),
        ]
    }

    fn hear(hears: &'static dyn Codec, bytes: &[u8]) -> Result<Option<Parcel>, WireError> {
        Inbox::within_session(hears).next(&mut &bytes[..])
    }

    fn frames(message: impl Direction, says: &'static dyn Codec) -> Vec<u8> {
        frames_of(says, &Parcel::new(message)).unwrap()
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        for message in to_home() {
            assert_eq!(hear(HOME, &frames(message.clone(), OWNER)), Ok(Some(Parcel::new(message))));
        }
        for message in from_home() {
            assert_eq!(hear(OWNER, &frames(message.clone(), HOME)), Ok(Some(Parcel::new(message))));
        }
    }

    #[test]
    fn messages_have_their_golden_bytes() {
        let all = to_home().into_iter().map(|message| frames(message, OWNER));
        let all = all.chain(from_home().into_iter().map(|message| frames(message, HOME)));
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut text, byte| write!(text, "{byte:02x}").map(|()| text).unwrap())
        };
        let line = |frame: Vec<u8>| format!("{} {}", hex(&frame[..HEADER_BYTES]), hex(&frame[HEADER_BYTES..]));
        let line = |frame| line(frame).trim_end().into();
        let got: Vec<String> = all.map(line).collect();
        let golden: Vec<&str> = GOLDEN.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(got, golden);
    }

    #[test]
    fn whatever_is_cut_or_changed_is_refused_or_is_a_message() {
        for frame in to_home().into_iter().map(|message| frames(message, OWNER)) {
            for bit in HEADER_BYTES * 8..frame.len() * 8 {
                let mut bad = frame.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                // It does not panic, and gives a message or a reason.
                let _ = hear(HOME, &bad);
            }
            assert!(!matches!(hear(HOME, &frame[..frame.len() - 1]), Ok(Some(_))));
        }
        let read = Read { id: 1, extent: Extent { offset: 0, len: VOLUME_PART_BYTES_MAX as u64 + 1 } };
        let refused = hear(HOME, &frames(ToHome::from(read), OWNER));
        assert!(matches!(refused, Err(WireError::Code { what: "length of a read", .. })), "{refused:?}");
        for extent in [Extent { offset: 5, len: 4096 }, Extent { offset: 0, len: 4096 * 1025 }] {
            let refused = hear(HOME, &frames(ToHome::from(Scrub { id: 1, extent }), OWNER));
            assert!(matches!(refused, Err(WireError::Code { what: "extent of a scrub", .. })), "{refused:?}");
        }
        let runs = vec![Run { len: u64::MAX, is_hole: true }; 2];
        let refused = hear(OWNER, &frames(FromHome::from(Runs { id: 1, runs }), HOME));
        assert!(matches!(refused, Err(WireError::Code { what: "length of a run", .. })), "{refused:?}");
        let homes = vec![found(7, true), found(7, true)];
        let refused = hear(OWNER, &frames(FromHome::from(Homes { homes, is_last: false }), HOME));
        assert!(matches!(refused, Err(WireError::Code { what: "order of homes", .. })), "{refused:?}");
    }

    #[test]
    fn no_first_message_is_one_of_a_store_too() {
        let opens = |codec: &dyn Codec, number| codec.known(number).is_some_and(|kind| kind.may_open);
        for number in 0..=u8::MAX {
            assert!(!(opens(HOME, number) && opens(SERVER, number)), "{number}");
            assert!(!(opens(OWNER, number) && opens(CLIENT, number)), "{number}");
        }
    }

    /// The header, then the meta and the body.
    const GOLDEN: &str = "
        546881000800000000000000e7c5e9c3 0700000000000000
        546882001000000000000000c8024fcb 07000000000000000010000000000000
        5468830010000000000000000c8ead2c 02000000000000000900000000000000
        5468840024000000000000008ff80b64 020000000000000001000000000000000200000000000000030000000000000001000000
        5468850014000000050000003604d4e9 001000000000000005000000000000000000000068656c6c6f
        546885001400000000000000f37b3a4c 0010000000000000050000000000000001000000
        546885001400000000000000f37b3a4c 0010000000000000050000000000000002000000
        54688600040000000000000002f69b42 01000000
        546887001800000000000000f8bbda47 080000000000000000100000000000000500000000000000
        5468880018000000000000009cbd336d 080000000000000000100000000000000500000000000000
        5468890010000000000000007459f559 02000000000000000020000000000000
        54688a0008000000000000004815702b 0a00000000000000
        54688b00080000000000000087470295 0200000000000000
        5468a00010000000020000002b94ea7e 020000000000000005000000000000007b7d
        5468a100080000000000000098e449a1 0800000000000000
        5468a30018000000000000007e95c395 080000000000000000100000000000000020000000000000
        5468950008000000000000003399130d 0700000000000000
        54689600100000000000000006cd26bd 07000000000000003c00000000000000
        54689400080000000000000005bfe8d7 00000000656e6473
        54688c004000000000000000a321e44e 020000000000000009000000000000000b0000000000000001000000000000000200000000000000030000000000000000100000000000000000010000000000
        54688d002000000000000000e14b6e66 0200000000000000010000000000000002000000000000000300000000000000
        54688e000800000000000000c5ff4f44 0002000000000000
        54688f001800000000000000002040ae 010000000000000002000000000000000300000000000000
        5468900000000000000000004cc488e4 
        546891000c00000000000000441f7861 000000000300000000000000
        546891000c00000000000000441f7861 010000000000000000000000
        546891000c00000000000000441f7861 020000000000000000000000
        546891000c00000000000000441f7861 030000000000000000000000
        546891000c00000000000000441f7861 040000000000000000000000
        546891000c00000000000000441f7861 060000000500000000000000
        5468910010000000000000000389594f 05000000000000000000000066756c6c
        546892000800000005000000992e62b3 080000000000000068656c6c6f
        546892000800000000000000d87fc815 0800000000000000
        54689300200000000000000000e83342 0800000000000000001000000000000001000000000200000000000000000000
        5468a2000800000002000000c437d289 08000000000000007b7d
        5468a4001800000000000000c6e2d33b 080000000000000000000000010000000200000003000000
        5468a5000c00000000000000a63df812 0800000000000000776f726e
        546897004c0000000000000034e2dd21 01000000070000000000000000200000000000000010000000000000050000000000000001000000080000000000000000200000000000000010000000000000050000000000000000000000
        546894000400000000000000a8e786c5 07000000
    ";
}
