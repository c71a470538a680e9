//! Invariant 4: what a running transaction that is not doomed has read is still what the cache shows, unless the page
//! has left or the slot is a hole.

use crate::history::Attempt;
use crate::ledger;
use crate::violation::{Check, ensure};
use cache::{Cache, Slot};

/// Checks all reads of a transaction.
pub(crate) fn transaction(cache: &Cache, attempt: &Attempt) -> Check {
    for (&object, &seen) in &attempt.reads {
        let Some(frame) = cache.get(object.page) else { continue };
        let shown = match frame.slot(object.slot) {
            Slot::Hole => continue,
            Slot::Free => None,
            Slot::Value(bytes) => Some(ledger::stamp_of(object, bytes)?),
        };
        ensure(shown == seen, "stable_reads", || {
            format!("a running transaction read {seen:?} in {object:?}, and the cache shows {shown:?}")
        })?;
    }
    Ok(())
}
