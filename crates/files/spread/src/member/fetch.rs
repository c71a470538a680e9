//! The fetch of a revision: what of its tree was looked at, and what is missing.

use crate::number::Revision;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use tree::{ChunkHash, Descent, Parts, Step};

/// The state of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before a look at the tree, from the steps that are left.
    Waiting,
    /// The disk looks.
    Descending,
    /// All of it is here, and the record is being written.
    Switching,
}

/// The fetch of a revision.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) revision: Revision,
    pub(super) stage: Stage,
    parts: Parts,
    /// Places of the tree to be looked at; none of them before the first look.
    steps: Option<Vec<Step>>,
    /// Chunks that are missing, as far as it was looked.
    lacks: BTreeSet<ChunkHash>,
    has_failed: bool,
    /// A look has failed, perhaps because the tree that counts as whole has a damaged node.
    distrusts_base: bool,
}

impl Fetch {
    /// The fetch of these parts of a revision of which nothing is known.
    pub(super) fn begin(revision: Revision, parts: Parts) -> Self {
        Self {
            revision,
            stage: Stage::Waiting,
            parts,
            steps: None,
            lacks: BTreeSet::new(),
            has_failed: false,
            distrusts_base: false,
        }
    }

    /// The fetch of a revision whose tree is already here, as that of a kept revision.
    pub(super) fn of_kept(revision: Revision, parts: Parts) -> Self {
        Self { steps: Some(Vec::new()), ..Self::begin(revision, parts) }
    }

    /// Returns the steps for the disk when all missing chunks are here; `base` is a tree that should be whole.
    pub(super) fn descend(&mut self, base: Option<ChunkHash>) -> Option<Vec<Step>> {
        if self.stage != Stage::Waiting || !self.lacks.is_empty() {
            return None;
        }
        self.stage = Stage::Descending;
        let (root, base) = (self.revision.root, base.filter(|_| !self.distrusts_base));
        Some(self.steps.take().unwrap_or_else(|| Vec::from([Step::root_of(self.parts, root, base)])))
    }

    /// The disk has looked. Returns the chunks to fetch.
    pub(super) fn descended(&mut self, found: Descent, is_storing: impl Fn(&ChunkHash) -> bool) -> Vec<ChunkHash> {
        self.stage = Stage::Waiting;
        self.steps = Some(found.waits);
        self.lacks = found.lacks.iter().copied().collect();
        found.lacks.into_iter().filter(|hash| !is_storing(hash)).collect()
    }

    /// Whether it was looked everywhere, and nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.stage == Stage::Waiting && self.lacks.is_empty() && self.steps.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether a look is at the disk.
    pub(super) fn is_looking(&self) -> bool {
        self.stage == Stage::Descending && !self.has_failed
    }

    /// A chunk is here.
    pub(super) fn has(&mut self, hash: &ChunkHash) {
        self.lacks.remove(hash);
    }

    /// Whether a chunk is missing.
    pub(super) fn lacks(&self, hash: &ChunkHash) -> bool {
        self.lacks.contains(hash)
    }

    /// The chunks that are missing, as far as it was looked.
    pub(super) fn missing(&self) -> usize {
        self.lacks.len()
    }

    /// The step under way has failed.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
        self.distrusts_base |= self.stage == Stage::Descending;
    }

    /// If a step has failed, it is looked again from the top.
    pub(super) fn again(&mut self) {
        if mem::take(&mut self.has_failed) {
            (self.stage, self.steps, self.lacks) = (Stage::Waiting, None, BTreeSet::new());
        }
    }
}
