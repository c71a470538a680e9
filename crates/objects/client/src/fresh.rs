//! A transaction that has only read, and began before the store was last asked, commits without asking
//! (`docs/protocol.md`, *Fresh commits*).
//!
//! 1. The store's messages come behind the invalidations of everything that it had committed by then. So at the end of
//!    each batch the cache shows the store as it was at one count, as far as it shows anything.
//! 2. Once the store has answered a fetch that was sent after a transaction began, that count is no lower than that of
//!    any commit acknowledged before the transaction began.
//! 3. A transaction that is not doomed has read nothing but what the cache still shows, or would show had the page not
//!    been evicted: changes of such a page are told until the transaction ends (`room`). So it is serial at that count.
//! 4. In the middle of a batch that was cut there is no such count: then the transaction asks.

use crate::txns::State;
use crate::{Client, TxnHandle};
use alloc::vec::Vec;
use core::mem;
use messages::{At, Outcome};
use types::{Rule, Time};

impl Client {
    /// Whether everything that a running transaction has read is known to be current at one moment since it began, and
    /// it has written nothing.
    pub(crate) fn is_known_to_be_current(&mut self, txn: TxnHandle) -> bool {
        let Ok(running) = self.txns.running(txn) else { return false };
        let since = if self.config.broken.is(Rule::FreshCommit) { 0 } else { running.last_fetch_before };
        // With several nodes the reply to a commit can come before what its pages' nodes have to say.
        let home = &self.nodes[At::HOME];
        let is_whole = home.session.horizon().reaches(&home.session.told) && !self.nodes.may_be_several();
        self.config.commits_fresh
            && is_whole
            && home.fetches.is_answered_after(since)
            && running.workspace.is_read_only()
    }

    /// Commits a transaction that has only read, and has nothing to prove.
    pub(crate) fn commit_at_once(&mut self, now: Time, txn: TxnHandle) {
        let Some(running) = self.txns.get(txn) else { return };
        running.stop(State::Decided(Ok(Outcome::Committed { pages: Vec::new() })));
        let (taken, chains) = (mem::take(&mut running.taken), mem::take(&mut running.chains));
        let workspace = mem::take(&mut running.workspace);
        self.stats.commits += 1;
        self.stats.commits_fresh += 1;
        self.allocator.check_in(chains);
        self.allocator.give_back(&taken, &mut self.cache);
        self.let_go(now, &workspace);
    }
}
