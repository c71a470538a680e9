//! The records of commits: one in the log, and one in a checkpoint.

use alloc::vec::Vec;
use messages::Advance;
use types::{ClientId, Delta, TxnId, Vector};

/// The record that a commit leaves in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRecord {
    /// The transaction.
    pub txn: TxnId,
    /// Its count in each shard that it writes to: the one after that of the shard's commit before it in the log.
    pub counts: Vector,
    /// The client needs no outcome of a transaction with a lower number.
    pub answered: u64,
    /// Its writes, in page order.
    pub deltas: Vec<Delta>,
}

/// The committed transactions of one client whose outcomes it may still ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOutcomes {
    /// The client.
    pub client: ClientId,
    /// The client needs no outcome of a transaction with a lower number.
    pub answered: u64,
    /// Transaction numbers, and how each moved its pages.
    pub committed: Vec<(u64, Vec<Advance>)>,
}
