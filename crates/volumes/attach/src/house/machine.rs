//! The machine of homes: sessions of owners, and the volumes that they have open.
//!
//! ```text
//!   session: Open --> volume opening --> Opened --> one command at a time, and reads beside it
//!   session: ListHomes --> Homes, and so on; RemoveHome --> Done
//!   volume:  opening --journal installed--> open --last session gone, nothing under way--> closed
//! ```
//! 1. A session has at most a window of parts on their way, and so many reads: one that has more is ended. So nothing
//!    is kept for anybody but that, and of a volume nothing for a block.
//! 2. A write-back whose session is lost is given up, unless all of it has come. Then it continues, and whoever writes
//!    next is told by the mark.
//! 3. A newer epoch ends a write-back of an older one that has not come as a whole: its writer may be cut off for ever.
//! 4. A step that has failed is tried again; a write-back whose writing has failed is sent again by its owner.

#[cfg(test)]
mod tests;

use super::disk::{Done, Ordered, Work, WriteNumber};
use super::files::Found;
use super::volume::{Change, Out, Volume};
use crate::extents::BLOCK;
use crate::home::is_size;
use machine::metrics::{Column, Metrics};
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port, Table};
use machines::messages::holder::{Extent, VolumeId};
use machines::messages::home;
use machines::messages::home::{
    Answered, Create, End, Fence, FromHome, ListHomes, Map, NotDone, Open, Put, Read, Recall, Recalled, Remove,
    RemoveHome, Resize, Runs, Scrub, Scrubbed, Snapshot, ToHome, Took, Unread,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use types::limits::{VOLUME_READS_PER_SESSION_MAX, VOLUME_WINDOW_BYTES};
use types::{GoodbyeReason, SessionId, Time};

/// The homes of volumes.
pub const VOLUME_HOMES: Metrics<3> = Metrics {
    name: "volume_homes",
    what: "the homes of volumes of the process (docs/volumes.md)",
    columns: [
        Column::new("volumes", "now", "volumes that somebody has open"),
        Column::new("sessions", "now", "sessions that have one open"),
        Column::new(
            "damaged_blocks",
            "total",
            "blocks that were not what was written there, at each read and each scrub",
        ),
    ],
};

/// A writer is notified of room when so much more of its window is free.
const TELL_BYTES: u64 = VOLUME_WINDOW_BYTES / 16;

/// A step that has failed is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A session of an owner.
#[derive(Debug)]
struct Session {
    volume: VolumeId,
    /// It has been told that the volume is open.
    is_open: bool,
    has_command: bool,
    /// The bytes of parts that have come, that are off its window, and that it was notified of.
    came: u64,
    taken: u64,
    told: u64,
    /// Reads that were not answered.
    reads: usize,
}

/// A volume that sessions have open.
#[derive(Debug)]
struct Opening {
    sessions: BTreeSet<SessionId>,
    /// When its files are open.
    volume: Option<Volume>,
}

/// The homes of a process.
#[derive(Debug, Default)]
pub(super) struct Homes {
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions about all homes, and whether something is asked in each.
    surveys: BTreeMap<SessionId, bool>,
    volumes: BTreeMap<VolumeId, Opening>,
    last_write: u64,
    retry_at: Option<Time>,
    /// Blocks that the disk has found to be other than what was written.
    damaged: Arc<AtomicU64>,
    outputs: VecDeque<Output>,
}

/// A message that no owner says, or not now.
struct Unexpected(GoodbyeReason, &'static str);

impl Unexpected {
    const fn malformed(what: &'static str) -> Self {
        Self(GoodbyeReason::Malformed, what)
    }
}

impl Homes {
    /// Homes of a disk, which counts the blocks there that it finds to be other than what was written.
    pub(super) fn new(damaged: Arc<AtomicU64>) -> Self {
        Self { damaged, ..Self::default() }
    }

    fn say(&mut self, to: SessionId, message: impl Into<FromHome>) {
        self.outputs.push_back(Output::Send(Port::Session(to), Parcel::new(message.into()), None));
    }

    fn work(&mut self, work: Work) {
        self.outputs.push_back(Output::Disk(Opaque::new(work)));
    }

    /// Ends a session, and takes leave of it.
    fn end(&mut self, now: Time, session: SessionId, reason: GoodbyeReason, why: &str) {
        self.outputs.push_back(Output::End(Port::Session(session), reason, why.to_owned()));
        self.leave(now, session);
    }

    fn hear(&mut self, now: Time, from: SessionId, message: ToHome) -> Result<(), Unexpected> {
        match message {
            ToHome::Open(Open { volume }) => return self.open(now, from, volume, None),
            ToHome::Create(Create { volume, size }) if is_size(size) => {
                return self.open(now, from, volume, Some(size));
            }
            ToHome::Create(_) => return Err(Unexpected::malformed("a size that no volume can have")),
            ToHome::ListHomes(ListHomes { from: first }) => return self.list(from, first),
            ToHome::RemoveHome(remove) => return self.discard(from, remove),
            // Its end follows.
            ToHome::Goodbye(_) => return Ok(()),
            _ => {}
        }
        let session = self.sessions.get_mut(&from).filter(|session| session.is_open);
        let session = session.ok_or(Unexpected::malformed("a message before the volume is open"))?;
        let id = session.volume;
        let Some(Opening { sessions, volume: Some(volume) }) = self.volumes.get_mut(&id) else { return Ok(()) };
        let is_question = matches!(message, ToHome::Read(_) | ToHome::Scrub(_) | ToHome::Map(_) | ToHome::Recall(_));
        let is_command = !is_question && !matches!(message, ToHome::Put(_) | ToHome::End(_));
        if is_command && mem::replace(&mut session.has_command, true) {
            return Err(Unexpected::malformed("a command while another one is under way"));
        }
        let mut out = Out::default();
        match message {
            ToHome::Fence(Fence { epoch, owner }) => volume.fence(from, epoch, owner, &mut out),
            ToHome::Begin(begin) if begin.through.epoch > begin.epoch => {
                return Err(Unexpected::malformed("a write-back up to a write of a later epoch"));
            }
            ToHome::Begin(begin) => {
                self.last_write += 1;
                volume.begin(from, begin, WriteNumber(self.last_write), &mut out);
            }
            ToHome::Put(put) => {
                session.take(&put, volume.size())?;
                let cost = put.cost();
                if !volume.put(from, put, &mut out) {
                    self.took(from, cost);
                }
            }
            ToHome::End(End { is_whole }) => volume.end(from, is_whole, &mut out),
            ToHome::Read(Read { id: number, extent }) => {
                session.ask()?;
                self.work(Work::Read(from, id, number, extent));
            }
            ToHome::Scrub(Scrub { id: number, extent }) => {
                session.ask()?;
                self.work(Work::Scrub(from, id, number, extent));
            }
            ToHome::Map(Map { id: number, extent }) => {
                session.ask()?;
                self.work(Work::Map(from, id, number, extent));
            }
            ToHome::Recall(Recall { id: number }) => {
                session.ask()?;
                self.work(Work::Recall(from, id, number));
            }
            ToHome::Keep(keep) => volume.keep(from, keep, &mut out),
            ToHome::Resize(Resize { epoch, size }) if is_size(size) => {
                volume.change(from, Change::Resize(epoch, size), true, &mut out);
            }
            ToHome::Resize(_) => return Err(Unexpected::malformed("a size that no volume can have")),
            ToHome::Snapshot(Snapshot { to }) => volume.change(from, Change::Snapshot(to), true, &mut out),
            ToHome::Remove(Remove { epoch }) => {
                volume.change(from, Change::Remove(epoch), sessions.len() == 1, &mut out);
            }
            ToHome::Open(_) | ToHome::Create(_) | ToHome::ListHomes(_) | ToHome::RemoveHome(_) | ToHome::Goodbye(_) => {
            }
        }
        self.carry_out(now, id, out);
        Ok(())
    }

    fn open(&mut self, now: Time, from: SessionId, id: VolumeId, create: Option<u64>) -> Result<(), Unexpected> {
        if self.surveys.contains_key(&from) {
            return Err(Unexpected::malformed("an Open in a session about all homes"));
        }
        match self.sessions.get(&from) {
            Some(session) if session.volume != id => return Err(Unexpected::malformed("an Open of another volume")),
            Some(session) if !session.is_open => return Ok(()),
            Some(_) => {
                let opened = self.volumes.get(&id).and_then(|of| of.volume.as_ref()?.opened());
                if let Some(opened) = opened {
                    self.say(from, opened);
                }
                return Ok(());
            }
            None => {}
        }
        let (is_open, has_command, came, taken, told, reads) = Default::default();
        self.sessions.insert(from, Session { volume: id, is_open, has_command, came, taken, told, reads });
        if let Some(of) = self.volumes.get_mut(&id) {
            of.sessions.insert(from);
        } else {
            self.volumes.insert(id, Opening { sessions: BTreeSet::from([from]), volume: None });
            self.work(Work::Ordered(id, Ordered::Open(create)));
        }
        let found = self.volumes.get(&id).and_then(|of| of.volume.as_ref());
        // A maker wants a new one, which may be the one that it has asked for before.
        let is_other = |size| found.is_some_and(|volume| !volume.is_new() || volume.size() != size);
        if create.is_some_and(is_other) {
            self.refuse(now, from, NotDone::Exists);
        } else {
            self.tell_open(id);
        }
        Ok(())
    }

    /// A session wants to know of homes: it is about all of them.
    fn list(&mut self, from: SessionId, first: VolumeId) -> Result<(), Unexpected> {
        if self.sessions.contains_key(&from) {
            return Err(Unexpected::malformed("a ListHomes in a session of one volume"));
        }
        self.surveys.entry(from).or_default();
        self.survey(from)?;
        self.work(Work::List(from, first));
        Ok(())
    }

    /// Removes the files of a home that nobody has open. A session that opens it in the meantime comes behind that, and
    /// finds none.
    fn discard(&mut self, from: SessionId, remove: RemoveHome) -> Result<(), Unexpected> {
        self.survey(from)?;
        if self.volumes.contains_key(&remove.volume) {
            self.surveyed(from, NotDone::Busy);
        } else {
            self.work(Work::Ordered(remove.volume, Ordered::Discard(from, remove.unwritten_s)));
        }
        Ok(())
    }

    fn survey(&mut self, from: SessionId) -> Result<(), Unexpected> {
        let asks = self.surveys.get_mut(&from).ok_or(Unexpected::malformed("a RemoveHome before a ListHomes"))?;
        let asks_twice = Unexpected::malformed("a question while another one is under way");
        if mem::replace(asks, true) { Err(asks_twice) } else { Ok(()) }
    }

    fn surveyed(&mut self, to: SessionId, answer: impl Into<FromHome>) {
        if self.surveys.get_mut(&to).is_some_and(mem::take) {
            self.say(to, answer);
        }
    }

    /// A session gets no volume, and why.
    fn refuse(&mut self, now: Time, session: SessionId, why: NotDone) {
        self.say(session, why);
        self.end(now, session, GoodbyeReason::Done, "the volume cannot be opened");
    }

    fn opened(&mut self, now: Time, id: VolumeId, opened: Result<Found, NotDone>) {
        let Some(of) = self.volumes.get_mut(&id) else { return };
        match opened {
            Ok(found) => {
                let mut out = Out::default();
                of.volume = Some(Volume::new(found, &mut out));
                self.carry_out(now, id, out);
            }
            Err(why) => {
                let sessions = mem::take(&mut of.sessions);
                self.volumes.remove(&id);
                for session in sessions {
                    self.refuse(now, session, why.clone());
                }
            }
        }
    }

    /// Tells sessions that their volume is open, when it is.
    fn tell_open(&mut self, id: VolumeId) {
        let Some(of) = self.volumes.get(&id) else { return };
        let Some(opened) = of.volume.as_ref().and_then(Volume::opened) else { return };
        for to in of.sessions.clone() {
            if self.sessions.get_mut(&to).is_some_and(|session| !mem::replace(&mut session.is_open, true)) {
                self.say(to, opened);
            }
        }
    }

    /// Passes on what has come of an event, and closes a volume that nobody needs any more.
    fn carry_out(&mut self, now: Time, id: VolumeId, out: Out) {
        let Out { answers, work, retries } = out;
        for work in work {
            self.work(Work::Ordered(id, work));
        }
        for (to, answer) in answers {
            if self.sessions.get_mut(&to).is_some_and(|session| mem::replace(&mut session.has_command, false)) {
                self.say(to, answer);
            }
        }
        if retries {
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        self.tell_open(id);
        let is_over = |of: &Opening| of.sessions.is_empty() && of.volume.as_ref().is_some_and(Volume::is_idle);
        if self.volumes.get(&id).is_some_and(is_over) {
            self.volumes.remove(&id);
            self.work(Work::Ordered(id, Ordered::Close));
        }
    }

    fn with(&mut self, now: Time, id: VolumeId, run: impl FnOnce(&mut Volume, &mut Out)) {
        if let Some(Opening { volume: Some(volume), .. }) = self.volumes.get_mut(&id) {
            let mut out = Out::default();
            run(volume, &mut out);
            self.carry_out(now, id, out);
        }
    }

    fn changed(&mut self, now: Time, id: VolumeId, outcome: &Result<(), String>) {
        let mut is_removed = false;
        self.with(now, id, |volume, out| is_removed = volume.changed(outcome, out));
        if is_removed && let Some(of) = self.volumes.remove(&id) {
            for session in of.sessions {
                self.end(now, session, GoodbyeReason::Done, "the volume was removed");
            }
        }
    }

    /// Bytes of parts are off the window of their session.
    fn took(&mut self, of: SessionId, bytes: u64) {
        let Some(session) = self.sessions.get_mut(&of) else { return };
        session.taken += bytes;
        if session.taken - session.told >= TELL_BYTES {
            session.told = session.taken;
            let bytes = session.taken;
            self.say(of, Took { bytes });
        }
    }

    /// A read is answered.
    fn answer(&mut self, to: SessionId, message: impl Into<FromHome>) {
        if let Some(session) = self.sessions.get_mut(&to) {
            session.reads = session.reads.saturating_sub(1);
            self.say(to, message);
        }
    }

    /// The registry's entry is kept for a session, or is not.
    fn kept(&mut self, to: SessionId, kept: Result<(), NotDone>) {
        if self.sessions.get_mut(&to).is_some_and(|session| mem::replace(&mut session.has_command, false)) {
            self.say(to, kept.map_or_else(FromHome::from, |()| home::Done.into()));
        }
    }

    fn leave(&mut self, now: Time, of: SessionId) {
        self.surveys.remove(&of);
        let Some(session) = self.sessions.remove(&of) else { return };
        if let Some(volume) = self.volumes.get_mut(&session.volume) {
            volume.sessions.remove(&of);
        }
        self.with(now, session.volume, |volume, out| volume.left(of, out));
    }
}

impl Session {
    /// A part has come.
    fn take(&mut self, put: &Put, size: u64) -> Result<(), Unexpected> {
        let Extent { offset, len } = put.extent;
        let is_whole = offset.is_multiple_of(BLOCK as u64) && len.is_multiple_of(BLOCK as u64);
        if !is_whole || put.extent.end().is_none_or(|end| end > size) {
            return Err(Unexpected::malformed("a part that is not of whole blocks of the volume"));
        }
        self.came += put.cost();
        if self.came - self.taken > VOLUME_WINDOW_BYTES {
            return Err(Unexpected(GoodbyeReason::TooMuch, "more parts of write-backs than the window has room for"));
        }
        Ok(())
    }

    /// A read has come.
    fn ask(&mut self) -> Result<(), Unexpected> {
        self.reads += 1;
        let too_much = Unexpected(GoodbyeReason::TooMuch, "more reads at a time than a session may have");
        if self.reads > VOLUME_READS_PER_SESSION_MAX { Err(too_much) } else { Ok(()) }
    }
}

impl Machine for Homes {
    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, now: Time, port: Port) {
        if let Port::Session(session) = port {
            self.leave(now, session);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        let (Port::Session(from), Ok(message)) = (port, message.open()) else { return };
        if let Err(Unexpected(reason, what)) = self.hear(now, from, message) {
            self.end(now, from, reason, what);
        }
    }

    fn disk(&mut self, now: Time, done: DiskDone) {
        let Ok(done) = done.open() else { return };
        match done {
            Done::Opened(id, opened) => self.opened(now, id, opened),
            Done::Took(session, bytes) => self.took(session, bytes),
            Done::Failed(id, number, text) => self.with(now, id, |volume, out| volume.failed(number, text, out)),
            Done::Stepped(id, step, outcome) => self.with(now, id, |volume, out| volume.stepped(step, outcome, out)),
            Done::Changed(id, outcome) => self.changed(now, id, &outcome),
            Done::Read(to, id, Ok(data)) => self.answer(to, Answered { id, data }),
            Done::Scrubbed(to, id, Ok(sums)) => self.answer(to, Scrubbed { id, sums }),
            Done::Read(to, id, Err(why)) | Done::Scrubbed(to, id, Err(why)) => self.answer(to, Unread { id, why }),
            Done::Mapped(to, id, runs) => self.answer(to, Runs { id, runs }),
            Done::Recalled(to, id, entry) => self.answer(to, Recalled { id, entry }),
            Done::Kept(to, kept) => self.kept(to, kept),
            Done::Listed(to, homes) => self.surveyed(to, homes.map_or_else(FromHome::from, FromHome::from)),
            Done::Discarded(to, done) => {
                self.surveyed(to, done.map_or_else(FromHome::from, |()| home::Done.into()));
            }
        }
    }

    fn status(&self) -> Vec<Table> {
        let facts = [
            ("volumes", self.volumes.len().into()),
            ("sessions", self.sessions.len().into()),
            ("damaged_blocks", self.damaged.load(Relaxed).into()),
        ];
        vec![VOLUME_HOMES.one(facts)]
    }

    fn stop(&mut self, _: &str) {
        *self = Self::default();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.retry_at
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            for id in self.volumes.keys().copied().collect::<Vec<_>>() {
                self.with(now, id, Volume::go_on);
            }
        }
    }
}
