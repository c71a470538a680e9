//! Freeing the log: what a checkpoint covers, and what of the log is still needed.
//!
//! 1. A checkpoint is taken together with the batch that it is installed with.
//! 2. Write-back waits for the first record of the life: without that, the counts of commits in the log of an earlier
//!    format would follow from the checkpoint (see `uncounted`), so the checkpoint must not be ahead of them.
//! 3. The log is freed only up to the oldest position that is still needed: by a delta that is not written back, or by
//!    anything that the last checkpoint does not cover.

use crate::{Checkpoint, DiskWork, Position, Store};
use master::{Install, LogState};
use types::{Rule, Time};

/// The positions through which checkpoints cover the log.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// The last checkpoint has everything before this position, but for deltas that were in the MOB.
    last: Position,
    /// The position of the checkpoint that is being installed.
    next: Position,
}

impl Store {
    /// The position that a checkpoint taken now covers: everything before the first commit that is not durable. The
    /// last record stays out, as it is never freed.
    fn coverable(&self) -> Position {
        self.in_flight.first().map_or(self.log.last(), |first| first.min(self.log.last()))
    }

    /// Whether a checkpoint taken now would cover more than the last one.
    pub(crate) fn is_ahead(&self) -> bool {
        self.coverable() > self.covered.last
    }

    /// How the log stands, for write-back.
    pub(crate) fn log_state(&self) -> LogState {
        LogState { is_tight: self.log.is_tight(), is_short: self.room.is_short(), is_ahead: self.is_ahead() }
    }

    /// Something is durable: write-back begins once the first record of the life is.
    pub(crate) fn open_write_back(&mut self) {
        if self.log.is_durable(self.lives.first_record()) {
            self.master.open_write_back();
        }
    }

    /// The master writes a batch back.
    pub(crate) fn install(&mut self, now: Time, install: Install) {
        let Install { pages, applied, next_pages, aside } = install;
        self.log_life_again(now);
        let (outcomes, forgotten) = (self.coordinator.to_checkpoint(), self.coordinator.forgotten().clone());
        let checkpoint = Checkpoint { applied, next_pages, outcomes, forgotten, aside };
        self.covered.next = self.coverable();
        self.out.disk(DiskWork::Install(pages, checkpoint));
    }

    /// The batch is installed.
    pub(crate) fn installed(&mut self) {
        self.master.installed();
        self.covered.last = self.covered.next;
        self.tell_home();
        self.free_home();
    }

    /// Frees the records that are no longer needed.
    pub(crate) fn free_home(&mut self) {
        let mut needed = self.covered.last;
        if self.config.broken.is(Rule::FreeAfterHome) {
            needed = self.coverable();
        } else {
            let oldest = [self.master.oldest(), self.kept.oldest()];
            needed = oldest.into_iter().flatten().fold(needed, Position::min);
        }
        needed = needed.min(self.lives.needed(|position| self.log.is_durable(position)));
        self.log.free_before(needed, &mut self.out);
    }

    /// Whether everything is written back, or there is no way to get it there, and what stays in the log is durable.
    pub(crate) fn is_written_back(&self) -> bool {
        let at_rest = self.master.is_at_rest() && !self.is_ahead();
        self.log.is_durable(self.log.last()) && (at_rest || self.master.is_stuck())
    }
}
