//! The disk of a member, as its machine sees it: chunks, and a record of the revisions that it serves.
//!
//! All work is done in order.

use crate::condemned::Swept;
use crate::messages::{VisitorKey, WhenStale};
use crate::number::{Number, Revision};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use tree::{ChunkHash, Descent, Parts, Step};
use types::Position;

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Apply the edits of an offer, which lead from one tree to another, and find the chunks that the new tree lacks.
    /// If the edits do not make it, the outcome is the first step of a descent.
    Apply(Edited),
    /// Look which chunks of a tree are missing.
    Descend(Vec<Step>),
    /// Make a chunk durable, which must match its name.
    Put(ChunkHash, Bytes),
    /// Make the record durable: the member serves the last of its revisions from then on.
    Switch(State),
    /// Find the chunks that these parts of the trees do not need.
    Mark(Parts, Vec<ChunkHash>),
    /// Remove chunks.
    Sweep(Vec<ChunkHash>),
}

/// The edits of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The tree that they change.
    pub base: ChunkHash,
    /// The tree that they make.
    pub root: ChunkHash,
    /// The parts of both that are here.
    pub parts: Parts,
    /// The edits, with chunks (`crate::trees`).
    pub edits: Bytes,
}

/// The outcome of edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The chunks that the new tree lacks and relies on.
    pub found: Descent,
    /// The content that came with the edits and was stored, with its bytes, where only directories are fetched.
    pub content: Vec<(ChunkHash, u32)>,
}

impl Applied {
    /// The outcome of edits that do not make the tree: the first step of a descent.
    pub fn look(parts: Parts, base: ChunkHash, root: ChunkHash) -> Self {
        let waits = Vec::from([Step::root_of(parts, root, Some(base))]);
        Self { found: Descent { waits, ..Descent::default() }, content: Vec::new() }
    }

    /// Whether the chunks that the edits made and brought are stored.
    pub fn is_stored(&self) -> bool {
        !self.found.relies.is_empty() || !self.content.is_empty()
    }
}

/// The record of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The parts of the revisions that are there.
    pub parts: Parts,
    /// The revisions whose chunks are all there, the oldest first. The last is served.
    pub revisions: Vec<Revision>,
    /// The key that signs the cookies of visitors.
    pub visitor_key: VisitorKey,
    /// Whether a revision that may be stale is served.
    pub when_stale: WhenStale,
}

/// The outcome of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The outcome of [`Work::Apply`].
    Applied(Applied),
    /// The outcome of [`Work::Descend`].
    Descended(Result<Descent, String>),
    /// The outcome of [`Work::Put`]: whether the chunk matched its name and is durable, or why it was not written.
    Put(ChunkHash, Result<bool, String>),
    /// The outcome of [`Work::Switch`], with the revision that the record serves.
    Switched(Number, Result<(), String>),
    /// The outcome of [`Work::Mark`]: the unused chunks, with their bytes.
    Marked(Result<Vec<(ChunkHash, u32)>, String>),
    /// The outcome of [`Work::Sweep`].
    Swept(Result<Swept, String>),
}

impl machine::Done for Done {
    fn durable(&self) -> Option<Position> {
        None
    }
}
