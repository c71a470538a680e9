//! The holders of a log's copies, how much each counts, and how much so many of them count.

use crate::messages::holder::Sequence;
use alloc::vec::Vec;

/// The records that a log's writer has on stable media itself, and those that each holder `H` counts.
#[derive(Debug)]
pub(crate) struct Counts<H> {
    own: Sequence,
    holders: Vec<(H, Sequence)>,
}

impl<H: Copy + PartialEq> Counts<H> {
    /// Nobody counts more than what is over: everything through this record.
    pub(crate) fn new(own: Sequence) -> Self {
        Self { own, holders: Vec::new() }
    }

    /// The writer has everything through this record.
    pub(crate) fn own(&mut self, through: Sequence) {
        self.own = self.own.max(through);
    }

    /// The last record that the writer has itself.
    pub(crate) fn own_through(&self) -> Sequence {
        self.own
    }

    /// A holder counts from now on. Of what `through` covers it need not have anything: no request waits for that.
    pub(crate) fn add(&mut self, holder: H, through: Sequence) {
        self.remove(holder);
        self.holders.push((holder, through));
    }

    /// A holder counts everything through this record.
    pub(crate) fn counted(&mut self, holder: H, through: Sequence) {
        if let Some((_, counted)) = self.holders.iter_mut().find(|(it, _)| *it == holder) {
            *counted = through.max(*counted);
        }
    }

    /// A holder counts no more.
    pub(crate) fn remove(&mut self, holder: H) {
        self.holders.retain(|(it, _)| *it != holder);
    }

    /// The record through which `copies` count everything, the writer among them: without its own copy nothing counts.
    pub(crate) fn through(&self, copies: u8) -> Sequence {
        let elsewhere = usize::from(copies.saturating_sub(1));
        if elsewhere == 0 {
            return self.own;
        }
        // The largest number that so many reach: there are few holders, so each is tried.
        let reached = |through: Sequence| self.holders.iter().filter(|(_, counted)| *counted >= through).count();
        let all = self.holders.iter().map(|&(_, counted)| counted);
        all.filter(|&through| reached(through) >= elsewhere).max().unwrap_or_default().min(self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_copies_with_the_writers_own() {
        let mut counts = Counts::new(Sequence(0));
        for holder in 0..3 {
            counts.add(holder, Sequence(0));
        }
        counts.own(Sequence(10));
        for (holder, through) in [(0, 4), (1, 12), (2, 6)] {
            counts.counted(holder, Sequence(through));
        }
        assert_eq!([1, 2, 3, 4, 5].map(|copies| counts.through(copies).0), [10, 10, 6, 4, 0]);
        // Nothing is uncounted by a word that comes late.
        counts.counted(2, Sequence(5));
        assert_eq!(counts.through(3), Sequence(6));
        counts.remove(1);
        assert_eq!([2, 3, 4].map(|copies| counts.through(copies).0), [6, 4, 0]);
    }
}
