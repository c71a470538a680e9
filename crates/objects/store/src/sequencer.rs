//! The serialization server: gives each commit its count.
//!
//! With several masters it would be a vector of counts, one for each that the commit changes; a store of one node has a
//! vector of one.
//!
//! 1. A commit is counted when its record is passed to the log. So the order of counts is the order of the log, without
//!    gaps.
//! 2. The record carries the count, and recovery takes it from there (**CountsInRecord**).
//! 3. A count is known outside of the store only when its record is durable. A crash can lose the last records, and
//!    their counts are given again to other commits. That is sound because everything that names a count is made of
//!    applied commits, and a commit is applied when its record is durable (**LogBeforeReply**):
//!    - replies, invalidations to holders and watchers, pages, and each `through`;
//!    - the checkpoint, and the images that are written back with it;
//!    - the end of the earlier life in a lineage, which counts what was recovered.
//!
//!    A lease's promises are asked for and given before the commit is counted, and name its transaction. The count in
//!    an `Incarnation` covers commits that are not durable yet, but their records are in front of it in the log.

use types::Version;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    last: Version,
}

impl Sequencer {
    /// Continues after a restart: the log and the checkpoint have counts through `last`.
    pub(crate) fn resume(&mut self, last: Version) {
        self.last = last;
    }

    /// Takes the next count.
    pub(crate) fn count(&mut self) -> Version {
        self.last = self.last.next();
        self.last
    }

    /// The last count that was given.
    pub(crate) fn last(&self) -> Version {
        self.last
    }
}
