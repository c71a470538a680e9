//! The commits that are in the log and not known to be durable.

use alloc::collections::VecDeque;
use types::{Position, TxnId};

/// The commits, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct InFlight(VecDeque<(Position, TxnId)>);

impl InFlight {
    /// A commit was appended to the log.
    pub(crate) fn push(&mut self, position: Position, txn: TxnId) {
        self.0.push_back((position, txn));
    }

    /// Removes the oldest commit if it is durable.
    pub(crate) fn pop_through(&mut self, through: Position) -> Option<TxnId> {
        self.first().filter(|first| *first <= through)?;
        self.0.pop_front().map(|(_, txn)| txn)
    }

    /// The position of the oldest commit.
    pub(crate) fn first(&self) -> Option<Position> {
        self.0.front().map(|(position, _)| *position)
    }
}
