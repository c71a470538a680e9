//! The family of the volumes front end: the owner of a volume, or a host that takes it over, with the holders of
//! copies.
//!
//! ```text
//!   owner                                  holder                                host that takes over
//!     | Open{volume, epoch} --------------> |                                        |
//!     | <-- Opened{partition, live, back, credit}                                    |
//!     | Copy{stamp, content} * -----------> |   on stable media                      |
//!     | <--------- Counted{live, back, credit}                                       |
//!     | Free{through} --------------------> |   what is home                         |
//!     |                                     | <-------- List{volume, epoch + 1, after}
//!     | <-------------- Refused{epoch + 1}  |   from now on                          |
//!     |                                     |   Listed{partition, home, copies} ---> |
//!     |                                     | <------------------------ Fetch{stamp} |
//!     |                                     |   Kept{stamp, content} --------------> |
//!
//!   operator                               holder
//!     | ListVolumes{from} ----------------> |
//!     | <--------------- Volumes{partition, volumes *, is_last}
//! ```
//! An owner says everything to a holder in one order, so what a holder has of a stream is told by one number. There are
//! two streams: *live* are the writes from some write on, in order; *back* are those before it, which a holder that
//! takes the place of another one is sent at a bounded rate. A holder that is asked for its list answers when all that
//! it has taken before is on stable media, and so is the epoch under which it was asked.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOLDER`] | a holder | `ToHolder` | `FromHolder` |
//! | [`OWNER`] | an owner, or a host that takes over | `FromHolder` | `ToHolder` |

use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::check_count;
use framing::{
    Codec, End, Field, InOrder, Keyed, Layout, Limits, Meta, Reader, WireError, family, fields, messages, number_fields,
};
use machine::Goodbye;
use types::limits::{COPIES_PER_LIST_MAX, VOLUME_COPY_BYTES, VOLUME_WRITE_BYTES_MAX, VOLUMES_PER_ANSWER_MAX};

/// A volume, by its number, which is drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u64);

/// A replica partition: where a holder keeps copies. Its number is drawn at random when it is made, so one that lost
/// its device and comes back empty is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u64);

/// The number of an ownership of a volume: it grows with each attachment and each takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after it. No volume gets to the last one, but a peer may say anything: after that comes none.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The number of a write within its epoch, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The one after it; see [`Epoch::next`].
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one before it; of the first, that is none.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// The number of the writes between two flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlushEpoch(pub u64);

fields! {
    /// The place of a write among all writes of its volume. A later one is greater.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Stamp {
        /// Its owner's epoch.
        pub epoch: Epoch,
        /// Its number in the epoch.
        pub sequence: Sequence,
        /// Its flush epoch, which never goes back within an epoch.
        pub flush: FlushEpoch,
    }
}

impl Stamp {
    /// Before all writes.
    pub const ZERO: Self = Self { epoch: Epoch(0), sequence: Sequence(0), flush: FlushEpoch(0) };

    /// Before all writes of an epoch, and after those of the epochs before it.
    pub const fn begin(epoch: Epoch) -> Self {
        Self { epoch, ..Self::ZERO }
    }
}

/// A part of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub len: u64,
}

impl Extent {
    /// Where it ends, if a volume can reach as far.
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// The contents that a write gives to its extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes, as many as the extent has.
    Data(Bytes),
    /// Nothing that anybody needs: it reads as zeros, and takes no room.
    Trim,
    /// Zeros.
    Zero,
}

impl Content {
    /// The bytes that it takes in a log.
    pub fn len(&self) -> u64 {
        if let Self::Data(data) = self { data.len() as u64 } else { 0 }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The room that a copy of it is counted to take at its holder.
    pub fn copy_bytes(&self) -> u64 {
        self.len() + VOLUME_COPY_BYTES
    }

    /// Whether it can be that of an extent.
    pub fn fits(&self, extent: Extent) -> bool {
        let is_whole = !matches!(self, Self::Data(data) if data.len() as u64 != extent.len);
        is_whole && extent.len > 0 && extent.end().is_some()
    }
}

/// A write, as a log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub stamp: Stamp,
    /// Where it writes.
    pub extent: Extent,
    /// The contents.
    pub content: Content,
}

/// A stream of copies to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// The writes from some write on.
    Live,
    /// The ones before it.
    Back,
}

messages! {
    /// An owner begins to send copies. A holder refuses those of older epochs from now on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Open {
        /// Of this volume.
        pub volume: VolumeId,
        /// The owner's epoch.
        pub epoch: Epoch,
        /// The revision of the registry in which the holder stands.
        pub revision: u64,
        /// Everything up to here is home.
        pub home: Stamp,
    }
}

/// A copy of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The stream that it is of.
    pub stream: Stream,
    /// The write.
    pub record: Record,
}

messages! {
    /// Everything up to here is home, durably: its copies are no longer needed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Free {
        /// The last of them.
        pub through: Stamp,
    }
}

messages! {
    /// The registry knows of this holder no more: nothing that it keeps of the volume is needed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Forget;
}

messages! {
    /// A host takes a volume over, and asks for the list of the copies behind this one. A holder refuses copies of
    /// older epochs from now on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct List {
        /// The volume.
        pub volume: VolumeId,
        /// The new epoch.
        pub epoch: Epoch,
        /// Those up to here are not asked for.
        pub after: Stamp,
    }

    /// An operator asks of which volumes there are copies, by their numbers. It begins no epoch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListVolumes {
        /// From this number on.
        pub from: VolumeId,
    }

    /// A host that takes over asks for a copy that was listed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fetch {
        /// The write.
        pub stamp: Stamp,
    }

    /// A holder takes copies of an owner.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Opened {
        /// Where it keeps them.
        pub partition: PartitionId,
        /// The last copy of the owner's epoch that it counts in the live stream, and in the other one; 0 if none.
        pub live: Sequence,
        /// See `live`.
        pub back: Sequence,
        /// The room that it has reserved: what it takes of this session in all.
        pub credit: u64,
    }

    /// A holder has everything of the streams through here on stable media.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Counted {
        /// The last copy of the live stream.
        pub live: Sequence,
        /// And of the other one.
        pub back: Sequence,
        /// The room for this session in all, from its begin.
        pub credit: u64,
    }

    /// A newer epoch of the volume has begun.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Refused {
        /// The newest that the holder has seen.
        pub epoch: Epoch,
    }
}

fields! {
    /// A copy, without its contents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry {
        /// The write's place.
        pub stamp: Stamp,
        /// Where it writes.
        pub extent: Extent,
    }
}

messages! {
    /// The copies that a holder keeps, in order, or the next part of them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listed {
        /// Where they are.
        pub partition: PartitionId,
        /// Everything up to here was home, as the holder was told; it has freed that.
        pub home: Stamp,
        /// Whether there are no more.
        pub is_last: bool,
        /// The copies.
        pub copies: Vec<Entry> as InOrder<COPIES_PER_LIST_MAX>,
    }
}

fields! {
    /// A volume that a holder knows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HeldVolume {
        /// The volume.
        pub volume: VolumeId,
        /// The newest epoch that the holder has seen.
        pub epoch: Epoch,
        /// The newest revision of the registry in which it is known to stand.
        pub revision: u64,
        /// The last write that it has a copy of; [`Stamp::ZERO`] if it has none.
        pub last: Stamp,
        /// The room that the copies take.
        pub bytes: u64,
    }
}

messages! {
    /// The volumes that a holder knows, or as many of them as fit.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Volumes {
        /// Where their copies are.
        pub partition: PartitionId,
        /// Whether there are none behind these.
        pub is_last: bool,
        /// By their numbers, each above the one before.
        pub volumes: Vec<HeldVolume> as InOrder<VOLUMES_PER_ANSWER_MAX>,
    }
}

/// A copy that was asked for, or `None` if the holder does not have it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The write that was asked for.
    pub stamp: Stamp,
    /// Where it writes, and what.
    pub record: Option<(Extent, Content)>,
}

messages! {
    /// A holder wants to leave: its copies should be moved elsewhere first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaving;
}

number_fields! { VolumeId(u64) PartitionId(u64) Epoch(u64) Sequence(u64) FlushEpoch(u64) }

/// An extent of a volume has a length and an end.
impl Field for Extent {
    const BYTES: usize = 2 * u64::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (self.offset, self.len).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::new(Field::get(what, reader)?)
    }
}

impl Extent {
    fn new((offset, len): (u64, u64)) -> Result<Self, WireError> {
        let extent = Self { offset, len };
        let is_one = len > 0 && extent.end().is_some();
        is_one.then_some(extent).ok_or(WireError::Code { what: "length of an extent", got: len })
    }
}

impl Keyed for Entry {
    type Key = Stamp;

    fn key(&self) -> Stamp {
        self.stamp
    }
}

impl Keyed for HeldVolume {
    type Key = VolumeId;

    fn key(&self) -> VolumeId {
        self.volume
    }
}

const DATA: u32 = 0;
const TRIM: u32 = 1;
const ZERO: u32 = 2;

/// The content of an extent becomes a number; its bytes are the body.
impl Content {
    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::Data(_) => DATA,
            Self::Trim => TRIM,
            Self::Zero => ZERO,
        }
    }

    pub(crate) fn body(&self) -> Option<&Bytes> {
        if let Self::Data(data) = self { Some(data) } else { None }
    }

    pub(crate) fn of_code(code: u32, extent: Extent, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let content = match code {
            DATA => Self::Data(reader.bytes_rest()),
            TRIM => Self::Trim,
            ZERO => Self::Zero,
            got => return Err(WireError::Code { what: "content of a write", got: got.into() }),
        };
        let error = WireError::Code { what: "bytes of a write", got: content.len() };
        if content.fits(extent) { Ok(content) } else { Err(error) }
    }
}

/// The write's place, its extent, what its content is, and whether it is of the stream that comes back.
impl Layout for Copy {
    const LIMITS: Limits =
        Limits::bytes(Stamp::BYTES + Extent::BYTES + 2 * u32::BYTES).with_body(VOLUME_WRITE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let Record { stamp, extent, content } = &self.record;
        check_count("bytes of a write", content.len() as usize, VOLUME_WRITE_BYTES_MAX)?;
        stamp.put(meta);
        extent.put(meta);
        content.code().put(meta);
        (self.stream == Stream::Back).put(meta);
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.record.content.body().into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (stamp, extent) = Field::get("write", reader)?;
        let (code, is_back) = Field::get("stream", reader)?;
        let content = Content::of_code(code, extent, reader)?;
        let stream = if is_back { Stream::Back } else { Stream::Live };
        Ok(Self { stream, record: Record { stamp, extent, content } })
    }
}

/// As [`Copy`], and whether the copy is there: if not, all but its stamp is zero.
impl Layout for Kept {
    const LIMITS: Limits = <Copy as Layout>::LIMITS;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let none = (Extent { offset: 0, len: 0 }, Content::Trim);
        let (extent, content) = self.record.as_ref().unwrap_or(&none);
        check_count("bytes of a write", content.len() as usize, VOLUME_WRITE_BYTES_MAX)?;
        self.stamp.put(meta);
        extent.put(meta);
        content.code().put(meta);
        self.record.is_some().put(meta);
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.record.as_ref().and_then(|(_, content)| content.body()).into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (stamp, place) = <(Stamp, (u64, u64))>::get("copy", reader)?;
        let (code, is_there) = <(u32, bool)>::get("whether a copy is there", reader)?;
        if !is_there {
            return Ok(Self { stamp, record: None });
        }
        let extent = Extent::new(place)?;
        let content = Content::of_code(code, extent, reader)?;
        Ok(Self { stamp, record: Some((extent, content)) })
    }
}

family! {
    of "holder";

    /// The messages to a holder.
    pub enum ToHolder, heard by "holder", in order {
        /// An owner begins.
        1 Open,
        /// Sends a copy.
        2 Copy,
        /// Needs copies no more.
        3 Free,
        /// A host that takes over wants a list.
        4 List,
        /// Wants a copy.
        5 Fetch,
        /// Ends the session, with the reason.
        39 Goodbye,
        /// Needs none at all.
        13 Forget,
        /// An operator asks for what there is.
        20 ListVolumes,
    }

    /// The messages of a holder.
    pub enum FromHolder, heard by "owner", in order {
        /// It takes copies.
        6 Opened,
        /// Has them.
        7 Counted,
        /// Takes none of this epoch.
        8 Refused,
        /// Its list.
        9 Listed,
        /// A copy.
        10 Kept,
        /// It wants to leave.
        11 Leaving,
        /// The volumes that it knows.
        21 Volumes,
        /// Ends the session, with the reason.
        39 Goodbye,
    }
}

/// A holder's end of a link.
pub const HOLDER: &dyn Codec = End::<ToHolder, FromHolder>::CODEC;

/// The end of an owner, or of a host that takes over.
pub const OWNER: &dyn Codec = End::<FromHolder, ToHolder>::CODEC;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use framing::{Batch, Direction, HEADER_BYTES, Inbox, Outbox, frames_of};
    use machine::{Message, Parcel};
    use types::GoodbyeReason;
    use types::limits::{FRAME_BYTES_MAX, PIECE_BYTES_MAX};

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
        let length_at = HEADER_BYTES + Stamp::BYTES + u64::BYTES;
        for (length, what, got) in
            [(0u64, "length of an extent", 0), (u64::MAX, "length of an extent", u64::MAX), (4, "bytes of a write", 5)]
        {
            let mut bytes = bytes.clone();
            bytes[length_at..][..8].copy_from_slice(&length.to_le_bytes());
            assert_eq!(hear(HOLDER, &bytes), WireError::Code { what, got });
        }
        let code_at = length_at + u64::BYTES;
        for (at, what) in [(code_at, "content of a write"), (code_at + u32::BYTES, "stream")] {
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
        assert_eq!(hear(OWNER, &twice), WireError::Order { what: "copies" });
        let held = HeldVolume { volume: VolumeId(7), epoch: Epoch(1), revision: 1, last: STAMP, bytes: 1 };
        let volumes = |volumes| FromHolder::from(Volumes { partition: PartitionId(9), volumes, is_last: true });
        let twice = frames_of(HOLDER, &Parcel::new(volumes(vec![held; 2]))).unwrap();
        assert_eq!(hear(OWNER, &twice), WireError::Order { what: "volumes" });
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

    /// Nothing in this family passes anything, so much leaves together.
    #[test]
    fn copies_leave_together() {
        let copy = |sequence: u64, bytes: usize| {
            let content = Content::Data(Bytes::from(vec![sequence as u8; bytes]));
            let stamp = Stamp { sequence: Sequence(sequence), ..STAMP };
            let record = Record { stamp, extent: Extent { offset: 0, len: bytes as u64 }, content };
            Parcel::new(ToHolder::from(Copy { stream: Stream::Live, record }))
        };
        let mut out = Outbox::new(OWNER);
        for at in 1..=40 {
            out.push(&copy(at, [4096, 200_000, 70_000, 100][at as usize % 4])).unwrap();
        }
        let (all, mut batches) = (out.bytes(), 0);
        while !out.is_empty() {
            let mut batch = Batch::default();
            out.next(&mut batch);
            batches += 1;
            // A message that is one frame may exceed what is together already.
            assert!(batch.bytes() <= 17 * PIECE_BYTES_MAX + FRAME_BYTES_MAX);
        }
        assert!(batches <= 1 + all / (15 * PIECE_BYTES_MAX), "{batches} batches of {all} bytes");
    }
}
