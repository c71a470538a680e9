//! The lists of a takeover, and what should be brought home of them.

use crate::messages::holder::{Entry, Extent, PartitionId, Stamp};
use crate::rule::Rule;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use types::Broken;
use types::limits::COPIES_PER_VOLUME_MAX;

/// Where a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// In the log of the host itself.
    Own,
    /// At a holder.
    Holder(PartitionId),
}

/// A part of the way home: these copies, in order.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) copies: Vec<(Stamp, Source)>,
    /// The last write that it covers.
    pub(crate) through: Stamp,
    /// Whether that is more than one flush epoch.
    pub(crate) is_joined: bool,
}

/// A copy of some list.
type Listing = (Stamp, Extent, Source);

/// The copies that all lists have together.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    copies: BTreeMap<Stamp, (Extent, Source)>,
}

impl Lists {
    /// Adds a part of a list, without copies that are known to be damaged there; false if that is more than there can
    /// be.
    pub(crate) fn add(&mut self, source: Source, entries: &[Entry], damaged: &BTreeSet<(Stamp, Source)>) -> bool {
        for it in entries.iter().filter(|it| !damaged.contains(&(it.stamp, source))) {
            self.copies.entry(it.stamp).or_insert((it.extent, source));
        }
        self.copies.len() <= COPIES_PER_VOLUME_MAX
    }

    /// Whether a list has a copy of this write.
    pub(crate) fn has(&self, stamp: Stamp) -> bool {
        self.copies.contains_key(&stamp)
    }

    /// The way home of what is behind home's mark (**PassHome**) and has no gap before it (**StopAtGap**), flush epoch
    /// by flush epoch, or several joined as long as they take no more than `join_bytes`. A copy that later ones of its
    /// part cover is left out (**NewestWins**).
    pub(crate) fn plan(&self, mark: Stamp, join_bytes: u64, broken: Broken<Rule>) -> Vec<Part> {
        let mut flushes: Vec<(Vec<Listing>, u64)> = Vec::new();
        let mut next = mark.sequence.next();
        for (&stamp, &(extent, source)) in &self.copies {
            if stamp <= mark && !broken.is(Rule::PassHome) {
                continue;
            }
            // Writes are counted again in each epoch, and home's mark is of each one that had any.
            let is_next = (stamp.epoch, stamp.sequence) == (mark.epoch, next);
            if stamp > mark && !is_next && !broken.is(Rule::StopAtGap) {
                break;
            }
            next = stamp.sequence.next();
            let is_of = |flush: &[Listing]| {
                flush.last().is_some_and(|(last, ..)| (last.epoch, last.flush) == (stamp.epoch, stamp.flush))
            };
            match flushes.last_mut() {
                Some((flush, bytes)) if is_of(flush) => {
                    flush.push((stamp, extent, source));
                    *bytes = bytes.saturating_add(extent.len);
                }
                _ => flushes.push((Vec::from([(stamp, extent, source)]), extent.len)),
            }
        }
        let mut parts: Vec<(Vec<Listing>, u64)> = Vec::new();
        for (flush, bytes) in flushes {
            match parts.last_mut() {
                Some((part, all)) if all.saturating_add(bytes) <= join_bytes => {
                    part.extend(flush);
                    *all = all.saturating_add(bytes);
                }
                _ => parts.push((flush, bytes)),
            }
        }
        parts.into_iter().map(|(part, _)| newest(part, broken)).collect()
    }
}

fn newest(mut part: Vec<Listing>, broken: Broken<Rule>) -> Part {
    let (first, last) = (part[0].0, part[part.len() - 1].0);
    let is_joined = (first.epoch, first.flush) != (last.epoch, last.flush);
    if broken.is(Rule::NewestWins) {
        part.reverse();
    }
    let mut covered = Covered::default();
    let mut copies = Vec::new();
    for &(stamp, extent, source) in part.iter().rev() {
        if covered.add(extent.offset, extent.end().unwrap_or(u64::MAX)) {
            copies.push((stamp, source));
        }
    }
    copies.reverse();
    Part { copies, through: last, is_joined }
}

/// The bytes that are covered: ranges that do not touch, by their begins.
#[derive(Debug, Default)]
struct Covered(BTreeMap<u64, u64>);

impl Covered {
    /// Adds a range; false if all of it is covered.
    fn add(&mut self, mut begin: u64, mut end: u64) -> bool {
        if self.0.range(..=begin).next_back().is_some_and(|(_, &other)| other >= end) {
            return false;
        }
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < begin {
                break;
            }
            self.0.remove(&other);
            (begin, end) = (begin.min(other), end.max(other_end));
        }
        self.0.insert(begin, end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::holder::{Epoch, FlushEpoch, Sequence};
    use alloc::vec;

    fn stamp(sequence: u64, flush: u64) -> Stamp {
        Stamp { epoch: Epoch(1), sequence: Sequence(sequence), flush: FlushEpoch(flush) }
    }

    fn entry(sequence: u64, flush: u64, offset: u64, len: u64) -> Entry {
        Entry { stamp: stamp(sequence, flush), extent: Extent { offset, len } }
    }

    fn plan(entries: &[Entry], mark: u64, join_bytes: u64) -> Vec<(Vec<u64>, u64, bool)> {
        let mut lists = Lists::default();
        assert!(lists.add(Source::Own, entries, &BTreeSet::new()));
        let parts = lists.plan(stamp(mark, 9), join_bytes, Broken::NONE);
        let numbers = |part: &Part| part.copies.iter().map(|(stamp, _)| stamp.sequence.0).collect();
        parts.iter().map(|part| (numbers(part), part.through.sequence.0, part.is_joined)).collect()
    }

    #[test]
    fn one_part_for_each_flush_epoch_or_several_that_are_joined() {
        let entries = [entry(1, 1, 0, 10), entry(2, 1, 5, 10), entry(3, 2, 0, 20), entry(4, 3, 50, 5)];
        assert_eq!(plan(&entries, 0, 0), [(vec![1, 2], 2, false), (vec![3], 3, false), (vec![4], 4, false)]);
        assert_eq!(plan(&entries, 0, 100), [(vec![3, 4], 4, true)]);
        assert_eq!(plan(&entries, 2, 0), [(vec![3], 3, false), (vec![4], 4, false)]);
    }

    #[test]
    fn whole_flush_epochs_are_joined_as_long_as_they_fit() {
        let entries = [entry(1, 1, 0, 10), entry(2, 2, 20, 10), entry(3, 2, 40, 10), entry(4, 3, 60, 10)];
        assert_eq!(plan(&entries, 0, 29), [(vec![1], 1, false), (vec![2, 3], 3, false), (vec![4], 4, false)]);
        assert_eq!(plan(&entries, 0, 30), [(vec![1, 2, 3], 3, true), (vec![4], 4, false)]);
    }

    #[test]
    fn a_copy_is_left_out_when_later_ones_cover_it_together() {
        let entries = [entry(1, 1, 0, 20), entry(2, 1, 0, 10), entry(3, 1, 10, 10), entry(4, 1, 95, 10)];
        assert_eq!(plan(&entries, 0, 0), [(vec![2, 3, 4], 4, false)]);
    }

    #[test]
    fn nothing_goes_home_behind_a_write_that_is_lost() {
        let entries = [entry(1, 1, 0, 4), entry(3, 1, 4, 4), entry(4, 2, 8, 4)];
        assert_eq!(plan(&entries, 0, 0), [(vec![1], 1, false)]);
        assert_eq!(plan(&entries, 1, 0), []);
        assert_eq!(plan(&entries, 2, 0), [(vec![3], 3, false), (vec![4], 4, false)]);
    }
    /// Home went back to before an epoch, and the number of the next write is that of a later one's by chance.
    #[test]
    fn a_write_of_another_epoch_does_not_follow() {
        let of_later = |it: Entry| Entry { stamp: Stamp { epoch: Epoch(2), ..it.stamp }, ..it };
        assert_eq!(plan(&[of_later(entry(4, 4, 0, 4))], 3, 0), []);
    }
}
