//! The decisions of home: whose writes it takes, and how it installs them.
//!
//! ```text
//!   one flush epoch        Install (blocks in place, synced) ------------------> Mark (synced)
//!   joined flush epochs    Journal (all of it, synced) --> Install (synced) ---> Mark (synced; the journal is empty)
//! ```
//! 1. Home keeps the newest epoch that it has learned of, durably, and refuses what older ones write (**FenceHome**).
//! 2. It keeps a *mark*: everything up to there is home. It is written when that is durable (**MarkDurable**), and
//!    before anybody is told.
//! 3. A joined write-back goes through the journal. Until all of it is there it is as if it had never come; from then
//!    on it is installed, by the next start if need be (**JournalWhole**).
//! 4. A new epoch begins when the install that is under way is done, or is given up: whoever takes over reads nothing
//!    that changes under it.

use crate::messages::holder::{Epoch, Stamp};
use crate::rule::Rule;
use types::Broken;
use types::limits::VOLUME_EPOCHS_AHEAD_MAX;

/// A step of home's, which is durable when it is said to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write all blocks of the write-back into the journal, with the mark that they come to.
    Journal,
    /// Write the blocks where they belong: those of the journal, if it has them.
    Install,
    /// Write the mark, and let the journal be empty.
    Mark(Stamp),
    /// Write the epoch, and let the journal be empty. Older ones write no more, and a host that takes over may continue
    /// from the mark.
    Fence(Epoch),
}

/// Why home does not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeRefusal {
    /// A newer epoch has begun: this one.
    Ended(Epoch),
    /// Another write-back is under way.
    Busy,
    /// Everything up to this write is home already, and so is this one.
    NotNext(Stamp),
    /// It is of an epoch that is farther than [`VOLUME_EPOCHS_AHEAD_MAX`] beyond this one, which is the newest.
    TooFar(Epoch),
}

#[derive(Clone, Copy, Debug)]
struct Install {
    epoch: Epoch,
    through: Stamp,
    is_joined: bool,
    step: Step,
}

/// Home of one volume.
#[derive(Debug)]
pub struct Home {
    epoch: Epoch,
    mark: Stamp,
    install: Option<Install>,
    /// An epoch that begins when nothing is under way any more.
    fence: Option<Epoch>,
    broken: Broken<Rule>,
}

impl Home {
    /// Home, as it was found: its epoch, its mark and that of its journal, if the journal is whole. That is installed
    /// first of all, if there is one.
    pub fn new(epoch: Epoch, mark: Stamp, journal: Option<Stamp>, broken: Broken<Rule>) -> Self {
        let redo = |through| Install { epoch, through, is_joined: true, step: Step::Install };
        let journal = journal.filter(|_| !broken.is(Rule::JournalWhole));
        Self { epoch, mark, install: journal.map(redo), fence: None, broken }
    }

    /// Its epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Everything up to here is home.
    pub fn mark(&self) -> Stamp {
        self.mark
    }

    /// A write-back of this epoch, up to this write.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn begin(&mut self, epoch: Epoch, through: Stamp, is_joined: bool) -> Result<(), HomeRefusal> {
        let seen = self.newest(epoch)?;
        if epoch < seen && !self.broken.is(Rule::FenceHome) {
            return Err(HomeRefusal::Ended(seen));
        }
        if self.install.is_some() || self.fence.is_some() {
            return Err(HomeRefusal::Busy);
        }
        let is_taken = self.broken.is(Rule::FenceHome) || self.broken.is(Rule::PassHome);
        if through <= self.mark && !is_taken {
            return Err(HomeRefusal::NotNext(self.mark));
        }
        let is_journaled = is_joined && !self.broken.is(Rule::JournalWhole);
        let first = if is_journaled { Step::Journal } else { Step::Install };
        let first = if self.broken.is(Rule::MarkDurable) { Step::Mark(through) } else { first };
        self.install = Some(Install { epoch, through, is_joined: is_journaled, step: first });
        Ok(())
    }

    /// A newer epoch begins. [`Step::Fence`] is the next step when nothing is under way.
    ///
    /// # Errors
    /// A newer one has begun already, or this one is too far.
    pub fn fence(&mut self, epoch: Epoch) -> Result<(), HomeRefusal> {
        let seen = self.newest(epoch)?;
        if epoch < seen {
            return Err(HomeRefusal::Ended(seen));
        }
        self.fence = Some(epoch);
        // A write-back of an ended epoch that is not in the journal yet is not needed: the copies of it are read again.
        if self.install.is_some_and(|it| it.epoch < epoch && it.step == Step::Journal) {
            self.install = None;
        }
        Ok(())
    }

    /// The newest epoch so far, if this one is not too far beyond it.
    fn newest(&self, epoch: Epoch) -> Result<Epoch, HomeRefusal> {
        let seen = self.fence.unwrap_or(self.epoch);
        if epoch.0.saturating_sub(seen.0) > VOLUME_EPOCHS_AHEAD_MAX {
            return Err(HomeRefusal::TooFar(seen));
        }
        Ok(seen)
    }

    /// The write-back under way comes to no end, as its writer is gone: the part of a flush epoch that is in place may
    /// stay. One that is whole in the journal is installed all the same.
    pub fn abort(&mut self) {
        match &mut self.install {
            // The part of it that is in the journal is not to be found there later.
            Some(it) if it.step == Step::Journal => it.step = Step::Mark(self.mark),
            Some(it) if !it.is_joined && it.step == Step::Install => self.install = None,
            _ => {}
        }
    }

    /// The next step.
    pub fn step(&self) -> Option<Step> {
        self.install.map(|it| it.step).or(self.fence.map(Step::Fence))
    }

    /// The step is done, durably. Returns the mark if it has moved: its writer should be told.
    pub fn done(&mut self, step: Step) -> Option<Stamp> {
        if self.step() != Some(step) {
            return None;
        }
        match step {
            Step::Journal => self.install.iter_mut().for_each(|it| it.step = Step::Install),
            Step::Install if self.broken.is(Rule::MarkDurable) => {
                return self.install.take().map(|it| it.through);
            }
            Step::Install => self.install.iter_mut().for_each(|it| it.step = Step::Mark(it.through)),
            Step::Mark(through) => {
                self.mark = through.max(self.mark);
                if self.broken.is(Rule::MarkDurable) {
                    self.install.iter_mut().for_each(|it| it.step = Step::Install);
                    return None;
                }
                self.install = None;
                return Some(through);
            }
            Step::Fence(epoch) => (self.epoch, self.fence) = (epoch, None),
        }
        None
    }
}
