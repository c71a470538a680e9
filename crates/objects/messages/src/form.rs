//! The form of a commit request, before anyone looks at its content.
//!
//! Both ends of an upstream session check it by this: a store ends the session of a peer that sends it anything else,
//! and a redirector that passed it on would lose the session of its whole group for one member.

use crate::{CommitRequest, PageReads};
use alloc::format;
use core::iter::Peekable;
use machine::Goodbye;
use types::Delta;
use types::limits::SLOTS_MAX;

impl CommitRequest {
    /// Refuses to continue with a session whose requests no client of ours would send. The worth of the counts only the
    /// store can judge.
    ///
    /// # Errors
    /// `Malformed`, with what was expected.
    pub fn check_form(&self) -> Result<(), Goodbye> {
        let (txn, answered) = (self.txn, self.answered);
        if txn.number == 0 || answered > txn.number {
            return Err(Goodbye::malformed(format!("expected {txn:?} to be answered through itself, got {answered}")));
        }
        ordered(self.reads.iter().map(|reads| reads.page), "reads")?;
        ordered(self.writes.iter().map(|delta| delta.page), "writes")?;
        self.reads.iter().try_for_each(check_exceptions)?;
        let mut reads = self.reads.iter().peekable();
        self.writes.iter().try_for_each(|delta| check_delta(delta, &mut reads))
    }
}

fn ordered<T: Ord + Copy + core::fmt::Debug>(pages: impl Iterator<Item = T>, what: &str) -> Result<(), Goodbye> {
    let mut last = None;
    for page in pages {
        if last.is_some_and(|last| page <= last) {
            return Err(Goodbye::malformed(format!("expected {what} in page order, got {page:?} after {last:?}")));
        }
        last = Some(page);
    }
    Ok(())
}

/// Exceptions are in slot order.
fn check_exceptions(reads: &PageReads) -> Result<(), Goodbye> {
    let possible = reads.exceptions.iter().all(|(slot, _)| usize::from(*slot) < SLOTS_MAX);
    if !possible || reads.exceptions.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(Goodbye::malformed(format!("expected exceptions for page {} in slot order", reads.page)));
    }
    Ok(())
}

/// A slot that is written has been read. `reads` walks along with the deltas, both being in page order.
fn check_delta<'a>(delta: &Delta, reads: &mut Peekable<impl Iterator<Item = &'a PageReads>>) -> Result<(), Goodbye> {
    let page = delta.page;
    if !delta.is_well_formed() {
        return Err(Goodbye::malformed(format!("expected changes to page {page} in slot order, each slot once")));
    }
    while reads.next_if(|reads| reads.page < page).is_some() {}
    let read = reads.peek().filter(|reads| reads.page == page);
    match delta.changes.iter().find(|change| read.is_none_or(|reads| !reads.slots.contains(change.slot))) {
        Some(change) => {
            let slot = change.slot;
            Err(Goodbye::malformed(format!("expected every written slot to be read, got {page}.{slot} written only")))
        }
        None => Ok(()),
    }
}
