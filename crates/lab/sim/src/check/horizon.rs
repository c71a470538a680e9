//! Invariant 3: each slot of a cached page is a hole or reflects every change through the cache's horizon.

use crate::ledger::{self, Change};
use crate::value::Stamp;
use crate::violation::{Check, ensure};
use types::{ObjectId, Version};

/// Checks a slot, which shows `seen`.
pub(crate) fn slot(horizon: Version, object: ObjectId, seen: Option<Stamp>, changes: &[Change]) -> Check {
    ensure(ledger::reflects(changes, seen, horizon), "horizon", || {
        let truth = ledger::at(changes, horizon);
        format!("{object:?} shows {seen:?} under a horizon of {horizon:?}, where it was {truth:?}")
    })
}
