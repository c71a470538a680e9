//! The messages by which the roles of a store take a commit through its phases.
//!
//! ```text
//!   coordinator --Prepare--> masters      --Vote----> coordinator
//!               --Sequence-> sequencer    --Placed--> coordinator
//!               --Decide---> masters
//! ```
//! A coordinator may withdraw a transaction that is not prepared, and releases one that is prepared at one master and
//! refused by another. Between roles of one node each message is a function call; [`crate::nodes`] has the bytes of the
//! others.

use crate::CommitRequest;
use alloc::sync::Arc;
use smallvec::SmallVec;
use types::{Opening, Refusal, Shard, TxnId, Vector};

/// Has a transaction judged by a master of its pages. A transaction that writes is prepared until it is decided, so
/// that it is in the way of others. A read-only one is judged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The transaction, or the reads and writes of it that are the master's to judge.
    pub request: Arc<CommitRequest>,
    /// The other masters that judge it.
    pub among: Among,
    /// The openings in which the master has the shards of these, as far as the coordinator knows. A store of one node
    /// has none.
    pub openings: Openings,
}

/// Shards, and an opening of each.
pub type Openings = SmallVec<[(Shard, Opening); 1]>;

/// The other masters that judge a transaction, and whether it writes anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// There is no other.
    Alone,
    /// All are asked at the same time, so none of them may keep a transaction that writes waiting: of two transactions
    /// that wait in two lines, each could be in front of the other.
    AtOnce {
        /// Whether it writes.
        writes: bool,
    },
    /// One is asked after another, in the order of their shards.
    InTurn {
        /// Whether it writes.
        writes: bool,
        /// Whether a master before has prepared it. Then others may wait for it already, so it waits for prepared
        /// transactions alone: neither behind those in line, nor for room.
        is_held: bool,
    },
}

impl Among {
    /// Whether a transaction writes, at the master that judges this part of it or elsewhere.
    pub fn writes(self, part: &CommitRequest) -> bool {
        match self {
            Self::Alone => !part.writes.is_empty(),
            Self::AtOnce { writes } | Self::InTurn { writes, .. } => writes,
        }
    }
}

/// A master's answer to [`Prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The transaction.
    pub txn: TxnId,
    /// The verdict.
    pub verdict: Verdict,
    /// The highest count that the master has seen of each shard that a prepared transaction writes to. The count of the
    /// transaction must be above it: a sequencer whose term is over may not know it.
    pub highest: Vector,
}

/// A master's verdict on a transaction. It knows nothing more of one that it has not prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction is valid, and prepared if it writes.
    Prepared,
    /// The transaction cannot commit.
    Refused(Refusal),
    /// The transaction would have to wait for another one, or for room, and may not.
    Busy,
    /// A shard of the transaction is about to close because it moves, or is not open yet in its next opening. The
    /// coordinator asks again when the shard is served.
    Moving,
    /// The coordinator has withdrawn the transaction before it was prepared.
    Withdrawn,
}

impl Vote {
    /// The transaction is valid, and its counts must be above these.
    pub fn prepared(txn: TxnId, highest: Vector) -> Self {
        Self { txn, verdict: Verdict::Prepared, highest }
    }

    /// The transaction would have to wait.
    pub fn busy(txn: TxnId) -> Self {
        Self { txn, verdict: Verdict::Busy, highest: Vector::new() }
    }

    /// A shard of the transaction moves.
    pub fn moving(txn: TxnId) -> Self {
        Self { txn, verdict: Verdict::Moving, highest: Vector::new() }
    }

    /// The transaction cannot commit.
    pub fn refused(txn: TxnId, refusal: Refusal) -> Self {
        Self { txn, verdict: Verdict::Refused(refusal), highest: Vector::new() }
    }

    /// The transaction was withdrawn before it was prepared.
    pub fn withdrawn(txn: TxnId) -> Self {
        Self { txn, verdict: Verdict::Withdrawn, highest: Vector::new() }
    }
}

/// Wants a place for a transaction that every master has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The transaction.
    pub txn: TxnId,
    /// The shards that it writes to, in order.
    pub shards: SmallVec<[Shard; 1]>,
}

/// The sequencer's answer to [`Sequence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The transaction.
    pub txn: TxnId,
    /// Its count in each of its shards.
    pub counts: Vector,
}

/// Tells a master that a transaction has committed which it has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decide {
    /// The transaction.
    pub txn: TxnId,
    /// Its count in each shard that it writes to. Its record is durable.
    pub counts: Vector,
}

/// Tells a master that a transaction which it has prepared leaves nothing there: it was given up, or it has only read
/// there and has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The transaction.
    pub txn: TxnId,
}
