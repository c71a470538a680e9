//! What a commit request must look like before anyone looks at what it says.

use alloc::format;
use core::iter::Peekable;
use protocol::{CommitRequest, Goodbye, PageReads};
use types::limits::{SLOTS_MAX, TXN_BYTES_MAX, TXN_PAGES_MAX};
use types::{Delta, Refusal, Version};

/// Refuses to go on with a session whose requests no client of ours would send.
pub(crate) fn check(request: &CommitRequest, applied: Version) -> Result<(), Goodbye> {
    let txn = request.txn;
    if txn.number == 0 || request.answered > txn.number {
        let answered = request.answered;
        return Err(Goodbye::malformed(format!("expected {txn:?} to be answered through itself, got {answered}")));
    }
    ordered(request.reads.iter().map(|reads| reads.page), "reads")?;
    ordered(request.writes.iter().map(|delta| delta.page), "writes")?;
    for reads in &request.reads {
        check_reads(reads, applied)?;
    }
    let mut reads = request.reads.iter().peekable();
    request.writes.iter().try_for_each(|delta| check_delta(delta, &mut reads))
}

/// Refuses a transaction that is larger than one may be.
pub(crate) fn check_size(request: &CommitRequest) -> Result<(), Refusal> {
    let pages = request.reads.len();
    let bytes: usize = request.writes.iter().map(Delta::value_bytes).sum();
    if pages > TXN_PAGES_MAX || bytes > TXN_BYTES_MAX { Err(Refusal::TooLarge) } else { Ok(()) }
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

/// Evidence is a count that this store has given, and exceptions are in slot order.
fn check_reads(reads: &PageReads, applied: Version) -> Result<(), Goodbye> {
    let page = reads.page;
    let newest = reads.exceptions.iter().map(|(_, version)| *version).fold(reads.evidence, Version::max);
    if newest > applied {
        let text = format!("expected evidence for page {page} up to {applied}, got {newest}");
        return Err(Goodbye::malformed(text));
    }
    let possible = reads.exceptions.iter().all(|(slot, _)| usize::from(*slot) < SLOTS_MAX);
    if !possible || reads.exceptions.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(Goodbye::malformed(format!("expected exceptions for page {page} in slot order")));
    }
    Ok(())
}

/// What is written has been read. `reads` walks along with the deltas, both being in page order.
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
