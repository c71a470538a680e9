//! The other nodes of a store: links that are lost and found again, and shards that are opened again.
//!
//! ```text
//!   the link to n1 is lost      a transaction that n1 was asked to judge, and that has no count, counts as busy there
//!   n1 is back: Unapplied{a b}  a has committed: Decide    b is unknown: Release    c, which n1 does not name: applied
//!   n1 opens a shard again      a transaction that was prepared there in the earlier opening does not commit
//!   a shard of it moves         all let go of a transaction; it is asked for again when the shard is served
//! ```
//! 1. A transaction that has its counts, or waits for them, does not depend on links: it is decided when they are back.
//! 2. A master names the transactions that it has prepared and has no decision for. Those in the coordinator's log have
//!    committed, and those that the coordinator does not know will not commit (**ForgetAfterDecide**). So a coordinator
//!    that was restarted needs its log and nothing else.
//! 3. A transaction is not logged once a shard was opened again that it was prepared in: its master has forgotten it
//!    (**FencePrepared**).
//! 4. A transaction whose shard moves waits at its coordinator and holds nothing. At the master that is about to close
//!    it could wait for what is prepared there, and hold elsewhere what that waits for. The master says when it serves
//!    the shard, on the same link as its verdict before (**AskWhenServed**); another node's opening is news of its own.

use crate::parts::Part;
use crate::under_way::{Stage, UnderWay};
use crate::{Coordinator, Output};
use alloc::vec::Vec;
use messages::{Decide, Openings, Release};
use types::{NodeId, Refusal, Rule, Shard, TxnId, Vector};

impl Coordinator {
    /// There is no link to this node.
    pub fn lost(&mut self, node: NodeId) {
        self.masters.set_away(node, true);
        for txn in self.those(|of| matches!(of.stage, Stage::Preparing { .. })) {
            self.fail(txn, |part| part.master == node);
        }
        self.ask_again_for(|part| part.master == node);
    }

    /// A shard of a transaction moves, and no master has the transaction. It is asked for again when the shard has
    /// another opening, or its master says that it serves it.
    pub(crate) fn await_move(&mut self, txn: TxnId) {
        let Self { masters, under_way, .. } = self;
        let Some(under_way) = under_way.get_mut(&txn) else { return };
        if under_way.parts.moving().any(|part| masters.has_moved(part)) {
            return self.ask_anew(txn);
        }
        under_way.stage = Stage::Awaiting;
        under_way.parts.keep_moving();
    }

    /// A master serves a shard that has moved, or whose move was called off.
    pub fn serving(&mut self, shard: Shard) {
        if !self.config.broken.is(Rule::AskWhenServed) {
            self.ask_again_for(|part| part.touches(shard));
        }
    }

    /// Asks again for the transactions that wait for the move of such a part.
    pub(crate) fn ask_again_for(&mut self, is_meant: impl Fn(&Part) -> bool) {
        for txn in self.those(|of| of.stage == Stage::Awaiting && of.parts.moving().any(&is_meant)) {
            self.ask_anew(txn);
        }
    }

    /// The node closes: it waits for no move.
    pub(crate) fn refuse_awaiting(&mut self) {
        for txn in self.those(|of| of.stage == Stage::Awaiting) {
            let Some(request) = self.under_way.get(&txn).map(|of| of.request.clone()) else { continue };
            let outcome = self.judge_refused(&request, Refusal::Closing);
            self.end(txn, &outcome);
        }
    }

    /// There is a link to this node, whose master has these transactions prepared. `logged` returns the counts of one
    /// that the log holds.
    pub fn found(&mut self, node: NodeId, undecided: &[TxnId], logged: impl Fn(TxnId) -> Option<Vector>) {
        self.masters.set_away(node, false);
        for &txn in undecided {
            let under_way = self.under_way.get(&txn);
            let decides = under_way.is_none_or(|of| of.is_decided_at(node));
            let counts = logged(txn).filter(|_| decides && !self.config.broken.is(Rule::ForgetAfterDecide));
            if let Some(counts) = counts {
                self.out.push_back(Output::Decide(node, Decide { txn, counts }, [].into_iter().collect()));
            } else if !under_way.is_some_and(|of| of.may_decide(node)) {
                self.out.push_back(Output::Release(node, Release { txn }));
            }
        }
        for txn in self.those(|of| of.is_decided_at(node)) {
            if !undecided.contains(&txn) {
                self.applied(node, txn, Vec::new());
            }
        }
    }

    /// Shards are opened again, at this node. A transaction that was prepared there in an earlier opening commits only
    /// if its record is on its way to the log.
    pub fn fence(&mut self, at: NodeId, openings: &Openings) {
        for &(shard, opening) in openings {
            self.place(shard, at, opening);
        }
        if self.config.broken.is(Rule::FencePrepared) {
            return;
        }
        for txn in self.those(|of| matches!(of.stage, Stage::Preparing { .. } | Stage::Sequencing)) {
            self.fail(txn, |part| part.is_before(openings));
        }
    }

    /// Parts of a transaction are at nodes to which there is no link.
    pub(crate) fn fail_away(&mut self, txn: TxnId) {
        let Self { masters, under_way, .. } = self;
        let Some(under_way) = under_way.get_mut(&txn) else { return };
        under_way.parts.fail(|part| masters.is_away(part.master));
        let next = under_way.parts.next();
        self.go_on(txn, next);
    }

    /// Counts some parts of a transaction as busy.
    fn fail(&mut self, txn: TxnId, is_meant: impl Fn(&Part) -> bool) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        if under_way.parts.fail(is_meant) {
            if under_way.stage == Stage::Sequencing {
                under_way.stage = Stage::Preparing { is_withdrawn: false };
            }
            let next = under_way.parts.next();
            self.go_on(txn, next);
        }
    }

    /// The transactions under way that are meant, in order.
    fn those(&self, is_meant: impl Fn(&UnderWay) -> bool) -> Vec<TxnId> {
        let mut those: Vec<_> = self.under_way.iter().filter(|(_, of)| is_meant(of)).map(|(&txn, _)| txn).collect();
        those.sort_unstable();
        those
    }
}
