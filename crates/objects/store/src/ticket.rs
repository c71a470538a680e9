//! A commit request on its way to the log, and what it will take there, in the MOB and of memory.

use crate::need::Need;
use crate::work::commit_bytes_bound;
use crate::{SessionId, mob};
use messages::{CommitRequest, PageReads};
use types::{SlotNo, Version};

/// A commit request that is not logged yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The session that it came on.
    pub(crate) from: SessionId,
    pub(crate) request: CommitRequest,
    /// A bound of what it adds to the MOB.
    pub(crate) mob_bytes: usize,
    /// A bound of what it adds to the log.
    pub(crate) log_bytes: u64,
    /// Whether it writes to a page that nothing is in.
    pub(crate) is_new: bool,
    /// How many more home images may be read for it.
    pub(crate) reads_left: u8,
    /// A place in line was kept for its client when it came, and it has not waited in line since.
    pub(crate) takes_place: bool,
}

impl Ticket {
    pub(crate) fn new(from: SessionId, request: CommitRequest, reads_left: u8) -> Self {
        Self {
            from,
            is_new: true,
            mob_bytes: request.writes.iter().map(mob::bytes_bound).sum(),
            log_bytes: commit_bytes_bound(&request.writes),
            reads_left,
            takes_place: false,
            request,
        }
    }

    /// The room that it needs.
    pub(crate) fn need(&self) -> Need {
        Need { mob_bytes: self.mob_bytes, log_bytes: self.log_bytes, is_new: self.is_new }
    }

    /// The bytes of memory that it takes while it waits: its writes, and the list of its reads.
    pub(crate) fn memory_bytes(&self) -> usize {
        let exception = size_of::<(SlotNo, Version)>();
        let reads = |reads: &PageReads| size_of::<PageReads>() + reads.exceptions.len() * exception;
        self.mob_bytes + self.request.reads.iter().map(reads).sum::<usize>()
    }
}
