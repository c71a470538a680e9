//! Recovery: from what the disk holds to where the node stood.
//!
//! Counts are given in the order of the log, so a commit whose count was not logged gets the same one again: the counts
//! continue from the highest that the log or the checkpoint knows. A record from before the last free may come again;
//! what it changed is home, or in an image of a later version.
//!
//! Nothing is written before all is read, so recovery can be interrupted anywhere and begun again.

use crate::{CommitRecord, Counted, Position, Record, Store};
use alloc::collections::VecDeque;
use types::{Rule, Time, Version};

/// The state of a recovery until [`Store::start`].
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Everything through here is in the checkpoint's outcomes, as far as anyone may ask.
    checkpoint: Version,
    /// The highest count that was given.
    given: Version,
    /// The commits whose count is not known yet.
    uncounted: VecDeque<(Position, CommitRecord)>,
}

impl Recovery {
    pub(crate) fn new(checkpoint: Version) -> Self {
        Self { checkpoint, given: checkpoint, uncounted: VecDeque::new() }
    }
}

impl Store {
    /// Takes a record that the log held, in order.
    pub(crate) fn recover_record(&mut self, position: Position, record: Record) {
        self.log.recovered(position, record.bytes_bound());
        match record {
            Record::Incarnation { leases, lineage, .. } => {
                self.lives.recovered(position, leases, lineage, &self.config);
            }
            Record::Grant { space, next } => self.grants.granted_below(space, next),
            Record::Counts(counts) => {
                for counted in counts {
                    self.recover_count(counted);
                }
            }
            Record::Commit(commit) => {
                self.stats.recovered_commits += 1;
                self.recovery.uncounted.push_back((position, commit));
            }
        }
    }

    /// The count of the oldest commit that has none, unless that commit is freed.
    fn recover_count(&mut self, counted: Counted) {
        self.recovery.given = self.recovery.given.max(counted.version);
        if self.recovery.uncounted.front().is_some_and(|(_, commit)| commit.txn == counted.txn) {
            let (position, commit) = self.recovery.uncounted.pop_front().expect("just seen");
            self.replay(position, counted.version, commit);
        }
    }

    /// Everything has been read: gives counts to commits that have none, and says that a new life begins.
    pub(crate) fn finish_recovery(&mut self, now: Time) {
        self.sequencer.resume(self.recovery.given);
        if self.config.broken.is(Rule::CountOnRecovery) {
            self.recovery.uncounted.clear();
        }
        while let Some((position, commit)) = self.recovery.uncounted.pop_front() {
            let version = self.sequencer.count(commit.txn);
            self.recovery.given = version;
            self.replay(position, version, commit);
        }
        self.master.resume(self.recovery.given);
        for client in self.outcomes.clients().collect::<alloc::vec::Vec<_>>() {
            self.sessions.expect_back(now, client);
        }
        self.log_counts();
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
