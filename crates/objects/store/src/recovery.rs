//! Recovery: from what the disk holds to where the node stood.
//!
//! The record of a commit has its counts (**CountsInRecord**; `uncounted` is for the logs of earlier formats). Counts
//! continue from the highest that the log or the checkpoint has. A record from before the last free may come again;
//! what it changed was written back, or is in an image of a later version.
//!
//! Nothing is written before all is read, so recovery can be interrupted anywhere and begun again.

use crate::{CommitRecord, Position, Record, Store, Uncounted};
use messages::Advance;
use types::{Rule, Shard, Time, Vector, Version};

/// The state of a recovery until [`Store::start`].
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Everything through here is in the checkpoint's outcomes, as far as anyone may ask.
    checkpoint: Vector,
    /// The highest counts that were given.
    given: Vector,
    /// The commits whose count is not known yet.
    uncounted: Uncounted,
}

impl Recovery {
    pub(crate) fn new(checkpoint: Vector) -> Self {
        Self { given: checkpoint.clone(), checkpoint, uncounted: Uncounted::default() }
    }
}

impl Recovery {
    /// The count through which a shard was applied when its node wrote back last.
    pub(crate) fn applied(&self, shard: Shard) -> Version {
        self.checkpoint.of(shard)
    }

    /// The counts that follow in the shards of these: what a record without counts would be given.
    fn following(&self, counts: &Vector) -> Vector {
        counts.counts().iter().map(|&(shard, _)| (shard, self.given.of(shard).next())).collect()
    }
}

impl Store {
    /// Takes a record that the log held, in order.
    pub(crate) fn recover_record(&mut self, position: Position, record: Record) {
        self.log.recovered(position, record.bytes_bound());
        match record {
            Record::Incarnation { leases, lineage, counts, .. } => {
                let last = counts.map(|counts| counts.of(Shard::ONLY));
                while let Some((position, commit)) = last.and_then(|last| self.recovery.uncounted.pop_through(last)) {
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
                    self.recovery.given.raise(Shard::ONLY, counted.version);
                    if let Some((position, commit)) = self.recovery.uncounted.counted(counted) {
                        self.replay(position, commit);
                    }
                }
            }
        }
    }

    /// Everything has been read: gives counts to commits that have none, and begins a new life.
    pub(crate) fn finish_recovery(&mut self, now: Time) {
        while let Some((position, commit)) = self.recovery.uncounted.pop(self.recovery.given.of(Shard::ONLY).next()) {
            self.replay(position, commit);
        }
        if !self.config.has_peers() {
            self.sequencer.iter_mut().for_each(|sequencer| sequencer.resume(&self.recovery.given));
            self.master.recovered_through(&self.recovery.given);
        }
        for client in self.coordinator.clients().collect::<alloc::vec::Vec<_>>() {
            self.sessions.expect_back(now, client);
        }
        self.begin_life(now);
    }

    fn replay(&mut self, position: Position, commit: CommitRecord) {
        let CommitRecord { txn, mut counts, answered, deltas } = commit;
        if self.config.has_peers() {
            // Its shards take it from the log when they open, here like elsewhere. Only their masters know the versions
            // before.
            let version = |page| counts.of(self.config.sharding.of(page));
            let moved = deltas.iter().map(|delta| Advance::from_unknown(delta.page, version(delta.page))).collect();
            self.coordinator.recovered(txn, answered, moved);
            return self.kept.push(position, txn, counts);
        }
        if self.config.broken.is(Rule::CountsInRecord) {
            counts = self.recovery.following(&counts);
        }
        self.recovery.given.join(&counts);
        // A commit is in a checkpoint as a whole, or not at all.
        if !self.recovery.checkpoint.reaches(&counts) {
            self.coordinator.recovered(txn, answered, self.master.advances(&counts, &deltas));
        }
        self.master.recovered(position, &counts, &deltas);
    }
}
