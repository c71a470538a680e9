//! Where the entries that are still needed are in a holder's log: which of them a host that takes over may ask for,
//! and how far the log is free.
//!
//! ```text
//!   position   17   18   19   20   21   22
//!             gone copy gone epoch copy copy     needed from 18 on; 18 is moved first when the log gets full
//! ```
//! The log is freed from its front alone. So a copy that is needed for long, of a volume whose home is unreachable, is
//! moved to the end when it is in the way of others. The word that nothing is kept of a volume needs no place of its
//! own: everything that it is about stands before it, and is gone from the log when it is.

use machines::HolderEntry;
use machines::messages::holder::{Epoch, Stamp, VolumeId};
use std::collections::{BTreeMap, VecDeque};

/// The use of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Gone,
    /// A volume's newest epoch.
    Epoch(VolumeId),
    Copy(VolumeId, Stamp, u32),
}

/// An entry that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Oldest {
    /// A copy, which is at this position.
    Copy(VolumeId, Stamp, u64),
    /// A volume's newest epoch: this entry says it.
    Epoch(HolderEntry),
}

/// The places.
#[derive(Debug)]
pub(super) struct Places {
    /// The position of the first place.
    first: u64,
    entries: VecDeque<Place>,
    copies: BTreeMap<VolumeId, BTreeMap<Stamp, u64>>,
    epochs: BTreeMap<VolumeId, (u64, Epoch, u64)>,
}

impl Places {
    /// None. The next entry has this position.
    pub(super) fn new(next: u64) -> Self {
        Self { first: next, entries: VecDeque::new(), copies: BTreeMap::new(), epochs: BTreeMap::new() }
    }

    /// The position of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds an entry, and gives its position.
    pub(super) fn push(&mut self, entry: &HolderEntry) -> u64 {
        let position = self.next();
        let place = match entry {
            HolderEntry::Epoch(volume, epoch, revision) => {
                let before = self.epochs.insert(*volume, (position, *epoch, *revision));
                self.leave(before.map(|(before, ..)| before));
                Place::Epoch(*volume)
            }
            HolderEntry::Copy(volume, _, record) => {
                let before = self.copies.entry(*volume).or_default().insert(record.stamp, position);
                self.leave(before);
                Place::Copy(*volume, record.stamp, record.content.len() as u32)
            }
            HolderEntry::Forget(volume) => {
                let copies = self.copies.remove(volume).unwrap_or_default();
                self.leave(copies.into_values());
                Place::Gone
            }
        };
        self.entries.push_back(place);
        position
    }

    /// The copies of a volume up to here are home.
    pub(super) fn free(&mut self, volume: VolumeId, through: Stamp) {
        let Some(copies) = self.copies.get_mut(&volume) else { return };
        let rest = copies.split_off(&Stamp { sequence: through.sequence.next(), ..Stamp::begin(through.epoch) });
        let freed = std::mem::replace(copies, rest);
        self.leave(freed.into_values());
    }

    /// Nothing of a volume is needed, and neither is its epoch.
    pub(super) fn drop_volume(&mut self, volume: VolumeId) {
        let copies = self.copies.remove(&volume).unwrap_or_default();
        self.leave(copies.into_values());
        let epoch = self.epochs.remove(&volume);
        self.leave(epoch.map(|(position, ..)| position));
    }

    /// The position of a copy.
    pub(super) fn find(&self, volume: VolumeId, stamp: Stamp) -> Option<u64> {
        self.copies.get(&volume)?.get(&stamp).copied()
    }

    /// No entry before this position is needed.
    pub(super) fn needed(&mut self) -> u64 {
        while self.entries.front() == Some(&Place::Gone) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// The oldest entries that are needed and come before `end`, with this many bytes of contents together, or one.
    pub(super) fn oldest(&self, end: u64, bytes_max: u64) -> Vec<Oldest> {
        let mut bytes = 0;
        let places = self.entries.iter().zip(self.first..end);
        let within = places.take_while(|(place, _)| {
            let before = bytes;
            bytes += if let Place::Copy(_, _, len) = place { u64::from(*len) + 512 } else { 0 };
            before < bytes_max
        });
        let oldest = within.filter_map(|(place, position)| match *place {
            Place::Gone => None,
            Place::Copy(volume, stamp, _) => Some(Oldest::Copy(volume, stamp, position)),
            Place::Epoch(volume) => {
                let (_, epoch, revision) = self.epochs[&volume];
                Some(Oldest::Epoch(HolderEntry::Epoch(volume, epoch, revision)))
            }
        });
        oldest.collect()
    }

    fn leave(&mut self, positions: impl IntoIterator<Item = u64>) {
        for position in positions {
            if let Some(place) = position.checked_sub(self.first).and_then(|at| self.entries.get_mut(at as usize)) {
                *place = Place::Gone;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::messages::holder::{Content, Extent, FlushEpoch, Record, Sequence, Stream};

    const ONE: VolumeId = VolumeId(1);
    const TWO: VolumeId = VolumeId(2);

    fn stamp(sequence: u64) -> Stamp {
        Stamp { epoch: Epoch(1), sequence: Sequence(sequence), flush: FlushEpoch(1) }
    }

    fn copy(volume: VolumeId, sequence: u64) -> HolderEntry {
        let content = Content::Data(vec![0; 100].into());
        let record = Record { stamp: stamp(sequence), extent: Extent { offset: 0, len: 100 }, content };
        HolderEntry::Copy(volume, Stream::Live, record)
    }

    #[test]
    fn a_copy_that_is_needed_for_long_is_moved_out_of_the_way() {
        let mut places = Places::new(10);
        let entries = [HolderEntry::Epoch(ONE, Epoch(1), 7), copy(ONE, 1), copy(TWO, 1), copy(ONE, 2)];
        assert_eq!(entries.iter().map(|entry| places.push(entry)).collect::<Vec<_>>(), [10, 11, 12, 13]);
        places.free(ONE, stamp(2));
        assert_eq!((places.needed(), places.find(ONE, stamp(2)), places.find(TWO, stamp(1))), (10, None, Some(12)));
        let moved = HolderEntry::Epoch(ONE, Epoch(1), 7);
        assert_eq!(places.oldest(14, u64::MAX), [Oldest::Epoch(moved.clone()), Oldest::Copy(TWO, stamp(1), 12)]);
        assert_eq!(places.oldest(14, 1).len(), 2, "an epoch counts for nothing, and one copy is always among them");
        places.push(&moved);
        assert_eq!(places.needed(), 12);
        places.push(&copy(TWO, 1));
        assert_eq!((places.needed(), places.find(TWO, stamp(1))), (14, Some(15)));
    }

    #[test]
    fn nothing_is_needed_of_a_volume_of_which_nothing_is_kept() {
        let mut places = Places::new(1);
        for entry in [copy(ONE, 1), copy(TWO, 1), copy(ONE, 2), HolderEntry::Forget(ONE)] {
            places.push(&entry);
        }
        assert_eq!((places.needed(), places.find(ONE, stamp(2))), (2, None));
        places.free(TWO, stamp(1));
        assert_eq!((places.needed(), places.next()), (5, 5));
        places.push(&HolderEntry::Epoch(ONE, Epoch(2), 7));
        assert_eq!(places.needed(), 5, "an older owner is to be refused");
        places.drop_volume(ONE);
        assert_eq!((places.needed(), places.oldest(6, 1)), (6, vec![]));
    }
}
