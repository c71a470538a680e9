//! The form of a commit request, before anyone looks at its content: its fields and its counts.

use alloc::format;
use machine::Goodbye;
use messages::{CommitRequest, PageReads};
use types::{Sharding, Vector, Version};

/// Refuses to continue with a session whose requests no client of ours would send.
pub(crate) fn check(request: &CommitRequest, applied: &Vector, sharding: Sharding) -> Result<(), Goodbye> {
    request.check_form()?;
    request.reads.iter().try_for_each(|reads| check_evidence(reads, applied.of(sharding.of(reads.page))))
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
