//! Transactions that begin no earlier than everything that was acknowledged before them, to any client.
//!
//! ```text
//!   begin: the next moment                         reads a page of shard 4
//!   node of shard 4: moment answered? --no--> Sync{moment} ... invalidations, Synced{moment, shards} --> it is read
//!                         \--yes: it is read
//! ```
//! 1. Such a transaction reads of a shard once the shard's node has answered a question that was sent after the
//!    transaction began (**StartAtLeast**). The answer comes behind all changes that had committed there. From then on
//!    the cache shows them.
//! 2. One question serves all transactions that have begun before it, and all shards of its node.
//! 3. An answer counts for a shard if the client has the shard's pages from the node that answers. Changes of pages
//!    that it has from another node may still be on their way.
//! 4. A lost link, and news of where the shards are, have the transactions that wait ask again.

use crate::nodes::Nodes;
use crate::{Client, TxnError, TxnHandle};
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{At, Sync, Synced};
use types::{Broken, Map, ObjectId, PageId, Rule, Shard, Time};

/// The moments at which transactions began that have to see everything.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    last: u64,
    /// The last moment of which the node of each shard has told everything.
    told: Map<Shard, u64>,
    broken: Broken,
}

impl Moments {
    pub(crate) fn new(broken: Broken) -> Self {
        Self { broken, ..Self::default() }
    }

    /// The moment of a transaction that begins now.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether what the cache has of a page shows everything of this moment.
    pub(crate) fn are_told(&self, nodes: &Nodes, page: PageId, moment: u64) -> bool {
        let shard = nodes.horizon().sharding.of(page);
        let is_told = self.told.get(&shard).is_some_and(|&told| told >= moment);
        is_told || self.broken.is(Rule::StartAtLeast)
    }
}

impl Client {
    /// The transaction waits until the node of a page has told everything. A page that is not cached is fetched at the
    /// same time.
    pub(crate) fn await_told(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<(), TxnError> {
        let at = self.nodes.places().of(object.page);
        if self.cache.find(object.page).is_none() {
            self.fault(now, txn, object, None)?;
        } else {
            self.nodes[at].session.check()?;
            self.txns.wait(now, txn);
        }
        self.ask_whether_told(now, at);
        Ok(())
    }

    /// Asks a node, unless an answer is on its way that will do.
    fn ask_whether_told(&mut self, now: Time, at: At) {
        let (session, number) = (&mut self.nodes[at].session, self.moments.last);
        if session.is_live() && session.asked < number {
            session.asked = number;
            self.send(now, at, Sync { number });
        }
    }

    /// A node has told everything that had committed on these shards.
    pub(crate) fn synced(&mut self, at: At, synced: &Synced) -> Result<(), Goodbye> {
        let Synced { number, ref shards } = *synced;
        let (last, most) = (self.moments.last, self.nodes[at].session.up.sharding().shards().get());
        if number > last || shards.iter().any(|shard| shard.0 >= most) {
            let text = format!("expected an answer to question {last} at most, for {most} shards, got {synced:?}");
            return Err(Goodbye::malformed(text));
        }
        let places = self.nodes.places();
        for &shard in shards.iter().filter(|&&shard| places.of_shard(shard).unwrap_or(At::HOME) == at) {
            let told = self.moments.told.entry(shard).or_default();
            *told = number.max(*told);
        }
        self.wake_untold();
        Ok(())
    }

    /// Shards have moved: the nodes are asked again.
    pub(crate) fn ask_again(&mut self) {
        for at in self.nodes.all() {
            self.nodes[at].session.asked = 0;
        }
        self.wake_untold();
    }

    /// Wakes the transactions that wait for an answer.
    pub(crate) fn wake_untold(&mut self) {
        let waits = |(handle, txn): (_, &crate::txns::Txn)| (txn.moment > 0 && txn.waiting.is_some()).then_some(handle);
        for txn in self.txns.all().filter_map(waits).collect::<Vec<_>>() {
            self.txns.wake(txn, &mut self.out);
        }
    }
}
