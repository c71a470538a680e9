//! The family of a volume's home in another process: the owner of a volume, or a host that takes it over, with home.
//!
//! ```text
//!   owner                                           home
//!     | Open{volume} -----------------------------> |
//!     | <--------- Opened{epoch, owner, generation, mark, size, window}
//!     | Fence{epoch, owner} ----------------------> |   older epochs write no more from now on
//!     | <-------------------------------- Fenced{epoch, mark}
//!     | Begin{epoch, through, is_joined} ---------> |
//!     | Put{extent, content} * -------------------> |   no more than the window ahead of Took
//!     | <-------------------------------- Took{bytes} *
//!     | End{is_whole} ----------------------------> |   synced, and then the mark
//!     | <-------------------------------- Durable{mark}
//!     | Read{id, extent} *, Map{id, extent} * ----> |
//!     | <-------------- Answered{id, data} *, Runs{id, runs} *, or Unread{id, why}
//!     | Scrub{id, extent} * ----------------------> |   read and checked there: nothing but sums comes back
//!     | <---------------- Scrubbed{id, sums} *, or Unread{id, why}
//!     | Keep{epoch, revision, entry}, Recall{id} -> |
//!     | <---------------- Done, Recalled{id, entry} |
//!
//!   operator                                        homes
//!     | ListHomes{from} --------------------------> |
//!     | <--------------------- Homes{homes *, is_last}
//!     | RemoveHome{volume, unwritten_s} ----------> |
//!     | <---------------------------- Done or NotDone |
//! ```
//! A session is of one volume, or with its first `ListHomes` of all: that has one question or command at a time. One of
//! a volume has one command at a time (`Fence`, a write-back from `Begin` on, `Resize`, `Snapshot`, `Remove`, `Keep`),
//! which has one answer: `Fenced`, `Durable`, `Done` or `NotDone`. Reads and other questions are beside that, many at a
//! time, and are answered in any order. `Open` may be said again, and is answered again: a heartbeat.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HOME`] | homes of volumes | `ToHome` | `FromHome` |
//! | [`OWNER`] | an owner, or a host that takes over | `FromHome` | `ToHome` |

use crate::messages::holder::{Content, Epoch, Extent, Stamp, VolumeId};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::{check_count, cut};
use framing::{
    Check, Checked, Codec, Data, End as LinkEnd, Field, InOrder, Keyed, Layout, Limits, Meta, Plain, Reader, Rest,
    Tail, WireError, family, fields, messages,
};
use machine::Goodbye;
use types::limits::{
    GOODBYE_TEXT_BYTES_MAX, VOLUME_ENTRY_BYTES_MAX, VOLUME_HOMES_PER_ANSWER_MAX, VOLUME_PART_BYTES_MAX,
    VOLUME_RUNS_PER_ANSWER_MAX, VOLUME_SUMS_PER_ANSWER_MAX,
};

/// The blocks of a volume.
const BLOCK_BYTES: u64 = 4096;

messages! {
    /// Opens the session, of a volume that home has; or asks whether home is there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Open {
        /// The volume.
        pub volume: VolumeId,
    }

    /// Makes a volume of zeros and opens the session. One that was just made like this counts as made.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Create {
        /// The volume.
        pub volume: VolumeId,
        /// Its size in bytes, of whole blocks.
        pub size: u64,
    }

    /// A newer epoch begins. An owner that says so again, as the answer was lost, is answered again; another one is
    /// refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fence {
        /// This one.
        pub epoch: Epoch,
        /// Its owner's number, which is drawn at random.
        pub owner: u64,
    }

    /// A write-back begins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Begin {
        /// The owner's epoch.
        pub epoch: Epoch,
        /// The last write that it has a part of.
        pub through: Stamp,
        /// Whether it is installed whole or not at all.
        pub is_joined: bool,
    }
}

/// A part of the write-back under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where, in whole blocks.
    pub extent: Extent,
    /// The contents.
    pub content: Content,
}

impl Put {
    /// The share of the window that it takes.
    pub fn cost(&self) -> u64 {
        self.content.copy_bytes()
    }
}

messages! {
    /// The write-back under way has no more parts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct End {
        /// Whether all of them have come. If not, it is given up.
        pub is_whole: bool,
    }

    /// Wants bytes of the volume.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Read {
        /// The question's number, for its answer.
        pub id: u64,
        /// Which.
        pub extent: Extent as Checked<Plain, Part>,
    }

    /// Wants to know where the volume has data, and where holes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Map {
        /// The question's number, for its answer.
        pub id: u64,
        /// In this part of it.
        pub extent: Extent,
    }

    /// Has home read blocks and compare them with their checksums: no more than
    /// [`VOLUME_SUMS_PER_ANSWER_MAX`](types::limits::VOLUME_SUMS_PER_ANSWER_MAX) of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Scrub {
        /// The question's number, for its answer.
        pub id: u64,
        /// Which, in whole blocks.
        pub extent: Extent as Checked<Plain, Blocks>,
    }

    /// Has home keep the registry's entry of the volume: if the registry is lost, it is made again of that.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Keep {
        /// The epoch of the entry.
        pub epoch: Epoch,
        /// Its revision: home keeps the newest.
        pub revision: u64,
        /// The entry, which home does not read: text without a line break.
        pub entry: Bytes as Checked<Data<VOLUME_ENTRY_BYTES_MAX>, Line>,
    }

    /// Wants the registry's entry, as home has kept it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Recall {
        /// The question's number, for its answer.
        pub id: u64,
    }

    /// Returns the volume another size. Nothing behind a new end that is nearer is needed any more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Resize {
        /// The owner's epoch.
        pub epoch: Epoch,
        /// The size in bytes, of whole blocks.
        pub size: u64,
    }

    /// Makes another volume at the same home, with the contents of this one as they are there, and shares its blocks
    /// with it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Snapshot {
        /// The other volume.
        pub to: VolumeId,
    }

    /// Removes the volume, if no other session has it open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Remove {
        /// The epoch under which it is removed.
        pub epoch: Epoch,
    }

    /// Wants to know which homes there are, by their numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListHomes {
        /// From this number on.
        pub from: VolumeId,
    }

    /// Removes the files of a home that no session has open, wholly made or not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveHome {
        /// Its number.
        pub volume: VolumeId,
        /// If nothing was written to it for this many seconds.
        pub unwritten_s: u64,
    }

    /// The volume is open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Opened {
        /// The newest epoch that home has learned of.
        pub epoch: Epoch,
        /// Its owner; 0 if nobody has had the volume yet.
        pub owner: u64,
        /// A number that home draws again whenever it cannot show that its files are those that it left.
        pub generation: u64,
        /// Everything up to here is home.
        pub mark: Stamp,
        /// The volume's size in bytes.
        pub size: u64,
        /// The bytes of write-backs that may be on their way, and not taken.
        pub window: u64,
    }

    /// The epoch has begun: older ones write no more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fenced {
        /// This one.
        pub epoch: Epoch,
        /// Everything up to here is home.
        pub mark: Stamp,
    }

    /// Parts of write-backs were taken from the session's window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Took {
        /// So many bytes in all, from its begin, as [`Put::cost`] counts them.
        pub bytes: u64,
    }

    /// Everything up to there is home, durably.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Durable {
        /// The mark: at or behind the last write of the write-back.
        pub mark: Stamp,
    }
}

messages! {
    /// A `Resize`, a `Snapshot`, a `Remove` or a `RemoveHome` is done, durably.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Done;
}

/// Why home does not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// A newer epoch has begun: this one.
    Ended(Epoch),
    /// Something else is under way there: try again after a while.
    Busy,
    /// There is no such volume.
    NoVolume,
    /// There is one already.
    Exists,
    /// The write-back was given up by its writer.
    GivenUp,
    /// It was written to so many seconds ago.
    Recent(u64),
    /// Its files do not allow it: with a line for a person.
    Failed(String),
}

impl NotDone {
    /// The reason's name, as it is counted and logged.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ended(_) => "ended",
            Self::Busy => "busy",
            Self::NoVolume => "no_volume",
            Self::Exists => "exists",
            Self::GivenUp => "given_up",
            Self::Recent(_) => "recent",
            Self::Failed(_) => "failed",
        }
    }
}

messages! {
    /// The answer to `Read`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Answered {
        /// The question's number.
        pub id: u64,
        /// The bytes; nothing if the volume is no longer open.
        pub data: Bytes as Data<VOLUME_PART_BYTES_MAX>,
    }
}

fields! {
    /// The checksums of a block at home: CRC32C, or 1 if that is 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BlockSums {
        /// Of what was written there; 0 if home does not know.
        pub kept: u32,
        /// Of what is read there.
        pub read: u32,
    }
}

impl BlockSums {
    /// Whether the block is not what was written.
    pub fn is_damaged(self) -> bool {
        self.kept != 0 && self.kept != self.read
    }
}

messages! {
    /// The answer to `Scrub`: of each block of the extent.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Scrubbed {
        /// The question's number.
        pub id: u64,
        /// By their places.
        pub sums: Vec<BlockSums> as Rest<VOLUME_SUMS_PER_ANSWER_MAX>,
    }

    /// The answer to `Read` and `Scrub` where home cannot read, or where what it reads is not what was written.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Unread {
        /// The question's number.
        pub id: u64,
        /// Why, for a person.
        pub why: String as Tail<GOODBYE_TEXT_BYTES_MAX>,
    }
}

fields! {
    /// A run of a volume that is of one kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Run {
        /// Its length in bytes.
        pub len: u64,
        /// Whether it takes no room, and reads as zeros.
        pub is_hole: bool,
    }
}

messages! {
    /// The answer to `Map`: the runs from its begin on, as many as fit; none if they cannot be found out.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Runs {
        /// The question's number.
        pub id: u64,
        /// One behind the other.
        pub runs: Vec<Run> as Checked<Rest<VOLUME_RUNS_PER_ANSWER_MAX>, InAll>,
    }

    /// The answer to `Recall`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Recalled {
        /// The question's number.
        pub id: u64,
        /// The entry; nothing if home keeps none, or cannot read it.
        pub entry: Bytes as Data<VOLUME_ENTRY_BYTES_MAX>,
    }
}

fields! {
    /// A home, as its files are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FoundHome {
        /// Its number.
        pub volume: VolumeId,
        /// Its size in bytes.
        pub size: u64,
        /// The bytes that it takes on its disk, those that it shares with others among them.
        pub disk_bytes: u64,
        /// For how many seconds nothing was written to it, by the clock there.
        pub unwritten_s: u64,
        /// Whether it was wholly made. If not it can be removed alone.
        pub is_whole: bool,
    }
}

messages! {
    /// The answer to `ListHomes`: as many as fit.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Homes {
        /// Whether there are none behind these.
        pub is_last: bool,
        /// By their numbers, each above the one before.
        pub homes: Vec<FoundHome> as InOrder<VOLUME_HOMES_PER_ANSWER_MAX>,
    }
}

impl Keyed for FoundHome {
    type Key = VolumeId;

    fn key(&self) -> VolumeId {
        self.volume
    }
}

/// The extent of a read has room in its answer.
#[derive(Debug)]
pub struct Part;

impl Check<Extent> for Part {
    fn check(extent: &Extent, _: &'static str) -> Result<(), WireError> {
        let error = WireError::Code { what: "length of a read", got: extent.len };
        if extent.len <= VOLUME_PART_BYTES_MAX as u64 { Ok(()) } else { Err(error) }
    }
}

/// The extent of a scrub is whole blocks, as many as its answer has sums.
#[derive(Debug)]
pub struct Blocks;

impl Check<Extent> for Blocks {
    fn check(extent: &Extent, _: &'static str) -> Result<(), WireError> {
        let is_whole = extent.offset.is_multiple_of(BLOCK_BYTES) && extent.len.is_multiple_of(BLOCK_BYTES);
        let fits = is_whole && extent.len <= VOLUME_SUMS_PER_ANSWER_MAX as u64 * BLOCK_BYTES;
        if fits { Ok(()) } else { Err(WireError::Code { what: "extent of a scrub", got: extent.len }) }
    }
}

/// The home keeps an entry on a line of a text.
#[derive(Debug)]
pub struct Line;

impl Check<Bytes> for Line {
    fn check(entry: &Bytes, _: &'static str) -> Result<(), WireError> {
        let is_line = core::str::from_utf8(entry).is_ok_and(|text| !text.contains('\n'));
        if is_line { Ok(()) } else { Err(WireError::Text) }
    }
}

/// The runs of a volume: none is empty, and together they have a length.
#[derive(Debug)]
pub struct InAll;

impl Check<Vec<Run>> for InAll {
    fn check(runs: &Vec<Run>, _: &'static str) -> Result<(), WireError> {
        let add = |sum: u64, run: &Run| {
            let sum = sum.checked_add(run.len).filter(|_| run.len > 0);
            sum.ok_or(WireError::Code { what: "length of a run", got: run.len })
        };
        runs.iter().try_fold(0, add).map(drop)
    }
}

/// Where it goes, and what its content is.
impl Layout for Put {
    const LIMITS: Limits = Limits::bytes(Extent::BYTES + u32::BYTES).with_body(VOLUME_PART_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of a part", self.content.len() as usize, VOLUME_PART_BYTES_MAX)?;
        self.extent.put(meta);
        self.content.code().put(meta);
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.content.body().into_iter()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (extent, code) = Field::get("part", reader)?;
        Ok(Self { extent, content: Content::of_code(code, extent, reader)? })
    }
}

const ENDED: u32 = 0;
const BUSY: u32 = 1;
const NO_VOLUME: u32 = 2;
const EXISTS: u32 = 3;
const GIVEN_UP: u32 = 4;
const FAILED: u32 = 5;
const RECENT: u32 = 6;

/// The reason's code and its number, then a text to the end of the meta.
impl Layout for NotDone {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + u64::BYTES).and_up_to(GOODBYE_TEXT_BYTES_MAX);

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
        (why, number).put(meta);
        meta.put(cut(text, GOODBYE_TEXT_BYTES_MAX).as_bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (why, number) = <(u32, u64)>::get("reason of a home", reader)?;
        let text = reader.text_rest()?;
        match (why, number, text.as_str()) {
            (ENDED, epoch, "") => Ok(Self::Ended(Epoch(epoch))),
            (BUSY, 0, "") => Ok(Self::Busy),
            (NO_VOLUME, 0, "") => Ok(Self::NoVolume),
            (EXISTS, 0, "") => Ok(Self::Exists),
            (GIVEN_UP, 0, "") => Ok(Self::GivenUp),
            (RECENT, seconds, "") => Ok(Self::Recent(seconds)),
            (FAILED, 0, _) => Ok(Self::Failed(text)),
            (got, ..) => Err(WireError::Code { what: "reason of a home", got: got.into() }),
        }
    }
}

family! {
    of "volume home";

    /// The messages to home.
    pub enum ToHome, heard by "home", in order {
        /// Opens the session.
        129 Open,
        /// The same, of a new volume.
        130 Create,
        /// A newer epoch begins.
        131 Fence,
        /// A write-back begins.
        132 Begin,
        /// A part of it.
        133 Put,
        /// Its end.
        134 End,
        /// Wants bytes.
        135 Read,
        /// Wants to know of holes.
        136 Map,
        /// Gives another size.
        137 Resize,
        /// Makes another volume.
        138 Snapshot,
        /// Removes the volume.
        139 Remove,
        /// Wants to know which homes there are.
        149 ListHomes,
        /// Removes one that nobody has open.
        150 RemoveHome,
        /// Has home keep the registry's entry.
        160 Keep,
        /// Wants that.
        161 Recall,
        /// Has blocks compared with their checksums.
        163 Scrub,
        /// Ends the session, with the reason.
        39 Goodbye,
    }

    /// The messages of home.
    pub enum FromHome, heard by "owner", in order {
        /// The volume is open.
        140 Opened,
        /// The epoch has begun.
        141 Fenced,
        /// There is room in the window.
        142 Took,
        /// The write-back is home.
        143 Durable,
        /// The command is done.
        144 Done,
        /// It is not.
        145 NotDone,
        /// Bytes of the volume.
        146 Answered,
        /// Its holes.
        147 Runs,
        /// Homes that there are.
        151 Homes,
        /// The registry's entry, as home has kept it.
        162 Recalled,
        /// The checksums of blocks.
        164 Scrubbed,
        /// They cannot be read.
        165 Unread,
        /// Ends the session, with the reason.
        39 Goodbye,
    }
}

/// The end of homes.
pub const HOME: &dyn Codec = LinkEnd::<ToHome, FromHome>::CODEC;

/// The end of an owner, or of a host that takes over.
pub const OWNER: &dyn Codec = LinkEnd::<FromHome, ToHome>::CODEC;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::holder::{FlushEpoch, Sequence};
    use alloc::string::String;
    use alloc::{format, vec};
    use core::fmt::Write;
    use framing::{Direction, HEADER_BYTES, Inbox, frames_of};
    use machine::Parcel;
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
        assert!(matches!(refused, Err(WireError::Order { what: "homes" })), "{refused:?}");
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
        546827000800000000000000c68ed14f 00000000656e6473
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
        546827000400000000000000a630f2f2 07000000
    ";
}
