//! A volume at its home, while sessions have it open: the write-back under way, epochs that begin, and other commands.
//!
//! [`Home`] decides whose writes are taken and which step is next. A step waits until all parts of a write-back have come, and
//! there is one at a time at the disk.

use super::disk::{Ordered, WriteNumber};
use super::files::{Found, With};
use machines::messages::holder::{Epoch, Stamp, VolumeId};
use machines::messages::home::{Begin, Done, Durable, Fenced, FromHome, Keep, NotDone, Opened, Put};
use machines::{Home, HomeRefusal, Step};
use types::limits::VOLUME_WINDOW_BYTES;
use types::{Broken, SessionId};

/// The outcome of an event: answers to commands, and work for the disk, each in order.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) answers: Vec<(SessionId, FromHome)>,
    pub(super) work: Vec<Ordered>,
    /// A step has failed, and should be tried again after a while.
    pub(super) retries: bool,
}

impl Out {
    fn answer(&mut self, to: Option<SessionId>, answer: impl Into<FromHome>) {
        self.answers.extend(to.map(|to| (to, answer.into())));
    }
}

/// A command besides write-backs and fences.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Resize(Epoch, u64),
    Snapshot(VolumeId),
    Remove(Epoch),
}

/// The write-back under way.
#[derive(Debug)]
struct Writing {
    number: WriteNumber,
    begin: Begin,
    /// The session that waits for it.
    session: Option<SessionId>,
    /// Whether all of its parts have come.
    is_whole: bool,
}

/// A volume.
#[derive(Debug)]
pub(super) struct Volume {
    home: Home,
    /// The newest epoch, also if it is about to begin, and whose it is.
    newest: Epoch,
    owner: u64,
    generation: u64,
    size: u64,
    /// The journal that was found is being installed.
    is_recovering: bool,
    writing: Option<Writing>,
    /// Hosts that wait for their epoch to begin.
    fences: Vec<(SessionId, Epoch)>,
    /// The step that the disk is at.
    doing: Option<Step>,
    /// The command that the disk is at, and who waits for it.
    changing: Option<(Option<SessionId>, Change)>,
}

impl Volume {
    /// A volume whose files are open.
    pub(super) fn new(found: Found, out: &mut Out) -> Self {
        let Found { size, epoch, owner, mark, generation, journal } = found;
        let home = Home::new(epoch, mark, journal, Broken::NONE);
        let (writing, fences, doing, changing) = Default::default();
        let mut volume = Self {
            home,
            newest: epoch,
            owner,
            generation,
            size,
            is_recovering: journal.is_some(),
            writing,
            fences,
            doing,
            changing,
        };
        volume.go_on(out);
        volume
    }

    /// The word on it for sessions, unless its journal is not installed yet.
    pub(super) fn opened(&self) -> Option<Opened> {
        let (epoch, mark) = (self.home.epoch(), self.home.mark());
        let (owner, generation, size, window) = (self.owner, self.generation, self.size, VOLUME_WINDOW_BYTES);
        (!self.is_recovering).then_some(Opened { epoch, owner, generation, mark, size, window })
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it was made, and nobody has had it since.
    pub(super) fn is_new(&self) -> bool {
        self.home.epoch() == Epoch(0)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.doing.is_none() && self.changing.is_none() && self.home.step().is_none()
    }

    /// A newer epoch begins.
    pub(super) fn fence(&mut self, from: SessionId, epoch: Epoch, owner: u64, out: &mut Out) {
        // Two hosts that want the same epoch: it is that of the first.
        if self.newest == epoch && owner != self.owner {
            return out.answer(Some(from), NotDone::Ended(epoch));
        }
        match self.home.fence(epoch) {
            Ok(()) => {
                (self.newest, self.owner) = (epoch, owner);
                self.give_up_before(epoch, None, NotDone::Ended(epoch), out);
                // One that came as a whole is dropped with its journal: its writer waits for an answer all the same.
                if matches!(self.home.step(), Some(Step::Fence(_))) {
                    self.give_up(NotDone::Ended(epoch), out);
                }
                self.fences.push((from, epoch));
            }
            Err(refusal) => out.answer(Some(from), refused(refusal)),
        }
        self.go_on(out);
    }

    /// A write-back begins.
    pub(super) fn begin(&mut self, from: SessionId, begin: Begin, number: WriteNumber, out: &mut Out) {
        // That of an earlier session of the same owner, or of an earlier owner, whose end was not learned of yet.
        self.give_up_before(begin.epoch, Some(from), NotDone::Busy, out);
        let taken = match self.changing {
            Some(_) => Err(HomeRefusal::Busy),
            None => self.home.begin(begin.epoch, begin.through, begin.is_joined),
        };
        match taken {
            Ok(()) => {
                self.writing = Some(Writing { number, begin, session: Some(from), is_whole: false });
                out.work.push(Ordered::Begin(number, begin.is_joined));
            }
            Err(refusal) => out.answer(Some(from), refused(refusal)),
        }
        self.go_on(out);
    }

    /// A part of it. Returns whether it goes to the disk: that of a write-back which was refused or has failed does
    /// not.
    pub(super) fn put(&mut self, from: SessionId, put: Put, out: &mut Out) -> bool {
        let writing = self.writing.as_ref().filter(|it| it.session == Some(from) && !it.is_whole);
        let number = writing.map(|writing| writing.number);
        out.work.extend(number.map(|number| Ordered::Put(number, from, put)));
        number.is_some()
    }

    /// It has no more parts.
    pub(super) fn end(&mut self, from: SessionId, is_whole: bool, out: &mut Out) {
        if let Some(writing) = self.writing.as_mut().filter(|it| it.session == Some(from)) {
            if is_whole {
                writing.is_whole = true;
            } else {
                self.give_up(NotDone::GivenUp, out);
            }
            self.go_on(out);
        }
    }

    /// Keeps the registry's entry, beside whatever is under way. That of an ended epoch is not needed.
    pub(super) fn keep(&mut self, from: SessionId, keep: Keep, out: &mut Out) {
        if keep.epoch < self.newest {
            return out.answer(Some(from), NotDone::Ended(self.newest));
        }
        out.work.push(Ordered::Keep(from, keep));
    }

    /// Another command.
    pub(super) fn change(&mut self, from: SessionId, change: Change, is_alone: bool, out: &mut Out) {
        let epoch = match change {
            Change::Resize(epoch, _) | Change::Remove(epoch) => epoch,
            Change::Snapshot(_) => self.home.epoch(),
        };
        if epoch < self.home.epoch() {
            return out.answer(Some(from), NotDone::Ended(self.home.epoch()));
        }
        if !self.is_idle() || matches!(change, Change::Remove(_)) && !is_alone {
            return out.answer(Some(from), NotDone::Busy);
        }
        self.changing = Some((Some(from), change));
        out.work.push(match change {
            Change::Resize(_, size) => Ordered::Resize(size),
            Change::Snapshot(to) => Ordered::Snapshot(to),
            Change::Remove(_) => Ordered::Remove,
        });
    }

    /// A session is gone.
    pub(super) fn left(&mut self, session: SessionId, out: &mut Out) {
        self.fences.retain(|(waits, _)| *waits != session);
        if let Some((waits, _)) = &mut self.changing {
            waits.take_if(|waits| *waits == session);
        }
        if let Some(writing) = self.writing.as_mut().filter(|it| it.session == Some(session)) {
            writing.session = None;
            if !writing.is_whole {
                self.give_up(NotDone::GivenUp, out);
            }
        }
        self.go_on(out);
    }

    /// The disk has done a step, or could not.
    pub(super) fn stepped(&mut self, step: Step, outcome: Result<(), String>, out: &mut Out) {
        self.doing = None;
        match outcome {
            Ok(()) => {
                let is_home = self.home.done(step).is_some();
                if let Step::Mark(_) = step {
                    self.is_recovering = false;
                }
                if is_home && let Some(writing) = self.writing.take() {
                    out.answer(writing.session, Durable { mark: self.home.mark() });
                }
                if let Step::Fence(epoch) = step {
                    let fenced = Fenced { epoch, mark: self.home.mark() };
                    let (begun, later) = std::mem::take(&mut self.fences).into_iter().partition(|(_, of)| *of <= epoch);
                    self.fences = later;
                    let begun: Vec<(SessionId, Epoch)> = begun;
                    for (waits, _) in begun {
                        out.answer(Some(waits), fenced);
                    }
                }
                self.go_on(out);
            }
            Err(text) => self.failed_step(step, text, out),
        }
    }

    fn failed_step(&mut self, step: Step, text: String, out: &mut Out) {
        let is_joined = self.writing.as_ref().is_none_or(|writing| writing.begin.is_joined);
        match step {
            // All of it comes again.
            Step::Install if !is_joined => self.give_up(NotDone::Failed(text), out),
            Step::Journal => self.give_up(NotDone::Failed(text), out),
            // It should be done whoever waits for it; they are told why it is not done yet.
            Step::Install | Step::Mark(_) | Step::Fence(_) => {
                let writer = self.writing.as_mut().and_then(|writing| writing.session.take());
                out.answer(writer, NotDone::Failed(text.clone()));
                for (waits, _) in std::mem::take(&mut self.fences) {
                    out.answer(Some(waits), NotDone::Failed(text.clone()));
                }
                out.retries = true;
                return;
            }
        }
        self.go_on(out);
    }

    /// The disk could not write a part of a write-back.
    pub(super) fn failed(&mut self, number: WriteNumber, text: String, out: &mut Out) {
        if self.writing.as_ref().is_some_and(|it| it.number == number) && self.doing.is_none() {
            self.give_up(NotDone::Failed(text), out);
            self.go_on(out);
        }
    }

    /// The disk has done a command, or could not. Returns whether the volume is removed.
    pub(super) fn changed(&mut self, outcome: &Result<(), String>, out: &mut Out) -> bool {
        let Some((waits, change)) = self.changing.take() else { return false };
        match outcome {
            Ok(()) => {
                if let Change::Resize(_, size) = change {
                    self.size = size;
                }
                out.answer(waits, Done);
            }
            Err(text) => out.answer(waits, NotDone::Failed(text.clone())),
        }
        self.go_on(out);
        outcome.is_ok() && matches!(change, Change::Remove(_))
    }

    /// Has the disk do the next step, if it can be done.
    pub(super) fn go_on(&mut self, out: &mut Out) {
        if self.doing.is_some() || self.changing.is_some() {
            return;
        }
        let Some(step) = self.home.step() else { return };
        let is_coming = self.writing.as_ref().is_some_and(|writing| !writing.is_whole);
        if is_coming && matches!(step, Step::Journal | Step::Install) {
            return;
        }
        self.doing = Some(step);
        let through = self.writing.as_ref().map_or(Stamp::ZERO, |writing| writing.begin.through);
        out.work.push(Ordered::Step(step, With { through, owner: self.owner }));
    }

    /// Gives up a write-back of this epoch or an older one, of another session, that has not come as a whole.
    fn give_up_before(&mut self, epoch: Epoch, own: Option<SessionId>, why: NotDone, out: &mut Out) {
        let is_so = |it: &Writing| !it.is_whole && it.begin.epoch <= epoch && (own.is_none() || it.session != own);
        if self.writing.as_ref().is_some_and(is_so) {
            self.give_up(why, out);
        }
    }

    /// The write-back under way comes to no end.
    fn give_up(&mut self, why: NotDone, out: &mut Out) {
        if let Some(writing) = self.writing.take() {
            self.home.abort();
            out.answer(writing.session, why);
        }
    }
}

fn refused(refusal: HomeRefusal) -> FromHome {
    match refusal {
        HomeRefusal::Ended(epoch) => NotDone::Ended(epoch).into(),
        HomeRefusal::Busy => NotDone::Busy.into(),
        HomeRefusal::NotNext(mark) => Durable { mark }.into(),
        HomeRefusal::TooFar(newest) => {
            let why = format!("the epoch is too far beyond {}, the newest that it has heard of", newest.0);
            NotDone::Failed(why).into()
        }
    }
}
