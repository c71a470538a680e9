//! Recovery: from what the disk holds to where the node stood.
//!
//! Counts are given in the order of the log, so a commit whose place was not logged gets the same one again: the counts
//! go on from the highest that the log or the checkpoint knows. A record from before the last free may come again; what
//! it changed is home, or in an image of a later version.
//!
//! Nothing is written before all is read, so recovery can be interrupted anywhere and begun again.

use crate::{CommitRecord, Placement, Position, Record, Store};
use alloc::collections::VecDeque;
use types::{Rule, Time, Version};

/// The state of a recovery until [`Store::start`].
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Everything through here is in the checkpoint's outcomes, as far as anyone may ask.
    checkpoint: Version,
    /// The highest count that was given.
    placed: Version,
    unplaced: VecDeque<(Position, CommitRecord)>,
}

impl Recovery {
    pub(crate) fn new(checkpoint: Version) -> Self {
        Self { checkpoint, placed: checkpoint, unplaced: VecDeque::new() }
    }
}

impl Store {
    /// Takes a record that the log held, in order.
    pub(crate) fn recover_record(&mut self, position: Position, record: Record) {
        self.log.recovered(position, record.bytes_bound());
        match record {
            Record::Epoch { leases, lineage, .. } => self.lives.recovered(position, leases, lineage, &self.config),
            Record::Grant { space, next } => self.grants.granted_below(space, next),
            Record::Placed(placements) => {
                for placement in placements {
                    self.recover_place(placement);
                }
            }
            Record::Commit(commit) => {
                self.stats.recovered_commits += 1;
                self.recovery.unplaced.push_back((position, commit));
            }
        }
    }

    /// The place of the oldest commit that has none, unless that commit is freed.
    fn recover_place(&mut self, placement: Placement) {
        self.recovery.placed = self.recovery.placed.max(placement.version);
        if self.recovery.unplaced.front().is_some_and(|(_, commit)| commit.txn == placement.txn) {
            let (position, commit) = self.recovery.unplaced.pop_front().expect("just seen");
            self.replay(position, placement.version, commit);
        }
    }

    /// Everything has been read: places what has no place, and says that a new life begins.
    pub(crate) fn finish_recovery(&mut self, now: Time) {
        self.sequencer.resume(self.recovery.placed);
        if self.config.broken.is(Rule::PlaceOnRecovery) {
            self.recovery.unplaced.clear();
        }
        while let Some((position, commit)) = self.recovery.unplaced.pop_front() {
            let version = self.sequencer.place(commit.txn);
            self.recovery.placed = version;
            self.replay(position, version, commit);
        }
        self.master.resume(self.recovery.placed);
        for client in self.outcomes.clients().collect::<alloc::vec::Vec<_>>() {
            self.sessions.expect_back(now, client);
        }
        self.log_placements();
        self.begin_life(now);
    }

    fn replay(&mut self, position: Position, version: Version, commit: CommitRecord) {
        let CommitRecord { txn, answered, deltas } = commit;
        if version > self.recovery.checkpoint {
            self.outcomes.remember(txn, answered, self.master.advances(version, &deltas));
        }
        self.master.replay(position, version, &deltas);
    }
}
