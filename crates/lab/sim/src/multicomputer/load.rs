//! The work of the applications: transactions of reads and writes of different pages, without any computation.

use crate::rng::Rng;

/// The work of all applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Pages of the store.
    pub pages: u32,
    /// Transactions, of all nodes together. Each node has as many as any other, give or take one.
    pub transactions: u64,
    /// Transactions of a node at the same time, on pages of their own.
    pub at_once: u32,
    /// Operations of a transaction, each on another page.
    pub operations: u32,
    /// How many of the operations are reads, in a hundred.
    pub reads_percent: u32,
    /// How many of the transactions are aborted when they have done everything, in a hundred.
    pub aborts_percent: u32,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

/// One operation on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) page: u32,
    pub(super) writes: bool,
}

impl Load {
    /// The transactions of one application of a node.
    pub(super) fn transactions_of(&self, nodes: usize, node: usize, application: u32) -> u64 {
        let applications = nodes as u64 * u64::from(self.at_once);
        let number = node as u64 * u64::from(self.at_once) + u64::from(application);
        self.transactions / applications + u64::from(number < self.transactions % applications)
    }

    /// Draws the operations of a transaction. An application of several at a node has every so many pages to itself.
    pub(super) fn draw(&self, application: u32, rng: &mut Rng) -> Vec<Operation> {
        let own = self.pages / self.at_once;
        let mut operations: Vec<Operation> = Vec::with_capacity(self.operations as usize);
        while operations.len() < self.operations.min(own) as usize {
            let page = rng.below(own.into()) as u32 * self.at_once + application;
            if operations.iter().all(|before| before.page != page) {
                operations.push(Operation { page, writes: rng.below(100) >= u64::from(self.reads_percent) });
            }
        }
        operations
    }

    /// Whether a transaction is aborted.
    pub(super) fn aborts(&self, rng: &mut Rng) -> bool {
        rng.below(100) < u64::from(self.aborts_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load =
        Load { pages: 64, transactions: 11, at_once: 2, operations: 20, reads_percent: 0, aborts_percent: 0, seed: 1 };

    #[test]
    fn every_transaction_has_one_application() {
        let all = (0..2).flat_map(|node| (0..2).map(move |application| LOAD.transactions_of(2, node, application)));
        assert_eq!(all.collect::<Vec<_>>(), [3, 3, 3, 2]);
    }

    #[test]
    fn a_transaction_has_different_pages_and_no_other_application_s() {
        let operations = LOAD.draw(1, &mut Rng::new(1));
        let mut pages: Vec<_> = operations.iter().map(|operation| operation.page).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 20);
        assert!(pages.iter().all(|page| page % 2 == 1) && operations.iter().all(|operation| operation.writes));
    }
}

/// Where the sequencer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// At the first node, beside its other work.
    Among,
    /// At a node that has nothing else to do, besides the others.
    Alone,
}
