//! A commit that is not prepared yet, and the room that it will take in the MOB.

use crate::need::Need;
use crate::{SessionId, mob};
use alloc::sync::Arc;
use messages::{Among, CommitRequest, Prepare};
use types::NodeId;

/// Where a transaction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The node that coordinates it.
    pub coordinator: NodeId,
    /// The session that it came on, if that is one with the master's own node.
    pub session: Option<SessionId>,
}

/// A commit request that the master has not voted for yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) from: Origin,
    pub(crate) request: Arc<CommitRequest>,
    pub(crate) among: Among,
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
    pub(crate) fn new(from: Origin, prepare: Prepare, reads_left: u8) -> Self {
        let Prepare { request, among, .. } = prepare;
        Self {
            from,
            among,
            is_new: true,
            mob_bytes: request.writes.iter().map(mob::bytes_bound).sum(),
            reads_left,
            takes_place: false,
            request,
        }
    }

    /// Whether the transaction writes, here or elsewhere.
    pub(crate) fn writes(&self) -> bool {
        self.among.writes(&self.request)
    }

    /// Whether it may wait for others, or for room.
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self.among, Among::AtOnce { writes: true })
    }

    /// Whether another master has prepared it, so that others may wait for it.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.among, Among::InTurn { is_held: true, .. })
    }

    /// Whether it came on this session.
    pub(crate) fn is_of(&self, session: SessionId) -> bool {
        self.from.session == Some(session)
    }

    /// The room that it needs.
    pub(crate) fn need(&self) -> Need {
        Need { mob_bytes: self.mob_bytes, is_new: self.is_new }
    }
}
