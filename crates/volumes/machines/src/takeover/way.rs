//! A part of a takeover's way home: copies that are asked for, some at a time, and given to home in their order.

use crate::lists::{Part, Source};
use crate::messages::holder::{Content, Extent, Kept, Record, Stamp};
use alloc::collections::VecDeque;
use alloc::vec::{self, Vec};
use core::mem;

/// A copy that was asked for, and has come or not.
#[derive(Debug)]
struct Asked {
    stamp: Stamp,
    source: Source,
    record: Option<(Extent, Content)>,
}

/// A part on its way home.
#[derive(Debug)]
pub(super) struct Way {
    rest: vec::IntoIter<(Stamp, Source)>,
    asked: VecDeque<Asked>,
    /// Copies that were given to home, and not taken there.
    given: usize,
    through: Stamp,
    is_ended: bool,
}

/// The outcome of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The copy.
    Copy,
    /// Word that it is none: it is damaged there.
    Damage,
    /// Nothing that was asked for.
    Nothing,
}

impl Way {
    pub(super) fn new(part: Part) -> Self {
        let (rest, through) = (part.copies.into_iter(), part.through);
        Self { rest, asked: VecDeque::new(), given: 0, through, is_ended: false }
    }

    /// The last write that it covers.
    pub(super) fn through(&self) -> Stamp {
        self.through
    }

    /// Home has taken so many more.
    pub(super) fn took(&mut self, writes: usize) {
        self.given = self.given.saturating_sub(writes);
    }

    /// Whether a copy is still to come from there.
    pub(super) fn awaits(&self, source: Source) -> bool {
        self.asked.iter().any(|it| it.source == source && it.record.is_none())
    }

    /// A copy that was asked for has come, or is no longer there.
    pub(super) fn kept(&mut self, source: Source, kept: Kept) -> Came {
        let Kept { stamp, record } = kept;
        let is_it = |it: &&mut Asked| it.stamp == stamp && it.source == source && it.record.is_none();
        let Some(asked) = self.asked.iter_mut().find(is_it) else { return Came::Nothing };
        asked.record = record;
        if asked.record.is_some() { Came::Copy } else { Came::Damage }
    }

    /// The next write for home, if it has come.
    pub(super) fn next(&mut self) -> Option<Record> {
        let Asked { stamp, record, .. } = self.asked.front_mut()?;
        let (stamp, (extent, content)) = (*stamp, record.take()?);
        self.asked.pop_front();
        self.given += 1;
        Some(Record { stamp, extent, content })
    }

    /// The copies that should be asked for now, so that no more than the window are on their way.
    pub(super) fn ask(&mut self, window: usize) -> Vec<(Stamp, Source)> {
        let room = window.saturating_sub(self.asked.len() + self.given);
        let asked: Vec<_> = self.rest.by_ref().take(room).collect();
        self.asked.extend(asked.iter().map(|&(stamp, source)| Asked { stamp, source, record: None }));
        asked
    }

    /// Whether all of it was given to home: says so once.
    pub(super) fn end(&mut self) -> bool {
        let has_more = !self.asked.is_empty() || !self.rest.as_slice().is_empty();
        !has_more && !mem::replace(&mut self.is_ended, true)
    }
}
