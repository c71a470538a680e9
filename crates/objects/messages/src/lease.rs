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
//!     | <--------- Invalidations    |   CommitReply --------------> |   now it can be seen
//! ```

use crate::bytes::{get_page_slots, put_page_slots};
use alloc::vec::Vec;
use framing::field::check_count;
use framing::{Field, Layout, Limits, Meta, Reader, Rest, WireError, messages};
use types::limits::{LEASED_SPACES_MAX, TXN_PAGES_MAX};
use types::{PageId, SlotSet, TxnId};

messages! {
    /// A lease for the group, from the moment on at which its redirector sent the ping with this nonce.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Leased {
        /// The ping's.
        pub nonce: u64,
        /// How long it lasts, in milliseconds.
        pub lease_ms: u32,
        /// The spaces that it is for.
        pub spaces: Vec<u32> as Rest<LEASED_SPACES_MAX>,
    }
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

messages! {
    /// From now on nobody in the group reads what the transaction will change without asking the store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Promise {
        /// The transaction.
        pub txn: TxnId,
    }
}

/// The transaction, then the slots of each page to the end of the meta.
impl Layout for Intent {
    const LIMITS: Limits = Limits::bytes(TxnId::BYTES).and_more();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of an intent", self.pages.len(), TXN_PAGES_MAX)?;
        self.txn.put(meta);
        self.pages.iter().for_each(|(page, slots)| put_page_slots(meta, *page, slots));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let txn = TxnId::get("txn", reader)?;
        Ok(Self { txn, pages: get_page_slots(reader, "pages of an intent", TXN_PAGES_MAX)? })
    }
}
