//! How a master tells what has changed.

use alloc::vec::Vec;
use types::{ClientId, PageId, SlotChange, SlotSet, TxnId, Version};

/// A batch: all changes through `through` to pages that the receiver holds are in this batch or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notices {
    /// The count through which the receiver has heard everything once it has applied the batch.
    pub through: Version,
    /// The changes, in count order.
    pub items: Vec<Notice>,
}

/// A page went from version `prev` to `version` in these slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The page.
    pub page: PageId,
    /// Its version before.
    pub prev: Version,
    /// Its version since.
    pub version: Version,
    /// The slots that changed.
    pub slots: SlotSet,
    /// The transaction that changed them, or [`Notice::SEVERAL`].
    pub txn: TxnId,
    /// Their new values, in slot order; without them the notice invalidates.
    pub data: Option<Vec<SlotChange>>,
}

impl Notice {
    /// Stands in a notice that sums up the changes of several transactions. No transaction is called that: their numbers
    /// begin at 1.
    pub const SEVERAL: TxnId = TxnId { client: ClientId(0), number: 0 };
}

/// The sender has applied all changes through `through`. Masters use it only to forget, never to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The sender's horizon.
    pub through: Version,
}
