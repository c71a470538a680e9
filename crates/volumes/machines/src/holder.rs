//! A holder: it keeps copies of dirty writes for the owners of volumes, and gives them to a host that takes over.
//!
//! ```text
//!   owner                    Holder                        driver
//!     | Open, Copy ------------> | Append(Epoch | Copy) ------> |
//!     |                          | <---------- stable(number)   |   everything up to that entry is on stable media
//!     | <------ Opened, Counted  |                              |
//! ```
//! 1. A copy is counted when it is on stable media (**CountStable**).
//! 2. An owner or a host under a newer epoch ends the sessions of older ones, which are refused from then on
//!    (**HoldersRefuse**); it is answered when that is on stable media (**EpochStable**), and all copies that came
//!    before. So the registry is asked before a newer epoch begins (**EpochRegistered**): a peer that nobody knows may
//!    say any number.
//! 3. Every session has room reserved, and is told how much. One that sends more is ended.
//!    Before there is none it is *nearly full*: it says so to the registry, and owners go to others that have room.
//! 4. A session that opens a volume takes the place of an earlier one of the same epoch.
//! 5. A copy that is listed stays until it is said to be home, under an epoch that is not older than the newest.

use crate::copies::Partition;
use crate::messages::holder::{
    Content, Copy, Counted, Entry, Epoch, Extent, Fetch, Forget, Free, FromHolder, HeldVolume, Kept, Leaving, List,
    ListVolumes, Listed, Open, Opened, PartitionId, Record, Refused, Sequence, Stamp, Stream, ToHolder, VolumeId,
    Volumes,
};
use crate::registry::View;
use crate::rule::Rule;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::replace;
use core::ops::Bound;
use types::limits::{COPIES_PER_LIST_MAX, VOLUMES_PER_ANSWER_MAX, VOLUMES_PER_HOLDER_MAX};
use types::{Broken, GoodbyeReason, SessionId};

/// A holder is nearly full when copies take this many eighths of what it can keep, and is so until they take fewer than
/// that.
const NEARLY_FULL_EIGHTHS: u64 = 6;
const HAS_ROOM_EIGHTHS: u64 = 4;

/// The least room to reserve for a session at a time, in bytes: some of the largest copies.
const WINDOW_MIN: u64 = 1 << 20;

/// The settings of a holder.
#[derive(Clone, Copy, Debug)]
pub struct HolderConfig {
    /// Its partition.
    pub partition: PartitionId,
    /// The room for copies.
    pub room: u64,
    /// The room that is reserved for a session at a time.
    pub window: u64,
    /// The copies in one message of a list, at most [`COPIES_PER_LIST_MAX`].
    pub copies_per_list: usize,
    /// Whether there is a registry that can be asked for epochs.
    pub asks_registry: bool,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl HolderConfig {
    /// The usual settings of a partition with this room.
    pub fn new(partition: PartitionId, room: u64) -> Self {
        let window = (room / 8).min(64 << 20);
        Self {
            partition,
            room,
            window,
            copies_per_list: COPIES_PER_LIST_MAX,
            asks_registry: false,
            broken: Broken::NONE,
        }
    }
}

/// An entry of a holder's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderEntry {
    /// A newer epoch of a volume has begun, or its owner has come under a newer revision of the registry.
    Epoch(VolumeId, Epoch, u64),
    /// A copy.
    Copy(VolumeId, Stream, Record),
    /// Nothing is kept of a volume.
    Forget(VolumeId),
}

/// An action that a holder wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderEffect {
    /// Append to the log. The driver numbers what it is told to append from 1, and says [`Holder::stable`].
    Append(HolderEntry),
    /// Send a message.
    Send(SessionId, FromHolder),
    /// End a session, after what was sent before has gone out.
    End(SessionId, GoodbyeReason, String),
    /// Read a copy, and say [`Holder::read`].
    Read(SessionId, VolumeId, Stamp),
    /// The copies of a volume up to here take no room any more.
    Free(VolumeId, Stamp),
    /// Ask the registry for the epoch of a volume, which is this one at least if a peer is right, and say
    /// [`Holder::asked`].
    Ask(VolumeId, Epoch),
}

/// A volume.
#[derive(Debug, Default)]
struct Volume {
    partition: Partition,
    /// The newest revision of the registry in which it is known to stand.
    revision: u64,
    /// The session of its owner.
    owner: Option<SessionId>,
}

/// A session of an owner, or of a host that takes over.
#[derive(Clone, Copy, Debug)]
struct Session {
    volume: VolumeId,
    epoch: Epoch,
    /// The room that it has taken, and that it was given in all.
    taken: u64,
    credit: u64,
}

/// An answer that waits for the log.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Open,
    List(Stamp),
}

/// The first message of a session.
#[derive(Clone, Copy, Debug)]
enum Beginning {
    Open(Open),
    List(List),
}

impl Beginning {
    fn epoch(&self) -> (VolumeId, Epoch) {
        match *self {
            Self::Open(Open { volume, epoch, .. }) | Self::List(List { volume, epoch, .. }) => (volume, epoch),
        }
    }
}

/// An entry of the log that is not on stable media, or an answer that waits for those before it.
#[derive(Clone, Copy, Debug)]
enum Soft {
    /// With the room that it takes.
    Copy(VolumeId, Epoch, Stream, Sequence, u64),
    Answer(SessionId, Waiting),
}

/// A holder.
#[derive(Debug)]
pub struct Holder {
    config: HolderConfig,
    volumes: BTreeMap<VolumeId, Volume>,
    sessions: BTreeMap<SessionId, Session>,
    /// The first messages of sessions under epochs that the registry was asked for.
    asking: BTreeMap<SessionId, Beginning>,
    /// Each with the number of the last entry that it waits for.
    soft: VecDeque<(u64, Soft)>,
    appended: u64,
    stable: u64,
    /// The room that copies take, and that is reserved for more.
    used: u64,
    reserved: u64,
    /// The room that copies take which are not on stable media, and that the log has for those and for what is
    /// promised.
    soft_bytes: u64,
    log_room: u64,
    /// The room for copies that its disk has at all.
    disk_room: u64,
    is_nearly_full: bool,
    is_leaving: bool,
    effects: VecDeque<HolderEffect>,
}

impl Holder {
    /// A holder that keeps nothing.
    pub fn new(config: HolderConfig) -> Self {
        Self {
            config,
            volumes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            asking: BTreeMap::new(),
            soft: VecDeque::new(),
            appended: 0,
            stable: 0,
            used: 0,
            reserved: 0,
            soft_bytes: 0,
            log_room: u64::MAX,
            disk_room: u64::MAX,
            is_nearly_full: false,
            is_leaving: false,
            effects: VecDeque::new(),
        }
    }

    /// An entry that was found in the log when the holder starts, in the order of the log.
    pub fn recover(&mut self, entry: &HolderEntry) {
        match entry {
            HolderEntry::Epoch(volume, epoch, revision) => {
                let volume = self.volumes.entry(*volume).or_default();
                volume.partition.begin(*epoch);
                volume.revision = volume.revision.max(*revision);
            }
            HolderEntry::Copy(volume, stream, record) => {
                let Record { stamp, extent, content } = record;
                let partition = &mut self.volumes.entry(*volume).or_default().partition;
                self.used += partition.take(*stamp, *extent, content.copy_bytes());
                partition.stable(stamp.epoch, *stream, stamp.sequence);
            }
            HolderEntry::Forget(volume) => {
                self.used -= self.volumes.get_mut(volume).map_or(0, |volume| volume.partition.forget());
            }
        }
        self.note_used();
    }

    /// A session is over.
    pub fn down(&mut self, session: SessionId) {
        self.asking.remove(&session);
        if let Some(Session { volume, taken, credit, .. }) = self.sessions.remove(&session) {
            self.reserved -= credit - taken;
            if let Some(volume) = self.volumes.get_mut(&volume)
                && volume.owner == Some(session)
            {
                volume.owner = None;
            }
        }
    }

    /// A message has come in.
    pub fn heard(&mut self, session: SessionId, message: ToHolder) {
        match message {
            ToHolder::Open(open) => self.ask(session, Beginning::Open(open)),
            ToHolder::Copy(copy) => self.copy(session, copy),
            ToHolder::Free(free) => self.free(session, free),
            ToHolder::Forget(Forget) => self.forget(session),
            ToHolder::List(list) => self.ask(session, Beginning::List(list)),
            ToHolder::Fetch(fetch) => self.fetch(session, fetch),
            ToHolder::ListVolumes(list) => self.list_volumes(session, list),
            ToHolder::Goodbye(_) => self.down(session),
        }
    }

    /// The epoch that a volume has in the registry; `None` if it has no such volume, or could not be asked.
    pub fn asked(&mut self, volume: VolumeId, registered: Option<Epoch>) {
        let of_it: Vec<_> = self.asking.iter().filter(|(_, it)| it.epoch().0 == volume).map(|(&it, _)| it).collect();
        for session in of_it {
            let Some(beginning) = self.asking.remove(&session) else { continue };
            if registered.is_some_and(|registered| beginning.epoch().1 <= registered) {
                self.go_on(session, beginning);
            } else {
                self.end(session, GoodbyeReason::Stranger, "the registry does not have this epoch of the volume");
            }
        }
    }

    /// Every entry of the log up to this number is on stable media.
    pub fn stable(&mut self, number: u64) {
        self.stable = number.min(self.appended).max(self.stable);
        let mut counting = Vec::new();
        while let Some(&(last, soft)) = self.soft.front()
            && last <= self.stable
        {
            self.soft.pop_front();
            match soft {
                Soft::Copy(volume, epoch, stream, sequence, bytes) => {
                    self.soft_bytes -= bytes;
                    let Some(volume) = self.volumes.get_mut(&volume) else { continue };
                    volume.partition.stable(epoch, stream, sequence);
                    counting.extend(volume.owner);
                }
                Soft::Answer(session, waiting) => self.answer(session, waiting),
            }
        }
        counting.dedup();
        for session in counting {
            self.count(session);
        }
    }

    /// The copy that was to be read, or `None` if it cannot be.
    pub fn read(&mut self, session: SessionId, stamp: Stamp, record: Option<(Extent, Content)>) {
        if self.sessions.contains_key(&session) {
            self.send(session, Kept { stamp, record });
        }
    }

    /// It wants to leave: owners are to move what it keeps. See [`Holder::is_empty`].
    pub fn leave(&mut self) {
        self.is_leaving = true;
        let owners: Vec<_> = self.volumes.values().filter_map(|volume| volume.owner).collect();
        for session in owners {
            self.send(session, Leaving);
        }
    }

    /// It stays. Owners that were told otherwise come again if there is nobody better.
    pub fn stay(&mut self) {
        self.is_leaving = false;
    }

    /// The registry's word on a volume. A partition that it knows of no more is not needed: it was replaced, in a later
    /// revision than the one in which it was known to stand, or everything is written back.
    pub fn registered(&mut self, volume: VolumeId, view: &View) {
        let Some(it) = self.volumes.get(&volume) else { return };
        let View { revision, entry } = view;
        let is_newer = entry.epoch > it.partition.epoch() || *revision > it.revision;
        // One that was made again may have missed this holder.
        let is_known = !entry.is_taking && !entry.is_rebuilt;
        if is_newer && is_known && !entry.holders.contains(&self.config.partition) && it.partition.bytes() > 0 {
            self.drop_copies(volume);
        }
    }

    /// The registry has no such volume. It is forgotten if nothing is kept of it and nobody has it open: no copy of it
    /// counts any more, so its epoch protects nothing, and it would take the place of another for ever. Gives whether
    /// it is.
    pub fn unregistered(&mut self, volume: VolumeId) -> bool {
        let is_idle = self.is_idle(volume);
        if is_idle {
            self.volumes.remove(&volume);
        }
        is_idle
    }

    /// The first volume behind this one of which nothing is kept, and which nobody has open.
    pub fn idle_after(&self, after: Option<VolumeId>) -> Option<VolumeId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.volumes.range((from, Bound::Unbounded)).map(|(&volume, _)| volume).find(|&volume| self.is_idle(volume))
    }

    fn is_idle(&self, volume: VolumeId) -> bool {
        let is_kept = |it: &Volume| it.partition.bytes() > 0 || it.owner.is_some();
        self.volumes.get(&volume).is_some_and(|it| !is_kept(it))
            && !self.sessions.values().any(|it| it.volume == volume)
    }

    /// Whether it keeps no copies.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The room that copies take.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The room that is left for owners that come.
    pub fn free_room(&self) -> u64 {
        let free = self.room().saturating_sub(self.used + self.reserved);
        if self.is_leaving { 0 } else { free }
    }

    /// The room for copies that it has in all: what it was given, or what its disk has if that is less.
    pub fn room(&self) -> u64 {
        self.config.room.min(self.disk_room)
    }

    /// Whether copies take this much of its room that owners should go to others, if they find one. It has room for
    /// what they write in the meantime; and it is nearly full until much more is free, so that nobody comes and goes
    /// all the time.
    pub fn is_nearly_full(&self) -> bool {
        self.is_nearly_full
    }

    /// Its disk has room for this many bytes of copies in all, those that are there among them.
    pub fn disk_has(&mut self, room: u64) {
        self.disk_room = room;
        self.note_used();
    }

    fn note_used(&mut self) {
        let eighths = if self.is_nearly_full { HAS_ROOM_EIGHTHS } else { NEARLY_FULL_EIGHTHS };
        self.is_nearly_full = self.used > 0 && self.used >= self.room() / 8 * eighths;
    }

    /// The log has room for this many bytes more, beside what it has on stable media: no more than that is promised.
    /// Promises are kept; owners that had to be content with little are notified of more.
    pub fn limit(&mut self, room: u64) {
        let before = replace(&mut self.log_room, room);
        if room <= before {
            return;
        }
        let owners = self.volumes.values().filter_map(|volume| volume.owner);
        let is_short = |it: &Session| it.credit - it.taken < self.window() / 2;
        let is_short = |owner: &SessionId| self.sessions.get(owner).is_some_and(is_short) && !self.is_opening(*owner);
        let short: Vec<_> = owners.filter(is_short).collect();
        for session in short {
            self.count(session);
        }
    }

    /// The volumes of which it has copies, and how many bytes these take.
    pub fn copies(&self) -> impl Iterator<Item = (VolumeId, u64)> {
        self.volumes.iter().map(|(&volume, it)| (volume, it.partition.bytes())).filter(|&(_, bytes)| bytes > 0)
    }

    /// The volumes that it knows, from this one on.
    pub fn held(&self, from: VolumeId) -> impl Iterator<Item = HeldVolume> {
        self.volumes.range(from..).map(|(&volume, it)| HeldVolume {
            volume,
            epoch: it.partition.epoch(),
            revision: it.revision,
            last: it.partition.last(),
            bytes: it.partition.bytes(),
        })
    }

    /// The volumes of which it keeps copies.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> {
        self.volumes.iter().filter(|(_, it)| it.partition.bytes() > 0).map(|(&volume, _)| volume)
    }

    /// Its next effect.
    pub fn poll_effect(&mut self) -> Option<HolderEffect> {
        self.effects.pop_front()
    }

    /// Whether a session waits for the answer to its opening, which is the first thing that it is to hear.
    fn is_opening(&self, session: SessionId) -> bool {
        self.soft.iter().any(|(_, soft)| matches!(soft, Soft::Answer(of, Waiting::Open) if *of == session))
    }

    /// The room that is reserved for a session at a time: less where the disk has less room than the holder was given.
    fn window(&self) -> u64 {
        let HolderConfig { window, room, .. } = self.config;
        let scaled = u128::from(window) * u128::from(self.room()) / u128::from(room.max(1));
        window.min((scaled as u64).max(WINDOW_MIN))
    }

    /// The room that can be promised.
    fn unpromised(&self) -> u64 {
        let kept = self.config.room.saturating_sub(self.used + self.reserved);
        kept.min(self.log_room.saturating_sub(self.soft_bytes + self.reserved))
    }

    fn send(&mut self, session: SessionId, message: impl Into<FromHolder>) {
        self.effects.push_back(HolderEffect::Send(session, message.into()));
    }

    fn end(&mut self, session: SessionId, reason: GoodbyeReason, text: &str) {
        self.down(session);
        self.effects.push_back(HolderEffect::End(session, reason, text.into()));
    }

    fn append(&mut self, entry: HolderEntry) {
        self.appended += 1;
        self.effects.push_back(HolderEffect::Append(entry));
    }

    /// Begins a session under an epoch, unless a newer one was seen.
    fn begin(&mut self, session: SessionId, volume: VolumeId, epoch: Epoch, revision: u64) -> bool {
        if self.sessions.get(&session).is_some_and(|it| it.volume != volume) {
            self.end(session, GoodbyeReason::Malformed, "a session is of one volume");
            return false;
        }
        if !self.volumes.contains_key(&volume) && self.volumes.len() >= VOLUMES_PER_HOLDER_MAX {
            self.end(session, GoodbyeReason::Full, "this holder has copies of as many volumes as it takes");
            return false;
        }
        let seen = self.volumes.entry(volume).or_default().partition.epoch();
        if epoch < seen {
            self.refuse(session, seen);
            return false;
        }
        let is_new = epoch > seen && !self.config.broken.is(Rule::HoldersRefuse);
        let it = self.volumes.entry(volume).or_default();
        if is_new || revision > it.revision {
            it.revision = revision.max(it.revision);
            if is_new {
                it.partition.begin(epoch);
            }
            let (epoch, revision) = (it.partition.epoch(), it.revision);
            self.append(HolderEntry::Epoch(volume, epoch, revision));
        }
        if is_new {
            self.end_older(volume, epoch);
        }
        self.sessions.entry(session).or_insert(Session { volume, epoch, taken: 0, credit: 0 }).epoch = epoch;
        true
    }

    /// Sessions of older epochs are refused.
    fn end_older(&mut self, volume: VolumeId, epoch: Epoch) {
        let is_older = |it: &Session| it.volume == volume && it.epoch < epoch;
        let older: Vec<_> = self.sessions.iter().filter(|(_, it)| is_older(it)).map(|(&session, _)| session).collect();
        for session in older {
            self.refuse(session, epoch);
        }
    }

    fn refuse(&mut self, session: SessionId, epoch: Epoch) {
        self.send(session, Refused { epoch });
        self.end(session, GoodbyeReason::Superseded, "a newer epoch of the volume has begun");
    }

    /// Answers when everything that was appended before is on stable media.
    fn wait(&mut self, session: SessionId, waiting: Waiting) {
        if self.stable == self.appended || self.config.broken.is(Rule::EpochStable) {
            self.answer(session, waiting);
        } else {
            self.soft.push_back((self.appended, Soft::Answer(session, waiting)));
        }
    }

    fn answer(&mut self, session: SessionId, waiting: Waiting) {
        let Some(&Session { volume, .. }) = self.sessions.get(&session) else { return };
        let Some(it) = self.volumes.get(&volume) else { return };
        let partition = self.config.partition;
        match waiting {
            Waiting::Open => {
                let (live, back) = it.partition.counted();
                let credit = self.reserve(session);
                self.send(session, Opened { partition, live, back, credit });
                if self.is_leaving {
                    self.send(session, Leaving);
                }
            }
            Waiting::List(after) => {
                let count_max = self.config.copies_per_list.min(COPIES_PER_LIST_MAX);
                let (copies, is_last): (Vec<Entry>, _) = it.partition.list(after, count_max);
                let home = it.partition.home();
                self.send(session, Listed { partition, home, is_last, copies });
            }
        }
    }

    /// Tells an owner what it counts.
    fn count(&mut self, session: SessionId) {
        let Some(&Session { volume, .. }) = self.sessions.get(&session) else { return };
        let Some(it) = self.volumes.get(&volume) else { return };
        let (live, back) = it.partition.counted();
        let credit = self.reserve(session);
        self.send(session, Counted { live, back, credit });
    }

    /// Reserves room for a session, as there is, and gives what it has been given in all.
    fn reserve(&mut self, session: SessionId) -> u64 {
        let (free, window) = (self.unpromised(), self.window());
        let Some(it) = self.sessions.get_mut(&session) else { return 0 };
        let more = window.saturating_sub(it.credit - it.taken).min(free);
        it.credit += more;
        self.reserved += more;
        it.credit
    }

    /// Asks the registry before an epoch begins that is not known.
    fn ask(&mut self, session: SessionId, beginning: Beginning) {
        let (volume, epoch) = beginning.epoch();
        let is_known = self.volumes.get(&volume).is_some_and(|it| epoch <= it.partition.epoch());
        if is_known || !self.config.asks_registry || self.config.broken.is(Rule::EpochRegistered) {
            return self.go_on(session, beginning);
        }
        if self.asking.insert(session, beginning).is_some() {
            return self.end(session, GoodbyeReason::Malformed, "a session says one thing before it is answered");
        }
        self.effects.push_back(HolderEffect::Ask(volume, epoch));
    }

    fn go_on(&mut self, session: SessionId, beginning: Beginning) {
        match beginning {
            Beginning::Open(open) => self.open(session, open),
            Beginning::List(list) => self.list(session, list),
        }
    }

    fn open(&mut self, session: SessionId, open: Open) {
        let Open { volume, epoch, revision, home } = open;
        if !self.begin(session, volume, epoch, revision) {
            return;
        }
        let earlier = self.volumes.entry(volume).or_default().owner.replace(session);
        if let Some(earlier) = earlier.filter(|earlier| *earlier != session) {
            self.end(earlier, GoodbyeReason::Superseded, "the owner of the volume has come again");
        }
        self.free_through(volume, home);
        self.wait(session, Waiting::Open);
    }

    fn copy(&mut self, session: SessionId, copy: Copy) {
        let Copy { stream, record } = copy;
        let Some(it) = self.sessions.get_mut(&session) else { return };
        let (volume, epoch, bytes) = (it.volume, it.epoch, record.content.copy_bytes());
        let is_owner = self.volumes.get(&volume).is_some_and(|volume| volume.owner == Some(session));
        if !is_owner || record.stamp.epoch != epoch || !record.content.fits(record.extent) {
            return self.end(session, GoodbyeReason::Malformed, "a copy is of an epoch that its session has opened");
        }
        if it.taken + bytes > it.credit {
            return self.end(session, GoodbyeReason::TooMuch, "there is no room reserved for this copy");
        }
        it.taken += bytes;
        self.reserved -= bytes;
        let Record { stamp, extent, .. } = record;
        let is_kept = !record.content.is_empty() || !self.config.broken.is(Rule::TrimInOrder);
        let partition = &mut self.volumes.entry(volume).or_default().partition;
        if is_kept {
            self.used += partition.take(stamp, extent, bytes);
        }
        if self.config.broken.is(Rule::CountStable) {
            partition.stable(epoch, stream, stamp.sequence);
        }
        self.append(HolderEntry::Copy(volume, stream, record));
        self.soft.push_back((self.appended, Soft::Copy(volume, epoch, stream, stamp.sequence, bytes)));
        self.soft_bytes += bytes;
        self.note_used();
        if self.config.broken.is(Rule::CountStable) {
            self.count(session);
        }
    }

    fn free(&mut self, session: SessionId, free: Free) {
        let Some(&Session { volume, .. }) = self.sessions.get(&session) else { return };
        if self.free_through(volume, free.through)
            && self.volumes.get(&volume).is_some_and(|it| it.owner == Some(session))
        {
            self.count(session);
        }
    }

    /// Copies up to here are home. Gives whether any were kept.
    fn free_through(&mut self, volume: VolumeId, through: Stamp) -> bool {
        let freed = self.volumes.get_mut(&volume).map_or(0, |it| it.partition.free(through));
        self.used -= freed;
        self.note_used();
        if freed > 0 {
            self.effects.push_back(HolderEffect::Free(volume, through));
        }
        freed > 0
    }

    fn forget(&mut self, session: SessionId) {
        let Some(&Session { volume, .. }) = self.sessions.get(&session) else { return };
        if self.volumes.get(&volume).is_some_and(|it| it.owner == Some(session)) {
            self.drop_copies(volume);
            self.end(session, GoodbyeReason::Done, "the volume has no copies here any more");
        }
    }

    /// Nothing of a volume is needed. Its streams begin again if it comes again, also after a crash.
    fn drop_copies(&mut self, volume: VolumeId) {
        if let Some(it) = self.volumes.get_mut(&volume) {
            self.used -= it.partition.forget();
            self.note_used();
            self.append(HolderEntry::Forget(volume));
        }
    }

    fn list(&mut self, session: SessionId, list: List) {
        let List { volume, epoch, after } = list;
        if self.begin(session, volume, epoch, 0) {
            self.wait(session, Waiting::List(after));
        }
    }

    /// Tells an operator of the volumes that it knows, as they stand: no epoch begins by that, and nothing is promised.
    fn list_volumes(&mut self, session: SessionId, list: ListVolumes) {
        let ListVolumes { from } = list;
        let mut left = self.held(from);
        let volumes = left.by_ref().take(VOLUMES_PER_ANSWER_MAX).collect();
        let is_last = left.next().is_none();
        drop(left);
        self.send(session, Volumes { partition: self.config.partition, volumes, is_last });
    }

    fn fetch(&mut self, session: SessionId, fetch: Fetch) {
        let Fetch { stamp } = fetch;
        let Some(&Session { volume, .. }) = self.sessions.get(&session) else { return };
        if self.volumes.get(&volume).is_some_and(|it| it.partition.has(stamp)) {
            self.effects.push_back(HolderEffect::Read(session, volume, stamp));
        } else {
            self.send(session, Kept { stamp, record: None });
        }
    }
}
