//! The settings of a takeover, and what it wants done.

use crate::known_home::WentBack;
use crate::messages::holder::{Epoch, PartitionId, Record, Stamp, ToHolder, VolumeId};
use crate::registry::{Change, HostId, View};
use crate::rule::Rule;
use alloc::vec::Vec;
use core::time::Duration;
use types::{Broken, GoodbyeReason};

/// The settings of a takeover.
#[derive(Clone, Copy, Debug)]
pub struct TakeOverConfig {
    /// The volume.
    pub volume: VolumeId,
    /// The host that takes it over, by the number of this attachment.
    pub host: HostId,
    /// Whether it keeps the volume, or only brings it home.
    pub keeps: bool,
    /// Flush epochs are joined as long as they take no more than this: as much as home's journal takes.
    pub join_bytes: u64,
    /// The copies that are asked for, or on their way home and not taken there, at a time.
    pub window: usize,
    /// The wait before something that has failed is tried again.
    pub retry: Duration,
    /// A holder that owes an answer for longer is considered lost.
    pub silence: Duration,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl TakeOverConfig {
    /// The usual settings.
    pub fn new(volume: VolumeId, host: HostId) -> Self {
        Self {
            volume,
            host,
            keeps: true,
            join_bytes: 64 << 20,
            window: 64,
            retry: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            broken: Broken::NONE,
        }
    }
}

/// The attachments that a host's cache remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Their numbers.
    pub hosts: Vec<HostId>,
    /// Whether the processes that made them are known to be dead. It is not enough that nobody uses the cache: it may
    /// be a copy.
    pub are_dead: bool,
}

/// An action that a takeover wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverEffect {
    /// Ask home for the revision of the registry's entry that it keeps, and say [`TakeOver::home_keeps`], or
    /// [`TakeOver::home_failed`].
    AskHome,
    /// Change the registry, and say [`TakeOver::changed`].
    Change(Change),
    /// Tell home of the epoch, and say [`TakeOver::home_fenced`], or [`TakeOver::home_failed`].
    FenceHome(Epoch),
    /// Open a session with the holder of this partition, and again when it is lost.
    Connect(PartitionId),
    /// End the session with it, for this reason, and open another one.
    Reconnect(PartitionId, GoodbyeReason),
    /// No session with it is needed any more.
    Disconnect(PartitionId),
    /// Send a message to the holder of a partition.
    Send(PartitionId, ToHolder),
    /// Read a copy of the own log, and say [`TakeOver::kept`] with it.
    ReadOwn(Stamp),
    /// A write-back to home begins, up to this write, joined or not.
    Begin(Stamp, bool),
    /// Of it, the next write: later ones go over earlier ones. Say [`TakeOver::home_took`] when home has taken it.
    Write(Record),
    /// That was all of it. When it is durable, say [`TakeOver::home_durable`].
    End(Stamp),
    /// The write-back that has begun comes to no end.
    Abort,
    /// These lists are missing or too short ([`TakeOver::lacks_acknowledged`]). Or they have
    /// damaged copies, and no other list has good ones. If none is named, the only copy that counts is in the log of
    /// another host, or is damaged. With an own log ([`TakeOver::has_own_log`]) they are missed only by what
    /// that may have lost. It waits for them, or for [`TakeOver::accept_loss`]: writes that only their holders have
    /// are lost then. It says so once for each time that the lists are read, and each has to be accepted.
    Missing(Vec<PartitionId>),
    /// Home went back: holders were told that it has more. Its gap, and everything that was written behind that, is
    /// lost if that is accepted, as for lists that are missing.
    HomeWentBack(WentBack),
    /// It is over: the volume is home, and the registry stands so.
    Done(View),
    /// It is over: another host was first, under this epoch.
    Lost(Epoch),
    /// It is over: the registry was restored from an older copy, and should be made again of what home and holders know
    /// (see
    /// [`Findings`](crate::Findings)).
    RegistryBack,
}
