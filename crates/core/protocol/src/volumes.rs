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

use crate::Goodbye;
use crate::directions::ordered_messages;
use alloc::vec::Vec;
use bytes::Bytes;
use types::limits::VOLUME_COPY_BYTES;

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

/// A copy of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The stream that it is of.
    pub stream: Stream,
    /// The write.
    pub record: Record,
}

/// Everything up to here is home, durably: its copies are no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// The last of them.
    pub through: Stamp,
}

/// The registry knows of this holder no more: nothing that it keeps of the volume is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forget;

/// A host takes a volume over, and asks for the list of the copies behind this one. A holder refuses copies of older
/// epochs from now on.
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

/// A copy, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The write's place.
    pub stamp: Stamp,
    /// Where it writes.
    pub extent: Extent,
}

/// The copies that a holder keeps, in order, or the next part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where they are.
    pub partition: PartitionId,
    /// Everything up to here was home, as the holder was told; it has freed that.
    pub home: Stamp,
    /// The copies.
    pub copies: Vec<Entry>,
    /// Whether there are no more.
    pub is_last: bool,
}

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

/// The volumes that a holder knows, or as many of them as fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// Where their copies are.
    pub partition: PartitionId,
    /// By their numbers, each above the one before.
    pub volumes: Vec<HeldVolume>,
    /// Whether there are none behind these.
    pub is_last: bool,
}

/// A copy that was asked for, or `None` if the holder does not have it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The write that was asked for.
    pub stamp: Stamp,
    /// Where it writes, and what.
    pub record: Option<(Extent, Content)>,
}

/// A holder wants to leave: its copies should be moved elsewhere first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving;

ordered_messages! {
    /// The messages to a holder.
    pub enum ToHolder {
        /// An owner begins.
        Open(Open),
        /// Sends a copy.
        Copy(Copy),
        /// Needs copies no more.
        Free(Free),
        /// Needs none at all.
        Forget(Forget),
        /// A host that takes over wants a list.
        List(List),
        /// Wants a copy.
        Fetch(Fetch),
        /// An operator asks for what there is.
        ListVolumes(ListVolumes),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

ordered_messages! {
    /// The messages of a holder.
    pub enum FromHolder {
        /// It takes copies.
        Opened(Opened),
        /// Has them.
        Counted(Counted),
        /// Takes none of this epoch.
        Refused(Refused),
        /// Its list.
        Listed(Listed),
        /// The volumes that it knows.
        Volumes(Volumes),
        /// A copy.
        Kept(Kept),
        /// It wants to leave.
        Leaving(Leaving),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}
