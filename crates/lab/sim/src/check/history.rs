//! Invariant 1: the committed history is serializable, and strictly so.
//!
//! The log of one node is a serial order of all transactions that write, so there is no graph to search: each
//! transaction is held against the state at its place. A read-only transaction has no place; it must fit in somewhere
//! between the last transaction that was acknowledged before it began, and now.

use crate::history::Attempt;
use crate::ledger::{self, Ledger, Rank};
use crate::value::Stamp;
use crate::violation::{Check, Violation, ensure};
use types::{ObjectId, TxnId};

/// Checks a transaction that takes the next place: what it read is what all before it have left.
pub(crate) fn update(ledger: &Ledger, txn: TxnId, attempt: &Attempt) -> Check {
    for (&object, &seen) in &attempt.reads {
        let newest = ledger.newest(object);
        ensure(seen == newest, "history", || {
            let place = Rank(ledger.rank().0 + 1);
            format!("{txn:?} commits at {place:?} having read {seen:?} in {object:?}, which is {newest:?}")
        })?;
    }
    Ok(())
}

/// Checks a transaction that has only read, and gives the first place that it can have at or after `floor`.
pub(crate) fn read_only(ledger: &Ledger, txn: TxnId, attempt: &Attempt, floor: Rank) -> Result<Rank, Violation> {
    place(ledger, attempt, floor).ok_or_else(|| {
        let reads = explain(ledger, attempt);
        let text = format!("no place for {txn:?} at or after {floor:?}, where it began, has all it read:{reads}");
        Violation { checker: "history", text }
    })
}

/// The reads of an attempt, and its outcome.
pub(crate) fn explain(ledger: &Ledger, attempt: &Attempt) -> String {
    let shown = |(object, seen): (&ObjectId, &Option<Stamp>)| {
        let lives: Vec<_> = ledger.changes(*object).iter().map(|change| (change.rank, change.stamp)).collect();
        format!("\n  {seen:?} in {object:?}, which became {lives:?}")
    };
    attempt.reads.iter().map(shown).collect()
}

/// The first place from `floor` on at which everything was as the attempt has read it.
pub(crate) fn place(ledger: &Ledger, attempt: &Attempt, floor: Rank) -> Option<Rank> {
    let mut place = floor;
    // Each round moves on to the next change of something that is not as it was read.
    'moved: loop {
        for (&object, &seen) in &attempt.reads {
            let changes = ledger.changes(object);
            if ledger::at_rank(changes, place) != seen {
                let next = changes.iter().find(|change| change.rank > place && change.stamp == seen)?;
                place = next.rank;
                continue 'moved;
            }
        }
        return Some(place);
    }
}
