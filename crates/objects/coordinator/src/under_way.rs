//! Transactions under way.

use crate::askers::Askers;
use crate::parts::Parts;
use alloc::sync::Arc;
use messages::{CommitRequest, PageReads};
use smallvec::SmallVec;
use types::{Delta, Map, NodeId, SessionId, SlotNo, Vector, Version};

/// The bytes of a delta and of a change in memory, beside the values.
const DELTA_BYTES: usize = size_of::<Delta>();
const CHANGE_BYTES: usize = 40;

/// A transaction that is neither refused nor known to be durable.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) request: Arc<CommitRequest>,
    /// The bytes of memory that the request takes.
    pub(crate) bytes: usize,
    pub(crate) stage: Stage,
    pub(crate) parts: Parts,
    /// The highest counts that the masters have seen which have prepared it.
    pub(crate) floor: Vector,
    pub(crate) askers: Askers,
}

impl UnderWay {
    /// Whether one of the sessions is still there that wait for the outcome.
    pub(crate) fn is_awaited(&self, sessions: &Map<SessionId, usize>) -> bool {
        self.askers.iter().any(|asker| sessions.contains_key(&asker.session))
    }
}

impl UnderWay {
    /// Whether it has committed, and the master at this node has yet to apply it.
    pub(crate) fn is_decided_at(&self, node: NodeId) -> bool {
        matches!(&self.stage, Stage::Deciding(deciding) if deciding.masters.contains(&node))
    }

    /// Whether the master at this node has prepared it, and it is not decided.
    pub(crate) fn may_decide(&self, node: NodeId) -> bool {
        !matches!(self.stage, Stage::Deciding(..)) && self.parts.is_prepared_at(node)
    }
}

/// How far a transaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There must be room for it in the log first.
    Reserving,
    /// The masters have it. If it is withdrawn, those that have not answered were told that they may let go of it.
    Preparing { is_withdrawn: bool },
    /// No master has it: a shard of it moves.
    Awaiting,
    /// The sequencer has it.
    Sequencing,
    /// The log has it, with these counts.
    Logging(Vector),
    /// The record is durable, and masters apply the transaction.
    Deciding(Deciding),
}

/// A transaction that has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deciding {
    pub(crate) counts: Vector,
    /// The masters that have yet to apply it.
    pub(crate) masters: SmallVec<[NodeId; 1]>,
    /// Whether its askers were answered.
    pub(crate) is_answered: bool,
}

/// The bytes of memory that a request takes: its writes, and the list of its reads.
pub(crate) fn memory_bytes(request: &CommitRequest) -> usize {
    let exception = size_of::<(SlotNo, Version)>();
    let reads = |reads: &PageReads| size_of::<PageReads>() + reads.exceptions.len() * exception;
    let writes = |delta: &Delta| DELTA_BYTES + delta.changes.len() * CHANGE_BYTES + delta.value_bytes();
    request.reads.iter().map(reads).sum::<usize>() + request.writes.iter().map(writes).sum::<usize>()
}
