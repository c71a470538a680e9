//! The commits that are in the log and not known to be durable.

use alloc::collections::VecDeque;
use types::{Position, Time, TxnId};

/// The commits, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    commits: VecDeque<(Position, TxnId)>,
    last_commit: Time,
}

impl InFlight {
    /// A commit was appended to the log.
    pub(crate) fn push(&mut self, position: Position, txn: TxnId) {
        self.commits.push_back((position, txn));
    }

    /// Removes the oldest commit if it is durable.
    pub(crate) fn pop_through(&mut self, now: Time, through: Position) -> Option<TxnId> {
        self.first().filter(|first| *first <= through)?;
        self.last_commit = now;
        self.commits.pop_front().map(|(_, txn)| txn)
    }

    /// The position of the oldest commit.
    pub(crate) fn first(&self) -> Option<Position> {
        self.commits.front().map(|(position, _)| *position)
    }

    /// When the last commit became durable.
    pub(crate) fn last_commit(&self) -> Time {
        self.last_commit
    }
}
