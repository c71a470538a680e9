//! Leases: groups whose redirectors validate read-only transactions themselves.
//!
//! ```text
//!   valid, its writes locked --nobody else holds a lease on them--> log
//!        | Intent to every group that holds a page of them under a lease
//!        +--~~ each has promised, or its lease has run out ~~-----> log
//! ```
//! 1. A commit's changes can be seen by nobody, its own committer included, before every group that holds them under a
//!    lease has promised to ask, or its lease has run out. So a read-only transaction that a redirector found valid is
//!    serial before every change that it has not learned of, and nobody has seen such a change before.
//! 2. A group that comes to hold a page which is about to change learns of that before it has the page.
//! 3. A lease outlives its session: the redirector may not know yet that it is cut off. Which pages its group holds is
//!    not known any more: every change waits for its lease. So it does for those of before a restart (see `lives`).
//! 4. While a commit waits, its reads are in the way of writers, as its writes do: it was found valid, and is not
//!    logged yet.
//! 5. The group that a request came by has not to be asked: its redirector knows what it has passed on in its session.
//!    Requests that it has passed on and that are not prepared yet, for want of room, a page or their turn, it is told
//!    when it gets a lease: so that no lease begins with less known to its holder than to us.
//! 6. A group keeps to its promises until it is given more of its lease: a commit that follows within that time and
//!    changes no more needs no promise of it. Before a group is given more, it learns of everything that is prepared in
//!    what it holds; a promise that it was asked for before that counts for the commit that waits for it, and for no
//!    other. Nor is anything promised for a page that the group lets go of.
//! 7. A watcher counts as a group that holds all leased pages, but for its promises, each of which is for one commit
//!    (**PromiseOnce**, see `watch`).
//!
//! Clocks may run differently fast by [`DRIFT_PERMILLE`]: the store lets a lease last longer by that, its holder
//! shorter.

use crate::Master;
use crate::outputs::Output;
use crate::overlap::writes_what_is_read;
use crate::ticket::Ticket;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use directory::Urgency;
use machine::Goodbye;
use messages::{CommitRequest, Intent, Leased, Pong, Promise};
use types::limits::LEASE_DRIFT_PERMILLE as DRIFT_PERMILLE;
use types::{Broken, GoodbyeReason, Map, NodeId, PageId, Rule, SessionId, SlotSet, Time, TxnId};

/// The promises that a group was asked for, for a commit that waits.
#[derive(Debug)]
struct Asked {
    pages: Vec<(PageId, SlotSet)>,
    /// Until when its promise matters.
    until: Time,
    /// Which of its leases was its last then.
    lease: u64,
}

/// A commit that is valid and waits for promises.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    /// The groups that have not promised.
    left: Map<SessionId, Asked>,
    /// Those of whom nothing is known but their leases.
    until: Time,
}

/// The lease of a group's session.
#[derive(Debug, Default)]
struct Held {
    /// Until when its lease lasts.
    until: Time,
    /// How often it was given one, or more of it.
    number: u64,
    /// The slots that it has promised to ask for since it was given the last.
    promised: Map<PageId, SlotSet>,
}

impl Held {
    fn has_promised(&self, page: PageId, slots: &SlotSet) -> bool {
        self.promised.get(&page).is_some_and(|promised| promised.contains_all(slots))
    }
}

/// All leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// The lease of each session.
    held: Map<SessionId, Held>,
    /// Until when the last of those lasts whose sessions are gone.
    orphaned: Time,
    waiting: BTreeMap<TxnId, Waiting>,
}

/// Leases that may still last: they were given before a restart, or by the last master of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierLeases {
    /// The spaces that they are on, in order.
    pub spaces: Vec<u32>,
    /// Until when the longest lasts.
    pub until: Time,
}

impl EarlierLeases {
    /// Others may last as well.
    pub(crate) fn join(&mut self, others: Self) {
        self.spaces.extend(others.spaces);
        self.spaces.sort_unstable();
        self.spaces.dedup();
        self.until = self.until.max(others.until);
    }

    /// Until when a change of the page waits for them.
    fn until(&self, page: PageId) -> Time {
        if self.spaces.contains(&page.space) { self.until } else { Time::ZERO }
    }
}

impl Leases {
    /// Whether a part of a transaction waits for promises.
    pub(crate) fn is_waiting(&self, txn: TxnId) -> bool {
        self.waiting.contains_key(&txn)
    }

    /// The session is gone. Its lease continues.
    pub(crate) fn session_ended(&mut self, session: SessionId, broken: Broken) {
        let outlives = !broken.is(Rule::LeasesOutliveSession);
        if let Some(held) = self.held.remove(&session).filter(|_| outlives) {
            self.orphaned = self.orphaned.max(held.until);
        }
        for waiting in self.waiting.values_mut() {
            if let Some(asked) = waiting.left.remove(&session).filter(|_| outlives) {
                waiting.until = waiting.until.max(asked.until);
            }
        }
    }

    /// The session's group lets go of the page, and of what it has promised there.
    pub(crate) fn released(&mut self, session: SessionId, page: PageId) {
        if let Some(held) = self.held.get_mut(&session) {
            held.promised.remove(&page);
        }
    }

    /// Whether no commit waits for a promise.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the next wait may be over because leases have run out.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let over = |waiting: &Waiting| waiting.left.values().map(|asked| asked.until).fold(waiting.until, Time::max);
        self.waiting.values().map(over).min()
    }

    /// The transaction no longer waits for promises.
    pub(crate) fn forget(&mut self, txn: TxnId) {
        self.waiting.remove(&txn);
    }

    /// The transactions of a coordinator that wait for promises, in order.
    pub(crate) fn waiting_for(&self, coordinator: NodeId) -> Vec<TxnId> {
        let its = self.waiting.iter().filter(|(_, waiting)| waiting.ticket.from.coordinator == coordinator);
        let mut its: Vec<_> = its.map(|(&txn, _)| txn).collect();
        its.sort_unstable();
        its
    }

    fn stands_in_the_way(&self, request: &CommitRequest) -> bool {
        self.waiting.values().any(|waiting| writes_what_is_read(request, &waiting.ticket.request))
    }

    /// Those that have not promised before their lease of then ran out, and were given more of it since: they live.
    fn unanswered(&self, now: Time) -> Vec<SessionId> {
        let is_renewed = |session: &SessionId, asked: &Asked| {
            self.held.get(session).is_some_and(|held| held.until > now && held.number > asked.lease)
        };
        let left = self.waiting.values().flat_map(|waiting| &waiting.left);
        let over = left.filter(|(session, asked)| asked.until <= now && is_renewed(session, asked));
        let mut sessions: Vec<_> = over.map(|(&session, _)| session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    fn take_ready(&mut self, now: Time) -> Vec<Ticket> {
        let is_over = |until: Time| until <= now;
        let is_ready =
            |waiting: &Waiting| is_over(waiting.until) && waiting.left.values().all(|asked| is_over(asked.until));
        let ready: Vec<_> = self.waiting.iter().filter(|(_, w)| is_ready(w)).map(|(txn, _)| *txn).collect();
        ready.into_iter().map(|txn| self.waiting.remove(&txn).expect("just seen").ticket).collect()
    }
}

impl Master {
    /// Whether groups have leases on the page's space.
    pub(crate) fn is_leased(&self, page: PageId) -> bool {
        self.config.leased_spaces.contains(&page.space)
    }

    /// Whether the session's group has a lease on the page, or had one lately.
    pub(crate) fn has_lease_on(&self, session: SessionId, page: PageId) -> bool {
        self.leases.held.contains_key(&session) && self.is_leased(page)
    }

    /// A heartbeat. The answer moves the horizon of a client that asks for nothing else, and gives the group of a
    /// redirector more of its lease, if the node may give one. The node has these requests of the session that are not
    /// with the master yet.
    pub fn heartbeat<'a>(
        &mut self,
        now: Time,
        from: SessionId,
        nonce: u64,
        may_lease: bool,
        elsewhere: impl IntoIterator<Item = &'a CommitRequest>,
    ) {
        self.flush(from, Urgency::All);
        if may_lease {
            self.renew_lease(now, from, nonce, elsewhere);
        }
        self.reply(from, Pong { nonce });
    }

    /// A redirector shows that it lives: its group has a lease from then on.
    fn renew_lease<'a>(
        &mut self,
        now: Time,
        session: SessionId,
        nonce: u64,
        elsewhere: impl IntoIterator<Item = &'a CommitRequest>,
    ) {
        let lease = self.config.lease;
        let is_watcher = self.sessions.is_watcher(session);
        let may_have_one = is_watcher || self.sessions.is_group(session);
        if self.config.leased_spaces.is_empty() || !may_have_one || self.closing {
            return;
        }
        let held = self.leases.held.entry(session).or_default();
        let is_first = held.until <= now;
        held.until = now + longer(lease, self.config.broken);
        if !self.config.broken.is(Rule::PromiseAnew) {
            held.number += 1;
            held.promised.clear();
        }
        if !self.config.broken.is(Rule::WarnLeased) {
            // It was not asked for promises as long as it had no lease, nor for those that it had given before.
            for page in self.pages.prepared_pages() {
                if self.pages.holds(page, session) || is_watcher && self.is_leased(page) {
                    self.warn(session, page);
                }
            }
            if is_first {
                self.warn_of_own(session, elsewhere);
            }
        }
        let lease_ms = u32::try_from(lease.as_millis()).unwrap_or(u32::MAX);
        let spaces = self.config.leased_spaces.clone();
        self.reply(session, Leased { nonce, lease_ms, spaces });
    }

    /// Whether a transaction would change a slot that one that waits has read.
    pub(crate) fn stands_in_the_way(&self, request: &CommitRequest) -> bool {
        !self.config.broken.is(Rule::WaitLocks) && self.leases.stands_in_the_way(request)
    }

    /// Whether a valid commit may continue. If not, each group that holds a lease on what it changes is told, and it
    /// waits.
    pub(crate) fn await_promises(&mut self, now: Time, ticket: Ticket) -> Option<Ticket> {
        let writes = &ticket.request.writes;
        let leased = || writes.iter().filter(|delta| self.is_leased(delta.page));
        let orphaned = leased().next().map_or(Time::ZERO, |_| self.leases.orphaned);
        let until = writes.iter().map(|delta| self.earlier.until(delta.page)).fold(orphaned, Time::max);
        if self.config.broken.is(Rule::AwaitPromises) {
            return Some(ticket);
        }
        let txn = ticket.request.txn;
        let mut intents: BTreeMap<SessionId, Vec<(PageId, SlotSet)>> = BTreeMap::new();
        for delta in leased() {
            for &holder in self.pages.holders(delta.page).iter().chain(self.sessions.watchers()) {
                let Some(held) = self.leases.held.get(&holder) else { continue };
                let slots = delta.slots();
                if !ticket.is_of(holder) && held.until > now && !held.has_promised(delta.page, &slots) {
                    intents.entry(holder).or_default().push((delta.page, slots));
                }
            }
        }
        if intents.is_empty() && until <= now {
            return Some(ticket);
        }
        let mut left = Map::default();
        for (holder, pages) in intents {
            let Held { until, number, .. } = self.leases.held[&holder];
            left.insert(holder, Asked { pages: pages.clone(), until, lease: number });
            self.reply(holder, Intent { txn, pages });
        }
        self.leases.waiting.insert(txn, Waiting { ticket, left, until });
        None
    }

    /// A redirector has promised: the transaction does not wait for it any more, and those that follow soon need not
    /// ask for the same.
    pub fn promise(&mut self, from: SessionId, promise: Promise) {
        let is_for_once = self.sessions.is_watcher(from) && !self.config.broken.is(Rule::PromiseOnce);
        let Leases { waiting, held, .. } = &mut self.leases;
        let Some(asked) = waiting.get_mut(&promise.txn).and_then(|waiting| waiting.left.remove(&from)) else { return };
        if let Some(held) = held.get_mut(&from).filter(|held| held.number == asked.lease && !is_for_once) {
            for (page, slots) in asked.pages {
                held.promised.entry(page).or_default().union_with(&slots);
            }
        }
    }

    /// Lets commits continue that wait for nobody any more.
    pub(crate) fn go_on_promised(&mut self, now: Time) {
        if self.leases.is_idle() {
            return;
        }
        self.end_unanswering(now);
        for ticket in self.leases.take_ready(now) {
            // Its reads are in nobody's way any more.
            self.turns.make_way();
            self.vote_prepared(&ticket);
        }
    }

    /// Ends the sessions of watchers that live and do not promise: every commit would wait for their leases.
    fn end_unanswering(&mut self, now: Time) {
        for session in self.leases.unanswered(now) {
            if self.sessions.is_watcher(session) {
                let lease = self.config.lease;
                let text = format!("expected a promise within the lease of {lease:?}: a watcher that lives gives them");
                self.disconnected(session);
                self.out.push(Output::End(session, Goodbye { reason: GoodbyeReason::Silent, text }));
            }
        }
    }

    /// A group with a lease comes to hold a page: it learns of what is about to change there first.
    pub(crate) fn warn(&mut self, session: SessionId, page: PageId) {
        if !self.leases.held.contains_key(&session) || self.config.broken.is(Rule::WarnHolders) {
            return;
        }
        let intents: Vec<_> = self.pages.prepared(page).collect();
        for (txn, slots) in intents {
            self.reply(session, Intent { txn, pages: alloc::vec![(page, slots)] });
        }
    }

    /// A group gets a lease: it learns of the commits that came by it and are not prepared yet. They will not wait for
    /// its promise.
    fn warn_of_own<'a>(&mut self, session: SessionId, elsewhere: impl IntoIterator<Item = &'a CommitRequest>) {
        if self.config.broken.is(Rule::WarnHolders) {
            return;
        }
        let waiting = self.parked.tickets().chain(self.turns.tickets()).chain(self.pages.waiting_commits());
        let own = waiting.filter(|ticket| ticket.is_of(session));
        let mut intents: Vec<_> = own.filter_map(|ticket| self.intent_of(&ticket.request)).collect();
        intents.extend(elsewhere.into_iter().filter_map(|request| self.intent_of(request)));
        for intent in intents {
            self.reply(session, intent);
        }
    }

    /// The changes that a transaction would make in leased spaces.
    fn intent_of(&self, request: &CommitRequest) -> Option<Intent> {
        let leased = request.writes.iter().filter(|delta| self.is_leased(delta.page));
        let pages: Vec<_> = leased.map(|delta| (delta.page, delta.slots())).collect();
        (!pages.is_empty()).then_some(Intent { txn: request.txn, pages })
    }
}

/// A duration as the store counts it, whose clock may be the faster one.
pub fn longer(lease: Duration, broken: Broken) -> Duration {
    let drift = if broken.is(Rule::AllowDrift) { 0 } else { DRIFT_PERMILLE };
    lease + lease * drift / 1000
}
