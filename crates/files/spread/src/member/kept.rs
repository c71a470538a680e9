//! The revisions that a member has whole: the one that is served, and those that visitors read, or may come back to.

use crate::number::{Number, Revision};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use tree::ChunkHash;
use types::Time;

/// Revisions that are kept beside the one that is served, also without a visitor, and at most.
const RECENT: usize = 3;
const MOST: usize = 64;

/// The revisions.
#[derive(Debug)]
pub(super) struct Kept {
    revisions: BTreeMap<Number, One>,
    /// The one that is served.
    current: Option<Number>,
    /// Chunks of one of them can neither be read nor fetched.
    is_doubtful: bool,
}

#[derive(Clone, Copy, Debug)]
struct One {
    root: ChunkHash,
    /// When the last lease was over under which it was the newest.
    fresh_until: Time,
    /// Until when a page of it may ask for more.
    visited_until: Time,
    /// The files of it that are open.
    sessions: u32,
}

impl Kept {
    /// The revisions of a record, the oldest first.
    pub(super) fn new(revisions: Vec<Revision>) -> Self {
        let current = revisions.last().map(|last| last.number);
        let one = |it: Revision| (it.number, One::new(it.root));
        Self { revisions: revisions.into_iter().map(one).collect(), current, is_doubtful: false }
    }

    /// The one that is served.
    pub(super) fn current(&self) -> Option<Revision> {
        let number = self.current?;
        self.revisions.get(&number).map(|one| Revision { number, root: one.root })
    }

    /// A visitor reads a revision: it is kept until then. Returns its tree, and when the last lease was over under
    /// which it was the newest.
    pub(super) fn visit(&mut self, number: Number, until: Time) -> Option<(ChunkHash, Time)> {
        let one = self.revisions.get_mut(&number)?;
        one.visited_until = one.visited_until.max(until);
        Some((one.root, one.fresh_until))
    }

    /// A file of a revision is opened: the revision is kept until the file is closed. Returns its tree.
    pub(super) fn begin(&mut self, number: Number) -> Option<ChunkHash> {
        let one = self.revisions.get_mut(&number)?;
        one.sessions += 1;
        Some(one.root)
    }

    /// A file of a revision is closed.
    pub(super) fn end(&mut self, number: Number) {
        if let Some(one) = self.revisions.get_mut(&number) {
            one.sessions = one.sessions.saturating_sub(1);
        }
    }

    /// The revisions that visitors read.
    pub(super) fn visited(&self, now: Time) -> impl Iterator<Item = Number> {
        self.revisions.iter().filter(move |(_, one)| one.is_read(now)).map(|(number, _)| *number)
    }

    /// Whether there is an older revision only because visitors read it.
    pub(super) fn is_visited(&self, now: Time) -> bool {
        self.visited(now).any(|number| Some(number) != self.current)
    }

    /// Returns the revisions of the record when this one is served.
    pub(super) fn with(&self, now: Time, revision: Revision) -> Vec<Revision> {
        let kept = self.wanted(now, RECENT).into_iter().filter(|it| it.number != revision.number);
        kept.chain([revision]).collect()
    }

    /// Serves a revision; `fresh_until` is the end of the last lease of the one before.
    pub(super) fn serve(&mut self, now: Time, revision: Revision, fresh_until: Time) {
        if let Some(before) = self.current.and_then(|current| self.revisions.get_mut(&current)) {
            before.fresh_until = fresh_until;
        }
        let wanted = self.with(now, revision);
        self.revisions.entry(revision.number).or_insert(One::new(revision.root)).root = revision.root;
        self.current = Some(revision.number);
        self.retain(&wanted);
    }

    /// Chunks of a revision can neither be read nor fetched: unread revisions are forgotten next time.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Forgets unused revisions, and returns the others, the one that is served last.
    pub(super) fn forget(&mut self, now: Time) -> Vec<Revision> {
        let recent = if mem::take(&mut self.is_doubtful) { 0 } else { RECENT };
        let wanted = self.wanted(now, recent);
        self.retain(&wanted);
        wanted
    }

    fn retain(&mut self, wanted: &[Revision]) {
        self.revisions.retain(|number, _| wanted.iter().any(|it| it.number == *number));
    }

    /// Returns the revisions that may be needed, the one that is served last: those that are read, and `recent` ones.
    fn wanted(&self, now: Time, recent: usize) -> Vec<Revision> {
        let older = self.revisions.iter().filter(|(number, _)| Some(**number) != self.current);
        let count = older.clone().count();
        let wanted = older.enumerate().filter(|(at, (_, one))| at + recent >= count || one.is_read(now));
        let mut wanted: Vec<Revision> = wanted.map(|(_, (&number, one))| Revision { number, root: one.root }).collect();
        wanted.drain(..wanted.len().saturating_sub(MOST));
        wanted.extend(self.current());
        wanted
    }

    /// Whether one of them has this tree.
    pub(super) fn has(&self, root: ChunkHash) -> bool {
        self.revisions.values().any(|one| one.root == root)
    }

    /// The revisions, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = Revision> {
        self.revisions.iter().map(|(number, one)| Revision { number: *number, root: one.root })
    }

    /// The trees of all of them.
    pub(super) fn roots(&self) -> Vec<ChunkHash> {
        self.revisions.values().map(|one| one.root).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.revisions.len()
    }
}

impl One {
    fn new(root: ChunkHash) -> Self {
        Self { root, fresh_until: Time::ZERO, visited_until: Time::ZERO, sessions: 0 }
    }

    fn is_read(&self, now: Time) -> bool {
        now < self.visited_until || self.sessions > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(count: u64) -> Revision {
        Revision { number: Number { life: 1, count }, root: ChunkHash::of(&count.to_le_bytes()) }
    }

    #[test]
    fn the_oldest_revision_with_an_open_file_gives_way_to_the_newest() {
        let mut kept = Kept::new(Vec::from([revision(1)]));
        let last = MOST as u64 + 3;
        for count in 2..=last {
            assert!(kept.begin(revision(count - 1).number).is_some());
            kept.serve(Time::ZERO, revision(count), Time::ZERO);
        }
        // As many as there may be, the one that was served before, and that which is served.
        assert_eq!(kept.len(), MOST + 2);
        assert!(kept.begin(revision(1).number).is_none());
        assert!(kept.begin(revision(2).number).is_some());
        // A file that could not keep its revision is closed, too. The second one still has an open file.
        (1..last).for_each(|count| kept.end(revision(count).number));
        kept.forget(Time::ZERO);
        let left: Vec<u64> = kept.all().map(|it| it.number.count).collect();
        assert_eq!(left, [2, last - 3, last - 2, last - 1, last]);
    }
}
