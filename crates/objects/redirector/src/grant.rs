//! Pages to create objects in: the store grants them to the group, the redirector hands them on.
//!
//! ```text
//!   store --granted--> one member's --something is created in it, or it has changed--> no grant any more
//!                        |      ^
//!     its member has lost it    | another wants pages
//!                        v      |
//!                      left behind --the link is gone--> the store's again
//! ```
//! 1. One request is under way at a time; those of several members for one space go together. The members take turns.
//! 2. Like a client (`room` there), the redirector releases nothing while the store owes it a grant.
//! 3. A granted page is one member's until something is created in it. A member that comes back says which it has; the
//!    others were lost on their way to it. Those, and the pages of a member that has departed, go to the next that
//!    wants some in their space. The store does not learn of that: to it the group has them all the while. When the
//!    group's session ends, the store has back the pages that are left behind.
//! 4. The store lets the group have this many unfilled pages in all. Of these no member has more than it leaves to
//!    others: one that wants more is told what the store would tell the group, that there is no room. So one that only
//!    takes gets half of them, and the next one half of the rest. Pages that a member has left behind count as its own
//!    until others have them. Names are free to choose, so a client that comes under many of them gets more.
//! 5. Where there is no room otherwise, the client that has been away for longest counts as departed: the pages of many
//!    clients that come for a moment each would take up everything that there are. Should it come back, it is told to
//!    drop them.

use crate::Redirector;
use crate::line::{Line, Waiter};
use crate::members::Members;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{Advance, At, Grant, Granted};
use types::limits::GRANTS_PER_SESSION_MAX;
use types::{ClientId, Limits, Map, PageId, PageRange, Rule, SessionId, Time, Version};

/// In which space a node has been asked for pages, and for whom first.
#[derive(Clone, Debug)]
struct Asked {
    grant: Grant,
    first: ClientId,
    at: At,
    /// The nodes that have no more.
    dry: Vec<At>,
}

/// How many pages are a client's.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    unfilled: usize,
    left_behind: usize,
}

/// The members' grants, and the members that wait for one.
#[derive(Debug)]
pub(crate) struct Grants {
    /// Pages that nothing was created in, and whose they are.
    unfilled: BTreeMap<PageId, ClientId>,
    /// Pages that nothing was created in and nobody has, and whose they were.
    left_behind: BTreeMap<PageId, ClientId>,
    /// How many of both are a client's.
    counts: Map<ClientId, Count>,
    /// How many of both there may be.
    pages_max: usize,
    pages_per_message: usize,
    line: Line,
    asked: Option<Asked>,
    /// The nodes that are reached have no more, and another one may.
    awaits_node: bool,
}

impl Grants {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            unfilled: BTreeMap::new(),
            left_behind: BTreeMap::new(),
            counts: Map::default(),
            pages_max: limits.granted_pages,
            pages_per_message: limits.pages_per_message,
            line: Line::default(),
            asked: None,
            awaits_node: false,
        }
    }

    /// Whether the page was granted to this client, and nothing was created in it.
    pub(crate) fn is_of(&self, client: ClientId, page: PageId) -> bool {
        self.unfilled.get(&page) == Some(&client)
    }

    /// Whether the page was granted to the group, and nothing was created in it.
    pub(crate) fn has(&self, page: PageId) -> bool {
        self.unfilled.contains_key(&page) || self.left_behind.contains_key(&page)
    }

    /// The page has changed, or it is somebody else's.
    pub(crate) fn lose(&mut self, page: PageId) {
        if let Some(client) = self.unfilled.remove(&page) {
            self.count(client, |count| count.unfilled -= 1);
        }
        if let Some(client) = self.left_behind.remove(&page) {
            self.count(client, |count| count.left_behind -= 1);
        }
    }

    /// The client has come back, and of what it was granted it has these, in their order: it never learned of the rest.
    pub(crate) fn keep(&mut self, client: ClientId, claimed: &[PageId]) {
        if !self.has_unfilled(client) {
            return;
        }
        let before = self.unfilled.len();
        let left_behind = &mut self.left_behind;
        self.unfilled.retain(|page, owner| {
            let is_kept = *owner != client || claimed.binary_search(page).is_ok();
            if !is_kept {
                left_behind.insert(*page, *owner);
            }
            is_kept
        });
        let lost = before - self.unfilled.len();
        self.count(client, |count| {
            count.unfilled -= lost;
            count.left_behind += lost;
        });
    }

    /// The client will not come back.
    pub(crate) fn depart(&mut self, client: ClientId) {
        self.keep(client, &[]);
    }

    fn has_unfilled(&self, client: ClientId) -> bool {
        self.counts.get(&client).is_some_and(|count| count.unfilled > 0)
    }

    pub(crate) fn forget_waiter(&mut self, session: SessionId) {
        self.line.forget(session);
    }

    /// Whether a node owes us a grant.
    pub(crate) fn is_asked(&self, at: At) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.at == at)
    }

    /// The link to a node is gone, which has these pages.
    pub(crate) fn link_is_gone(&mut self, at: At, is_there: impl Fn(PageId) -> bool) {
        self.asked.take_if(|asked| asked.at == at);
        let (gone, left): (BTreeMap<_, _>, _) =
            mem::take(&mut self.left_behind).into_iter().partition(|(page, _)| is_there(*page));
        self.left_behind = left;
        for client in gone.into_values() {
            self.count(client, |count| count.left_behind -= 1);
        }
    }

    /// The pages that were granted to members and not filled.
    pub(crate) fn all(&self, are_meant: impl Fn(PageId) -> bool) -> Vec<PageRange> {
        PageRange::join(self.unfilled.keys().copied().filter(|page| are_meant(*page)))
    }

    /// How many pages more the client may have: with them it has no more than is left to others.
    fn allowance(&self, client: ClientId) -> usize {
        let free = self.pages_max.saturating_sub(self.unfilled.len());
        let Count { unfilled, left_behind } = self.counts.get(&client).copied().unwrap_or_default();
        free.saturating_sub(unfilled + left_behind).div_ceil(2)
    }

    /// How many pages more the store lets the group have.
    fn room(&self) -> usize {
        self.pages_max.saturating_sub(self.unfilled.len() + self.left_behind.len())
    }

    /// Up to so many pages of a space that were left behind.
    fn take_left_behind(&mut self, space: u32, count: usize) -> Vec<PageId> {
        let of_space = PageId::new(space, 0)..=PageId::new(space, u32::MAX);
        let pages: Vec<_> = self.left_behind.range(of_space).map(|(&page, _)| page).take(count).collect();
        for &page in &pages {
            self.lose(page);
        }
        pages
    }

    fn give(&mut self, client: ClientId, page: PageId) {
        self.unfilled.insert(page, client);
        self.count(client, |count| count.unfilled += 1);
    }

    /// The store has granted a page for somebody who is gone.
    fn leave_behind(&mut self, client: ClientId, page: PageId) {
        self.left_behind.insert(page, client);
        self.count(client, |count| count.left_behind += 1);
    }

    fn count(&mut self, client: ClientId, change: impl FnOnce(&mut Count)) {
        let count = self.counts.entry(client).or_default();
        change(count);
        if count.unfilled + count.left_behind == 0 {
            self.counts.remove(&client);
        }
    }

    /// The step that serves the first in the line: with pages that others have left behind, or with the word that there
    /// is no room, or by asking the store, together for all that want the like.
    fn next(&mut self, members: &Members) -> Option<Step> {
        if self.asked.is_some() || self.awaits_node {
            return None;
        }
        let first = self.line.in_turn().next()?;
        let space = first.grant.space;
        let left_behind = self.take_left_behind_for(&first, members);
        if !left_behind.is_empty() || self.wanted(&first) == 0 {
            return Some(Step::Give(first, left_behind));
        }
        let alike = self.line.in_turn().filter(|waiter| waiter.grant.space == space);
        let count = alike.map(|waiter| self.wanted(&waiter)).sum::<usize>();
        let count = count.min(self.pages_per_message) as u32;
        Some(Step::Ask(Grant { space, count }, first.client))
    }

    /// The pages that others have left behind of the space that somebody wants; if there is no room for more, those of
    /// the member that has been away for longest.
    fn take_left_behind_for(&mut self, waiter: &Waiter, members: &Members) -> Vec<PageId> {
        let space = waiter.grant.space;
        let found = self.take_left_behind(space, self.wanted(waiter));
        if !found.is_empty() || (self.room() > 0 && self.wanted(waiter) > 0) {
            return found;
        }
        if let Some(client) = members.absent().find(|client| self.has_unfilled(*client)) {
            self.depart(client);
        }
        self.take_left_behind(space, self.wanted(waiter))
    }

    /// How many pages somebody who waits is given, if they are there.
    fn wanted(&self, waiter: &Waiter) -> usize {
        self.allowance(waiter.client).min(self.pages_per_message).min(waiter.grant.count as usize)
    }

    /// Those of the pages that were granted to this client, and nothing was created in them; or that never were written
    /// to.
    pub(crate) fn were_empty(&self, client: ClientId, pages: &[Advance]) -> Vec<PageId> {
        let is_granted = |page| self.is_of(client, page);
        let were_empty = pages.iter().filter(|advance| advance.prev == Version::ZERO || is_granted(advance.page));
        were_empty.map(|advance| advance.page).collect()
    }
}

/// The step that serves who is first in the line.
enum Step {
    Give(Waiter, Vec<PageId>),
    /// The store is asked, for this client first.
    Ask(Grant, ClientId),
}

impl Redirector {
    /// From now on the group is notified of the page's changes. A read of an earlier generation of it by a member,
    /// while nobody here held it, is for the store to judge.
    fn judge_since_granted(&mut self, page: PageId) {
        if self.is_unheld(page) {
            let at = self.nodes.places().of(page);
            self.nodes[at].lease.ask(page);
            self.answered(at, page);
        }
    }

    /// A member wants pages.
    pub(crate) fn grant(&mut self, now: Time, from: SessionId, grant: Grant) -> Result<(), Goodbye> {
        let Some(client) = self.members.client(from) else { return Ok(()) };
        if self.grants.line.len(from) >= GRANTS_PER_SESSION_MAX {
            return Err(Goodbye::too_much(format!("expected at most {GRANTS_PER_SESSION_MAX} grants at a time")));
        }
        self.grants.line.push(Waiter { session: from, client, grant });
        self.serve_grants(now);
        Ok(())
    }

    /// A node is reached that may have pages.
    pub(crate) fn serve_grants_again(&mut self, now: Time) {
        self.grants.awaits_node = false;
        self.serve_grants(now);
    }

    /// Serves those in the line, until the store is asked for more.
    pub(crate) fn serve_grants(&mut self, now: Time) {
        while let Some(at) = self.nodes.live_but(&[]) {
            match self.grants.next(&self.members) {
                None => return,
                Some(Step::Give(to, pages)) => self.give(&to, pages),
                Some(Step::Ask(grant, first)) => {
                    self.send_to(now, at, grant);
                    self.grants.asked = Some(Asked { grant, first, at, dry: Vec::new() });
                }
            }
        }
    }

    /// Returns a member its pages, or tells it that there is no room for more.
    fn give(&mut self, to: &Waiter, pages: Vec<PageId>) {
        for &page in &pages {
            self.judge_since_granted(page);
            self.grants.give(to.client, page);
            self.holders.list(page, to.session);
        }
        self.grants.line.has_waited(to.session);
        // A page may have had other generations: the member takes it for empty as of its horizon, which must be past
        // the changes of these.
        if !self.config.broken.is(Rule::HearBeforeGrant) {
            self.flush_all(to.session);
        }
        self.reply(to.session, Granted { ranges: PageRange::join(pages) });
    }

    /// A node has granted pages, or none if it has no more room. Then the next one is asked.
    pub(crate) fn granted(&mut self, now: Time, at: At, granted: Granted) {
        let Some(mut asked) = self.grants.asked.take_if(|asked| asked.at == at) else { return };
        let is_empty = granted.ranges.is_empty();
        if is_empty {
            asked.dry.push(at);
            if let Some(next) = self.nodes.live_but(&asked.dry) {
                self.send_to(now, next, asked.grant);
                self.grants.asked = Some(Asked { at: next, ..asked });
                return self.nodes[at].session.releases_may_go(now);
            }
            if self.nodes.has_others(&asked.dry) {
                // A node that is away may have some: they are asked for when it is back.
                self.grants.awaits_node = true;
                return self.nodes[at].session.releases_may_go(now);
            }
        }
        let Asked { grant: Grant { space, .. }, first, .. } = asked;
        let mut pages = granted.ranges.into_iter().flat_map(PageRange::pages).peekable();
        let alike: Vec<_> = self.grants.line.in_turn().filter(|waiter| waiter.grant.space == space).collect();
        for waiter in alike {
            if is_empty || pages.peek().is_some() {
                let share = pages.by_ref().take(self.grants.wanted(&waiter)).collect();
                self.give(&waiter, share);
            }
        }
        // The member that wanted the rest is gone.
        for page in pages {
            self.judge_since_granted(page);
            self.grants.leave_behind(first, page);
        }
        self.nodes[at].session.releases_may_go(now);
        self.serve_grants(now);
    }
}
