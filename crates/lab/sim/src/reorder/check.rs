//! The invariants of every cache at every step, and of every commit.

use super::master::Master;
use super::member::Member;
use super::{MASTERS, master_of};
use crate::check::{horizon, no_visible_abort};
use crate::ledger::{self, Change};
use crate::value::Stamp;
use crate::violation::{Check, ensure};
use cache::{Frame, Slot};
use types::{ObjectId, TxnId, Version};

/// Checks everything that a member has in its cache: it is what it claims to be, it is as recent as the horizon claims,
/// and nothing was restored from an older copy.
pub(crate) fn member(member: &mut Member, masters: &[Master; MASTERS]) -> Check {
    let Member { cache, horizons, never_back, .. } = member;
    for (page, frame) in cache.frames() {
        let Some(history) = masters[master_of(page)].ledger.page(page) else { continue };
        for (slot, changes) in history.slots() {
            let object = ObjectId::new(page, slot);
            let seen = match frame.slot(slot) {
                Slot::Hole => continue,
                Slot::Free => None,
                Slot::Value(bytes) => Some(ledger::stamp_of(object, bytes)?),
            };
            claim(frame, object, seen, changes)?;
            horizon::slot(horizons[master_of(page)], object, seen, changes)?;
            never_back.slot(object, seen, changes)?;
        }
    }
    Ok(())
}

/// A slot is what it was at its evidence, exactly: more would be a surprise to a member that is notified of the changes
/// between.
fn claim(frame: &Frame, object: ObjectId, seen: Option<Stamp>, changes: &[Change]) -> Check {
    let evidence = frame.evidence(object.slot);
    let truth = ledger::at(changes, evidence);
    ensure(seen == truth, "vcache", || {
        format!(
            "{object:?} shows {seen:?} with evidence {evidence:?}, where it was {truth:?}, in a page at {:?}",
            frame.version()
        )
    })
}

/// A transaction that is found valid has read what all before it have left.
pub(crate) fn committed(masters: &[Master; MASTERS], txn: TxnId, reads: &[(ObjectId, Option<Stamp>)]) -> Check {
    for &(object, seen) in reads {
        let ledger = &masters[master_of(object.page)].ledger;
        no_visible_abort::value(ledger, object, seen)?;
        let newest = ledger.newest(object);
        ensure(seen == newest, "history", || {
            format!("{txn:?} commits having read {seen:?} in {object:?}, which is {newest:?}")
        })?;
    }
    Ok(())
}

/// Everything has been told: what came out of order has been joined up, and no request waits for anything.
pub(crate) fn at_rest(members: &[Member], masters: &[Master; MASTERS]) -> Check {
    for (number, master) in masters.iter().enumerate() {
        ensure(!master.has_left_something(), "liveness", || {
            format!("m{number} waits to hear that what it left to another to tell was told")
        })?;
    }
    for (number, member) in members.iter().enumerate() {
        ensure(member.rests(), "liveness", || format!("c{} still waits: {member:?}", number + 1))?;
        for (master, &horizon) in member.horizons.iter().enumerate() {
            let applied = masters[master].applied();
            ensure(horizon == applied, "liveness", || {
                format!("c{} has heard of m{master}'s changes through {horizon:?}, of {applied:?}", number + 1)
            })?;
        }
        for (page, frame) in member.cache.frames() {
            let version: Version = masters[master_of(page)].version(page);
            ensure(frame.version() == version && frame.is_in_sequence(), "liveness", || {
                format!("c{} has heard of all changes to {page}, which is at {version:?}: {frame:?}", number + 1)
            })?;
        }
    }
    Ok(())
}
