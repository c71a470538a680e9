//! The actions that an owner wants done by its driver.

use crate::messages::holder::{Epoch, PartitionId, Record, Sequence, Stamp, Stream, ToHolder};
use crate::registry::{Change, Restore};
use crate::request::{Declined, RequestId};
use types::GoodbyeReason;

/// A command to write back: of all writes after `after` and up to `through`, the newest version of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Everything up to here is home.
    pub after: Stamp,
    /// The last write of the last flush epoch.
    pub through: Stamp,
    /// Whether that is more than one flush epoch, and so must be installed whole or not at all.
    pub is_joined: bool,
}

/// A command to read writes of the own log for a holder that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its number, for the answer.
    pub number: u64,
    /// The first write; those that are home by now need not be there.
    pub from: Sequence,
    /// The last one.
    pub through: Sequence,
    /// So many bytes of contents are enough, and one write at least should be among them.
    pub bytes: u64,
}

/// The writes that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Those that the log has, in order.
    pub records: alloc::vec::Vec<Record>,
    /// Everything from the first one asked for through here is among them, or home.
    pub through: Sequence,
}

/// An action that the owner wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a request.
    Answer(RequestId, Result<(), Declined>),
    /// Write to home, durably, and say [`Owner::home_durable`](crate::Owner::home_durable), or
    /// [`Owner::home_failed`](crate::Owner::home_failed). There is one at a time.
    WriteHome(WriteBack),
    /// There is room for the writes that were declined for want of it.
    Room,
    /// Open a session with the holder of this partition, and again when it is lost:
    /// [`Owner::up`](crate::Owner::up), [`Owner::down`](crate::Owner::down).
    Connect(PartitionId),
    /// No session with it is needed any more.
    Disconnect(PartitionId),
    /// End the session with it, for this reason, and open another one.
    Reconnect(PartitionId, GoodbyeReason),
    /// Send a message to the holder of a partition.
    Send(PartitionId, ToHolder),
    /// Read the own log, and say [`Owner::found`](crate::Owner::found).
    Read(Read),
    /// Change the registry, and say [`Owner::changed`](crate::Owner::changed).
    Change(Change),
    /// The registry was restored from an older copy: ask home whose the volume is, and say
    /// [`Owner::home_says`](crate::Owner::home_says).
    AskHome,
    /// Put the entry back there, and say [`Owner::changed`](crate::Owner::changed).
    Restore(Restore),
    /// Another epoch has begun, and all is over.
    Ended(Epoch),
    /// The volume is detached: all of it is written back, and the registry knows.
    Detached,
}

/// Home's word on whose the volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeSays {
    /// The owner's, as far as home has heard; and everything up to this write is there.
    Own(Stamp),
    /// Another host's, under this epoch.
    Other(Epoch),
    /// Home is not to be had.
    Nothing,
}

/// The stream of a read, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) number: u64,
    pub(crate) stream: Stream,
}
