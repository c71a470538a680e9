//! Commits on their way to the store and back (BuddyCache paper, section 4.4).
//!
//! ```text
//!   waiting --the store is reached--> sent --reply--> told to the committer, its changes to the others
//!      ^                               |
//!      +------ the link is gone -------+
//! ```
//! 1. A commit goes to the node that its number names, which coordinates it, over as many sessions as that takes
//!    (**OneCoordinator**). The reply of a node that has judged it alone stands for the group's invalidations, as that
//!    of a store of one node. Otherwise the nodes of its pages send invalidations too, before or after the reply,
//!    and the reply moves no horizon.
//! 2. The writes of a commit are kept until its reply, and passed on only then. The reply stands for the group's
//!    invalidations: in the store's stream it has the place that they would have. To the committer it stands for the
//!    invalidation on the session that the request came on, and on no other.
//! 3. A member that dies takes nothing with it: its commit that succeeded reaches the others all the same. But it is
//!    not sent again for it, when the link to the store was lost: a member that has left may have had its answer
//!    elsewhere.
//! 4. A request that comes again, for a later incarnation of the store, takes the place of the copy on its way. The
//!    copy will be refused, and that does not answer the request.
//! 5. A request that no client of ours would send ends its member's session. It is not kept, and not passed on: the
//!    store would end ours.
//! 6. A request without writes does not wait for a node that is away while another is reached. It is refused as one
//!    without effect, and its member tries again with the group's next coordinator.
//! 7. The values that are kept are bounded. Beyond, the others hear which slots changed and not their values; and
//!    should the link to the store be lost, the member is sent away, and sends its request again when it comes back.

use crate::Redirector;
use crate::nodes::Nodes;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{Advance, AskOutcome, At, CommitReply, CommitRequest, Invalidation, Outcome};
use types::limits::LARGE_COMMITS_BYTES_MAX;
use types::{
    Broken, Delta, GoodbyeReason, Incarnation, PageId, Refusal, Rule, SessionId, SlotSet, Time, TxnId, Vector,
};

/// A commit whose outcome is not known.
#[derive(Debug)]
struct Pending {
    /// The session that it was sent on last. To a later one of the same member the reply says nothing: the member may
    /// have given the transaction up in the meantime.
    from: SessionId,
    /// The node that coordinates it.
    at: At,
    /// Whether that is the node of all its pages.
    is_alone: bool,
    /// The session that has asked for its outcome since, instead of sending it again.
    asked_on: Option<SessionId>,
    /// Of the store, that it was sent to.
    incarnation: Incarnation,
    /// The request, if it was kept with its values.
    request: Option<CommitRequest>,
    bytes: usize,
    /// The bytes that it takes of a line that others would wait for.
    large_bytes: usize,
    /// The slots that it changes.
    changes: Vec<(PageId, SlotSet)>,
}

impl Pending {
    /// Whether the request is the same again. Others would be notified of its changes as those that were committed.
    fn is_copied_by(&self, request: &CommitRequest) -> bool {
        match &self.request {
            Some(first) => first.writes == request.writes,
            None => self.changes.iter().cloned().eq(request.writes.iter().map(|delta| (delta.page, delta.slots()))),
        }
    }

    /// A read of the slots that it would change is the store's to judge until its reply.
    fn contest(&self, txn: TxnId, nodes: &mut Nodes) {
        for (page, slots) in &self.changes {
            nodes.contest(*page, txn, slots);
        }
    }
}

/// The copy of a request that is on its way already.
enum Copy {
    /// There is none.
    None,
    /// It counts for this one too.
    Counts,
    /// It has lapsed, or will have when it comes to the store.
    Lapses,
}

/// How a request is taken up.
struct Admission {
    /// With its values, for the other members, and to be sent again.
    is_kept: bool,
    /// At once.
    may_go: bool,
    /// The bytes of its values.
    bytes: usize,
    large_bytes: usize,
}

/// The commits that one node coordinates.
#[derive(Debug, Default)]
struct OnTheirWay {
    count: usize,
    /// The commits to be sent, in the order in which they came.
    unsent: VecDeque<TxnId>,
}

/// The commits on their way.
#[derive(Debug)]
pub(crate) struct Commits {
    pending: BTreeMap<TxnId, Pending>,
    /// By the nodes that coordinate them.
    ways: BTreeMap<At, OnTheirWay>,
    /// Transactions whose outcome was asked for.
    asked: BTreeSet<TxnId>,
    bytes: usize,
    bytes_limit: usize,
    pending_max: usize,
}

impl Commits {
    pub(crate) fn new(bytes_limit: usize, pending_max: usize) -> Self {
        Self {
            pending: BTreeMap::new(),
            ways: BTreeMap::new(),
            asked: BTreeSet::new(),
            bytes: 0,
            bytes_limit,
            pending_max,
        }
    }

    /// How many wait for their outcome.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether a commit waits for its outcome, and the store may have it.
    pub(crate) fn is_on_its_way(&self, txn: TxnId) -> bool {
        self.pending.contains_key(&txn)
    }

    /// The values that are kept, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Everything that was sent to a node should be sent again.
    pub(crate) fn link_is_gone(&mut self, at: At) {
        let unsent = self.those(|pending| pending.at == at);
        self.ways.entry(at).or_default().unsent = unsent.into();
    }

    fn outstanding(&self, at: At) -> usize {
        self.ways.get(&at).map_or(0, |way| way.count - way.unsent.len())
    }

    /// Whether so much of a large request may go out beside those under way. They wait where they are kept anyway, and
    /// not once more in front of the line.
    fn has_room_for(&self, large_bytes: usize) -> bool {
        large_bytes == 0 || self.large_under_way() + large_bytes <= LARGE_COMMITS_BYTES_MAX
    }

    fn large_under_way(&self) -> usize {
        let all: usize = self.pending.values().map(|pending| pending.large_bytes).sum();
        let unsent = self.ways.values().flat_map(|way| &way.unsent).filter_map(|txn| self.pending.get(txn));
        all - unsent.map(|pending| pending.large_bytes).sum::<usize>()
    }

    /// The next request that may go out, and is no longer one that waits for that.
    fn next_unsent(&mut self, at: At) -> Option<CommitRequest> {
        let has_room = |txn: &TxnId| self.pending.get(txn).is_none_or(|pending| self.has_room_for(pending.large_bytes));
        let place = self.ways.get(&at)?.unsent.iter().position(has_room)?;
        let txn = self.ways.get_mut(&at)?.unsent.remove(place)?;
        self.pending.get(&txn)?.request.clone()
    }

    /// A request has come on this session, perhaps not for the first time.
    fn copy_of(&mut self, from: SessionId, request: &CommitRequest) -> Result<Copy, Goodbye> {
        let txn = request.txn;
        let Some(pending) = self.pending.get_mut(&txn) else { return Ok(Copy::None) };
        if !pending.is_copied_by(request) {
            let text = format!("expected the changes that {txn:?} was sent with before, got others");
            return Err(Goodbye::malformed(text));
        }
        if pending.incarnation < request.incarnation {
            return Ok(Copy::Lapses);
        }
        // The member has resumed its session and sends a request again that is on its way already.
        pending.from = from;
        Ok(Copy::Counts)
    }

    /// Finds room for a new request, where the node may have this many outstanding; none if it is not reached.
    fn admit(&self, at: At, request: &CommitRequest, outstanding_max: Option<u32>) -> Result<Admission, Goodbye> {
        let (bytes, large_bytes) = (request.writes.iter().map(delta_bytes).sum(), request.large_bytes());
        let is_kept = self.pending.len() < self.pending_max && self.bytes + bytes <= self.bytes_limit;
        // A request that cannot be kept goes out of turn: it may be a copy of one that has committed, which the store
        // can refuse and we cannot. So many of those are listed.
        let may_go = outstanding_max.is_some_and(|most| {
            let has_turn = self.outstanding(at) < most as usize && self.has_room_for(large_bytes);
            if is_kept { has_turn } else { self.pending.len() < 2 * self.pending_max }
        });
        if !is_kept && !may_go {
            let text = "no room to keep what is to be committed until the store can take it: send it again".into();
            return Err(Goodbye { reason: GoodbyeReason::NoRoom, text });
        }
        Ok(Admission { is_kept, may_go, bytes, large_bytes })
    }

    /// Takes a request up, as it was admitted.
    fn begin(&mut self, from: SessionId, to: (At, bool), request: &CommitRequest, admission: &Admission) -> &Pending {
        let (at, is_alone) = to;
        let (txn, incarnation, large_bytes) = (request.txn, request.incarnation, admission.large_bytes);
        let changes = request.writes.iter().map(|delta| (delta.page, delta.slots())).collect();
        let kept = admission.is_kept.then(|| request.clone());
        let bytes = if admission.is_kept { admission.bytes } else { 0 };
        self.bytes += bytes;
        let way = self.ways.entry(at).or_default();
        way.count += 1;
        if !admission.may_go {
            way.unsent.push_back(txn);
        }
        let pending =
            Pending { from, at, is_alone, asked_on: None, incarnation, request: kept, bytes, large_bytes, changes };
        self.pending.entry(txn).or_insert(pending)
    }

    /// A member asks on this session for a transaction's outcome; says whether the store should be asked.
    fn ask(&mut self, from: SessionId, txn: TxnId, broken: Broken) -> Result<bool, Goodbye> {
        if let Some(pending) = self.pending.get_mut(&txn)
            && !broken.is(Rule::AnswerByReply)
        {
            // Its reply is the answer. A question that overtakes the request would be told that nobody knows of it, and
            // the request's changes after that would reach nobody here.
            pending.asked_on = Some(from);
            return Ok(false);
        }
        let most = self.pending_max;
        if self.asked.len() >= most {
            return Err(Goodbye::too_much(format!("expected at most {most} questions for outcomes at a time")));
        }
        self.asked.insert(txn);
        Ok(true)
    }

    /// Whether the reply is that a copy has lapsed, and its member has sent the request to that incarnation since.
    fn was_sent_again(&self, reply: &CommitReply) -> bool {
        let Outcome::Refused(Refusal::Lapsed(incarnation)) = reply.outcome else { return false };
        self.pending.get(&reply.txn).is_some_and(|pending| pending.incarnation >= incarnation)
    }

    /// Whether the store knew nothing of a transaction when it was asked, and the request has gone out since: its reply
    /// is yet to come.
    fn answers_a_question(&mut self, reply: &CommitReply) -> bool {
        let is_unknown = reply.outcome == Outcome::Unknown;
        is_unknown && self.pending.contains_key(&reply.txn) && self.asked.remove(&reply.txn)
    }

    fn those(&self, are_meant: impl Fn(&Pending) -> bool) -> Vec<TxnId> {
        self.pending.iter().filter(|(_, pending)| are_meant(pending)).map(|(&txn, _)| txn).collect()
    }

    /// The transactions without writes that go to these nodes.
    pub(crate) fn idle(&self, is_meant: impl Fn(At) -> bool) -> Vec<TxnId> {
        self.those(|pending| pending.changes.is_empty() && is_meant(pending.at))
    }

    /// A commit is on its way no longer, and contests nothing under the lease.
    fn finish(&mut self, txn: TxnId, nodes: &mut Nodes) -> Option<Pending> {
        self.asked.remove(&txn);
        let pending = self.pending.remove(&txn)?;
        self.bytes -= pending.bytes;
        if let Some(way) = self.ways.get_mut(&pending.at) {
            way.count -= 1;
            if !way.unsent.is_empty() {
                way.unsent.retain(|unsent| *unsent != txn);
            }
        }
        for (page, _) in &pending.changes {
            nodes.of_mut(*page).lease.end_contest(*page, txn);
        }
        Some(pending)
    }

    /// A transaction without writes is refused. Returns the session that waits for the answer.
    pub(crate) fn refuse(&mut self, txn: TxnId, nodes: &mut Nodes) -> Option<SessionId> {
        self.finish(txn, nodes).map(|pending| pending.asked_on.unwrap_or(pending.from))
    }
}

impl Redirector {
    /// A member wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        let txn = request.txn;
        self.members.check_own(from, txn.client)?;
        request.check_form()?;
        self.nodes.check_evidence(&request, &self.members.believed(from))?;
        self.stats.commits += 1;
        if let Some(outcome) = self.validate(now, from, &request) {
            self.reply(from, CommitReply { txn, outcome });
            return Ok(());
        }
        match self.commits.copy_of(from, &request)? {
            Copy::None => {}
            Copy::Counts => return Ok(()),
            Copy::Lapses => drop(self.commits.finish(txn, &mut self.nodes)),
        }
        let Some(at) = self.nodes.coordinator_of(txn) else {
            self.reply(from, CommitReply { txn, outcome: Outcome::Unknown });
            return Ok(());
        };
        if request.writes.is_empty() && !self.is_awaited(at) {
            self.reply(from, CommitReply { txn, outcome: Outcome::NO_EFFECT });
            return Ok(());
        }
        let session = &self.nodes[at].session;
        let outstanding_max = session.is_live().then(|| session.up.limits().commits);
        let admission = self.commits.admit(at, &request, outstanding_max)?;
        let is_alone = self.is_alone(at, &request);
        #[cfg(feature = "mutants")]
        self.tell_early(now, from, &request);
        let pending = self.commits.begin(from, (at, is_alone), &request, &admission);
        if !self.config.broken.is(Rule::ContestOwn) {
            pending.contest(txn, &mut self.nodes);
        }
        if admission.may_go {
            self.send_to(now, at, request);
        }
        Ok(())
    }

    /// Whether a node has all pages of a transaction: then it judges it alone.
    fn is_alone(&self, at: At, request: &CommitRequest) -> bool {
        request.pages().all(|page| self.nodes.places().of(page) == at)
    }

    /// A member wants to know a transaction's outcome.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.members.check_own(from, ask.txn.client)?;
        let Some(at) = self.nodes.coordinator_of(ask.txn) else {
            self.reply(from, CommitReply { txn: ask.txn, outcome: Outcome::Unknown });
            return Ok(());
        };
        if self.commits.ask(from, ask.txn, self.config.broken)? && self.nodes[at].session.is_live() {
            self.send_to(now, at, ask);
        }
        Ok(())
    }

    /// The session with the store is resumed: commits without an outcome go out again, under the same identities. A
    /// request whose values were not kept is its member's to send again, in a session that begins again. And one that
    /// has come on a session that has ended goes out no more: elsewhere it may have been refused, and its client be
    /// forgotten since. If its member is back and has asked instead, its question goes out. For one that is back and is
    /// still to send it again nothing is asked: that nobody knows of it would be taken for the answer to the request
    /// then. The lease of before is gone, and with it its contests: the slots of requests that go out again are
    /// contested again.
    pub(crate) fn resend_commits(&mut self, now: Time, at: At) {
        let broken = self.config.broken.is(Rule::ResendForPresent);
        let has_left = |pending: &Pending| !broken && self.members.client(pending.from).is_none();
        for txn in self.commits.those(|pending| pending.at == at && has_left(pending)) {
            let asked_on = self.commits.finish(txn, &mut self.nodes).and_then(|pending| pending.asked_on);
            if asked_on.is_some_and(|session| self.members.client(session).is_some()) {
                self.commits.asked.insert(txn);
            }
        }
        for txn in self.commits.those(|pending| pending.at == at && pending.request.is_none()) {
            self.commits.finish(txn, &mut self.nodes);
            if let Some(session) = self.members.session(txn.client) {
                let text = "the link to the store was lost, and with it a commit request: send it again".into();
                self.end(now, session, Goodbye { reason: GoodbyeReason::NoRoom, text });
            }
        }
        if !self.config.broken.is(Rule::ContestAgain) {
            for (txn, pending) in &self.commits.pending {
                pending.contest(*txn, &mut self.nodes);
            }
        }
        let asked = self.commits.asked.iter().copied();
        for txn in asked.filter(|txn| self.nodes.coordinator_of(*txn) == Some(at)).collect::<Vec<_>>() {
            self.send_to(now, at, AskOutcome { txn });
        }
        self.send_commits(now, at);
    }

    fn send_commits(&mut self, now: Time, at: At) {
        let has_turn = |of: &Self| {
            let session = &of.nodes[at].session;
            session.is_live() && of.commits.outstanding(at) < session.up.limits().commits.max(1) as usize
        };
        while has_turn(self) {
            let Some(request) = self.commits.next_unsent(at) else { return };
            self.send_to(now, at, request);
        }
    }

    /// The node that coordinates a transaction has decided.
    pub(crate) fn commit_reply(&mut self, now: Time, at: At, reply: CommitReply) {
        if self.commits.was_sent_again(&reply) || self.commits.answers_a_question(&reply) {
            return;
        }
        let committer = self.members.session(reply.txn.client);
        let created = match &reply.outcome {
            Outcome::Committed { pages } => self.grants.were_empty(reply.txn.client, pages),
            Outcome::Refused(_) | Outcome::Unknown => Vec::new(),
        };
        let pending = self.commits.finish(reply.txn, &mut self.nodes);
        if let Outcome::Committed { pages } = &reply.outcome {
            self.committed(now, at, reply.txn, pending, pages);
        }
        if let Some(session) = committer {
            // Pages that were empty before are whole where they were filled, and nowhere else yet.
            for page in created {
                if self.holders.holds(page, session) {
                    self.holders.list_whole(page, session);
                }
            }
            self.reply(session, reply);
        }
        self.send_commits(now, at);
    }

    /// A transaction has committed: others learn of its changes.
    fn committed(&mut self, now: Time, at: At, txn: TxnId, pending: Option<Pending>, pages: &[Advance]) {
        let mut counts = Vector::new();
        for advance in pages {
            counts.raise(self.nodes.sharding().of(advance.page), advance.version);
        }
        self.nodes.hear_reply(&counts);
        if self.config.broken.is(Rule::AskedMovesNothing) {
            self.nodes.heard_through(at, &counts);
        }
        // A member that has only asked is notified of the changes by invalidation, which comes in its time. The reply
        // is the store's word: the request that it answers may have been another copy's than this one, or no copy at
        // all.
        let horizon = self.nodes.horizon().counts;
        let is_ahead = counts.counts().iter().all(|&(shard, count)| count > horizon.of(shard));
        let is_news = is_ahead || self.config.broken.is(Rule::ReplyAhead);
        if pending.as_ref().is_some_and(|pending| !pending.is_alone) {
            return self.hear_early(now, txn, pending, pages);
        }
        let Some(mut pending) = pending.filter(|_| is_news) else { return };
        if self.config.broken.is(Rule::ReplyToSession)
            && let Some(session) = self.members.session(txn.client)
        {
            pending.from = session;
        }
        self.nodes.heard_through(at, &counts);
        self.update(now, txn, &pending, pages);
    }

    /// Several nodes have judged a transaction, and each invalidates its own pages. The reply may be ahead of that: no
    /// copy counts as whole that lacks the changes (**HearReply**). They are told as the nodes would, without the
    /// values: these could be another copy's of the transaction.
    fn hear_early(&mut self, now: Time, txn: TxnId, pending: Option<Pending>, pages: &[Advance]) {
        if self.config.broken.is(Rule::HearReply) {
            return;
        }
        let Some(Pending { from, changes, .. }) = pending else { return };
        for (page, slots) in changes {
            let Ok(found) = pages.binary_search_by_key(&page, |advance| advance.page) else { continue };
            let Advance { prev, version, .. } = pages[found];
            if version > self.nodes.horizon().of(page) && prev < version {
                self.tell(now, &Invalidation { page, prev, version, slots, txn, data: None }, Some(from));
            }
        }
    }

    /// Passes on a transaction's changes, with the new values where they were kept.
    fn update(&mut self, now: Time, txn: TxnId, pending: &Pending, pages: &[Advance]) {
        let deltas = pending.request.as_ref().map(|request| &request.writes[..]);
        for (at, (page, slots)) in pending.changes.iter().enumerate() {
            let Ok(found) = pages.binary_search_by_key(page, |advance| advance.page) else { continue };
            let Advance { prev, version, .. } = pages[found];
            let data = deltas.map(|deltas| deltas[at].changes.clone());
            let invalidation = Invalidation { page: *page, prev, version, slots: slots.clone(), txn, data };
            self.tell(now, &invalidation, Some(pending.from));
        }
    }
}

fn delta_bytes(delta: &Delta) -> usize {
    delta.changes.iter().map(|change| change.value.as_ref().map_or(0, bytes::Bytes::len) + 32).sum()
}
