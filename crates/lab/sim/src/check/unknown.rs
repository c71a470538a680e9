//! The commits whose outcome nobody knows: there are four reasons for it, and no other.
//!
//! 1. The application has waited for the answer for as long as it is patient.
//! 2. The store was restored from a copy, and the client knew it from before, or came to a redirector that did: what
//!    became of the commit was lost with the rest.
//! 3. The store has begun more lives than it reports: a client that knows it from an earlier one cannot tell it from a
//!    copy.
//! 4. The store has forgotten an outcome that a client might still have asked for. It may do that when the client was
//!    gone, so never before the first connection has ended.
//!
//! So there are none at all in a run without faults and groups, over lines that carry whatever there is, and soon
//! enough that nobody is silent for too long.

use crate::violation::{Check, ensure};
use core::time::Duration;
use types::TxnId;

/// The reasons for an outcome that is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reasons {
    /// How long the application has waited, and how long it is patient.
    pub(crate) waited: Duration,
    pub(crate) patience: Duration,
    /// The store was restored.
    pub(crate) restored: bool,
    /// The store has begun more lives than it reports.
    pub(crate) outlived: bool,
    /// The store has forgotten some outcome.
    pub(crate) forgotten: bool,
}

/// Checks that there is a reason.
pub(crate) fn told(txn: TxnId, reasons: Reasons) -> Check {
    let Reasons { waited, patience, restored, outlived, forgotten } = reasons;
    ensure(waited >= patience || restored || outlived || forgotten, "unknown", || {
        format!("{txn:?} is told after {waited:?} that nobody knows its outcome, and there is no reason: {reasons:?}")
    })
}

/// Checks how many there are in a run until its storm is over, and everybody has got something through.
pub(crate) fn bounded(unknown: u64, is_untroubled: bool) -> Check {
    ensure(unknown == 0 || !is_untroubled, "unknown", || {
        format!("{unknown} outcomes are unknown, and there was no fault, no group and no slow line")
    })
}

/// Checks that a store which has forgotten an outcome had a reason.
pub(crate) fn forgot(has_ended: bool) -> Check {
    ensure(has_ended, "unknown", || "the store has forgotten an outcome, and no connection has ever ended".into())
}
