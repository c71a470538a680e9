//! Recovery: from what the disk holds to where the node stood.
//!
//! The record of a commit has its count (**CountsInRecord**; `uncounted` is for the logs of earlier formats). Counts
//! continue from the highest that the log or the checkpoint has. A record from before the last free may come again;
//! what it changed was written back, or is in an image of a later version.
//!
//! Nothing is written before all is read, so recovery can be interrupted anywhere and begun again.

use crate::{CommitRecord, Position, Record, Store, Uncounted};
use types::{Rule, Time, Vector, Version};

/// The state of a recovery until [`Store::start`].
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Everything through here is in the checkpoint's outcomes, as far as anyone may ask.
    checkpoint: Version,
    /// The highest count that was given.
    given: Version,
    /// The commits whose count is not known yet.
    uncounted: Uncounted,
}

impl Recovery {
    pub(crate) fn new(checkpoint: Version) -> Self {
        Self { checkpoint, given: checkpoint, uncounted: Uncounted::default() }
    }
}

impl Store {
    /// Takes a record that the log held, in order.
    pub(crate) fn recover_record(&mut self, position: Position, record: Record) {
        self.log.recovered(position, record.bytes_bound());
        match record {
            Record::Incarnation { leases, lineage, count, .. } => {
                while let Some((position, commit)) = count.and_then(|last| self.recovery.uncounted.pop_through(last)) {
                    self.replay(position, commit);
                }
                self.lives.recovered(position, leases, lineage, &self.config);
            }
            Record::Grant { space, next } => self.master.recovered_grant(space, next),
            Record::Commit(commit) => {
                self.recovered_commits += 1;
                self.replay(position, commit);
            }
            Record::Uncounted(commit) => {
                self.recovered_commits += 1;
                self.recovery.uncounted.push(position, commit);
            }
            Record::Counts(counts) => {
                for counted in counts {
                    self.recovery.given = self.recovery.given.max(counted.version);
                    if let Some((position, commit)) = self.recovery.uncounted.counted(counted) {
                        self.replay(position, commit);
                    }
                }
            }
        }
    }

    /// Everything has been read: gives counts to commits that have none, and begins a new life.
    pub(crate) fn finish_recovery(&mut self, now: Time) {
        while let Some((position, commit)) = self.recovery.uncounted.pop(self.recovery.given.next()) {
            self.replay(position, commit);
        }
        self.sequencer.resume(&Vector::only(self.recovery.given));
        self.master.recovered_through(self.recovery.given);
        for client in self.coordinator.clients().collect::<alloc::vec::Vec<_>>() {
            self.sessions.expect_back(now, client);
        }
        self.begin_life(now);
    }

    fn replay(&mut self, position: Position, commit: CommitRecord) {
        let CommitRecord { txn, mut count, answered, deltas } = commit;
        if self.config.broken.is(Rule::CountsInRecord) {
            count = self.recovery.given.next();
        }
        self.recovery.given = self.recovery.given.max(count);
        if count > self.recovery.checkpoint {
            self.coordinator.recovered(txn, answered, self.master.advances(count, &deltas));
        }
        self.master.recovered(position, count, &deltas);
    }
}
