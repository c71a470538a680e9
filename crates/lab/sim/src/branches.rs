//! The fate of a store when an operator put a copy of its directory, made earlier, in its place.
//!
//! ```text
//!   branch 0   1 ---- 80 ---- 90          what came after the copy is lost, by the operator's deed
//!                      \
//!   branch 1            81 ---- 95        goes on from the copy
//! ```
//! Each branch has a ledger of its own, and is judged by itself: the history is strictly serializable on every branch,
//! and no transaction is of two. Each life of the store's process belongs to one branch, and a client that knows of a
//! life as the latest is on its branch until it learns of another one.

use crate::ledger::{Ledger, Rank};
use types::{Life, Sharding, TxnId};

/// A branch, by its place in [`Branches`].
pub(crate) type BranchId = usize;

#[derive(Debug)]
struct Branch {
    ledger: Ledger,
    /// Every transaction that was acknowledged on it has its place at or before this one.
    floor: Rank,
    /// The place at which it began.
    began: Rank,
}

/// All branches; the last is the one that the store is on.
#[derive(Debug)]
pub(crate) struct Branches {
    all: Vec<Branch>,
    /// The branch of each life of the store's process.
    of_lives: Vec<(Life, BranchId)>,
}

impl Branches {
    /// The one branch of a store with nothing in it.
    pub(crate) fn new(sharding: Sharding) -> Self {
        let branch = Branch { ledger: Ledger::new(sharding), floor: Rank::default(), began: Rank::default() };
        Self { all: vec![branch], of_lives: Vec::new() }
    }

    /// The branch that the store is on.
    pub(crate) fn newest(&self) -> BranchId {
        self.all.len() - 1
    }

    /// The history of a branch.
    pub(crate) fn ledger(&self, branch: BranchId) -> &Ledger {
        &self.all[branch].ledger
    }

    /// The history that the store continues with.
    pub(crate) fn newest_ledger(&mut self) -> &mut Ledger {
        let newest = self.newest();
        &mut self.all[newest].ledger
    }

    /// A copy that was made on this branch, at this place, takes the store's place.
    pub(crate) fn fork(&mut self, from: BranchId, at: Rank) {
        let ledger = self.all[from].ledger.through(at);
        self.all.push(Branch { ledger, floor: at, began: at });
    }

    /// The store's process begins a life.
    pub(crate) fn begin_life(&mut self, life: Life) {
        self.of_lives.push((life, self.newest()));
    }

    /// How many lives it has begun.
    pub(crate) fn lives(&self) -> usize {
        self.of_lives.len()
    }

    /// The branch of a client that knows of this life as the latest.
    pub(crate) fn of_life(&self, life: Life) -> Option<BranchId> {
        self.of_lives.iter().rev().find(|(known, _)| *known == life).map(|&(_, branch)| branch)
    }

    /// How far transactions had been acknowledged, on each branch.
    pub(crate) fn floors(&self) -> Vec<Rank> {
        self.all.iter().map(|branch| branch.floor).collect()
    }

    /// The first place on a branch of a transaction that began when the floors were these. On a branch that began later
    /// it is behind everything that was copied.
    pub(crate) fn floor(&self, branch: BranchId, floors: &[Rank]) -> Rank {
        floors.get(branch).copied().unwrap_or(self.all[branch].began)
    }

    /// A transaction is acknowledged at this place.
    pub(crate) fn acknowledged(&mut self, branch: BranchId, place: Rank) {
        let floor = &mut self.all[branch].floor;
        *floor = place.max(*floor);
    }

    /// Whether a transaction is committed on any branch.
    pub(crate) fn is_committed_anywhere(&self, txn: TxnId) -> bool {
        self.all.iter().any(|branch| branch.ledger.rank_of(txn).is_some())
    }
}
