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

use crate::Goodbye;
use crate::directions::ordered_messages;
use crate::volumes::{Content, Epoch, Extent, Stamp, VolumeId};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

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
    pub extent: Extent,
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
    pub extent: Extent,
}

/// Has home keep the registry's entry of the volume: if the registry is lost, it is made again of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The epoch of the entry.
    pub epoch: Epoch,
    /// Its revision: home keeps the newest.
    pub revision: u64,
    /// The entry, which home does not read: text without a line break.
    pub entry: Bytes,
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

/// Makes another volume at the same home, with the contents of this one as they are there, and shares its blocks with
/// it.
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

/// A `Resize`, a `Snapshot`, a `Remove` or a `RemoveHome` is done, durably.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done;

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

/// The answer to `Read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The question's number.
    pub id: u64,
    /// The bytes; nothing if the volume is no longer open.
    pub data: Bytes,
}

/// The checksums of a block at home: CRC32C, or 1 if that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSums {
    /// Of what was written there; 0 if home does not know.
    pub kept: u32,
    /// Of what is read there.
    pub read: u32,
}

impl BlockSums {
    /// Whether the block is not what was written.
    pub fn is_damaged(self) -> bool {
        self.kept != 0 && self.kept != self.read
    }
}

/// The answer to `Scrub`: of each block of the extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The question's number.
    pub id: u64,
    /// By their places.
    pub sums: Vec<BlockSums>,
}

/// The answer to `Read` and `Scrub` where home cannot read, or where what it reads is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The question's number.
    pub id: u64,
    /// Why, for a person.
    pub why: String,
}

/// A run of a volume that is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its length in bytes.
    pub len: u64,
    /// Whether it takes no room, and reads as zeros.
    pub is_hole: bool,
}

/// The answer to `Map`: the runs from its begin on, as many as fit; none if they cannot be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The question's number.
    pub id: u64,
    /// One behind the other.
    pub runs: Vec<Run>,
}

/// The answer to `Recall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The question's number.
    pub id: u64,
    /// The entry; nothing if home keeps none, or cannot read it.
    pub entry: Bytes,
}

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

/// The answer to `ListHomes`: as many as fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// By their numbers, each above the one before.
    pub homes: Vec<FoundHome>,
    /// Whether there are none behind these.
    pub is_last: bool,
}

ordered_messages! {
    /// The messages to home.
    pub enum ToHome {
        /// Opens the session.
        Open(Open),
        /// The same, of a new volume.
        Create(Create),
        /// A newer epoch begins.
        Fence(Fence),
        /// A write-back begins.
        Begin(Begin),
        /// A part of it.
        Put(Put),
        /// Its end.
        End(End),
        /// Wants bytes.
        Read(Read),
        /// Wants to know of holes.
        Map(Map),
        /// Has blocks compared with their checksums.
        Scrub(Scrub),
        /// Has home keep the registry's entry.
        Keep(Keep),
        /// Wants that.
        Recall(Recall),
        /// Gives another size.
        Resize(Resize),
        /// Makes another volume.
        Snapshot(Snapshot),
        /// Removes the volume.
        Remove(Remove),
        /// Wants to know which homes there are.
        ListHomes(ListHomes),
        /// Removes one that nobody has open.
        RemoveHome(RemoveHome),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

ordered_messages! {
    /// The messages of home.
    pub enum FromHome {
        /// The volume is open.
        Opened(Opened),
        /// The epoch has begun.
        Fenced(Fenced),
        /// There is room in the window.
        Took(Took),
        /// The write-back is home.
        Durable(Durable),
        /// The command is done.
        Done(Done),
        /// It is not.
        NotDone(NotDone),
        /// Bytes of the volume.
        Answered(Answered),
        /// They cannot be read.
        Unread(Unread),
        /// The checksums of blocks.
        Scrubbed(Scrubbed),
        /// Its holes.
        Runs(Runs),
        /// The registry's entry, as home has kept it.
        Recalled(Recalled),
        /// Homes that there are.
        Homes(Homes),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}
