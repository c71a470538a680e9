//! Invariant 2: each slot of a cached page is a hole or reflects every change through the page's version, and through
//! its own entry in the vcache.

use crate::ledger::{self, Change};
use crate::value::Stamp;
use crate::violation::{Check, ensure};
use cache::Frame;
use types::ObjectId;

/// Checks a slot of a frame, which shows `seen`.
pub(crate) fn slot(frame: &Frame, object: ObjectId, seen: Option<Stamp>, changes: &[Change]) -> Check {
    let evidence = frame.evidence(object.slot);
    ensure(ledger::reflects(changes, seen, evidence), "vp", || {
        let truth = ledger::at(changes, evidence);
        format!("{object:?} shows {seen:?} under version {evidence:?}, where it was {truth:?}")
    })
}
