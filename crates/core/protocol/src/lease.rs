//! How a redirector may validate read-only transactions itself: under a lease, while it is notified of every change
//! before anybody can see it.
//!
//! ```text
//!   redirector                        store                      another group
//!     | Ping{nonce} --------------> |                               |
//!     | <---------- Leased{nonce}   |   a lease from the ping on    |
//!     |                             | <------------------- Commit   |   valid, and its writes stand in others' way
//!     | <---------------- Intent    |   these slots will change     |
//!     | Promise ------------------> |   they are contested here     |
//!     |                             |   log, number ...             |
//!     | <--------------- Notices    |   CommitReply --------------> |   now it can be seen
//! ```

use alloc::vec::Vec;
use types::{PageId, SlotSet, TxnId};

/// A lease for the group, from the moment on at which its redirector sent the ping with this nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The ping's.
    pub nonce: u64,
    /// How long it lasts, in milliseconds.
    pub lease_ms: u32,
    /// The spaces that it is for.
    pub spaces: Vec<u32>,
}

/// A transaction is about to commit that changes pages which the group holds. It waits for the promise, or for the
/// lease to run out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The transaction.
    pub txn: TxnId,
    /// The slots that it will change.
    pub pages: Vec<(PageId, SlotSet)>,
}

/// From now on nobody in the group reads what the transaction will change without asking the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The transaction.
    pub txn: TxnId,
}
