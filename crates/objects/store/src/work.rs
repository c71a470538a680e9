//! The requests of a store to the disk and the answers: the contract between the role and the driver.
//!
//! The log is an append-only sequence of [`Record`]s at consecutive [`Position`]s, durable in prefix order. The home
//! is a map of pages, installed in atomic batches together with a [`Checkpoint`]. `docs/formats.md` draws both to the
//! byte; nothing here knows bytes.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
pub use coordinator::{ClientOutcomes, CommitRecord};
pub use master::{HomeImage, HomePage, SetAside};
use messages::Lineage;
use types::{ClusterId, Delta, Incarnation, Life, PageId, Position, Shard, TxnId, Vector, Version};

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A node's process has been started, or continues.
    Incarnation {
        /// The number of the start.
        incarnation: Incarnation,
        /// The leases that may last from then on. `None` in the records of a program that wrote none.
        leases: Option<LeasesGiven>,
        /// Its life and those before it; none in the records of a program that drew none.
        lineage: Lineage,
        /// The last counts that were given before this record. `None` in the records of a program that counted commits
        /// when they were durable.
        counts: Option<Vector>,
    },
    /// A transaction's deltas and its counts. Its durability is the commit point.
    Commit(CommitRecord),
    /// A transaction's deltas, in the log of a program that counted commits when they were durable.
    Uncounted(UncountedCommit),
    /// The counts that such commits got, oldest first.
    Counts(Vec<Counted>),
    /// All pages of the space below `next` have been granted.
    Grant {
        /// The space.
        space: u32,
        /// The number of the first page that has not been granted.
        next: u32,
    },
}

impl Record {
    /// An upper bound of the size of a grant's record, in bytes.
    pub(crate) const GRANT_BYTES: u64 = 16 + HEADER_BYTES as u64;

    /// An upper bound of the record's size in the log, in bytes.
    pub fn bytes_bound(&self) -> u64 {
        let body = match self {
            Self::Incarnation { leases, lineage, counts, .. } => {
                let spaces = leases.as_ref().map_or(0, |leases| leases.spaces.len());
                let lives = lineage.lives().iter().map(|(_, began)| 8 + vector_bytes_bound(began));
                24 + 4 * spaces + lives.sum::<usize>() + counts.as_ref().map_or(0, vector_bytes_bound)
            }
            Self::Grant { .. } => return Self::GRANT_BYTES,
            Self::Counts(counts) => 24 * counts.len() + 8,
            Self::Uncounted(commit) => return commit_bytes_bound(&commit.deltas, 0),
            Self::Commit(commit) => return commit_bytes_bound(&commit.deltas, beyond_first(&commit.counts)),
        };
        (body + HEADER_BYTES) as u64
    }
}

/// An upper bound of what every record has beside its body, in bytes.
const HEADER_BYTES: usize = 64;

/// An upper bound of the size of a commit's record, given how many shards it writes to beside the first, in bytes.
pub(crate) fn commit_bytes_bound(deltas: &[Delta], others: usize) -> u64 {
    let delta = |d: &Delta| 16 + 8 * d.changes.len() + d.value_bytes();
    (HEADER_BYTES + 40 + COUNT_BYTES * others + deltas.iter().map(delta).sum::<usize>()) as u64
}

/// The bytes of a count of another shard than the first, for which there is room in any record.
const COUNT_BYTES: usize = 16;

fn vector_bytes_bound(vector: &Vector) -> usize {
    16 + COUNT_BYTES * beyond_first(vector)
}

/// How many shards a vector lists beside the first.
fn beyond_first(vector: &Vector) -> usize {
    vector.counts().iter().filter(|(shard, _)| *shard != Shard::ONLY).count()
}

/// The leases that may last when a record of them is made, or are given before the next such record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasesGiven {
    /// How long the longest lasts, in milliseconds.
    pub lease_ms: u32,
    /// The spaces that they are on, in order.
    pub spaces: Vec<u32>,
}

/// A commit whose record does not have its count: see [`crate::Uncounted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncountedCommit {
    /// The transaction.
    pub txn: TxnId,
    /// The client needs no outcome of a transaction with a lower number.
    pub answered: u64,
    /// Its writes, in page order.
    pub deltas: Vec<Delta>,
}

/// The count that a commit without one in its record got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The transaction.
    pub txn: TxnId,
    /// Its count.
    pub version: Version,
}

/// The state that the home must remember beside the pages, replaced as a whole with every install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The highest counts that were applied when the batch was made; everything in the batch is at or below them.
    pub applied: Vector,
    /// For each space the first page that was not granted.
    pub next_pages: Vec<(u32, u32)>,
    /// Outcomes that clients may still ask for.
    pub outcomes: Vec<ClientOutcomes>,
    /// No commit with higher counts had its outcome forgotten before its client had it.
    pub forgotten: Vector,
    /// Changes to pages that cannot be read.
    pub aside: Vec<SetAside>,
}

/// The state in which the driver found a store's directory; the log's records follow, one by one, by
/// [`crate::Store::recover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The data set.
    pub cluster: ClusterId,
    /// This life of the process.
    pub incarnation: Incarnation,
    /// The same, drawn at random.
    pub life: Life,
    /// The checkpoint that the last install left.
    pub checkpoint: Checkpoint,
    /// Every page in the home.
    pub pages: Vec<HomePage>,
    /// Room in the log, in bytes.
    pub log_bytes_free: u64,
}

/// Disk work. Appends are carried out in order; all other work in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskWork {
    /// Append the record at the next position; [`DiskDone::Durable`] says when it is safe.
    Append(Position, Record),
    /// No record before this position is needed any more; answered by [`DiskDone::Freed`].
    Free(Position),
    /// Have room in the log for this many bytes, as far as it may grow; answered by [`DiskDone::Freed`], whether there
    /// is room then or not.
    MakeRoom(u64),
    /// Read all durable records that are needed; answered by [`DiskDone::Log`], in one or several answers.
    ReadLog,
    /// Read these pages from the home; answered by [`DiskDone::Pages`], all of them in one or several answers.
    Read(Vec<PageId>),
    /// Install these pages and the checkpoint in one atomic, durable batch. One is outstanding at a time; answered by
    /// [`DiskDone::Installed`] or [`DiskDone::HomeFull`].
    Install(Vec<HomeImage>, Checkpoint),
}

/// The outcome of disk work. A failed write or sync is not here: it ends the node, and recovery decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskDone {
    /// Every record through this position is durable.
    Durable {
        /// The last one.
        through: Position,
        /// Room left in the log, in bytes.
        log_bytes_free: u64,
    },
    /// Records were freed, or room was to be made.
    Freed {
        /// Room left in the log, in bytes.
        log_bytes_free: u64,
    },
    /// The log has grown without being asked.
    Grown {
        /// Room left in the log, in bytes.
        log_bytes_free: u64,
    },
    /// Pages of the home; `None` for a page that was never installed.
    Pages(Vec<(PageId, Option<(Version, Bytes)>)>),
    /// A page of the home cannot be read, and why. It answers for this page like [`DiskDone::Pages`].
    Damaged(PageId, String),
    /// Records of the log, in order.
    Log {
        /// Where they are, and what they say.
        records: Vec<(Position, Record)>,
        /// Whether these are the last.
        is_last: bool,
    },
    /// The batch is home.
    Installed,
    /// The disk has no room for the batch; nothing of it was installed.
    HomeFull,
}
