//! The writes that a holder has acknowledged, as its owner's heartbeats put them into the registry (**WholeList**).
//!
//! A holder's directory can be restored from a copy that was made in the same life. Its list is shorter, and
//! otherwise valid. A takeover compares the list with the range in the registry:
//! ```text
//!   acknowledged   from ............... through      in the registry, since the last heartbeat
//!   home's mark    .......|                          written back: a list need not have it
//!   list                   1 2 3 4 5                 all five writes: this list counts
//!   older list             1 2 3                     two are missing: it does not count
//! ```
//! Writes that were acknowledged after the owner's last heartbeat are not in the range.

use crate::messages::holder::{Entry, Epoch, PartitionId, Sequence, Stamp};
use alloc::vec::Vec;

/// The writes that a holder has acknowledged to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The holder.
    pub partition: PartitionId,
    /// The owner's epoch.
    pub epoch: Epoch,
    /// The first of these writes. The holder had each one through `through`, except for writes that were written back.
    pub from: Sequence,
    /// The last of these writes.
    pub through: Sequence,
}

/// The range that an owner has seen acknowledged. It never shrinks: a holder with less was restored from an older copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range(Option<(Sequence, Sequence)>);

impl Range {
    /// Extends the range to `from..=through`. Ranges of one holder touch, as each begins with its first live write or
    /// earlier.
    pub(crate) fn extend(&mut self, from: Sequence, through: Sequence) {
        if from <= through {
            let (first, last) = self.0.unwrap_or((from, through));
            self.0 = Some((first.min(from), last.max(through)));
        }
    }

    pub(crate) fn of(self, partition: PartitionId, epoch: Epoch) -> Option<Acknowledged> {
        self.0.map(|(from, through)| Acknowledged { partition, epoch, from, through })
    }
}

/// The acknowledged writes that a holder's list has not shown yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    epoch: Epoch,
    next: Sequence,
    through: Sequence,
}

impl Due {
    /// All acknowledged writes behind home's mark.
    pub(crate) fn new(acknowledged: Acknowledged, mark: Stamp) -> Self {
        let Acknowledged { epoch, from, through, .. } = acknowledged;
        let mut due = Self { epoch, next: from, through };
        due.written_back(mark);
        due
    }

    /// Removes what was written back: a holder frees that.
    pub(crate) fn written_back(&mut self, through: Stamp) {
        if through.epoch > self.epoch {
            self.next = self.through.next();
        } else if through.epoch == self.epoch {
            self.next = self.next.max(through.sequence.next());
        }
    }

    /// Removes the writes of a part of the list, which is in order.
    pub(crate) fn list(&mut self, copies: &[Entry]) {
        for Entry { stamp, .. } in copies {
            if (stamp.epoch, stamp.sequence) == (self.epoch, self.next) {
                self.next = self.next.next();
            }
        }
    }

    /// Whether some are left.
    pub(crate) fn is_left(&self) -> bool {
        self.next <= self.through
    }
}

/// Returns the acknowledged writes of one holder.
pub(crate) fn find(all: &[Acknowledged], partition: PartitionId) -> Option<Acknowledged> {
    all.iter().find(|it| it.partition == partition).copied()
}

/// Returns the acknowledged writes of these holders.
pub(crate) fn of_holders(all: Vec<Acknowledged>, holders: &[PartitionId]) -> Vec<Acknowledged> {
    all.into_iter().filter(|it| holders.contains(&it.partition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::holder::{Extent, FlushEpoch};

    fn entries(sequences: &[u64]) -> Vec<Entry> {
        sequences.iter().map(|&it| Entry { stamp: stamp(2, it), extent: Extent { offset: 0, len: 1 } }).collect()
    }

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(1) }
    }

    fn due(from: u64, through: u64, mark: Stamp) -> Due {
        let (from, through) = (Sequence(from), Sequence(through));
        Due::new(Acknowledged { partition: PartitionId(7), epoch: Epoch(2), from, through }, mark)
    }

    fn is_left(mut due: Due, parts: &[&[u64]]) -> bool {
        for part in parts {
            due.list(&entries(part));
        }
        due.is_left()
    }

    #[test]
    fn a_list_shows_each_write_that_was_acknowledged_and_not_written_back() {
        let all = due(1, 5, stamp(2, 0));
        assert!(!is_left(all, &[&[1, 2], &[3, 4, 5, 6]]));
        assert!(is_left(all, &[&[1, 2], &[3, 4]]), "the end is missing");
        assert!(is_left(all, &[&[1, 3, 4, 5]]), "one in between is missing");
        let behind_mark = due(1, 5, stamp(2, 3));
        assert!(!is_left(behind_mark, &[&[4, 5]]) && is_left(behind_mark, &[&[4]]));
        assert!(!is_left(due(4, 5, stamp(2, 0)), &[&[4, 5]]), "the rest was still being sent");
        assert!(!is_left(due(1, 5, stamp(3, 0)), &[]), "the whole epoch was written back");
        assert!(is_left(due(1, 5, stamp(1, 9)), &[]), "a mark of an earlier epoch covers nothing");
    }

    #[test]
    fn a_range_never_shrinks() {
        let mut range = Range::default();
        range.extend(Sequence(6), Sequence(5));
        assert_eq!(range.of(PartitionId(7), Epoch(2)), None);
        range.extend(Sequence(6), Sequence(9));
        range.extend(Sequence(1), Sequence(7));
        let of = range.of(PartitionId(7), Epoch(2)).unwrap();
        assert_eq!((of.from, of.through), (Sequence(1), Sequence(9)));
    }
}
