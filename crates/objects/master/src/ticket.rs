//! A commit that is not prepared yet, and the room that it will take in the MOB.

use crate::need::Need;
use crate::{SessionId, mob};
use alloc::sync::Arc;
use messages::CommitRequest;

/// A commit request that the master has not voted for yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The session that it came on.
    pub(crate) from: SessionId,
    pub(crate) request: Arc<CommitRequest>,
    /// A bound of what it adds to the MOB.
    pub(crate) mob_bytes: usize,
    /// Whether it writes to a page that nothing is in.
    pub(crate) is_new: bool,
    /// How many more home images may be read for it.
    pub(crate) reads_left: u8,
    /// A place in line was kept for its client when it came, and it has not waited in line since.
    pub(crate) takes_place: bool,
}

impl Ticket {
    pub(crate) fn new(from: SessionId, request: Arc<CommitRequest>, reads_left: u8) -> Self {
        Self {
            from,
            is_new: true,
            mob_bytes: request.writes.iter().map(mob::bytes_bound).sum(),
            reads_left,
            takes_place: false,
            request,
        }
    }

    /// The room that it needs.
    pub(crate) fn need(&self) -> Need {
        Need { mob_bytes: self.mob_bytes, is_new: self.is_new }
    }
}
