//! The disk of a file server, as its machine sees it: chunks, and the records of sites.
//!
//! All work but reads and searches for a place is done in order: a later question finds a swept chunk missing, and a
//! switch relies on the check before it.

use crate::condemned::Swept;
use crate::messages::{ChangeKind, Consistency, Identity, Size, VisitorKey, WhenStale};
use crate::number::{Number, Revision, SiteKey};
use crate::settings::SiteSettings;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use tree::{ChunkHash, Growth, Path, Sides};
use types::{NodeId, Position};

/// The number of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Find out which of these chunks are missing.
    Missing(WorkId, Vec<ChunkHash>),
    /// Make chunks durable, each of which must match its name.
    Put(WorkId, Vec<(ChunkHash, Bytes)>),
    /// Find out whether all chunks of a tree are there, where a kept one is whole.
    Check(WorkId, Check),
    /// Merge a tree with the newest one, which are whole, and make the nodes of the merged tree durable (rules
    /// CompareBase, SwitchHasAll).
    Merge(WorkId, Sides),
    /// Find out which of some paths a publish changes (rule PExcludes).
    Compare(WorkId, Compare),
    /// Find the edits that lead from one tree to another, with the chunks that they need.
    Edits(WorkId, ChunkHash, ChunkHash),
    /// Make a revision durable, and drop others, in one transaction (rule OneSwitch).
    Publish(WorkId, NewRevision),
    /// Change a site's record.
    Change(WorkId, SiteKey, SiteChange),
    /// Drop revisions from a site's record.
    Drop(SiteKey, Vec<Number>),
    /// Find the chunks that none of these trees needs.
    Mark(Vec<ChunkHash>),
    /// Remove chunks.
    Sweep(Vec<ChunkHash>),
    /// Read a chunk: at any time.
    Read(ChunkHash),
    /// Find where the sites of a space are: at any time.
    Locate(String),
    /// Find whether a space goes to this node, and the term of its home here.
    HandOver(WorkId, String, NodeId),
}

/// Where the sites of a space are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this node, or nowhere yet, and this is the node where they would be.
    Here,
    /// At another node, at this address.
    At(String),
    /// Not to be reached, for this reason, for people.
    Away(String),
}

/// A tree to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A tree that is whole.
    pub base: Option<ChunkHash>,
    /// The tree.
    pub root: ChunkHash,
}

/// A publish that may change paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The newest tree, if there is one.
    pub base: Option<ChunkHash>,
    /// The tree that takes its place. Both are whole.
    pub root: ChunkHash,
    /// The paths.
    pub paths: Vec<Path>,
}

/// A revision to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// The site, which is created if there is none.
    pub key: SiteKey,
    /// The revision.
    pub revision: Revision,
    /// The publish.
    pub identity: Identity,
    /// The revision that it brings back, by its count.
    pub of: Option<u64>,
    /// Its size.
    pub size: NewSize,
    /// A note for the log.
    pub note: String,
    /// Revisions that are no longer kept.
    pub drops: Vec<Number>,
}

/// The size of a revision to be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// As its publisher has counted it.
    Whole(Size),
    /// The size of the newest revision, and how much larger a tree that was merged with it is.
    Grown(Growth),
}

/// A change of a site's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteChange {
    /// The change.
    pub kind: ChangeKind,
    /// The settings, where they are part of it.
    pub settings: SiteSettings,
}

/// A site as its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteState {
    /// The site.
    pub key: SiteKey,
    /// The revisions that are kept, the oldest first. The last is the head.
    pub revisions: Vec<Revision>,
    /// Its settings.
    pub settings: Settings,
    /// The last publishes and the revisions that they made, the oldest first.
    pub publishes: Vec<(Identity, Revision)>,
}

impl SiteState {
    /// The life of the store that published the newest revision.
    pub fn last_life(&self) -> Option<u64> {
        self.revisions.last().map(|revision| revision.number.life)
    }
}

/// The settings in a site's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many of the newest revisions are kept.
    pub keep: u32,
    /// The key that signs the cookies of its visitors.
    pub visitor_key: VisitorKey,
    /// Its consistency.
    pub consistency: Consistency,
    /// The length of its leases, if it differs from the server's.
    pub lease: Option<Duration>,
    /// Whether its subscribers serve it when their lease is over.
    pub when_stale: WhenStale,
}

impl Settings {
    /// Settings with leases of the server's length, and servers that serve when they are over.
    pub fn new(keep: u32, visitor_key: VisitorKey, consistency: Consistency) -> Self {
        Self { keep, visitor_key, consistency, lease: None, when_stale: WhenStale::default() }
    }

    /// Changes settings.
    pub fn set(&mut self, SiteSettings { keep, lease, consistency, when_stale }: SiteSettings) {
        self.keep = keep.unwrap_or(self.keep);
        self.lease = lease.or(self.lease);
        self.consistency = consistency.unwrap_or(self.consistency);
        self.when_stale = when_stale.unwrap_or(self.when_stale);
    }
}

impl From<Settings> for SiteSettings {
    fn from(Settings { keep, lease, consistency, when_stale, .. }: Settings) -> Self {
        Self { keep: Some(keep), lease, consistency: Some(consistency), when_stale: Some(when_stale) }
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Chunks of the tree that are missing; there may be more.
    pub lacks: Vec<ChunkHash>,
    /// Chunks of the tree that the whole one does not have.
    pub new: Vec<ChunkHash>,
    /// The edits that lead from the whole tree to this one, with the chunks that they need; empty if they are too
    /// large.
    pub edits: Bytes,
}

/// The outcome of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The merged tree.
    Tree(MergedTree),
    /// Paths that both sides have changed, for people.
    Conflicts(String),
}

/// A merged tree, all nodes of which are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedTree {
    /// The tree.
    pub root: ChunkHash,
    /// Its nodes that the merge has made.
    pub new: Vec<ChunkHash>,
    /// How much larger it is than the newest one.
    pub growth: Growth,
    /// The edits that lead from the newest tree to this one, as those of [`Checked`].
    pub edits: Bytes,
}

/// Why work was not done. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// A chunk does not match its name, or a tree cannot be read.
    Malformed(String),
    /// The disk is full.
    NoRoom(String),
    /// There is no such site.
    NoSite,
    /// There is such a site already.
    IsThere,
    /// The sites of the space have another home, or their home has another term (**OneHome**).
    Elsewhere,
    /// Another reason, for people.
    Failed(String),
}

/// The outcome of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The outcome of [`Work::Missing`].
    Missing(WorkId, Result<Vec<ChunkHash>, NotDone>),
    /// The outcome of [`Work::Put`]: all are durable.
    Put(WorkId, Result<(), NotDone>),
    /// The outcome of [`Work::Check`].
    Checked(WorkId, Result<Checked, NotDone>),
    /// The outcome of [`Work::Merge`].
    Merged(WorkId, Result<Merged, NotDone>),
    /// The outcome of [`Work::Compare`]: the paths that the publish changes.
    Compared(WorkId, Result<Vec<Path>, NotDone>),
    /// The outcome of [`Work::Edits`]: empty if they are too large, or a tree cannot be read.
    Edits(WorkId, Bytes),
    /// The outcome of [`Work::Publish`]: durable, or not made.
    Published(WorkId, Result<Settings, NotDone>),
    /// The outcome of [`Work::Change`], with the record of a site that was created.
    Changed(WorkId, Result<Option<SiteState>, NotDone>),
    /// The outcome of [`Work::Drop`]: the dropped revisions. The others stay, as after an error of the disk.
    Dropped(SiteKey, Vec<Number>),
    /// The outcome of [`Work::Mark`]: the unused chunks.
    Marked(Result<Vec<ChunkHash>, NotDone>),
    /// The outcome of [`Work::Sweep`].
    Swept(Result<Swept, NotDone>),
    /// The outcome of [`Work::Read`]: none if the chunk is missing or damaged.
    Read(ChunkHash, Option<Bytes>),
    /// The outcome of [`Work::Locate`].
    Located(String, Place),
    /// The outcome of [`Work::HandOver`]: the term.
    HandOver(WorkId, Result<u64, NotDone>),
    /// The outcome of [`Work::Read`]: the disk does not know what the chunk is like, for this reason.
    Unread(ChunkHash, String),
}

impl machine::Done for Done {
    fn durable(&self) -> Option<Position> {
        None
    }
}
