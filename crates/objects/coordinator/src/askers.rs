//! The sessions that are answered for a commit under way.
//!
//! One identity is under way at most once. A request that is sent again in the meantime gets the first copy's outcome.
//! Every session that asked is answered, not the last one alone: when a client moves between a group and the store, the
//! copy on its old path may arrive last.

use crate::Coordinator;
use smallvec::SmallVec;
use types::{SessionId, TxnId};

/// An asker for the outcome of a commit under way.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The session.
    pub session: SessionId,
    /// Whether it knows the writes of the commit, so that the reply can stand for the invalidation. A redirector that
    /// only asks for the outcome does not: it is its member that has the writes.
    pub knows_writes: bool,
}

/// Askers, in the order in which they asked.
pub(crate) type Askers = SmallVec<[Asker; 1]>;

/// Sessions that are answered for one commit: a client's old path, its new one, and some more. The one that asked
/// longest ago makes room.
const ASKERS_MAX: usize = 4;

impl Coordinator {
    /// Answers one more session for a transaction, if it is under way. Returns whether it is.
    pub(crate) fn answer_also(&mut self, asker: Asker, txn: TxnId) -> bool {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return false };
        let askers = &mut under_way.askers;
        if let Some(known) = askers.iter_mut().find(|known| known.session == asker.session) {
            known.knows_writes |= asker.knows_writes;
            return true;
        }
        askers.retain(|asker| self.sessions.contains_key(&asker.session));
        let longest_ago = (askers.len() == ASKERS_MAX).then(|| askers.remove(0));
        askers.push(asker);
        self.charge(asker.session, 1);
        if let Some(longest_ago) = longest_ago {
            self.charge(longest_ago.session, -1);
        }
        true
    }

    /// Counts a commit request to what its session has outstanding, or off it.
    pub(crate) fn charge(&mut self, session: SessionId, commits: isize) {
        if let Some(outstanding) = self.sessions.get_mut(&session) {
            *outstanding = outstanding.saturating_add_signed(commits);
        }
    }
}
