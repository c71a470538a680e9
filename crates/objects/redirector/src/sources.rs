//! The choice of where a page should come from, and the request: to the standby cache, to a member, or to the store.

use crate::Redirector;
use crate::fetch::{Turn, Want};
use crate::nodes::Node;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use messages::{At, Help, Page};
use types::{PageId, Rule, SessionId, Time};

impl Redirector {
    /// Finds out for each of some pages that one member wants where it should come from.
    pub(crate) fn find_sources(&mut self, now: Time, wants: Vec<Want>) {
        let (mut helped, mut fetched) = (Vec::new(), Vec::new());
        for want in wants {
            let (page, session) = (want.page, want.session);
            if !self.config.broken.is(Rule::ListMemberFirst) {
                self.holders.list(page, session);
            }
            self.holders.unlist_whole(page, session);
            let is_recent = self.nodes.horizon().reaches(&want.at_least) || self.config.broken.is(Rule::HelpRecent);
            let standby = if is_recent { self.standby.whole(page, want.number) } else { None };
            if let Some(page) = standby {
                self.stats.from_standby += 1;
                self.answer(session, page);
            } else if let Some(helper) = self.helps.helper_for(&want, &self.holders).filter(|_| is_recent) {
                helped.push((helper, want));
            } else {
                fetched.push(want);
            }
        }
        self.ask_for_help(now, helped);
        self.ask_store(now, fetched);
    }

    /// Has pages fetched from the store, or waits with a fetch that is under way.
    pub(crate) fn ask_store(&mut self, now: Time, wants: Vec<Want>) {
        for want in &wants {
            self.nodes.of_mut(want.page).lease.ask(want.page);
        }
        if !self.nodes.are_several() {
            return self.ask_node(now, At::HOME, wants);
        }
        let mut by_node: BTreeMap<At, Vec<Want>> = BTreeMap::new();
        for want in wants {
            by_node.entry(self.nodes.places().of(want.page)).or_default().push(want);
        }
        for (at, wants) in by_node {
            self.ask_node(now, at, wants);
        }
    }

    fn ask_node(&mut self, now: Time, at: At, wants: Vec<Want>) {
        let room = if self.nodes[at].session.is_live() { self.room_for_fetches(at) } else { 0 };
        let room = room.min(self.config.limits.pages_per_message);
        let (Node { session, fetches, .. }, _) = self.nodes.parts(at);
        if let Some(fetch) = fetches.ask(wants, room, session.up.horizon(), &mut self.stats) {
            self.stats.fetches += 1;
            self.send_to(now, at, fetch);
        }
    }

    /// How many pages more a node may be asked for.
    fn room_for_fetches(&self, at: At) -> usize {
        let Node { session, fetches, .. } = &*self.nodes[at];
        (session.up.limits().fetches.max(1) as usize).saturating_sub(fetches.outstanding())
    }

    /// Asks the nodes for the pages that have waited for their turn.
    pub(crate) fn send_unsent(&mut self, now: Time) {
        for at in self.nodes.all() {
            self.send_unsent_to(now, at);
        }
    }

    fn send_unsent_to(&mut self, now: Time, at: At) {
        while self.nodes[at].session.is_live() && self.room_for_fetches(at) > 0 {
            let (Node { session, fetches, .. }, _) = self.nodes.parts(at);
            match fetches.next(session.up.horizon()) {
                None => return,
                Some(Turn::Unwanted(page)) => self.release_if_unheld(now, page),
                Some(Turn::Ask(fetch)) => {
                    self.stats.fetches += 1;
                    self.send_to(now, at, fetch);
                }
            }
        }
    }

    /// Asks members for pages that one of them wants: each for all of its part at once.
    pub(crate) fn ask_for_help(&mut self, now: Time, wants: Vec<(SessionId, Want)>) {
        let Some((_, first)) = wants.first() else { return };
        let (requester, number) = (first.session, first.number);
        let Some(client) = self.members.client(requester) else { return };
        self.flush_all(requester);
        let mut parts: BTreeMap<SessionId, Vec<PageId>> = BTreeMap::new();
        for (helper, want) in wants {
            parts.entry(helper).or_default().push(want.page);
            self.helps.ask(now, helper, want);
        }
        let through = self.nodes.horizon().counts.clone();
        for (helper, pages) in parts {
            let (address, key) = self.members.direct(now, requester, helper);
            self.stats.helps += pages.len() as u64;
            self.reply(helper, Help { requester: client, number, through: through.clone(), address, key, pages });
        }
    }

    /// Answers a member's fetch. From here on it has the page whole.
    pub(crate) fn answer(&mut self, session: SessionId, page: Page) {
        self.holders.list(page.page, session);
        self.holders.list_whole(page.page, session);
        self.members.has_answered(session);
        self.reply(session, page);
    }
}
