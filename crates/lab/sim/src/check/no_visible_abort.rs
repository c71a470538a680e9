//! Invariant 9: what an aborted, doomed or refused transaction wrote is never visible to anyone.

use crate::ledger::{self, Ledger};
use crate::value::Stamp;
use crate::violation::{Check, ensure};
use types::ObjectId;

/// Checks that what somebody sees was left there by a transaction that is durably committed.
pub(crate) fn value(ledger: &Ledger, object: ObjectId, seen: Option<Stamp>) -> Check {
    ensure(ledger.ever_was(object, seen), "no_visible_abort", || {
        format!("{object:?} shows {seen:?}, which no committed transaction left there")
    })
}

/// The same for the bytes of a slot.
pub(crate) fn bytes(ledger: &Ledger, object: ObjectId, seen: Option<&[u8]>) -> Check {
    let stamp = seen.map(|bytes| ledger::stamp_of(object, bytes)).transpose()?;
    value(ledger, object, stamp)
}
