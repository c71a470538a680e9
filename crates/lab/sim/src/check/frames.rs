//! Walks a client's cache and holds each slot against the invariants about cached values.

use crate::check::{horizon, never_back::NeverBack, no_visible_abort, vp};
use crate::ledger::{self, Ledger};
use crate::violation::{Check, ensure};
use cache::{Frame, Slot};
use client::Client;
use types::{ObjectId, PageId, Version};

/// Checks everything that a client has in its cache.
pub(crate) fn all(client: &Client, ledger: &Ledger, never_back: &mut NeverBack) -> Check {
    let horizon = client.horizon();
    ensure(ledger.horizon().reaches(horizon.counts), "horizon", || {
        format!("a horizon of {:?}, and {:?} is durable", horizon.counts, ledger.horizon().counts)
    })?;
    for (page, frame) in client.cache().frames() {
        let horizon = horizon.of(page);
        one(page, frame, horizon, ledger, never_back)?;
        // A client that resumes its session is notified of changes in pages that it is about to be told to drop.
        if client.is_live() {
            in_sequence(page, frame, horizon)?;
        }
    }
    client.unused_grants().try_for_each(|page| grant(page, horizon.of(page), ledger))
}

/// The changes of one master follow on each other. While a redirector resumes its session, what is new comes before
/// what it has missed: so a member may lack a change beyond its horizon, and none that the horizon says it has heard
/// of.
fn in_sequence(page: PageId, frame: &Frame, h: Version) -> Check {
    let is_missed = frame.first_missing().is_some_and(|missing| missing > h);
    ensure(frame.is_in_sequence() || is_missed, "in_sequence", || {
        let version = frame.version();
        format!("{page:?} is cached at {version:?} and {h:?}, and has changes that do not follow on that: {frame:?}")
    })
}

/// A page that a client takes for an empty one when it needs one is empty as of its horizon.
fn grant(page: PageId, h: Version, ledger: &Ledger) -> Check {
    let Some(history) = ledger.page(page) else { return Ok(()) };
    let filled = history.slots().find(|(_, changes)| ledger::at(changes, h).is_some());
    ensure(filled.is_none(), "grants", || {
        format!("{page:?} is granted, and as of {h:?} there is an object in {filled:?}")
    })
}

fn one(page: PageId, frame: &Frame, h: Version, ledger: &Ledger, never_back: &mut NeverBack) -> Check {
    let Some(history) = ledger.page(page) else {
        return ensure(frame.page().is_empty(), "vp", || format!("{page:?} was never written, and is not empty"));
    };
    for (slot, changes) in history.slots() {
        let object = ObjectId::new(page, slot);
        let seen = match frame.slot(slot) {
            Slot::Hole => continue,
            Slot::Free => None,
            Slot::Value(bytes) => Some(ledger::stamp_of(object, bytes)?),
        };
        no_visible_abort::value(ledger, object, seen)?;
        vp::slot(frame, object, seen, changes)?;
        horizon::slot(h, object, seen, changes)?;
        never_back.slot(object, seen, changes)?;
    }
    let known = |slot| history.slots().any(|(written, _)| written == slot) || frame.is_hole(slot);
    let strange = frame.page().objects().find(|(slot, _)| !known(*slot));
    ensure(strange.is_none(), "no_visible_abort", || format!("{page:?} shows a slot that nobody wrote: {strange:?}"))
}
