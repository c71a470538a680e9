//! The states in which a disk may be after a crash, by the requests that were made of it.
//!
//! A flush covers the writes that were answered before it was asked for. A disk is legal at a flush if each sector has
//! the newest write that this covers, or one that was asked for since, before the next flush was answered.
//! 1. With its cache a volume has everything of which a flush was answered: it is legal at the last such flush, and may
//!    have anything newer.
//! 2. A home whose cache is lost is legal at some flush, however old. All sectors are so at the same one: else it is a
//!    mixture.

use crate::extents::BLOCK;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;

pub(super) const SECTOR: usize = 512;

const ZEROS: [u8; SECTOR] = [0; SECTOR];

/// A request, as far as it changes or orders what the disk has.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    /// These sectors get these bytes, or zeros; whether it is a flush of itself.
    Write(Range<usize>, Option<Bytes>, bool),
    Flush,
}

impl Taken {
    pub(super) fn write(offset: u64, data: Bytes, fua: bool) -> Self {
        Self::Write(sectors(offset, data.len() as u64), Some(data), fua)
    }

    pub(super) fn zeros(offset: u64, len: u64, fua: bool) -> Self {
        Self::Write(sectors(offset, len), None, fua)
    }

    /// Whole blocks become zeros, parts of blocks stay.
    pub(super) fn trim(offset: u64, len: u64, fua: bool) -> Self {
        let block = BLOCK as u64;
        let (first, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
        Self::zeros(first, end.saturating_sub(first), fua)
    }
}

fn sectors(offset: u64, len: u64) -> Range<usize> {
    let sector = SECTOR as u64;
    assert!(
        offset.is_multiple_of(sector) && len.is_multiple_of(sector),
        "{len} bytes at {offset} are not whole sectors"
    );
    (offset / sector) as usize..((offset + len) / sector) as usize
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Yes,
    /// Nobody says how much of it there is.
    Refused,
}

#[derive(Clone, Debug)]
struct Entry {
    taken: Taken,
    asked: usize,
    /// When it was done.
    done: Option<usize>,
}

/// The requests, each with the time at which it was asked for and the time of its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Vec<Entry>);

impl History {
    pub(super) fn asked(&mut self, taken: Taken, time: usize) -> usize {
        self.0.push(Entry { taken, asked: time, done: None });
        self.0.len() - 1
    }

    pub(super) fn answered(&mut self, number: usize, time: usize, done: Done) {
        self.0[number].done = (done == Done::Yes).then_some(time);
    }

    /// How many writes, and how many flushes.
    pub(super) fn len(&self) -> (usize, usize) {
        let writes = self.0.iter().filter(|entry| matches!(entry.taken, Taken::Write(..))).count();
        (writes, self.0.len() - writes)
    }
}

/// A flush, or the begin of everything.
#[derive(Clone, Copy, Debug)]
struct Flush {
    asked: usize,
    done: Option<usize>,
    /// The write that is its own flush.
    own: Option<usize>,
}

/// A judge of what a disk has.
pub(super) struct Judge<'a> {
    entries: &'a [Entry],
    flushes: Vec<Flush>,
    /// The writes of each sector, oldest first.
    writes: Vec<Vec<usize>>,
    /// When each write was promised.
    promised: Vec<Option<usize>>,
    /// At which flushes a sector may have one of some of its writes, or its first zeros.
    known: HashMap<(usize, bool, Vec<usize>), Vec<bool>>,
}

impl<'a> Judge<'a> {
    /// `each_write` says that an answer to a write is a promise, and not just that to a flush.
    pub(super) fn new(history: &'a History, size: usize, each_write: bool) -> Self {
        let entries = &history.0[..];
        let mut flushes = vec![Flush { asked: 0, done: Some(0), own: None }];
        let mut writes = vec![Vec::new(); size / SECTOR];
        for (number, entry) in entries.iter().enumerate() {
            let is_flush = match &entry.taken {
                Taken::Flush => true,
                Taken::Write(sectors, _, fua) => {
                    writes[sectors.clone()].iter_mut().for_each(|writes| writes.push(number));
                    *fua
                }
            };
            if is_flush {
                let own = matches!(entry.taken, Taken::Write(..)).then_some(number);
                flushes.push(Flush { asked: entry.asked, done: entry.done, own });
            }
        }
        let promised = |(number, entry): (usize, &Entry)| {
            let done = entry.done?;
            let covers = |flush: &&Flush| flush.asked > done || flush.own == Some(number);
            let flushed = flushes.iter().filter(covers).filter_map(|flush| flush.done).min();
            if each_write { Some(done) } else { flushed }
        };
        let promised = entries.iter().enumerate().map(promised).collect();
        Self { entries, flushes, writes, promised, known: HashMap::new() }
    }

    /// Of a volume whose cache is there, at this time: everything promised is there.
    pub(super) fn with_cache(&self, time: usize, image: &[u8]) -> Result<(), String> {
        for (sector, bytes) in image.chunks_exact(SECTOR).enumerate() {
            let writes = || self.writes[sector].iter().copied().filter(|&write| self.entries[write].asked <= time);
            let is_promised = |write: usize| self.promised[write].is_some_and(|promised| promised <= time);
            let newest = writes().filter(|&write| is_promised(write)).max_by_key(|&write| self.entries[write].asked);
            let is_newer = |write: usize| {
                newest
                    .is_none_or(|newest| self.entries[write].done.is_none_or(|done| done > self.entries[newest].asked))
            };
            let was_never_written = newest.is_none() && *bytes == ZEROS;
            let has = |write: usize| is_newer(write) && self.content(write, sector) == bytes;
            if !was_never_written && !writes().any(has) {
                let found = writes().find(|&write| self.content(write, sector) == bytes);
                return Err(format!("sector {sector} has write {found:?}, where {newest:?} was promised"));
            }
        }
        Ok(())
    }

    /// Of a home alone, at this time: the newest flush at which it is legal.
    pub(super) fn alone(&mut self, time: usize, image: &[u8]) -> Result<usize, String> {
        let mut legal: Vec<bool> = self.flushes.iter().map(|flush| flush.asked <= time).collect();
        for (sector, bytes) in image.chunks_exact(SECTOR).enumerate() {
            let is_zero = *bytes == ZEROS;
            if is_zero && self.writes[sector].is_empty() {
                continue;
            }
            let has = |write: &usize| self.entries[*write].asked <= time && self.content(*write, sector) == bytes;
            let key = (sector, is_zero, self.writes[sector].iter().copied().filter(has).collect::<Vec<_>>());
            if !self.known.contains_key(&key) {
                let flushes = (0..self.flushes.len()).map(|flush| self.may_have(flush, &key)).collect();
                self.known.insert(key.clone(), flushes);
            }
            legal.iter_mut().zip(&self.known[&key]).for_each(|(legal, may)| *legal &= may);
            if !legal.contains(&true) {
                return Err(format!("sector {sector}, which has one of the writes {:?}, makes it a mixture", key.2));
            }
        }
        Ok(legal.iter().rposition(|legal| *legal).expect("one is left"))
    }

    /// Whether a sector may have its first zeros, or one of these writes, at a flush.
    fn may_have(&self, flush: usize, (sector, is_zero, writes): &(usize, bool, Vec<usize>)) -> bool {
        let at = self.flushes[flush];
        let until = self.flushes.get(flush + 1).and_then(|next| next.done).unwrap_or(usize::MAX);
        let covers =
            |write: &usize| at.own == Some(*write) || self.entries[*write].done.is_some_and(|done| done < at.asked);
        let covered = self.writes[*sector].iter().copied().filter(covers);
        let newest = covered.map(|write| self.entries[write].asked).max();
        let may = |&write: &usize| {
            let Entry { asked, done, .. } = self.entries[write];
            asked < until && newest.is_none_or(|newest| done.is_none_or(|done| done > newest))
        };
        *is_zero && newest.is_none() || writes.iter().any(may)
    }

    /// The last flush that was answered by a time.
    pub(super) fn last_flush(&self, time: usize) -> usize {
        self.flushes.iter().rposition(|flush| flush.done.is_some_and(|done| done <= time)).unwrap_or(0)
    }

    fn content(&self, write: usize, sector: usize) -> &[u8] {
        match &self.entries[write].taken {
            Taken::Write(sectors, Some(data), _) => &data[(sector - sectors.start) * SECTOR..][..SECTOR],
            _ => &ZEROS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sectors: each written, flushed, and written again.
    fn history() -> History {
        let mut history = History::default();
        let steps = [(0, 1), (1, 1), (9, 0), (0, 2), (1, 2), (9, 0), (0, 3)];
        for (number, (sector, mark)) in steps.into_iter().enumerate() {
            let taken = match sector {
                9 => Taken::Flush,
                _ => Taken::write(sector * SECTOR as u64, vec![mark; SECTOR].into(), false),
            };
            history.asked(taken, 10 * number + 1);
            history.answered(number, 10 * number + 2, Done::Yes);
        }
        history
    }

    fn image(marks: [u8; 2]) -> Vec<u8> {
        marks.into_iter().flat_map(|mark| [mark; SECTOR]).collect()
    }

    #[test]
    fn a_disk_has_what_was_flushed_and_a_home_is_no_mixture() {
        let history = history();
        let mut judge = Judge::new(&history, 2 * SECTOR, false);
        let legal = |marks| judge.with_cache(60, &image(marks)).is_ok();
        assert!(legal([2, 2]) && !legal([1, 2]) && !legal([2, 1]) && !legal([0, 0]));
        assert!(!legal([3, 2]), "it was not asked for yet");
        assert!(judge.with_cache(61, &image([3, 2])).is_ok());
        assert!(judge.with_cache(51, &image([2, 1])).is_ok(), "the flush is not answered");
        let mut alone = |marks| judge.alone(70, &image(marks)).ok();
        assert_eq!([alone([0, 0]), alone([1, 0]), alone([1, 1]), alone([1, 2])], [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!([alone([2, 2]), alone([3, 2])], [Some(2), Some(2)]);
        assert_eq!([alone([0, 2]), alone([3, 1]), alone([2, 0]), alone([7, 0])], [None; 4]);
    }

    #[test]
    fn a_write_that_is_its_own_flush_covers_those_before_it() {
        let mut history = History::default();
        history.asked(Taken::write(0, vec![1; SECTOR].into(), false), 1);
        history.answered(0, 2, Done::Yes);
        history.asked(Taken::write(SECTOR as u64, vec![1; SECTOR].into(), true), 3);
        history.answered(1, 4, Done::Yes);
        let mut judge = Judge::new(&history, 2 * SECTOR, false);
        assert!(judge.with_cache(4, &image([0, 1])).is_err() && judge.with_cache(4, &image([1, 1])).is_ok());
        assert_eq!(judge.alone(4, &image([1, 1])), Ok(1));
        assert_eq!(judge.alone(4, &image([0, 1])), Ok(0), "home may have any part of one flush epoch");
    }
}
