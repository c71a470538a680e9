//! Invariant 1: the committed history is serializable, and strictly so.
//!
//! The counts of one master are a serial order of all transactions that write, so there is no graph to search: each
//! transaction is held against the state at its place. One that only reads has no count; it must fit in somewhere
//! between the last transaction that was acknowledged before it began, and now.

use crate::history::Attempt;
use crate::ledger::Ledger;
use crate::violation::{Check, Violation, ensure};
use types::{TxnId, Version};

/// Checks a transaction that takes the next place: what it read is what all before it have left.
pub(crate) fn update(ledger: &Ledger, txn: TxnId, attempt: &Attempt) -> Check {
    for (&object, &seen) in &attempt.reads {
        let newest = ledger.newest(object);
        ensure(seen == newest, "history", || {
            let place = ledger.count().next();
            format!("{txn:?} commits at {place:?} having read {seen:?} in {object:?}, which is {newest:?}")
        })?;
    }
    Ok(())
}

/// Checks a transaction that has only read, and gives the first place that it can have.
pub(crate) fn read_only(ledger: &Ledger, txn: TxnId, attempt: &Attempt) -> Result<Version, Violation> {
    let (mut first, mut last) = (attempt.floor, ledger.count());
    for (&object, &seen) in &attempt.reads {
        let Some((from, until)) = ledger.life(object, seen) else {
            return Err(Violation {
                checker: "history",
                text: format!("{txn:?} read {seen:?} in {object:?}, which no committed transaction left there"),
            });
        };
        first = first.max(from);
        last = until.map_or(last, |until| last.min(Version(until.0 - 1)));
        ensure(first <= last, "history", || {
            format!(
                "{txn:?} read {seen:?} in {object:?}, there from {from:?} until {until:?}; \
                 with its other reads and what was acknowledged before it began it needs {first:?} or later"
            )
        })?;
    }
    Ok(first)
}
