//! Invariant 7: an acknowledged commit is durable, a refused one never has an effect, and each has one outcome.

use crate::check;
use crate::history::Attempt;
use crate::ledger::{Ledger, Rank};
use crate::violation::{Check, Violation, ensure};
use messages::Advance;
use types::{Refusal, TxnId};

/// Checks that what the application is told is committed is so, and gives the transaction's place, which is at or after
/// `floor`.
pub(crate) fn acknowledged(
    ledger: &Ledger,
    attempt: &Attempt,
    floor: Rank,
    txn: TxnId,
    pages: &[Advance],
) -> Result<Rank, Violation> {
    if attempt.writes.is_empty() {
        return check::history::read_only(ledger, txn, attempt, floor);
    }
    let (Some(place), Some(counts)) = (ledger.rank_of(txn), ledger.counts_of(txn)) else {
        return Err(Violation {
            checker: "durability",
            text: format!("{txn:?} is acknowledged, and no durable record holds it"),
        });
    };
    check::answers::advances(ledger, txn, counts, pages)?;
    Ok(place)
}

/// Checks that what the application is told is refused has no effect.
pub(crate) fn refused(ledger: &Ledger, txn: TxnId, refusal: &Refusal) -> Check {
    let place = ledger.rank_of(txn);
    ensure(place.is_none(), "durability", || {
        format!("{txn:?} is refused as {}, and committed at {place:?}", refusal.name())
    })
}
