//! A transaction commits: the request, its one outcome, and its consequences for the cache.
//!
//! 1. A number is given at commit, and never again.
//! 2. A request stays in `pending` until its outcome is known, over as many sessions as that takes.
//! 3. Every copy of a request names the latest incarnation of the store that we know of. One that finds a later one,
//!    and has no outcome there, has lapsed: no copy can commit any more, and it is sent again if anybody waits for it.
//! 4. A number says which node coordinates its request. The request goes there, over a session with that node or with
//!    the redirector of a group.
//! 5. Evidence is taken when the request is built. Later news is for the store to judge.
//! 6. While the node that coordinates a request is away and another is reached, only a request that may have had an
//!    effect waits. Any other is refused here, and its transaction tries again with the node that is reached.

use crate::incarnations::Incarnations;
use crate::txns::State;
use crate::{Client, TxnError, TxnHandle};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cache::Cache;
use core::mem;
use messages::{Advance, At, CommitReply, CommitRequest, Invalidation, Outcome};
use types::limits::LARGE_COMMITS_BYTES_MAX;
use types::{Broken, ClientId, Incarnation, NodeId, PageId, Refusal, Rule, SlotSet, Time, TxnId};

#[derive(Debug)]
struct Pending {
    request: CommitRequest,
    /// The session by which the node that coordinates it is reached; none while that node is not known.
    at: Option<At>,
    /// The transaction that wants to know; `None` if it was abandoned.
    txn: Option<TxnHandle>,
    /// The granted pages that it creates objects in.
    taken: Vec<PageId>,
    /// Whether the request waits to be sent in the current session.
    is_queued: bool,
    sent: bool,
    /// It was made for a store that may be another by now: it is not sent again, but its outcome is asked for.
    is_void: bool,
    /// The bytes that it takes of a line that others would wait for.
    large_bytes: usize,
}

impl Pending {
    /// Whether a node may have it, and it changes something there.
    fn may_have_effect(&self) -> bool {
        self.sent && !self.request.writes.is_empty()
    }
}

/// A message that goes out again when a session resumes.
pub(crate) enum Resend {
    Request(CommitRequest),
    /// Nobody waits for this one any more, so it is not tried again, but its outcome concerns the cache; or it is
    /// void, and somebody waits to hear whether it had an effect before.
    Ask(TxnId),
}

#[derive(Debug)]
pub(crate) struct Commits {
    /// The last number that was given.
    last: u64,
    pending: BTreeMap<u64, Pending>,
    /// How many outcomes the store remembers.
    outcomes_max: usize,
}

impl Commits {
    pub(crate) fn new(outcomes_max: usize) -> Self {
        Self { last: 0, pending: BTreeMap::new(), outcomes_max }
    }

    /// The identity of the next transaction, which this node coordinates.
    fn next_id(&mut self, client: ClientId, coordinator: NodeId) -> TxnId {
        self.last += 1;
        TxnId::at(client, coordinator, self.last)
    }

    /// Takes up a request, which goes out in its turn, and the granted pages that it creates objects in.
    fn begin(&mut self, at: Option<At>, txn: TxnHandle, request: CommitRequest, taken: Vec<PageId>) {
        let (number, large_bytes) = (request.txn.number, request.large_bytes());
        let pending =
            Pending { request, at, txn: Some(txn), taken, is_queued: true, sent: false, is_void: false, large_bytes };
        self.pending.insert(number, pending);
    }

    /// The request has its outcome from the node that coordinates it.
    fn end(&mut self, at: At, number: u64) -> Option<Pending> {
        self.pending.get(&number).filter(|pending| pending.at == Some(at))?;
        self.pending.remove(&number)
    }

    /// The requests that go to a session.
    fn of(&self, at: At) -> impl Iterator<Item = (u64, &Pending)> {
        let is_meant = move |(_, pending): &(&u64, &Pending)| pending.at == Some(at);
        self.pending.iter().filter(is_meant).map(|(&number, pending)| (number, pending))
    }

    /// The lowest number whose outcome we do not have of the node that coordinates a request.
    fn answered(&self, of: TxnId) -> u64 {
        let first = TxnId::at(of.client, of.coordinator(), 0).number;
        self.pending.range(first..).next().map_or(of.number, |(&number, _)| number)
    }

    /// The ways to the nodes have changed. A request that goes another one is sent again.
    pub(crate) fn take_ways(&mut self, way: impl Fn(TxnId) -> Option<At>) {
        for pending in self.pending.values_mut() {
            let at = way(pending.request.txn);
            pending.is_queued |= at != pending.at;
            pending.at = at;
        }
    }

    fn outstanding(&self, at: At) -> usize {
        self.of(at).filter(|(_, pending)| !pending.is_queued).count()
    }

    /// Whether a request may go out. It must not be so far ahead of the first without an outcome that the store cannot
    /// remember all between them. And only so much of large ones is under way at a time: they wait here, where small
    /// ones pass them, and not in front of the line, where they would take up as much again.
    fn may_go(&self, at: At, number: u64) -> bool {
        let Pending { large_bytes, ref request, .. } = self.pending[&number];
        let is_remembered = number - self.answered(request.txn) < self.outcomes_max.max(1) as u64;
        is_remembered && (large_bytes == 0 || self.large_under_way(at) + large_bytes <= LARGE_COMMITS_BYTES_MAX)
    }

    fn large_under_way(&self, at: At) -> usize {
        self.of(at).filter(|(_, pending)| !pending.is_queued).map(|(_, pending)| pending.large_bytes).sum()
    }

    /// The next request that may go out on a session which may have this many outstanding, named for the incarnation of
    /// the node that coordinates it.
    fn next(&mut self, at: At, most: u32, incarnations: &Incarnations) -> Option<CommitRequest> {
        if self.outstanding(at) >= most.max(1) as usize {
            return None;
        }
        let may_go = |(number, pending): &(u64, &Pending)| pending.is_queued && self.may_go(at, *number);
        let (number, Pending { request, .. }) = self.of(at).find(may_go)?;
        let (answered, incarnation) = (self.answered(request.txn), incarnations.of(request.txn.coordinator()));
        let pending = self.pending.get_mut(&number).expect("just found");
        (pending.is_queued, pending.sent) = (false, true);
        pending.request.answered = answered;
        pending.request.incarnation = incarnation;
        Some(pending.request.clone())
    }

    pub(crate) fn link_is_gone(&mut self, at: At) {
        for pending in self.pending.values_mut().filter(|pending| pending.at == Some(at)) {
            pending.is_queued = true;
        }
    }

    /// Another node coordinates all requests: for tests of the checkers.
    #[cfg(feature = "mutants")]
    pub(crate) fn move_to(&mut self, other: At) {
        self.pending.values_mut().for_each(|pending| pending.at = Some(other));
    }

    /// The messages that go out on a new session with a node, in the order of the numbers.
    pub(crate) fn resume(&mut self, at: At, most: u32, incarnations: &Incarnations, broken: Broken) -> Vec<Resend> {
        let mut resends = Vec::new();
        let asked = |pending: &Pending| {
            let is_asked = pending.txn.is_none() || pending.is_void || (pending.sent && broken.is(Rule::SendAgain));
            is_asked && pending.at == Some(at)
        };
        for pending in self.pending.values_mut().filter(|pending| asked(pending)) {
            pending.is_queued = false;
            resends.push(Resend::Ask(pending.request.txn));
        }
        while let Some(request) = self.next(at, most, incarnations) {
            resends.push(Resend::Request(request));
        }
        resends
    }

    /// The granted pages that pending requests create objects in.
    pub(crate) fn taken(&self) -> impl Iterator<Item = PageId> {
        self.pending.values().flat_map(|pending| pending.taken.iter().copied())
    }

    /// Whether a pending request writes to the page.
    pub(crate) fn writes_to(&self, page: PageId) -> bool {
        let writes = |pending: &Pending| pending.request.writes.binary_search_by_key(&page, |delta| delta.page).is_ok();
        self.pending.values().any(writes)
    }

    /// The page does not come back when its request is refused.
    /// Returns whether one had taken it.
    pub(crate) fn lose_taken(&mut self, page: PageId) -> bool {
        let mut was_taken = false;
        for pending in self.pending.values_mut() {
            let taken = pending.taken.len();
            pending.taken.retain(|&taken| taken != page);
            was_taken |= pending.taken.len() < taken;
        }
        was_taken
    }

    /// Forgets the requests to a node of another store, and returns the transactions that waited for them.
    pub(crate) fn forget(&mut self, at: At) -> Vec<TxnHandle> {
        self.take_of(at).into_iter().filter_map(|(_, pending)| pending.txn).collect()
    }

    /// Forgets the requests to nodes that are not reached, but for those that may have had an effect. Returns for each
    /// the transaction that waited and the granted pages that it had taken.
    pub(crate) fn take_idle(&mut self, is_reached: impl Fn(At) -> bool) -> Vec<(Option<TxnHandle>, Vec<PageId>)> {
        let is_idle = |pending: &Pending| !pending.may_have_effect() && !pending.at.is_some_and(&is_reached);
        let numbers: Vec<_> = self.pending.iter().filter(|(_, p)| is_idle(p)).map(|(&number, _)| number).collect();
        let ended = numbers.into_iter().filter_map(|number| self.pending.remove(&number));
        ended.map(|pending| (pending.txn, pending.taken)).collect()
    }

    fn take_of(&mut self, at: At) -> Vec<(u64, Pending)> {
        let numbers: Vec<_> = self.of(at).map(|(number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.pending.remove_entry(&number)).collect()
    }

    /// A node is in a later incarnation than any that the requests were sent to, and may not be the one that they
    /// were made for: their reads prove nothing there, so they are not sent again. The client asks for the outcomes of
    /// those that may have had an effect. Returns the transactions that waited for the others.
    pub(crate) fn void(&mut self, at: At) -> Vec<TxnHandle> {
        let (kept, without): (Vec<_>, Vec<_>) = self.take_of(at).into_iter().partition(|(_, p)| p.may_have_effect());
        let voided =
            |(number, pending)| (number, Pending { taken: Vec::new(), is_queued: false, is_void: true, ..pending });
        self.pending.extend(kept.into_iter().map(voided));
        without.into_iter().filter_map(|(_, pending)| pending.txn).collect()
    }

    /// A later incarnation of the store has no outcome of the request, and will have none of the copies that were sent
    /// so far. Returns whether that is not all: it was sent again since, or should be.
    fn lapse(&mut self, at: At, number: u64, incarnation: Incarnation) -> bool {
        let pending = self.pending.get_mut(&number).filter(|pending| pending.at == Some(at) && !pending.is_void);
        let Some(pending) = pending else { return false };
        if pending.request.incarnation >= incarnation {
            return true;
        }
        (pending.sent, pending.is_queued) = (false, pending.txn.is_some());
        pending.txn.is_some()
    }

    /// Nobody waits for the outcome any more. A request that never went out is dropped: then the pages that it took
    /// come back, and it is certain that it has no effect.
    pub(crate) fn abandon(&mut self, number: u64) -> Option<Vec<PageId>> {
        let pending = self.pending.get_mut(&number)?;
        pending.txn = None;
        if pending.sent {
            return None;
        }
        self.pending.remove(&number).map(|pending| pending.taken)
    }
}

impl Client {
    /// Asks for the transaction to be committed; [`Client::outcome`] has the answer after [`crate::Output::Wake`], or
    /// at once if the transaction has done nothing, or need not ask (see `fresh`).
    pub fn commit(&mut self, now: Time, txn: TxnHandle) -> Result<TxnId, TxnError> {
        self.txns.running(txn)?;
        self.nodes[At::HOME].session.check()?;
        self.claims.end_all(txn, &mut self.txns, &mut self.cache);
        let running = self.txns.running(txn)?;
        let id = self.commits.next_id(self.id, self.nodes.coordinator());
        if running.workspace.is_empty() {
            running.stop(State::Decided(Ok(Outcome::Committed { pages: Vec::new() })));
            self.stats.commits += 1;
        } else if self.is_known_to_be_current(txn) {
            self.commit_at_once(now, txn);
        } else {
            self.request(now, txn, id);
        }
        Ok(id)
    }

    /// Drops what the transaction has written, and asks whether everything that it has read was current at one moment:
    /// it ends like one that has only read.
    pub fn commit_reads(&mut self, now: Time, txn: TxnHandle) -> Result<TxnId, TxnError> {
        let running = self.txns.running(txn)?;
        running.workspace.drop_writes();
        let taken = mem::take(&mut running.taken);
        for &page in &taken {
            running.workspace.disown(page);
        }
        self.allocator.give_back(&taken, &mut self.cache);
        self.commit(now, txn)
    }

    /// Whether a running transaction sees one moment of the store until it is doomed. With several nodes it may see
    /// two, and its reads are only known to be true when they were committed.
    pub fn sees_one_moment(&self) -> bool {
        !self.nodes.may_be_several()
    }

    /// Builds the request of a running transaction, which waits for its outcome from here on.
    fn request(&mut self, now: Time, txn: TxnHandle, id: TxnId) {
        let Some(running) = self.txns.get(txn) else { return };
        let (cache, horizon, at) = (&self.cache, self.nodes.horizon(), self.nodes.coordinator_of(id));
        let (reads, writes) = running.workspace.request(|page| cache.get(page), horizon);
        running.stop(State::Committing(id.number));
        running.waiting = None;
        let (taken, chains) = (mem::take(&mut running.taken), mem::take(&mut running.chains));
        let workspace = mem::take(&mut running.workspace);
        self.txns.wait(now, txn);
        self.allocator.check_in(chains);
        // Both are filled in when it is sent.
        let (incarnation, answered) = (Incarnation(0), 0);
        self.commits.begin(at, txn, CommitRequest { txn: id, incarnation, answered, reads, writes }, taken);
        self.let_go(now, &workspace);
        if let Some(at) = at {
            self.send_commits(now, at);
        }
    }

    fn send_commits(&mut self, now: Time, at: At) {
        while self.nodes[at].session.is_live() {
            let most = self.nodes[at].session.up.limits().commits;
            let Some(request) = self.commits.next(at, most, &self.incarnations) else { return };
            self.stats.commit_requests += 1;
            self.send(now, at, request);
        }
    }

    /// The node that coordinates a request has decided.
    pub(crate) fn commit_reply(&mut self, now: Time, at: At, reply: CommitReply) {
        if reply.txn.client != self.id {
            return;
        }
        if let Outcome::Refused(Refusal::Lapsed(incarnation)) = reply.outcome {
            self.incarnations.raise(reply.txn.coordinator(), incarnation);
            if self.commits.lapse(at, reply.txn.number, incarnation) {
                return self.send_commits(now, at);
            }
        }
        let Some(pending) = self.commits.end(at, reply.txn.number) else { return };
        let outcome = match reply.outcome {
            // Not sent again, it cannot be said to have had no effect: the store may have forgotten that it had one.
            Outcome::Refused(Refusal::Lapsed(_)) => Outcome::Unknown,
            outcome => outcome,
        };
        match &outcome {
            Outcome::Committed { pages } => self.committed(now, &pending, pages),
            Outcome::Refused(refusal) => self.refused(&pending, refusal),
            Outcome::Unknown => self.unknown(&pending),
        }
        if let Some(txn) = pending.txn {
            self.txns.decide(txn, Ok(outcome), &mut self.out);
        }
        self.send_commits(now, at);
    }

    /// To the committer the reply stands for the invalidations.
    fn committed(&mut self, now: Time, pending: &Pending, pages: &[Advance]) {
        self.stats.commits += 1;
        for delta in &pending.request.writes {
            match pages.binary_search_by_key(&delta.page, |advance| advance.page) {
                Ok(found) => {
                    if self.cache.find(delta.page).is_none() {
                        self.has_left(delta.page, pages[found].version);
                    }
                    self.changed(&Invalidation::of(pending.request.txn, delta, pages[found]));
                }
                Err(_) => self.drop_page(delta.page),
            }
        }
        for &page in &pending.taken {
            self.cache.pin(page, self.is_under_way(page));
        }
        self.make_room(now);
    }

    /// The request has no effect. Slots that it read and that are not the newest become holes, unless we have heard
    /// better in the meantime.
    fn refused(&mut self, pending: &Pending, refusal: &Refusal) {
        self.stats.refused += 1;
        if let Refusal::Stale(pages) = refusal {
            for (page, slots) in pages {
                if let Some(stale) = stale_here(&self.cache, &pending.request, *page, slots) {
                    self.puncture(*page, &stale);
                }
            }
        }
        self.allocator.give_back(&pending.taken, &mut self.cache);
    }

    /// The request may have had its effect. The pages that it wrote are read from the store again; and a page that it
    /// has taken to create in is no grant any more, nor known to be empty: it goes as a whole. Holes in it would leave
    /// the rest of it pinned, and its free slots would count as read without anybody having asked for them.
    fn unknown(&mut self, pending: &Pending) {
        if self.config.broken.is(Rule::PunctureUnknown) {
            return;
        }
        for delta in &pending.request.writes {
            self.puncture(delta.page, &delta.slots());
        }
        for &page in &pending.taken {
            self.drop_page(page);
        }
    }

    /// Makes holes of `slots`.
    fn puncture(&mut self, page: PageId, slots: &SlotSet) {
        self.cache.puncture(page, slots);
        self.txns.puncture(page);
    }

    /// The outcome of a commit, once; the handle ends with it. `Ok(None)`: not yet.
    pub fn outcome(&mut self, txn: TxnHandle) -> Result<Option<Outcome>, TxnError> {
        let found = self.txns.get(txn).ok_or(TxnError::Ended)?;
        match found.state() {
            State::Running | State::Committing(_) => Ok(None),
            State::Decided(_) => {
                let ended = self.txns.end(txn).expect("just found");
                let State::Decided(outcome) = ended.into_state() else { unreachable!("just matched") };
                outcome.map(Some)
            }
            State::Doomed => Err(TxnError::Doomed),
            State::Failed(error) => Err(error.clone()),
        }
    }
}

/// Those of the slots that the request has read, and that are no newer in the cache than they were then; `None` if the
/// page is not here.
fn stale_here(cache: &Cache, request: &CommitRequest, page: PageId, slots: &SlotSet) -> Option<SlotSet> {
    let frame = cache.get(page)?;
    let reads = request.reads.binary_search_by_key(&page, |reads| reads.page).ok()?;
    let reads = &request.reads[reads];
    let is_stale = |slot: &u16| reads.slots.contains(*slot) && frame.evidence(*slot) <= reads.evidence_of(*slot);
    Some(slots.iter().filter(is_stale).collect())
}
