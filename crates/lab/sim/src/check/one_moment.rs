//! A running transaction reads as of one moment, also when it can never commit: code that runs on inside it never sees
//! a state that never was.

use crate::check::history;
use crate::history::Attempt;
use crate::ledger::{Ledger, Rank};
use crate::violation::{Check, ensure};

/// Checks everything that an attempt has read so far.
pub(crate) fn reads(ledger: &Ledger, attempt: &Attempt) -> Check {
    ensure(history::place(ledger, attempt, Rank::default()).is_some(), "one_moment", || {
        format!("a running transaction has read what never was at one time:{}", history::explain(ledger, attempt))
    })
}
