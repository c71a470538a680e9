//! The runs of data and holes of home, as it was notified of them, beyond what was asked for: a client asks for one
//! range after the other, and home may be far.
//!
//! 1. They are asked about where nothing is dirty. Home changes by write-backs alone, and a block that one of these is
//!    changing is dirty until it has ended. So runs are so until the next one has.
//! 2. They are as home was when so many write-backs had ended; if one has while home was asked, they are not kept.
//! 3. A resize cuts home off, or makes it longer: nothing is known after it.

use super::Core;
use crate::home::{Home, HomeError};
use machines::messages::{holder::Extent, home::Run};
use std::sync::atomic::Ordering::Relaxed;

/// The runs that home has told of last.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    /// When they were so.
    version: Version,
    /// Their first byte.
    from: u64,
    /// The end of each, and whether it is a hole.
    ends: Vec<(u64, bool)>,
    /// How often the size has changed.
    resizes: u64,
}

/// A time at home: the write-backs that had ended, and the changes of its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    write_backs: u64,
    resizes: u64,
}

impl KnownRuns {
    /// The time at home, when so many write-backs have ended.
    fn now(&self, write_backs: u64) -> Version {
        Version { write_backs, resizes: self.resizes }
    }

    /// Keeps what home has said of its runs from a byte on, if nothing has changed since it was asked.
    fn learn(&mut self, asked: Version, write_backs: u64, from: u64, runs: &[Run]) {
        if asked == self.now(write_backs) {
            (self.version, self.from, self.ends) = (asked, from, ends(from, runs));
        }
    }

    /// Where the run ends that a byte is in, and whether it is a hole.
    fn find(&self, write_backs: u64, byte: u64) -> Option<(u64, bool)> {
        if byte < self.from || self.version != self.now(write_backs) {
            return None;
        }
        self.ends.get(self.ends.partition_point(|(end, _)| *end <= byte)).copied()
    }

    /// Home has another size.
    pub(super) fn forget(&mut self) {
        self.resizes += 1;
        self.ends = Vec::new();
    }
}

fn ends(from: u64, runs: &[Run]) -> Vec<(u64, bool)> {
    let end = |at: &mut u64, run: &Run| {
        *at += run.len;
        Some((*at, run.is_hole))
    };
    runs.iter().scan(from, end).collect()
}

impl Core {
    /// The run at home that a block is in, of which nothing up to `end` is dirty: where it ends, and whether it is a
    /// hole. Home is waited for, unless the run is unwanted.
    pub(super) fn run_at_home(
        &self,
        at: u64,
        end: u64,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(u64, bool), HomeError> {
        let asked = {
            let state = self.state();
            if let Some((until, is_hole)) = state.runs.find(state.write_backs, at) {
                return Ok((until.min(end), is_hole));
            }
            state.runs.now(state.write_backs)
        };
        // A home elsewhere reports as many runs as it tells at a time for the price of one; one of this host by the
        // run.
        let wanted = if matches!(self.home, Home::Far(_)) { self.size.load(Relaxed).max(end) } else { end };
        let runs = self.home.runs(Extent { offset: at, len: wanted - at }, is_unwanted)?;
        let mut state = self.state();
        let write_backs = state.write_backs;
        state.runs.learn(asked, write_backs, at, &runs);
        // Behind the end of home's file there is nothing.
        let first = runs.first().map_or((end, true), |run| (at + run.len, run.is_hole));
        Ok((first.0.min(end), first.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: [Run; 3] =
        [Run { len: 10, is_hole: true }, Run { len: 5, is_hole: false }, Run { len: 100, is_hole: true }];

    fn found(known: &KnownRuns, write_backs: u64) -> Vec<Option<(u64, bool)>> {
        [99, 100, 109, 110, 114, 115, 214, 215].into_iter().map(|at| known.find(write_backs, at)).collect()
    }

    #[test]
    fn runs_are_known_until_a_write_back_has_ended() {
        let mut known = KnownRuns::default();
        assert_eq!(known.find(0, 0), None);
        known.learn(known.now(3), 3, 100, &RUNS);
        let (hole, data, rest) = (Some((110, true)), Some((115, false)), Some((215, true)));
        assert_eq!(found(&known, 3), [None, hole, hole, data, data, rest, rest, None]);
        assert_eq!(found(&known, 4), [None; 8]);
    }

    #[test]
    fn an_answer_that_was_overtaken_is_not_kept() {
        let mut known = KnownRuns::default();
        let asked = known.now(3);
        known.learn(asked, 4, 100, &RUNS);
        assert_eq!((found(&known, 3), found(&known, 4)), (vec![None; 8], vec![None; 8]));
        known.forget();
        known.learn(asked, 3, 100, &RUNS);
        assert_eq!(found(&known, 3), [None; 8], "home has another size");
        known.learn(known.now(3), 3, 100, &RUNS);
        assert!(known.find(3, 100).is_some());
        known.forget();
        assert_eq!(found(&known, 3), [None; 8]);
    }
}
