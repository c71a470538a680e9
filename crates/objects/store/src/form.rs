//! The form of a commit request, before anyone looks at its content: its fields and its counts.

use alloc::format;
use machine::Goodbye;
use master::Master;
use messages::{CommitRequest, PageReads};
use types::{Sharding, Version};

/// Refuses to continue with a session whose requests no client of ours would send. A count above those that are applied
/// may be that of a commit which is prepared here, and was acknowledged by another node.
pub(crate) fn check(request: &CommitRequest, master: &Master, sharding: Sharding) -> Result<(), Goodbye> {
    request.check_form()?;
    let applied = master.applied();
    let shard = |reads: &PageReads| sharding.of(reads.page);
    let is_settled = |reads: &&PageReads| master.serves(shard(reads)) && !master.has_unapplied(shard(reads));
    let mut of_here = request.reads.iter().filter(is_settled);
    of_here.try_for_each(|reads| check_evidence(reads, applied.of(shard(reads))))
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
