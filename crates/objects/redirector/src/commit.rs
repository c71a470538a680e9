//! Commits on their way to the store and back (BuddyCache paper, section 4.4).
//!
//! ```text
//!   waiting --the store is reached--> sent --reply--> told to the committer, its changes to the others
//!      ^                               |
//!      +------ the link is gone -------+
//! ```
//! 1. The writes of a commit are kept until its reply, and passed on only then. The reply stands for the group's
//!    invalidations: in the store's stream it has the place that they would have. To the committer it stands for the
//!    invalidation on the session that the request came on, and on no other.
//! 2. A member that dies takes nothing with it: its commit that succeeded reaches the others all the same. But it is
//!    not sent again for it, when the link to the store was lost: a member that has left may have had its answer
//!    elsewhere.
//! 3. A request that comes again, for a later incarnation of the store, takes the place of the copy on its way: that
//!    one lapses, which is no answer to this.
//! 4. A request that no client of ours would send ends its member's session. It is not kept, and not passed on: the
//!    store would end ours.
//! 5. The values that are kept are bounded. Beyond, the others hear which slots changed and not their values; and
//!    should the link to the store be lost, the member is sent away, and sends its request again when it comes back.

use crate::Redirector;
use crate::lease::Lease;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{Advance, AskOutcome, CommitReply, CommitRequest, Invalidation, Outcome};
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
    fn contest(&self, txn: TxnId, lease: &mut Lease) {
        for (page, slots) in &self.changes {
            lease.contest(*page, txn, slots);
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

/// The commits on their way.
#[derive(Debug)]
pub(crate) struct Commits {
    pending: BTreeMap<TxnId, Pending>,
    /// Those that wait to be sent, in the order in which they came.
    unsent: VecDeque<TxnId>,
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
            unsent: VecDeque::new(),
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

    /// Everything that was sent should be sent again.
    pub(crate) fn link_is_gone(&mut self) {
        self.unsent = self.pending.keys().copied().collect();
    }

    fn outstanding(&self) -> usize {
        self.pending.len() - self.unsent.len()
    }

    /// Whether so much of a large request may go out beside those under way. They wait where they are kept anyway, and
    /// not once more in front of the line.
    fn has_room_for(&self, large_bytes: usize) -> bool {
        large_bytes == 0 || self.large_under_way() + large_bytes <= LARGE_COMMITS_BYTES_MAX
    }

    fn large_under_way(&self) -> usize {
        let all: usize = self.pending.values().map(|pending| pending.large_bytes).sum();
        let unsent = self.unsent.iter().filter_map(|txn| self.pending.get(txn));
        all - unsent.map(|pending| pending.large_bytes).sum::<usize>()
    }

    /// The next request that may go out, and is no longer one that waits for that.
    fn next_unsent(&mut self) -> Option<CommitRequest> {
        let has_room = |txn: &TxnId| self.pending.get(txn).is_none_or(|pending| self.has_room_for(pending.large_bytes));
        let place = self.unsent.iter().position(has_room)?;
        let txn = self.unsent.remove(place)?;
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

    /// Finds room for a new request, where the store may have this many outstanding; none if it is not reached.
    fn admit(&self, request: &CommitRequest, outstanding_max: Option<u32>) -> Result<Admission, Goodbye> {
        let (bytes, large_bytes) = (request.writes.iter().map(delta_bytes).sum(), request.large_bytes());
        let is_kept = self.pending.len() < self.pending_max && self.bytes + bytes <= self.bytes_limit;
        // A request that cannot be kept goes out of turn: it may be a copy of one that has committed, which the store
        // can refuse and we cannot. So many of those are listed.
        let may_go = outstanding_max.is_some_and(|most| {
            let has_turn = self.outstanding() < most as usize && self.has_room_for(large_bytes);
            if is_kept { has_turn } else { self.pending.len() < 2 * self.pending_max }
        });
        if !is_kept && !may_go {
            let text = "no room to keep what is to be committed until the store can take it: send it again".into();
            return Err(Goodbye { reason: GoodbyeReason::NoRoom, text });
        }
        Ok(Admission { is_kept, may_go, bytes, large_bytes })
    }

    /// Takes a request up, as it was admitted.
    fn begin(&mut self, from: SessionId, request: &CommitRequest, admission: &Admission) -> &Pending {
        let (txn, incarnation, large_bytes) = (request.txn, request.incarnation, admission.large_bytes);
        let changes = request.writes.iter().map(|delta| (delta.page, delta.slots())).collect();
        let kept = admission.is_kept.then(|| request.clone());
        let bytes = if admission.is_kept { admission.bytes } else { 0 };
        self.bytes += bytes;
        if !admission.may_go {
            self.unsent.push_back(txn);
        }
        let pending = Pending { from, asked_on: None, incarnation, request: kept, bytes, large_bytes, changes };
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

    /// A commit is on its way no longer, and contests nothing under the lease.
    fn finish(&mut self, txn: TxnId, lease: &mut Lease) -> Option<Pending> {
        self.asked.remove(&txn);
        let pending = self.pending.remove(&txn)?;
        self.bytes -= pending.bytes;
        if !self.unsent.is_empty() {
            self.unsent.retain(|unsent| *unsent != txn);
        }
        for (page, _) in &pending.changes {
            lease.end_contest(*page, txn);
        }
        Some(pending)
    }
}

impl Redirector {
    /// A member wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        let txn = request.txn;
        self.members.check_own(from, txn.client)?;
        request.check_form()?;
        self.upstream.check_evidence(&request)?;
        self.stats.commits += 1;
        if let Some(outcome) = self.validate(now, from, &request) {
            self.reply(from, CommitReply { txn, outcome });
            return Ok(());
        }
        match self.commits.copy_of(from, &request)? {
            Copy::None => {}
            Copy::Counts => return Ok(()),
            Copy::Lapses => drop(self.commits.finish(txn, &mut self.lease)),
        }
        let outstanding_max = self.upstream.is_live().then(|| self.upstream.up.limits().commits);
        let admission = self.commits.admit(&request, outstanding_max)?;
        #[cfg(feature = "mutants")]
        self.tell_early(now, from, &request);
        let pending = self.commits.begin(from, &request, &admission);
        if !self.config.broken.is(Rule::ContestOwn) {
            pending.contest(txn, &mut self.lease);
        }
        if admission.may_go {
            self.send_to_store(now, request);
        }
        Ok(())
    }

    /// A member wants to know a transaction's outcome.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.members.check_own(from, ask.txn.client)?;
        if self.commits.ask(from, ask.txn, self.config.broken)? && self.upstream.is_live() {
            self.send_to_store(now, ask);
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
    pub(crate) fn resend_commits(&mut self, now: Time) {
        let broken = self.config.broken.is(Rule::ResendForPresent);
        let has_left = |pending: &Pending| !broken && self.members.client(pending.from).is_none();
        for txn in self.commits.those(has_left) {
            let asked_on = self.commits.finish(txn, &mut self.lease).and_then(|pending| pending.asked_on);
            if asked_on.is_some_and(|session| self.members.client(session).is_some()) {
                self.commits.asked.insert(txn);
            }
        }
        for txn in self.commits.those(|pending| pending.request.is_none()) {
            self.commits.finish(txn, &mut self.lease);
            if let Some(session) = self.members.session(txn.client) {
                let text = "the link to the store was lost, and with it a commit request: send it again".into();
                self.end(now, session, Goodbye { reason: GoodbyeReason::NoRoom, text });
            }
        }
        if !self.config.broken.is(Rule::ContestAgain) {
            for (txn, pending) in &self.commits.pending {
                pending.contest(*txn, &mut self.lease);
            }
        }
        let asked: Vec<_> = self.commits.asked.iter().copied().collect();
        for txn in asked {
            self.send_to_store(now, AskOutcome { txn });
        }
        self.send_commits(now);
    }

    fn send_commits(&mut self, now: Time) {
        while self.upstream.is_live() && self.commits.outstanding() < self.upstream.up.limits().commits.max(1) as usize
        {
            let Some(request) = self.commits.next_unsent() else { return };
            self.send_to_store(now, request);
        }
    }

    /// The store has decided.
    pub(crate) fn commit_reply(&mut self, now: Time, reply: CommitReply) {
        if self.commits.was_sent_again(&reply) || self.commits.answers_a_question(&reply) {
            return;
        }
        let committer = self.members.session(reply.txn.client);
        let created = match &reply.outcome {
            Outcome::Committed { pages } => self.grants.were_empty(reply.txn.client, pages),
            Outcome::Refused(_) | Outcome::Unknown => Vec::new(),
        };
        let pending = self.commits.finish(reply.txn, &mut self.lease);
        if let Outcome::Committed { pages } = &reply.outcome {
            self.committed(now, reply.txn, pending, pages);
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
        self.send_commits(now);
    }

    /// A transaction has committed: others learn of its changes.
    fn committed(&mut self, now: Time, txn: TxnId, pending: Option<Pending>, pages: &[Advance]) {
        let mut counts = Vector::new();
        for advance in pages {
            counts.raise(self.upstream.up.sharding().of(advance.page), advance.version);
        }
        if self.config.broken.is(Rule::AskedMovesNothing) {
            self.upstream.heard_through(&counts);
        }
        // A member that has only asked is notified of the changes by invalidation, which comes in its time. The reply
        // is the store's word: the request that it answers may have been another copy's than this one, or no copy at
        // all.
        let horizon = self.upstream.horizon().counts;
        let is_ahead = counts.counts().iter().all(|&(shard, count)| count > horizon.of(shard));
        let is_news = is_ahead || self.config.broken.is(Rule::ReplyAhead);
        let Some(mut pending) = pending.filter(|_| is_news) else { return };
        if self.config.broken.is(Rule::ReplyToSession)
            && let Some(session) = self.members.session(txn.client)
        {
            pending.from = session;
        }
        self.upstream.heard_through(&counts);
        self.update(now, txn, &pending, pages);
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
