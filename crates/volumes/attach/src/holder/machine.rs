//! The holder in its process: the entries that it wants in its log get positions, and its answers leave by sessions.
//!
//! ```text
//!   owner --Copy--> machines::Holder --Append--> position 17 --> HolderDisk --> durable through 17
//!         <--Counted------------------------- stable <------------+
//!   taker --Fetch-------> Read --> position 17 --> HolderDisk --> the copy
//! ```
//! It promises owners no more room than its log has (`limit`). When the log cannot grow any more and fills up with what
//! is not needed, the oldest entries that are needed are moved to its end, so that segments become free ([`Places`]).

use super::places::{Oldest, Places};
use machine::{Done, Machine, Opaque, Output, Parcel, Port};
use machines::messages::holder::{Epoch, Stamp, ToHolder, VolumeId};
use machines::{Holder, HolderEffect, HolderEntry, View};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Duration;
use types::{Position, SessionId, Time};

/// The most bytes of copies that are moved at a time.
const MOVED_BYTES_MAX: u64 = 4 << 20;

/// A copy at the log's front that could not be read is read again after this long.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Work for a holder's disk.
#[derive(Debug)]
pub(super) enum Work {
    /// Append this at the next position.
    Append(u64, HolderEntry),
    /// Read the copy at this position.
    Read(Whose, u64),
    /// Nothing before this position is needed; and whether somebody waits for the room.
    Free(u64, bool),
}

/// The party that has wanted a copy read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    /// A host that takes over.
    Session(SessionId, Stamp),
    /// The log's cleaning.
    Cleaning(VolumeId, Stamp),
}

/// The work that is done.
#[derive(Debug)]
pub(super) enum WorkDone {
    /// Everything through this position is durable.
    Durable(u64, Room),
    /// The log has become larger, or something in it free: behind the entry at this position, which is durable, it has
    /// so much.
    Room(u64, Room),
    /// A copy, if it is there and sound.
    Read(Whose, Option<HolderEntry>),
}

impl Done for WorkDone {
    fn durable(&self) -> Option<Position> {
        if let Self::Durable(through, _) = *self { Some(Position(through)) } else { None }
    }
}

/// The room of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Free bytes.
    pub(super) free: u64,
    /// All of them.
    pub(super) total: u64,
    /// Whether the log may become larger.
    pub(super) may_grow: bool,
    /// The bytes of its longest segment.
    pub(super) segment: u64,
}

impl Room {
    /// Whether so little can be promised that it is worth a flush, or moving what is needed. The room for the
    /// cleaning is never promised: in a log of a few long segments that is most of the log, and would never be freed.
    fn is_short(self) -> bool {
        self.promises() < self.total / 8
    }

    /// The bytes of copies that can be promised: half of what is free, as a copy that is flushed alone takes up to two
    /// blocks for one, and none of what the cleaning takes.
    fn promises(self) -> u64 {
        self.free.saturating_sub(self.cleaning_max()) / 2
    }

    /// Whether moving what is needed, of which there are `used` bytes, can free more than it takes. A segment may be
    /// kept as the reserve of a full disk.
    fn is_worth_cleaning(self, used: u64) -> bool {
        used < self.total / 8 * 5 && self.total.saturating_sub(self.free + used) > self.segment + self.segment / 2
    }

    /// The bytes of copies that are moved at a time.
    fn moved_max(self) -> u64 {
        (self.total / 32).min(MOVED_BYTES_MAX)
    }

    /// The bytes that the cleaning may take before it has made any free: a segment is free when all of it has been
    /// moved.
    fn cleaning_max(self) -> u64 {
        self.moved_max() + if self.may_grow { 0 } else { self.segment }
    }
}

/// How far the oldest entries have been moved to the end.
#[derive(Debug)]
enum Cleaning {
    Idle,
    /// So many copies are being read.
    Reading(usize),
    /// Through this position they are not durable yet.
    Flushing(u64),
    /// Everything before them should be free.
    Freeing,
}

/// A copy in the way that could not be read. Nothing behind it is moved, as that would make nothing free: the log is
/// freed from its front alone, so all of it would be appended again and again.
#[derive(Clone, Copy, Debug)]
struct Damaged {
    position: u64,
    /// It is read again then; `None` when that time has come.
    again_at: Option<Time>,
}

/// A holder, with the places of its entries.
#[derive(Debug)]
pub(super) struct HolderMachine {
    holder: Holder,
    places: Places,
    /// The positions of the machine's own entries that are not durable. Those that were moved are not among them.
    soft: VecDeque<u64>,
    /// The machine's entries of this life that are.
    stable: u64,
    /// Everything through this position is durable.
    durable: u64,
    room: Room,
    cleaning: Cleaning,
    damaged: Option<Damaged>,
    /// Everything before this position is known to be free.
    freed: u64,
    /// Where the registry is asked for epochs, if there is one.
    asks: Option<Sender<(VolumeId, Epoch)>>,
    outputs: VecDeque<Output>,
}

impl HolderMachine {
    /// A holder that has recovered what its log has.
    pub(super) fn new(holder: Holder, places: Places, room: Room) -> Self {
        let durable = places.next() - 1;
        let mut machine = Self {
            holder,
            places,
            durable,
            soft: VecDeque::new(),
            stable: 0,
            room: Room::default(),
            cleaning: Cleaning::Idle,
            damaged: None,
            freed: 0,
            asks: None,
            outputs: VecDeque::new(),
        };
        machine.has_room(durable, room);
        machine
    }

    /// The same, and the registry is asked there for epochs.
    pub(super) fn asking(self, asks: Option<Sender<(VolumeId, Epoch)>>) -> Self {
        Self { asks, ..self }
    }

    /// The holder, to look at.
    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// See [`Holder::leave`].
    pub(super) fn leave(&mut self) {
        self.holder.leave();
    }

    /// See [`Holder::disk_has`]: `bytes` is what the log's files have, and what the disk has for more of them. Half of
    /// it is for copies, as [`HolderMachine::has_room`] says.
    pub(super) fn disk_has(&mut self, bytes: u64) {
        let cleaning = Room { total: bytes, may_grow: false, ..self.room }.cleaning_max();
        self.holder.disk_has(bytes.saturating_sub(cleaning) / 2);
    }

    /// See [`Holder::registered`].
    pub(super) fn registered(&mut self, volume: VolumeId, view: &View) {
        self.holder.registered(volume, view);
    }

    /// See [`Holder::asked`].
    pub(super) fn asked(&mut self, volume: VolumeId, registered: Option<Epoch>) {
        self.holder.asked(volume, registered);
    }

    /// See [`Holder::unregistered`].
    pub(super) fn unregistered(&mut self, volume: VolumeId) {
        if self.holder.unregistered(volume) {
            self.places.drop_volume(volume);
        }
    }

    fn carry_out(&mut self, effect: HolderEffect) {
        let output = match effect {
            HolderEffect::Append(entry) => {
                let position = self.places.push(&entry);
                self.soft.push_back(position);
                disk(Work::Append(position, entry))
            }
            HolderEffect::Send(session, message) => Output::Send(Port::Session(session), Parcel::new(message), None),
            HolderEffect::End(session, reason, text) => Output::End(Port::Session(session), reason, text),
            HolderEffect::Read(session, volume, stamp) => match self.places.find(volume, stamp) {
                Some(position) => disk(Work::Read(Whose::Session(session, stamp), position)),
                None => return self.holder.read(session, stamp, None),
            },
            HolderEffect::Free(volume, through) => return self.places.free(volume, through),
            HolderEffect::Ask(volume, epoch) => {
                // Nobody asks any more: it is stopping.
                let _ = self.asks.as_ref().map(|asks| asks.send((volume, epoch)));
                return;
            }
        };
        self.outputs.push_back(output);
    }

    /// Everything through a position is durable.
    fn durable(&mut self, through: u64) {
        while self.soft.front().is_some_and(|&position| position <= through) {
            self.soft.pop_front();
            self.stable += 1;
        }
        self.durable = self.durable.max(through);
        self.holder.stable(self.stable);
        if matches!(self.cleaning, Cleaning::Flushing(last) if last <= self.durable) {
            self.cleaning = Cleaning::Freeing;
        }
    }

    /// Behind this position, which is durable, the log has this room. The room of an earlier end of the log is there no
    /// more: the disk's threads do not wait for each other's word.
    fn has_room(&mut self, through: u64, room: Room) {
        if through < self.durable {
            return;
        }
        self.room = room;
        self.holder.limit(room.promises());
    }

    /// Moves the oldest entries, if the log is full of what is not needed.
    fn clean(&mut self) {
        let room = self.room;
        let is_due = !room.may_grow && room.is_short() && room.is_worth_cleaning(self.holder.used());
        if !is_due || !matches!(self.cleaning, Cleaning::Idle) {
            return;
        }
        let needed = self.places.needed();
        self.damaged = self.damaged.filter(|it| it.position >= needed);
        let end = match self.damaged {
            Some(Damaged { again_at: Some(_), .. }) => return,
            Some(Damaged { position, again_at: None }) => position + 1,
            None => self.durable + 1,
        };
        let oldest = self.places.oldest(end, self.room.moved_max());
        if oldest.is_empty() {
            return;
        }
        let mut reads = 0;
        for oldest in oldest {
            match oldest {
                Oldest::Copy(volume, stamp, position) => {
                    reads += 1;
                    self.outputs.push_back(disk(Work::Read(Whose::Cleaning(volume, stamp), position)));
                }
                Oldest::Epoch(entry) => self.append_moved(entry),
            }
        }
        self.cleaning = if reads > 0 { Cleaning::Reading(reads) } else { Cleaning::Flushing(self.places.next() - 1) };
    }

    /// A copy that should be moved was read. One that is damaged stays where it is: a later read may succeed, and says
    /// so if not.
    fn moved(&mut self, now: Time, volume: VolumeId, stamp: Stamp, entry: Option<HolderEntry>) {
        let is_in_front = |position: &u64| self.damaged.is_none_or(|it| it.position >= *position);
        // It may be home in the meantime.
        if let Some(position) = self.places.find(volume, stamp).filter(is_in_front) {
            match entry {
                Some(entry) => self.append_moved(entry),
                None => self.damaged = Some(Damaged { position, again_at: Some(now + READ_AGAIN_AFTER) }),
            }
        }
        let last = self.places.next() - 1;
        self.cleaning = match self.cleaning {
            Cleaning::Reading(reads) if reads > 1 => Cleaning::Reading(reads - 1),
            _ if last > self.durable => Cleaning::Flushing(last),
            _ => Cleaning::Freeing,
        };
    }

    fn append_moved(&mut self, entry: HolderEntry) {
        let position = self.places.push(&entry);
        self.outputs.push_back(disk(Work::Append(position, entry)));
    }
}

fn disk(work: Work) -> Output {
    Output::Disk(Opaque::new(work))
}

impl Machine for HolderMachine {
    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, _: Time, port: Port) {
        if let Port::Session(session) = port {
            self.holder.down(session);
        }
    }

    fn handle(&mut self, _: Time, port: Port, message: Parcel) {
        if let (Port::Session(session), Ok(message)) = (port, message.open::<ToHolder>()) {
            self.holder.heard(session, message);
        }
    }

    fn disk(&mut self, now: Time, done: machine::DiskDone) {
        match done.open() {
            Ok(WorkDone::Durable(through, room)) => {
                // The room first: those that count what is durable are promised more at once, of what is there now.
                self.has_room(through, room);
                self.durable(through);
            }
            Ok(WorkDone::Room(through, room)) => {
                self.has_room(through, room);
                if matches!(self.cleaning, Cleaning::Freeing) {
                    self.cleaning = Cleaning::Idle;
                }
            }
            Ok(WorkDone::Read(Whose::Session(session, stamp), entry)) => {
                let record = entry.and_then(|entry| match entry {
                    HolderEntry::Copy(_, _, record) if record.stamp == stamp => Some((record.extent, record.content)),
                    _ => None,
                });
                self.holder.read(session, stamp, record);
            }
            Ok(WorkDone::Read(Whose::Cleaning(volume, stamp), entry)) => self.moved(now, volume, stamp, entry),
            Err(other) => debug_assert!(false, "{other:?} is not work of a holder's disk"),
        }
    }

    fn stop(&mut self, _: &str) {
        self.outputs.clear();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.damaged?.again_at
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(damaged) = &mut self.damaged {
            damaged.again_at.take_if(|at| *at <= now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        while let Some(effect) = self.holder.poll_effect() {
            self.carry_out(effect);
        }
        if self.outputs.is_empty() {
            self.clean();
            let needed = self.places.needed();
            if needed > self.freed {
                self.freed = needed;
                let is_awaited = self.room.is_short() || matches!(self.cleaning, Cleaning::Freeing);
                self.outputs.push_back(disk(Work::Free(needed, is_awaited)));
            } else if matches!(self.cleaning, Cleaning::Freeing) {
                // The entries that were moved were in nobody's way.
                self.cleaning = Cleaning::Idle;
            }
        }
        self.outputs.pop_front()
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::HolderConfig;
    use machines::messages::holder::{
        Content, Copy, Extent, FlushEpoch, FromHolder, Open, PartitionId, Record, Sequence, Stream,
    };

    const VOLUME: VolumeId = VolumeId(1);
    const FULL: Room = Room { free: 4096, total: 1 << 20, may_grow: false, segment: 0 };

    fn copy(sequence: u64) -> HolderEntry {
        copy_of(sequence, 4096)
    }

    fn copy_of(sequence: u64, bytes: usize) -> HolderEntry {
        let stamp = Stamp { epoch: Epoch(1), sequence: Sequence(sequence), flush: FlushEpoch(1) };
        let (extent, content) = (Extent { offset: 0, len: bytes as u64 }, Content::Data(vec![0; bytes].into()));
        HolderEntry::Copy(VOLUME, Stream::Live, Record { stamp, extent, content })
    }

    /// Does the work of a disk that cannot read one position, and gives what was appended and read, for this many steps
    /// at most.
    fn work(machine: &mut HolderMachine, now: Time, damaged: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut appended, mut read) = (Vec::new(), Vec::new());
        for _ in 0..1000 {
            let Some(output) = machine.poll_output() else { break };
            let Output::Disk(work) = output else { continue };
            let done = match work.open().unwrap() {
                Work::Append(position, _) => {
                    appended.push(position);
                    WorkDone::Durable(position, FULL)
                }
                Work::Read(whose @ Whose::Cleaning(_, stamp), position) => {
                    read.push(position);
                    WorkDone::Read(whose, (position != damaged).then(|| copy(stamp.sequence.0)))
                }
                Work::Read(Whose::Session(..), _) => panic!("nobody takes over"),
                Work::Free(..) => WorkDone::Room(machine.durable, FULL),
            };
            machine.disk(now, machine::DiskDone::new(done));
        }
        (appended, read)
    }

    /// An owner that sends everything that it may, as soon as it may, to a holder whose log cannot become larger.
    #[test]
    fn no_more_is_promised_than_the_log_has_room_for() {
        let (total, bytes, port) = (8 << 20, 64 << 10, Port::Session(SessionId(1)));
        let room = |free| Room { free, total, may_grow: false, segment: 0 };
        let holder = Holder::new(HolderConfig::new(PartitionId(1), 64 << 20));
        let mut machine = HolderMachine::new(holder, Places::new(1), room(total));
        let open = Open { volume: VOLUME, epoch: Epoch(1), revision: 1, home: Stamp::begin(Epoch(1)) };
        machine.handle(Time(0), port, Parcel::new(ToHolder::Open(open)));
        let (mut free, mut sent, mut credit) = (total, 0, 0);
        loop {
            let mut through = 0;
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Disk(work) => {
                        if let Ok(Work::Append(position, entry)) = work.open() {
                            let bytes =
                                if let HolderEntry::Copy(_, _, record) = entry { record.content.len() } else { 0 };
                            let left = free.checked_sub(bytes + 4096);
                            (through, free) = (position, left.expect("a copy that was promised room has none"));
                        }
                    }
                    Output::Send(_, message, _) => match message.open() {
                        Ok(FromHolder::Opened(opened)) => credit = opened.credit,
                        Ok(FromHolder::Counted(counted)) => credit = counted.credit,
                        other => panic!("{other:?}"),
                    },
                    other => panic!("{other:?}"),
                }
            }
            if through > 0 {
                // A word of before comes late.
                for done in [WorkDone::Durable(through, room(free)), WorkDone::Room(through - 1, room(total))] {
                    machine.disk(Time(0), machine::DiskDone::new(done));
                }
                continue;
            }
            let before = sent;
            while (sent + 1) * (bytes + 512) <= credit {
                sent += 1;
                let HolderEntry::Copy(_, stream, record) = copy_of(sent, bytes as usize) else { unreachable!() };
                machine.handle(Time(0), port, Parcel::new(ToHolder::Copy(Copy { stream, record })));
            }
            if sent == before {
                break;
            }
        }
        assert!(sent * bytes > total / 2, "{sent} copies are few for {total} bytes");
    }

    /// A disk with room for four segments, of which one is a reserve: what is freed has to be flushed before another
    /// copy comes, as nothing can be promised until then, and so none comes.
    #[test]
    fn a_log_of_few_long_segments_is_freed_at_once() {
        let room = Room { free: 17 << 19, total: 32 << 20, may_grow: false, segment: 8 << 20 };
        assert_eq!(room.promises(), 0);
        let (mut holder, mut places) = (Holder::new(HolderConfig::new(PartitionId(1), 64 << 20)), Places::new(1));
        for entry in (1..=5).map(copy) {
            holder.recover(&entry);
            places.push(&entry);
        }
        let mut machine = HolderMachine::new(holder, places, room);
        let (port, HolderEntry::Copy(_, _, Record { stamp: home, .. })) = (Port::Session(SessionId(1)), copy(5)) else {
            unreachable!("it is a copy");
        };
        let open = Open { volume: VOLUME, epoch: Epoch(1), revision: 1, home };
        machine.handle(Time(0), port, Parcel::new(ToHolder::Open(open)));
        let mut freed = Vec::new();
        while let Some(output) = machine.poll_output() {
            if let Output::Disk(work) = output
                && let Ok(Work::Free(position, is_awaited)) = work.open()
            {
                freed.push((position, is_awaited));
            }
        }
        assert_eq!(freed, [(6, true)]);
    }

    #[test]
    fn nothing_is_moved_past_a_copy_that_cannot_be_read() {
        let (mut holder, mut places) = (Holder::new(HolderConfig::new(PartitionId(1), 1 << 20)), Places::new(1));
        let entries = [HolderEntry::Epoch(VOLUME, Epoch(1), 1)].into_iter().chain((1..=5).map(copy));
        for entry in entries {
            holder.recover(&entry);
            places.push(&entry);
        }
        let mut machine = HolderMachine::new(holder, places, FULL);
        // The epoch and two copies are moved from before position 4, and after that nothing continues.
        let (appended, read) = work(&mut machine, Time(0), 4);
        assert_eq!((appended, read), (vec![7, 8, 9], vec![2, 3, 4, 5, 6]));
        let again_at = Time(0) + READ_AGAIN_AFTER;
        assert_eq!(machine.poll_timeout(), Some(again_at));
        machine.handle_timeout(again_at);
        assert_eq!(work(&mut machine, again_at, 4), (vec![], vec![4]), "that one alone is read again");
        // When it can be read the others follow.
        let again_at = again_at + READ_AGAIN_AFTER;
        machine.handle_timeout(again_at);
        let (appended, read) = work(&mut machine, again_at, 0);
        assert_eq!((&appended[..3], &read[..3]), (&[10, 11, 12][..], &[4, 5, 6][..]));
    }
}
