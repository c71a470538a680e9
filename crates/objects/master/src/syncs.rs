//! Sessions that want everything told which has committed ([`messages::sync`]).
//!
//! ```text
//!   prepared              session                          master
//!   shard 1: a, b           | Sync{7} ----------------------> |
//!                           | <------- Synced{7, {0 2}}       |  nothing is prepared there
//!   a applied, b released   | <------- Synced{7, {1}}         |  behind the changes of a
//! ```
//! A commit may be acknowledged before its masters learn of that, and it was prepared by then. So a shard is *settled*
//! for a question when all transactions are applied or released that were prepared there as the question came
//! (**FreshSettled**). Without a vote of this master, as long as a transaction waits for promises, it cannot be
//! acknowledged.

use crate::Master;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use messages::{Sync, Synced};
use types::{Rule, SessionId, Shard, TxnId};

/// Questions of a session that wait. One more takes the place of the last, which it serves as well.
const WAITING_PER_SESSION_MAX: usize = 16;

/// A question that is not answered for some shards.
#[derive(Debug)]
struct Waiting {
    session: SessionId,
    number: u64,
    /// The transactions that each of the shards waits for.
    shards: BTreeMap<Shard, Vec<TxnId>>,
}

/// The questions that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Syncs(Vec<Waiting>);

impl Syncs {
    fn add(&mut self, waiting: Waiting) {
        let of_session = |other: &&Waiting| other.session == waiting.session;
        if self.0.iter().filter(of_session).count() >= WAITING_PER_SESSION_MAX
            && let Some(last) = self.0.iter().rposition(|other| other.session == waiting.session)
        {
            self.0.remove(last);
        }
        self.0.push(waiting);
    }

    /// A session has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.0.retain(|waiting| waiting.session != session);
    }

    /// The shards that no longer wait for any transaction, with the questions that they are the answer to.
    fn take_settled(&mut self, is_prepared: impl Fn(TxnId) -> bool) -> Vec<(SessionId, Synced)> {
        let mut settled = Vec::new();
        for waiting in &mut self.0 {
            let mut shards = Vec::new();
            waiting.shards.retain(|&shard, before| {
                before.retain(|&txn| is_prepared(txn));
                if before.is_empty() {
                    shards.push(shard);
                }
                !before.is_empty()
            });
            if !shards.is_empty() {
                settled.push((waiting.session, Synced { number: waiting.number, shards }));
            }
        }
        self.0.retain(|waiting| !waiting.shards.is_empty());
        settled
    }
}

impl Master {
    /// A session wants everything told that has committed. The shards that are settled are named at once, and the
    /// others when they are.
    pub fn sync(&mut self, from: SessionId, sync: Sync) {
        let Sync { number } = sync;
        let all = (0..self.config.sharding.shards().get()).map(Shard);
        let (mut shards, mut waiting): (Vec<_>, _) =
            (all.filter(|&shard| self.serves(shard)).collect(), BTreeMap::new());
        if !self.config.broken.is(Rule::FreshSettled) {
            waiting = self.pages.unapplied(|txn| !self.leases.is_waiting(txn));
            waiting.retain(|shard, _| shards.binary_search(shard).is_ok());
            shards.retain(|shard| !waiting.contains_key(shard));
        }
        self.reply(from, Synced { number, shards });
        if !waiting.is_empty() {
            self.syncs.add(Waiting { session: from, number, shards: waiting });
        }
    }

    /// Names the shards that have settled.
    pub(crate) fn answer_settled(&mut self) {
        if self.syncs.0.is_empty() {
            return;
        }
        for (session, mut synced) in self.syncs.take_settled(|txn| self.pages.is_prepared(txn)) {
            synced.shards.retain(|&shard| self.serves(shard));
            self.reply(session, synced);
        }
    }
}
