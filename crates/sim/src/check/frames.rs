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
    ensure(horizon <= ledger.count(), "horizon", || {
        format!("a horizon of {horizon:?}, and {:?} is durable", ledger.count())
    })?;
    for (page, frame) in client.cache().frames() {
        one(page, frame, horizon, ledger, never_back)?;
    }
    Ok(())
}

fn one(page: PageId, frame: &Frame, h: Version, ledger: &Ledger, never_back: &mut NeverBack) -> Check {
    let Some(history) = ledger.page(page) else {
        return ensure(frame.version() == Version::ZERO && frame.page().is_empty(), "vp", || {
            format!("{page:?} was never written, and is cached at {:?}", frame.version())
        });
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
