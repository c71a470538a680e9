//! The form of a commit request, before anyone looks at its content: its fields, its counts, its size.

use alloc::format;
use machine::Goodbye;
use messages::{CommitRequest, PageReads};
use types::limits::{TXN_BYTES_MAX, TXN_PAGES_MAX};
use types::{Delta, Refusal, Version};

/// Refuses to continue with a session whose requests no client of ours would send.
pub(crate) fn check(request: &CommitRequest, applied: Version) -> Result<(), Goodbye> {
    request.check_form()?;
    request.reads.iter().try_for_each(|reads| check_evidence(reads, applied))
}

/// Refuses a transaction that is larger than one may be.
pub(crate) fn check_size(request: &CommitRequest) -> Result<(), Refusal> {
    let pages = request.reads.len();
    let bytes: usize = request.writes.iter().map(Delta::value_bytes).sum();
    if pages > TXN_PAGES_MAX || bytes > TXN_BYTES_MAX { Err(Refusal::TooLarge) } else { Ok(()) }
}

/// Evidence is a count that this store has given.
fn check_evidence(reads: &PageReads, applied: Version) -> Result<(), Goodbye> {
    let newest = reads.newest();
    if newest > applied {
        let text = format!("expected evidence for page {} up to {applied}, got {newest}", reads.page);
        return Err(Goodbye::malformed(text));
    }
    Ok(())
}
