//! A collection: the chunks that no kept revision needs, while publishes and fetches go on beside it.
//!
//! ```text
//!   idle --begin--> marking --the disk has found what is unused--> sweeping, batch by batch --> idle
//!                      |  a chunk is relied on: it is spared         |  likewise, if its batch has not left
//! ```
//! A chunk is not swept once an upload, a switch or a fetch relies on it (**SwitchHasAll**). The disk does its work in
//! order, so a later question finds a swept chunk missing.

use crate::rule::Way;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use tree::ChunkHash;
use types::{Broken, Set};

/// Chunks that are removed at a time: a publish waits for one batch at most whenever it needs the disk.
const BATCH_CHUNKS: usize = 512;

/// A collection, if one is under way.
#[derive(Debug)]
pub(crate) struct Condemned {
    phase: Phase,
    swept: Swept,
    broken: Broken<Way>,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Marking {
        /// The chunks that were relied on since it began.
        spared: Set<ChunkHash>,
        /// A tree that the disk does not mark is needed after all.
        is_spoiled: bool,
    },
    Sweeping {
        /// In the order of their names, in which a disk has them side by side.
        left: BTreeSet<ChunkHash>,
        /// A batch is at the disk.
        is_busy: bool,
    },
}

/// The chunks that a collection has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Chunks.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Condemned {
    pub(crate) fn new(broken: Broken<Way>) -> Self {
        Self { phase: Phase::Idle, swept: Swept::default(), broken }
    }

    /// Whether none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Begins a collection. The caller has the disk look for unused chunks.
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::Marking { spared: Set::default(), is_spoiled: false };
        self.swept = Swept::default();
    }

    /// Ends the collection after an error of the disk.
    pub(crate) fn give_up(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Protects chunks that are relied on from now on.
    pub(crate) fn spare<'a>(&mut self, hashes: impl IntoIterator<Item = &'a ChunkHash>) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Marking { spared, .. } => spared.extend(hashes),
            Phase::Sweeping { .. } if self.broken.is(Way::SweepAnyway) => {}
            Phase::Sweeping { left, .. } => hashes.into_iter().for_each(|hash| {
                left.remove(hash);
            }),
        }
    }

    /// A record could not be written, so that it names trees which the disk does not mark: nothing is removed.
    pub(crate) fn spoil(&mut self) {
        if let Phase::Marking { is_spoiled, .. } = &mut self.phase {
            *is_spoiled = true;
        }
    }

    /// The disk has found these unused. Returns false if they are not removed, as the collection was spoiled.
    pub(crate) fn found(&mut self, unused: Vec<ChunkHash>) -> bool {
        let Phase::Marking { spared, is_spoiled } = &mut self.phase else { return true };
        let is_spoiled = *is_spoiled;
        let left = unused.into_iter().filter(|hash| !spared.contains(hash)).collect();
        self.phase = if is_spoiled { Phase::Idle } else { Phase::Sweeping { left, is_busy: false } };
        !is_spoiled
    }

    /// Ends the collection, and returns the chunks that it would remove.
    pub(crate) fn take_found(&mut self) -> BTreeSet<ChunkHash> {
        match mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Sweeping { left, .. } => left,
            Phase::Idle | Phase::Marking { .. } => BTreeSet::new(),
        }
    }

    /// The next batch for the disk, if none is there.
    pub(crate) fn next_batch(&mut self) -> Option<Vec<ChunkHash>> {
        let Phase::Sweeping { left, is_busy: is_busy @ false } = &mut self.phase else { return None };
        let batch: Vec<ChunkHash> = core::iter::from_fn(|| left.pop_first()).take(BATCH_CHUNKS).collect();
        *is_busy = !batch.is_empty();
        is_busy.then_some(batch)
    }

    /// Whether a batch could leave for the disk.
    pub(crate) fn has_batch(&self) -> bool {
        matches!(&self.phase, Phase::Sweeping { left, is_busy: false } if !left.is_empty())
    }

    /// A batch was removed.
    pub(crate) fn removed(&mut self, swept: Swept) {
        self.swept.chunks += swept.chunks;
        self.swept.bytes += swept.bytes;
        if let Phase::Sweeping { is_busy, .. } = &mut self.phase {
            *is_busy = false;
        }
    }

    /// The outcome, once nothing is left.
    pub(crate) fn end(&mut self) -> Option<Swept> {
        let is_done = matches!(&self.phase, Phase::Sweeping { left, is_busy: false } if left.is_empty());
        is_done.then(|| {
            self.phase = Phase::Idle;
            self.swept
        })
    }
}
