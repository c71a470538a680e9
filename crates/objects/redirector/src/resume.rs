//! A member comes with a cache: all of it is listed first, then the store compares it.
//!
//! ```text
//!   Resume{pages} ... Resume{last}      every page is listed: from here on its changes are kept for the member
//!        |  Revalidate{pages} ... -----------> store
//!        |  <-- Invalidations, Revalidated ... ----
//!   missed changes, kept invalidations, Resumed{horizon}
//! ```
//! 1. The answers to all questions of a member are of one session with the store. A change between two sessions is told
//!    to joined members only, so an answer of an earlier session says nothing about what came after it: when the
//!    session breaks, every question is asked again, answered or not.
//! 2. No page of a member counts as whole before the member has joined: until then it cannot be asked for help.
//! 3. A member may have learned of more than the redirector has, and its fetches then say so. So one that brings no
//!    pages is compared too, unless it has learned of nothing yet: the store answers behind everything that it has
//!    applied, and from then on we have learned of as much. A member that names more all the same has made it up.

use crate::Redirector;
use crate::holders::Holders;
use crate::nodes::{Node, Nodes};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{At, Fetch, Held, Invalidation, Invalidations, Resume, Resumed, Revalidate, Revalidated, ToServer};
use types::limits::{GRANTED_PAGES_MAX, TXN_PAGES_MAX};
use types::{Broken, Limits, PageId, PageRange, Rule, SessionId, Set, Sharding, Time, Vector, Version};

/// The cache that a member which is not welcome yet has told of so far, in however many messages.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    all: Option<Resume>,
    granted: u64,
    /// The fetch of one that brings nothing, behind that: one, before it is told how many it may have.
    fetch: Option<Fetch>,
}

impl Brought {
    pub(crate) fn add(&mut self, more: Resume) -> Result<(), Goodbye> {
        self.granted += granted_in(&more);
        let all = match &mut self.all {
            None => self.all.insert(more),
            Some(all) if all.last => return Err(is_over()),
            Some(all) => {
                (all.horizon, all.last) = (more.horizon, more.last);
                all.pages.extend(more.pages);
                all.grants.extend(more.grants);
                all
            }
        };
        check_amount(all.pages.len(), self.granted)
    }

    pub(crate) fn ask(&mut self, fetch: Fetch) -> Result<(), Goodbye> {
        if !self.all.as_ref().is_some_and(|all| all.last) || self.fetch.is_some() {
            return Err(Goodbye::malformed("expected one fetch before the welcome, behind the last resume".into()));
        }
        self.fetch = Some(fetch);
        Ok(())
    }

    /// All of it, as one message, which is larger than one on the wire may be; and the fetch behind it.
    pub(crate) fn messages(self) -> impl Iterator<Item = ToServer> {
        self.all.map(ToServer::Resume).into_iter().chain(self.fetch.map(ToServer::Fetch))
    }
}

fn is_over() -> Goodbye {
    Goodbye::malformed("expected no resumption after the last one".into())
}

/// How many pages a member says that it was granted. A range counts, empty or not.
fn granted_in(resume: &Resume) -> u64 {
    resume.grants.iter().map(|range| u64::from(range.count).max(1)).sum()
}

/// No cache holds more than this many pages, and nobody was granted more, over all messages of a resumption.
fn check_amount(pages: usize, granted: u64) -> Result<(), Goodbye> {
    if pages > TXN_PAGES_MAX || granted > GRANTED_PAGES_MAX as u64 {
        return Err(Goodbye::too_much(format!(
            "expected at most {TXN_PAGES_MAX} pages and {GRANTED_PAGES_MAX} granted ones in a resumption, got {pages} and \
             {granted}"
        )));
    }
    Ok(())
}

/// Some of a member's pages, and the store's answer.
#[derive(Debug)]
struct Question {
    /// The node that has the pages, and the member's counts of its shards.
    at: At,
    horizon: Vector,
    pages: Vec<Held>,
    answer: Option<Revalidated>,
    /// The node is away: the member drops the pages, and its counts are believed.
    is_given_up: bool,
}

/// Everything that one member brings.
#[derive(Debug)]
struct Comparison {
    questions: Vec<Question>,
    unanswered: usize,
}

impl Comparison {
    /// The highest counts that the member has named, to nodes that have answered or to those that were given up.
    fn known(&self, sharding: Sharding, is_given_up: bool) -> Vector {
        let meant = || self.questions.iter().filter(|question| question.is_given_up == is_given_up);
        let mut known = meant().fold(Vector::new(), |all, question| all.joined(&question.horizon));
        for held in meant().flat_map(|question| &question.pages) {
            known.raise(sharding.of(held.page), held.version);
        }
        known
    }
}

/// The questions that the store is comparing.
#[derive(Debug, Default)]
pub(crate) struct Revalidations {
    members: BTreeMap<SessionId, Comparison>,
    /// The questions without an answer, by their numbers: whose they are, and which of the member's.
    open: BTreeMap<u64, (SessionId, usize)>,
    last: u64,
}

impl Revalidations {
    /// The pages that the store is comparing.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        let asked = self.open.values().filter_map(|&(session, at)| self.members.get(&session)?.questions.get(at));
        asked.flat_map(|question| &question.pages).map(|held| held.page)
    }

    /// A member brings pages: the nodes that have them are asked about them, and so is each that has a shard of which
    /// the member has learned anything.
    fn begin(&mut self, session: SessionId, horizon: &Vector, pages: &[Held], nodes: &Nodes, limits: &Limits) {
        let mut questions = Vec::new();
        for at in nodes.all() {
            let horizon = nodes.places().own(at, horizon);
            let own: Vec<_> = pages.iter().copied().filter(|held| nodes.places().of(held.page) == at).collect();
            let question = |pages: &[Held]| {
                let (horizon, pages) = (horizon.clone(), pages.to_vec());
                Question { at, horizon, pages, answer: None, is_given_up: false }
            };
            questions.extend(own.chunks(limits.pages_per_message).map(question));
            if own.is_empty() && (horizon != Vector::new() || !nodes.are_several()) {
                questions.push(question(&[]));
            }
        }
        self.members.insert(session, Comparison { questions, unanswered: 0 });
        self.ask_all(session, |_| true);
    }

    /// Opens those of a member's questions that should be asked, under numbers of their own.
    fn ask_all(&mut self, session: SessionId, is_asked: impl Fn(&Question) -> bool) {
        let Some(comparison) = self.members.get_mut(&session) else { return };
        for (at, question) in comparison.questions.iter_mut().enumerate().filter(|(_, question)| is_asked(question)) {
            (question.answer, question.is_given_up) = (None, false);
            self.last += 1;
            self.open.insert(self.last, (session, at));
        }
        comparison.unanswered = comparison.questions.iter().filter(|question| question.answer.is_none()).count();
    }

    /// An open question, as the store is asked it.
    fn question(&self, number: u64) -> Option<(At, Revalidate)> {
        let &(session, place) = self.open.get(&number)?;
        let Question { at, horizon, pages, .. } = self.members.get(&session)?.questions.get(place)?;
        Some((*at, Revalidate { number, horizon: horizon.clone(), pages: pages.clone() }))
    }

    /// The questions of one member, or of all, to which a node has given no answer.
    fn questions(&self, of: Option<SessionId>, to: At) -> Vec<Revalidate> {
        let is_meant = |asked: &SessionId| of.is_none_or(|of| *asked == of);
        let numbers = self.open.iter().filter(|(_, (session, _))| is_meant(session)).map(|(&number, _)| number);
        let questions = numbers.filter_map(|number| self.question(number));
        questions.filter(|(at, _)| *at == to).map(|(_, question)| question).collect()
    }

    /// The store has answered; gives the member whose question it was, and the pages of the question.
    fn answer(&mut self, answer: Revalidated) -> Option<(SessionId, &[Held])> {
        let (session, at) = self.open.remove(&answer.number)?;
        let comparison = self.members.get_mut(&session)?;
        comparison.unanswered -= 1;
        let question = &mut comparison.questions[at];
        question.answer = Some(answer);
        Some((session, &question.pages))
    }

    /// Whether a node has a question without an answer.
    fn are_asked(&self, of: At) -> bool {
        let asked = |&(session, place): &(SessionId, usize)| self.members.get(&session)?.questions.get(place);
        self.open.values().filter_map(asked).any(|question| question.at == of)
    }

    /// Gives up the questions to a node. Returns the members whose they were.
    fn give_up(&mut self, to: At) -> Vec<SessionId> {
        let Self { members, open, .. } = self;
        let mut sessions = Vec::new();
        open.retain(|_, (session, place)| {
            let Some(comparison) = members.get_mut(session) else { return false };
            let Some(question) = comparison.questions.get_mut(*place).filter(|question| question.at == to) else {
                return true;
            };
            let dropped = question.pages.iter().map(|held| held.page).collect();
            question.answer = Some(Revalidated { number: 0, items: Vec::new(), dropped });
            question.is_given_up = true;
            comparison.unanswered -= 1;
            sessions.push(*session);
            false
        });
        sessions
    }

    /// The finished comparison of a member, if that is everything that it brings.
    fn finish(&mut self, session: SessionId) -> Option<Comparison> {
        let is_compared = self.members.get(&session)?.unanswered == 0;
        if is_compared { self.members.remove(&session) } else { None }
    }

    /// Takes out every comparison under way: the member, the counts that it has learned, and its pages.
    fn take_all(&mut self) -> Vec<(SessionId, Vector, Vec<Held>)> {
        self.open.clear();
        let all = mem::take(&mut self.members).into_iter().map(|(session, comparison)| {
            let (mut horizon, mut pages) = (Vector::new(), Vec::new());
            for question in comparison.questions {
                horizon.join(&question.horizon);
                pages.extend(question.pages);
            }
            (session, horizon, pages)
        });
        all.collect()
    }

    /// The member is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if self.members.remove(&session).is_some() {
            self.open.retain(|_, (of, _)| *of != session);
        }
    }

    /// All questions to a node are asked again, under other numbers: answers to the old ones no longer count.
    pub(crate) fn link_is_gone(&mut self, to: At, broken: Broken) {
        let Self { members, open, .. } = self;
        let is_asked = |session: &SessionId, place: usize| {
            members.get(session).and_then(|of| of.questions.get(place)).is_some_and(|question| question.at == to)
        };
        open.retain(|_, (session, place)| !is_asked(session, *place));
        let is_again = |question: &Question| question.answer.is_none() || !broken.is(Rule::CompareAgain);
        let again = |question: &Question| question.at == to && is_again(question);
        let sessions: Vec<_> = self.members.keys().copied().collect();
        for session in sessions {
            self.ask_all(session, again);
        }
    }
}

impl Holders {
    /// A page that a member has brought is whole, as far as it has not changed without its new values being told.
    /// Whether the member has holes in it is not known: it will say so when it is asked for help.
    fn list_unchanged<'a>(
        &mut self,
        member: SessionId,
        brought: Vec<PageId>,
        changes: impl Iterator<Item = &'a Invalidation>,
    ) {
        let spoiled: Set<_> = changes.filter(|change| change.data.is_none()).map(|change| change.page).collect();
        for page in brought.into_iter().filter(|page| !spoiled.contains(page)) {
            self.list_whole(page, member);
        }
    }
}

impl Redirector {
    /// A member reports its cache.
    pub(crate) fn resume(&mut self, now: Time, from: SessionId, resume: Resume) -> Result<(), Goodbye> {
        let (Some(client), Some(resuming)) = (self.members.client(from), self.members.resuming(from)) else {
            return Err(is_over());
        };
        resuming.granted += granted_in(&resume);
        check_amount(resuming.pages.len() + resume.pages.len(), resuming.granted)?;
        resuming.horizon = resume.horizon;
        for held in &resume.pages {
            self.holders.list(held.page, from);
        }
        for page in resume.grants.iter().copied().flat_map(PageRange::pages) {
            if self.grants.is_of(client, page) {
                self.holders.list(page, from);
                resuming.pages.push(Held { page, version: Version::ZERO });
                resuming.claimed.push(page);
            } else {
                resuming.dropped.push(page);
            }
        }
        resuming.pages.extend(resume.pages);
        if resume.last {
            resuming.claimed.sort_unstable();
            if !self.config.broken.is(Rule::KeepClaimed) {
                self.grants.keep(client, &resuming.claimed);
            }
            self.compare(now, from);
        }
        Ok(())
    }

    /// Asks the store for the changes of all pages that a member brings.
    fn compare(&mut self, now: Time, session: SessionId) {
        let Some(resuming) = self.members.revalidate(session) else { return };
        let (pages, horizon) = (mem::take(&mut resuming.pages), resuming.horizon.clone());
        let is_new = pages.is_empty() && (horizon == Vector::new() || self.config.broken.is(Rule::CompareAhead));
        if is_new || self.config.broken.is(Rule::RevalidateMember) {
            return self.finish_resume(now, session, Vec::new());
        }
        for held in &pages {
            if !self.is_known_to_others(held.page, session) {
                self.nodes.of_mut(held.page).lease.ask(held.page);
            }
        }
        self.revalidations.begin(session, &horizon, &pages, &self.nodes, &self.config.limits);
        for at in self.nodes.all() {
            if self.nodes[at].session.is_live() {
                self.send_questions(now, Some(session), at);
            }
        }
    }

    fn send_questions(&mut self, now: Time, of: Option<SessionId>, to: At) {
        for question in self.revalidations.questions(of, to) {
            self.send_to(now, to, question);
        }
    }

    /// Shards are at other nodes: what members bring is compared there.
    pub(crate) fn compare_all_again(&mut self, now: Time) {
        for (session, horizon, pages) in self.revalidations.take_all() {
            self.revalidations.begin(session, &horizon, &pages, &self.nodes, &self.config.limits);
        }
        for at in self.nodes.all() {
            if self.nodes[at].session.is_live() {
                self.send_questions(now, None, at);
            }
        }
    }

    /// Pages have changed, and the slots are unknown: their holders drop them and release them. Only after that their
    /// horizon moves.
    pub(crate) fn drop_pages(&mut self, now: Time, dropped: Vec<PageId>, through: &Vector) {
        let mut by_member: BTreeMap<SessionId, Vec<PageId>> = BTreeMap::new();
        for page in dropped {
            self.standby.remove(page);
            self.grants.lose(page);
            self.holders.unlist_all_whole(page);
            // Members whose caches are not compared yet are compared again.
            for &holder in self.holders.of(page).iter().filter(|holder| self.members.is_joined(**holder)) {
                if !self.config.broken.is(Rule::TellDropped) {
                    by_member.entry(holder).or_default().push(page);
                }
            }
            self.release_if_unheld(now, page);
        }
        for (session, dropped) in by_member {
            for &page in &dropped {
                // Should it wait for the page, it asks again: the copy on its way may be as old.
                self.forget_want(session, page);
            }
            self.reply(session, Resumed { through: through.clone(), dropped });
            self.members.streams.resume(session, through);
        }
    }

    /// Whether the group holds the page without this member, so that it is notified of its changes already.
    fn is_known_to_others(&self, page: PageId, session: SessionId) -> bool {
        let mut others = self.holders.of(page).iter().filter(|holder| **holder != session);
        others.any(|other| self.members.is_joined(*other)) || self.standby.holds(page)
    }

    /// The session with a node is resumed: it is asked again.
    pub(crate) fn resend_revalidations(&mut self, now: Time, at: At) {
        self.send_questions(now, None, at);
    }

    /// The store has compared some of the pages that a member brings.
    pub(crate) fn revalidated(&mut self, now: Time, revalidated: Revalidated) {
        for item in &revalidated.items {
            self.grants.lose(item.page);
        }
        let Some((session, pages)) = self.revalidations.answer(revalidated) else { return };
        for held in pages {
            let Node { session, lease, .. } = &mut **self.nodes.of_mut(held.page);
            lease.answered(held.page, session.up.horizon());
        }
        if self.config.broken.is(Rule::WholeWhenJoined) {
            for held in pages {
                self.holders.list_whole(held.page, session);
            }
        }
        self.finish_comparison(now, session);
    }

    /// Lets a member join once its whole cache is compared.
    fn finish_comparison(&mut self, now: Time, session: SessionId) {
        let Some(compared) = self.revalidations.finish(session) else { return };
        let sharding = self.nodes.sharding();
        match self.nodes.check_brought(&compared.known(sharding, false)) {
            Ok(()) => {
                self.members.believe(session, compared.known(sharding, true));
                self.finish_resume(now, session, compared.questions);
            }
            Err(why) => self.end(now, session, why),
        }
    }

    /// When members wait no longer for a node to compare what they bring.
    pub(crate) fn next_given_up(&self) -> Option<Time> {
        let asked = self.nodes.all().filter(|at| self.nodes.are_several() && self.revalidations.are_asked(*at));
        asked.filter_map(|at| self.nodes[at].awaited_until(&self.config)).min()
    }

    /// Members wait no longer for nodes that are away: they join without the pages of these.
    pub(crate) fn give_up_nodes(&mut self, now: Time) {
        if self.next_given_up().is_none_or(|at| now < at) {
            return;
        }
        for at in self.nodes.all() {
            if self.nodes[at].awaited_until(&self.config).is_some_and(|until| until <= now) {
                for session in self.revalidations.give_up(at) {
                    self.finish_comparison(now, session);
                }
            }
        }
    }

    /// All is compared: the member hears the changes that it has missed, and its horizon moves again.
    fn finish_resume(&mut self, now: Time, session: SessionId, compared: Vec<Question>) {
        let client = self.members.client(session);
        let Some(mut resumed) = self.members.join(session) else { return };
        // While it was compared a grant may have been lost, with the session that the store had given it to.
        let is_lost = |page: &PageId| client.is_none_or(|client| !self.grants.is_of(client, *page));
        resumed.dropped.extend(resumed.claimed.iter().copied().filter(is_lost));
        let (through, horizon) = (self.nodes.horizon().counts.clone(), resumed.horizon);
        let (mut brought, mut missed) = (Vec::new(), Vec::new());
        for Question { pages, answer, .. } in compared {
            brought.extend(pages.into_iter().map(|held| held.page));
            let Some(Revalidated { items, dropped, .. }) = answer else { continue };
            missed.extend(items);
            resumed.dropped.extend(dropped);
        }
        let mut kept = self.members.take_kept(session, &horizon);
        if self.config.broken.is(Rule::KeepForComing) {
            kept.clear();
        }
        let changes = missed.iter().chain(kept.iter().flat_map(|batch| &batch.items));
        self.holders.list_unchanged(session, brought, changes);
        for &page in &resumed.dropped {
            self.holders.release(page, session);
            self.release_if_unheld(now, page);
        }
        let missed = Invalidations::split(missed, &horizon, horizon.clone(), &self.config.limits);
        for batch in missed.into_iter().chain(kept).filter(|batch| !batch.items.is_empty()) {
            self.out.send(session, batch);
        }
        self.members.streams.resume(session, &through);
        self.out.send(session, Resumed { through, dropped: resumed.dropped });
        self.tell_new_member(session);
    }

    /// Tells a member that has just joined, which is not to wait for it: it needs to know where to go should we be gone
    /// the next moment.
    pub(crate) fn tell_new_member(&mut self, session: SessionId) {
        if let Some(group) = self.leadership.describe(&self.members, &self.config.store) {
            self.reply(session, group);
        }
    }
}
