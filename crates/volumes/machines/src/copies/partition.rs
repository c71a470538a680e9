//! The copies that a holder keeps of one log, and how much of each stream it counts.

use crate::messages::holder::{Entry, Epoch, Extent, Sequence, Stamp, Stream};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

/// A copy, but for its contents.
#[derive(Clone, Copy, Debug)]
struct Kept {
    extent: Extent,
    bytes: u64,
}

/// The copies of one log.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    epoch: Epoch,
    /// The last copy of the epoch that is stable, of each stream.
    live: Sequence,
    back: Sequence,
    kept: BTreeMap<Stamp, Kept>,
    bytes: u64,
    /// Everything up to here is home, as far as was told.
    home: Stamp,
}

impl Partition {
    /// The newest epoch that it has seen.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A newer epoch has begun: its streams are yet to come. Everything that is kept stays until it is freed.
    pub(crate) fn begin(&mut self, epoch: Epoch) {
        if epoch > self.epoch {
            (self.epoch, self.live, self.back) = (epoch, Sequence(0), Sequence(0));
        }
    }

    /// Takes a copy that takes this much room, and gives the room that it takes in addition to all others.
    pub(crate) fn take(&mut self, stamp: Stamp, extent: Extent, bytes: u64) -> u64 {
        let before = self.kept.insert(stamp, Kept { extent, bytes });
        let more = bytes - before.map_or(0, |kept| kept.bytes.min(bytes));
        self.bytes += more;
        more
    }

    /// A copy of this epoch is on stable media, and so are everything that came before it in its stream.
    pub(crate) fn stable(&mut self, epoch: Epoch, stream: Stream, sequence: Sequence) {
        if epoch == self.epoch {
            let counted = if stream == Stream::Live { &mut self.live } else { &mut self.back };
            *counted = sequence.max(*counted);
        }
    }

    /// The last copy that it counts of each stream of its epoch: live, then back.
    pub(crate) fn counted(&self) -> (Sequence, Sequence) {
        (self.live, self.back)
    }

    /// Copies up to here are needed no more. Returns the room that they took.
    pub(crate) fn free(&mut self, through: Stamp) -> u64 {
        self.home = through.max(self.home);
        let rest = self.kept.split_off(&Stamp { sequence: through.sequence.next(), ..Stamp::begin(through.epoch) });
        let freed = self.kept.values().map(|kept| kept.bytes).sum();
        self.kept = rest;
        self.bytes -= freed;
        freed
    }

    /// None of its copies is needed any more, and its streams begin again. Returns the room that they took.
    pub(crate) fn forget(&mut self) -> u64 {
        let freed = self.bytes;
        *self = Self { epoch: self.epoch, home: self.home, ..Self::default() };
        freed
    }

    /// Everything up to here is home, as it was told.
    pub(crate) fn home(&self) -> Stamp {
        self.home
    }

    /// The first so many copies behind one, and whether there are no more.
    pub(crate) fn list(&self, after: Stamp, count_max: usize) -> (Vec<Entry>, bool) {
        let mut behind = self.kept.range((Bound::Excluded(after), Bound::Unbounded));
        let entry = |(&stamp, kept): (&Stamp, &Kept)| Entry { stamp, extent: kept.extent };
        let copies = behind.by_ref().take(count_max).map(entry).collect();
        (copies, behind.next().is_none())
    }

    /// The last write that it has a copy of; [`Stamp::ZERO`] if it has none.
    pub(crate) fn last(&self) -> Stamp {
        self.kept.last_key_value().map_or(Stamp::ZERO, |(stamp, _)| *stamp)
    }

    /// Whether it has a copy of this write.
    pub(crate) fn has(&self, stamp: Stamp) -> bool {
        self.kept.contains_key(&stamp)
    }

    /// The room that its copies take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::holder::FlushEpoch;

    const EXTENT: Extent = Extent { offset: 0, len: 8 };

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(sequence) }
    }

    #[test]
    fn a_copy_that_comes_again_takes_its_room_once() {
        let mut partition = Partition::default();
        partition.begin(Epoch(1));
        assert_eq!(partition.take(stamp(1, 1), EXTENT, 100), 100);
        assert_eq!(partition.take(stamp(1, 1), EXTENT, 100), 0);
        assert_eq!((partition.bytes(), partition.free(stamp(1, 1)), partition.bytes()), (100, 100, 0));
    }

    #[test]
    fn what_was_stable_of_an_ended_epoch_is_not_counted_for_the_next() {
        let mut partition = Partition::default();
        partition.begin(Epoch(1));
        partition.take(stamp(1, 1), EXTENT, 1);
        partition.begin(Epoch(2));
        partition.stable(Epoch(1), Stream::Live, Sequence(1));
        assert_eq!(partition.counted(), (Sequence(0), Sequence(0)));
        partition.begin(Epoch(1));
        assert_eq!((partition.epoch(), partition.has(stamp(1, 1))), (Epoch(2), true));
    }

    #[test]
    fn lists_come_in_parts_and_frees_end_between_epochs() {
        let mut partition = Partition::default();
        for (epoch, sequence) in [(1, 1), (1, 2), (2, 1)] {
            partition.take(stamp(epoch, sequence), EXTENT, 1);
        }
        let (first, is_last) = partition.list(Stamp::ZERO, 2);
        assert_eq!((first.len(), is_last), (2, false));
        let (rest, is_last) = partition.list(first[1].stamp, 2);
        assert_eq!((rest.len(), is_last, rest[0].stamp), (1, true, stamp(2, 1)));
        assert_eq!(partition.free(Stamp::begin(Epoch(2))), 2);
        assert!(partition.has(stamp(2, 1)));
    }

    /// It comes from a peer, which may say anything.
    #[test]
    fn the_last_number_of_all_frees_what_is_before_it() {
        let mut partition = Partition::default();
        for (epoch, sequence) in [(1, 1), (1, 2), (2, 1)] {
            partition.take(stamp(epoch, sequence), EXTENT, 1);
        }
        assert_eq!((partition.free(stamp(1, u64::MAX)), partition.free(stamp(u64::MAX, u64::MAX))), (2, 1));
        assert_eq!((Epoch(u64::MAX).next(), Sequence(u64::MAX).next()), (Epoch(u64::MAX), Sequence(u64::MAX)));
    }
}
