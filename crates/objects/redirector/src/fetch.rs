//! Where a page should come from (BuddyCache paper, section 4.3).
//!
//! ```text
//!   wanted --the standby cache has it--------------------------------> answered
//!      |-----a member has it whole--> helped (`help`) --it comes------> answered
//!      |                                 \--nobody left to ask-+
//!      |-----a fetch of it is under way--> wait with it        |
//!      +-----else-------------------------> the store <--------+  ---> answered
//! ```
//! 1. A member that wants a page is listed as its holder before anything else: it learns of the changes from then on.
//! 2. A peer's page, or one that is here, reflects everything that the redirector has heard. A member that knows of
//!    more is served by the store.
//! 3. Concurrent misses of one page in the group are one fetch from the store.
//! 4. A page is released only when nobody holds it and no fetch of it is outstanding.

use crate::{Redirector, Stats};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{At, Fetch, LeftOut, Page, Released};
use smallvec::SmallVec;
use types::limits::PAGES_PER_MESSAGE_MAX;
use types::{Horizon, Map, MapEntry, PageId, Rule, SessionId, Time, Vector};

/// A page that a member wants.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) session: SessionId,
    pub(crate) page: PageId,
    /// The member's fetch.
    pub(crate) number: u64,
    pub(crate) at_least: Vector,
    /// Somebody waits for it; else it should be prefetched, and may be left out.
    pub(crate) is_demand: bool,
    /// The member has the page, with holes, and continues having it if it is left out.
    is_held: bool,
    /// The store was asked for it after the member's fetch had come.
    is_asked_for: bool,
    /// The members that were asked for it and did not help.
    pub(crate) tried: SmallVec<[SessionId; 2]>,
}

/// A page that a node has been, or should be, asked for.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    wants: SmallVec<[Want; 1]>,
    sent: bool,
    /// The store was asked for all changes through here. The store's invalidations before its answer move no horizon
    /// unless there is something to tell, but the answer means that all of them have been told.
    at_least: Vector,
    /// It was asked for as one that may be left out.
    is_prefetch: bool,
}

/// The fetches from a node.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    under_way: Map<PageId, UnderWay>,
    unsent: VecDeque<PageId>,
}

impl Fetches {
    pub(crate) fn outstanding(&self) -> usize {
        self.under_way.len() - self.unsent.len()
    }

    /// How many pages the store has been asked for.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// The pages that the store has been, or should be, asked for.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.under_way.keys().copied()
    }

    pub(crate) fn is_under_way(&self, page: PageId) -> bool {
        self.under_way.contains_key(&page)
    }

    /// The store has answered for a page that it was asked for.
    fn arrive(&mut self, page: PageId) -> Option<UnderWay> {
        self.under_way.get(&page).filter(|under_way| under_way.sent)?;
        self.under_way.remove(&page)
    }

    /// The store does not send a page that somebody waits for; gives those who do.
    pub(crate) fn refused(&mut self, page: PageId) -> Option<Vec<Want>> {
        self.arrive(page).map(|under_way| under_way.wants.into_vec())
    }

    /// The member waits for nothing any more.
    pub(crate) fn forget(&mut self, session: SessionId) {
        for under_way in self.under_way.values_mut() {
            under_way.wants.retain(|want| want.session != session);
        }
    }

    /// The session waits for the page no more; says whether it did.
    fn forget_want(&mut self, session: SessionId, page: PageId) -> bool {
        self.forget_wants(page, |want| want.session == session)
    }

    /// The same for one of its fetches.
    pub(crate) fn forget_fetch(&mut self, page: PageId, session: SessionId, number: u64) -> bool {
        self.forget_wants(page, |want| want.session == session && want.number == number)
    }

    fn forget_wants(&mut self, page: PageId, are_meant: impl Fn(&Want) -> bool) -> bool {
        let Some(under_way) = self.under_way.get_mut(&page) else { return false };
        let before = under_way.wants.len();
        under_way.wants.retain(|want| !are_meant(want));
        under_way.wants.len() < before
    }

    /// The pages that were asked for have to be asked for again, if anybody waits for them.
    pub(crate) fn link_is_gone(&mut self) {
        self.under_way.retain(|_, under_way| !under_way.wants.is_empty());
        for under_way in self.under_way.values_mut() {
            (under_way.sent, under_way.is_prefetch) = (false, false);
            under_way.wants.iter_mut().for_each(|want| want.is_asked_for = false);
        }
        self.unsent = self.under_way.keys().copied().collect();
        self.unsent.make_contiguous().sort_unstable();
    }

    /// Lists those who want pages, and gives the fetch of as many as there is room for that nobody has asked for yet;
    /// `horizon` is the redirector's.
    pub(crate) fn ask(
        &mut self,
        wants: Vec<Want>,
        room: usize,
        horizon: Horizon<'_>,
        stats: &mut Stats,
    ) -> Option<Fetch> {
        let (mut pages, mut at_least) = (Vec::new(), horizon.counts.clone());
        for want in wants {
            let (page, least) = (want.page, want.at_least.clone());
            let under_way = self.under_way.entry(page);
            let is_new = matches!(under_way, MapEntry::Vacant(_));
            let is_asked_for = is_new && pages.len() < room;
            let under_way = under_way.or_default();
            under_way.wants.push(Want { is_asked_for, ..want });
            stats.coalesced += u64::from(!is_new);
            if is_asked_for {
                at_least.join(&least);
                (under_way.sent, under_way.is_prefetch, under_way.at_least) = (true, !pages.is_empty(), least);
                pages.push(page);
            } else if is_new {
                self.unsent.push_back(page);
            }
        }
        (!pages.is_empty()).then_some(Fetch { pages, at_least, number: 0, follow: None })
    }

    /// The next page that has waited for its turn to be asked for.
    pub(crate) fn next(&mut self, horizon: Horizon<'_>) -> Option<Turn> {
        let page = self.unsent.pop_front()?;
        let under_way = self.under_way.get_mut(&page)?;
        if under_way.wants.is_empty() {
            self.under_way.remove(&page);
            return Some(Turn::Unwanted(page));
        }
        let at_least = under_way.wants.iter().fold(horizon.counts.clone(), |all, want| all.joined(&want.at_least));
        (under_way.sent, under_way.is_prefetch, under_way.at_least) = (true, false, at_least.clone());
        under_way.wants.iter_mut().for_each(|want| want.is_asked_for = true);
        Some(Turn::Ask(Fetch { pages: alloc::vec![page], at_least, number: 0, follow: None }))
    }

    /// The node does not have the page that it was asked for. Returns whether it was.
    pub(crate) fn is_elsewhere(&mut self, page: PageId) -> bool {
        let under_way = self.under_way.get_mut(&page).filter(|under_way| under_way.sent);
        under_way.map(|under_way| under_way.sent = false).is_some()
    }

    /// Takes out the pages that are at another node, and asks again for those that waited to know theirs.
    pub(crate) fn take_strays(&mut self, is_there: impl Fn(PageId) -> bool) -> Vec<(PageId, UnderWay)> {
        self.unsent.retain(|&page| is_there(page));
        let parked = self.under_way.iter().filter(|(page, under_way)| !under_way.sent && is_there(**page));
        let parked: Vec<_> = parked.map(|(&page, _)| page).filter(|page| !self.unsent.contains(page)).collect();
        self.unsent.extend(parked);
        let strays: Vec<_> = self.under_way.keys().copied().filter(|&page| !is_there(page)).collect();
        strays.into_iter().filter_map(|page| Some((page, self.under_way.remove(&page)?))).collect()
    }

    /// A page is under way from here that was asked for elsewhere.
    pub(crate) fn take_in(&mut self, page: PageId, stray: UnderWay) {
        let under_way = self.under_way.entry(page);
        if matches!(under_way, MapEntry::Vacant(_)) {
            self.unsent.push_back(page);
        }
        let wants = stray.wants.into_iter().map(|want| Want { is_asked_for: false, ..want });
        under_way.or_default().wants.extend(wants);
    }

    /// Whether the store was asked for the page as one that must come.
    fn must_come(&self, page: PageId) -> bool {
        self.under_way.get(&page).is_some_and(|under_way| under_way.sent && !under_way.is_prefetch)
    }
}

/// The turn of a page that has waited to be asked for.
pub(crate) enum Turn {
    Ask(Fetch),
    /// Nobody wants it any more.
    Unwanted(PageId),
}

impl Redirector {
    /// A member wants pages.
    pub(crate) fn fetch(&mut self, now: Time, from: SessionId, fetch: Fetch) -> Result<(), Goodbye> {
        let Fetch { mut pages, at_least, number, follow: _ } = fetch;
        if pages.is_empty() || pages.len() > PAGES_PER_MESSAGE_MAX {
            let text = format!("expected a fetch of 1 to {PAGES_PER_MESSAGE_MAX} pages, got {}", pages.len());
            return Err(Goodbye::malformed(text));
        }
        self.nodes.check_named(&at_least, &self.members.believed(from), "a fetch")?;
        // A page that it was told to drop while it waited for it, it asks for again: one fetch of a page is
        // outstanding.
        for &page in &pages {
            self.forget_want(from, page);
        }
        let Some(outstanding) = self.members.fetches(from) else { return Ok(()) };
        let most = self.config.limits.fetches_per_session;
        let room = most.saturating_sub(*outstanding);
        if room == 0 {
            return Err(Goodbye::too_much(format!("expected at most {most} fetches at a time")));
        }
        let left_out = pages.split_off(pages.len().min(room));
        *outstanding += pages.len();
        self.stats.wanted += pages.len() as u64;
        let wants = pages.into_iter().enumerate().map(|(at, page)| Want {
            session: from,
            page,
            number,
            at_least: self.nodes.counts_for(page, &at_least),
            is_demand: at == 0,
            is_held: self.holders.holds(page, from),
            is_asked_for: false,
            tried: SmallVec::new(),
        });
        self.find_sources(now, wants.collect());
        for page in left_out {
            self.reply(from, LeftOut { page, number, damage: None });
        }
        Ok(())
    }

    /// A node has sent a page: it goes to all who wait for it.
    pub(crate) fn page(&mut self, now: Time, at: At, page: &Page) {
        let sharding = self.nodes.sharding();
        let Some(under_way) = self.nodes[at].fetches.arrive(page.page) else { return };
        let mut heard = if self.config.broken.is(Rule::HearAtLeast) { Vector::new() } else { under_way.at_least };
        heard.raise(sharding.of(page.page), page.version);
        self.nodes.heard_through(at, &heard);
        self.absent.note(page);
        self.answered(at, page.page);
        self.stats.from_store += 1;
        self.standby.install(page);
        let mut again = Vec::new();
        for want in under_way.wants {
            // It was fetched for others, and this one knows of more.
            if !self.nodes.horizon().reaches(&want.at_least) {
                again.push(want);
                continue;
            }
            // A member that has joined a fetch on its way learns of a store as it was when the first asked, or later.
            let fresh = page.fresh && (want.is_asked_for || self.config.broken.is(Rule::FreshSinceAsked));
            self.answer(want.session, Page { number: want.number, fresh, behind: Vec::new(), ..page.clone() });
        }
        self.ask_store(now, again);
        self.release_if_unheld(now, page.page);
        self.evict_standby(now);
    }

    /// The store has left a page out that was to be prefetched. A member that wants it at once waits on, and so does
    /// one that may have it: taken off the page it would not learn of its changes.
    pub(crate) fn left_out(&mut self, now: Time, at: At, left_out: &LeftOut) {
        let page = left_out.page;
        if let Some(why) = &left_out.damage {
            return self.is_damaged(at, page, why);
        }
        if self.nodes[at].fetches.must_come(page) {
            return self.has_too_many_absent(now, at, page);
        }
        let Some(under_way) = self.nodes[at].fetches.arrive(page) else { return };
        let must_come = |want: &Want| want.is_demand || self.may_have_come(want);
        let (awaited, prefetch): (Vec<_>, Vec<_>) = under_way.wants.into_iter().partition(must_come);
        for want in prefetch {
            self.unlist_left_out(&want);
            self.members.has_answered(want.session);
            self.reply(want.session, LeftOut { page, number: want.number, damage: None });
        }
        self.answered(at, page);
        // No release: should the page just have been granted to one of us, we would take that back.
        self.ask_store(now, awaited);
        if self.is_unheld(page) {
            self.nodes[at].lease.was_left_out(page);
        }
    }

    /// The store cannot read the page: all members that wait for it get the error. A member that may already have it
    /// from a peer stays listed, so that it receives changes.
    fn is_damaged(&mut self, at: At, page: PageId, why: &str) {
        let Some(under_way) = self.nodes[at].fetches.arrive(page) else { return };
        for want in under_way.wants {
            if !self.may_have_come(&want) {
                self.unlist_left_out(&want);
            }
            self.members.has_answered(want.session);
            self.reply(want.session, LeftOut { page, number: want.number, damage: Some(why.into()) });
        }
        self.answered(at, page);
        if self.is_unheld(page) {
            self.nodes[at].lease.was_left_out(page);
        }
    }

    /// The member does not get the page. If it was granted the page since it asked, it holds the page and stays listed.
    fn unlist_left_out(&mut self, want: &Want) {
        let is_granted = |client| self.grants.is_of(client, want.page) && !self.config.broken.is(Rule::ListGranted);
        if !want.is_held && !self.members.client(want.session).is_some_and(is_granted) {
            self.holders.release(want.page, want.session);
        }
    }

    /// Whether the member may have the page already: a peer was asked to send it, and that it has come is yet to be
    /// heard.
    fn may_have_come(&self, want: &Want) -> bool {
        !want.tried.is_empty() && !self.config.broken.is(Rule::ListHelped)
    }

    /// A member holds pages no longer.
    pub(crate) fn released(&mut self, now: Time, from: SessionId, released: &Released) -> Result<(), Goodbye> {
        let count = released.pages.len();
        if count > PAGES_PER_MESSAGE_MAX {
            let text = format!("expected a release of at most {PAGES_PER_MESSAGE_MAX} pages, got {count}");
            return Err(Goodbye::malformed(text));
        }
        let client = self.members.client(from);
        for &page in &released.pages {
            // A member that releases a page that has just been granted to it does not know of the grant yet: it means
            // an earlier generation of the page.
            let is_granted = client.is_some_and(|client| self.grants.is_of(client, page));
            if is_granted && !self.config.broken.is(Rule::KeepGranted) {
                continue;
            }
            // It waits for the page no more: it had it already, from whom it was asked of first.
            self.forget_want(from, page);
            self.holders.release(page, from);
            self.release_if_unheld(now, page);
        }
        Ok(())
    }

    /// The member waits for the page no more, or asks for it again.
    pub(crate) fn forget_want(&mut self, session: SessionId, page: PageId) {
        if self.nodes.of_mut(page).fetches.forget_want(session, page) | self.helps.forget(session, page) {
            self.members.has_answered(session);
        }
    }

    /// Lets go of the pages that the standby cache has no room for.
    fn evict_standby(&mut self, now: Time) {
        while let Some(page) = self.standby.evict() {
            self.release_if_unheld(now, page);
        }
    }
}
