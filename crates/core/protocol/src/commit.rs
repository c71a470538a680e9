//! How a transaction commits.

use alloc::vec::Vec;
use bytes::Bytes;
use types::limits::PIECE_BYTES_MAX;
use types::{Delta, Incarnation, PageId, Refusal, SlotNo, SlotSet, TxnId, Version};

/// Wants a transaction committed. Safe to send again: the identity has one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The transaction.
    pub txn: TxnId,
    /// The latest incarnation of the store that its client knew of when it sent this copy. A later one does not commit
    /// it any more ([`Refusal::Lapsed`]).
    pub incarnation: Incarnation,
    /// The client has the outcome of each of its transactions with a number below this one and will never ask for it
    /// again: the store may forget them.
    pub answered: u64,
    /// The reads, page by page, in page order. The slots that it writes are among them.
    pub reads: Vec<PageReads>,
    /// The writes, in page order. None for a read-only transaction, which is validated once and leaves no trace.
    pub writes: Vec<Delta>,
}

impl CommitRequest {
    /// About what it takes of a line, in bytes, if that is more than one frame; else zero: no request waits for it.
    pub fn large_bytes(&self) -> usize {
        let changes = self.writes.iter().flat_map(|delta| &delta.changes);
        let values: usize = changes.map(|change| 4 + change.value.as_ref().map_or(0, Bytes::len)).sum();
        let bytes = values + 32 * self.reads.len();
        if bytes > PIECE_BYTES_MAX { bytes } else { 0 }
    }
}

/// The slots of one page that a transaction read, and how recent they provably were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReads {
    /// The page.
    pub page: PageId,
    /// Its slots that were read; a slot read as free counts.
    pub slots: SlotSet,
    /// All of them were current through this count: the greater of the page's version and the horizon.
    pub evidence: Version,
    /// Slots with later evidence, from the vcache, in slot order.
    pub exceptions: Vec<(SlotNo, Version)>,
}

impl PageReads {
    /// The highest count that anything here is proved by.
    pub fn newest(&self) -> Version {
        self.exceptions.iter().map(|(_, version)| *version).fold(self.evidence, Version::max)
    }
}

impl PageReads {
    /// The count through which `slot` was provably current.
    pub fn evidence_of(&self, slot: SlotNo) -> Version {
        let exception = self.exceptions.iter().find(|(s, _)| *s == slot);
        exception.map_or(self.evidence, |(_, version)| *version)
    }
}

/// Wants to know what became of a commit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskOutcome {
    /// The transaction.
    pub txn: TxnId,
}

/// The outcome of a commit request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReply {
    /// The transaction.
    pub txn: TxnId,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a commit request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable and has its count.
    Committed {
        /// How it moved each page that it wrote, in page order. To the committer this stands for the notice.
        pages: Vec<Advance>,
    },
    /// It has no effect, and never will.
    Refused(Refusal),
    /// The store does not know: the transaction is older than what it remembers of this client.
    Unknown,
}

/// A page went from one version to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The page.
    pub page: PageId,
    /// Its version before.
    pub prev: Version,
    /// Its version since.
    pub version: Version,
}
