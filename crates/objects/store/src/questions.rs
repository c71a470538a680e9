//! The questions for the sequencer of another node. While some are under way, further ones wait, and leave together
//! when the last of those is answered.
//!
//! ```text
//!   n1                            n0, sequencer
//!    | ---- Sequence{a} ---------> |
//!    |      b, c wait              |
//!    | <--- Placed{a} ------------ |
//!    | ---- Sequence{b}, {c} ----> |      one message of the link
//! ```
//! A sequencer that answers at once is asked at once. Under load it has fewer messages to take, each of them with more
//! commits.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use messages::Sequence;
use types::TxnId;

/// The questions of a node's coordinator.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    under_way: BTreeSet<TxnId>,
    waiting: Vec<Sequence>,
}

impl Questions {
    /// A transaction wants its counts.
    pub(crate) fn wait(&mut self, sequence: Sequence) {
        if self.waiting.iter().all(|waiting| waiting.txn != sequence.txn) {
            self.waiting.push(sequence);
        }
    }

    /// The questions that leave now. They are under way from then on.
    pub(crate) fn take(&mut self) -> Vec<Sequence> {
        if !self.under_way.is_empty() {
            return Vec::new();
        }
        self.under_way.extend(self.waiting.iter().map(|waiting| waiting.txn));
        mem::take(&mut self.waiting)
    }

    /// A question is answered.
    pub(crate) fn answered(&mut self, txn: TxnId) {
        self.under_way.remove(&txn);
    }

    /// The answers to those under way will not come. All are asked again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ClientId, Shard};

    fn txn(number: u64) -> TxnId {
        TxnId { client: ClientId(1), number }
    }

    fn asks(questions: &mut Questions, number: u64) {
        questions.wait(Sequence { txn: txn(number), shards: [Shard(1)].into_iter().collect() });
    }

    fn leaving(questions: &mut Questions) -> Vec<u64> {
        questions.take().into_iter().map(|sequence| sequence.txn.number).collect()
    }

    #[test]
    fn questions_wait_until_those_under_way_are_answered() {
        let mut questions = Questions::default();
        asks(&mut questions, 1);
        asks(&mut questions, 2);
        assert_eq!(leaving(&mut questions), [1, 2]);
        asks(&mut questions, 3);
        asks(&mut questions, 4);
        asks(&mut questions, 3);
        questions.answered(txn(2));
        assert_eq!(leaving(&mut questions), [] as [u64; 0]);
        questions.answered(txn(1));
        assert_eq!(leaving(&mut questions), [3, 4]);
        // Another sequencer serves: all are asked again, and none waits for an answer that never comes.
        questions.forget();
        asks(&mut questions, 4);
        assert_eq!(leaving(&mut questions), [4]);
    }
}
