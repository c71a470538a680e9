//! The messages by which the roles of a store take a commit through its phases.
//!
//! ```text
//!   coordinator --Prepare--> master       --Vote----> coordinator
//!               --Sequence-> sequencer    --Placed--> coordinator
//!               --Decide---> master
//! ```
//! A coordinator may withdraw a transaction that is not prepared.
//! In a store of one node all three roles are in one process, and each message is a function call.

use crate::CommitRequest;
use alloc::sync::Arc;
use smallvec::SmallVec;
use types::{Refusal, Shard, TxnId, Vector};

/// Has a transaction judged by the master of its pages. A transaction that writes is prepared until it is decided, so
/// that its writes are in the way of others. A read-only one is judged once.
#[derive(Clone, Debug)]
pub struct Prepare(pub Arc<CommitRequest>);

/// A master's answer to [`Prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The transaction.
    pub txn: TxnId,
    /// The verdict.
    pub verdict: Verdict,
}

/// A master's verdict on a transaction. It knows nothing more of one that it has not prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction is valid, and prepared if it writes.
    Prepared,
    /// The transaction cannot commit.
    Refused(Refusal),
    /// The coordinator has withdrawn the transaction before it was prepared.
    Withdrawn,
}

impl Vote {
    /// The transaction is valid.
    pub fn prepared(txn: TxnId) -> Self {
        Self { txn, verdict: Verdict::Prepared }
    }

    /// The transaction cannot commit.
    pub fn refused(txn: TxnId, refusal: Refusal) -> Self {
        Self { txn, verdict: Verdict::Refused(refusal) }
    }

    /// The transaction was withdrawn before it was prepared.
    pub fn withdrawn(txn: TxnId) -> Self {
        Self { txn, verdict: Verdict::Withdrawn }
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
