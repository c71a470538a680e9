//! Pages that go from member to member (BuddyCache paper, section 4.3), and the next step when one does not come.
//!
//! ```text
//!   asked --Arrived--> done
//!     |----NoHelp, or the helper is gone---> the next whole copy, else the store
//!     +----nothing in time-----------------> the same; the helper is not asked again until it is heard of
//! ```
//! 1. Of those who have the page whole the one with the least to do is asked.
//! 2. Requester and helper are notified of the same before: the page reflects just that, and the requester hears the
//!    rest.
//! 3. A copy that was made of a page which became incomplete in the meantime is not whole.

use crate::Redirector;
use crate::fetch::Want;
use crate::holders::Holders;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use messages::{Arrived, NoHelp, PeerPage};
use types::{Map, PageId, Rule, SessionId, Set, Time};

/// A page that a member was asked to send to another.
#[derive(Debug)]
struct Asked {
    want: Want,
    helper: SessionId,
    /// Tells this request from others for the same page and member.
    turn: u64,
    /// The page has become incomplete since it was asked for.
    is_spoiled: bool,
}

/// The requests for help.
#[derive(Debug)]
pub(crate) struct Helps {
    asked: BTreeMap<(PageId, SessionId), Asked>,
    /// When each is late, in order: all have equally long.
    due: VecDeque<(Time, PageId, SessionId, u64)>,
    /// How many pages each member was asked for and has not sent.
    load: Map<SessionId, usize>,
    /// Members that let a request go by.
    stalled: Set<SessionId>,
    turns: u64,
    within: Duration,
}

impl Helps {
    pub(crate) fn new(within: Duration) -> Self {
        Self {
            asked: BTreeMap::new(),
            due: VecDeque::new(),
            load: Map::default(),
            stalled: Set::default(),
            turns: 0,
            within,
        }
    }

    /// The page has become incomplete: copies of it that are on their way are not whole.
    pub(crate) fn spoil(&mut self, page: PageId) {
        for asked in self.asked.range_mut((page, SessionId(0))..=(page, SessionId(u64::MAX))) {
            asked.1.is_spoiled = true;
        }
    }

    /// A member shows that it lives.
    pub(crate) fn hear(&mut self, session: SessionId) {
        self.stalled.remove(&session);
    }

    /// When the next request is late.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.front().map(|(due, ..)| *due)
    }

    /// How many pages are on their way between members.
    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }

    /// The number of pages that the member was asked for and has not sent.
    pub(crate) fn load(&self, session: SessionId) -> usize {
        self.load.get(&session).copied().unwrap_or(0)
    }

    pub(crate) fn ask(&mut self, now: Time, helper: SessionId, want: Want) {
        self.turns += 1;
        let (key, turn) = ((want.page, want.session), self.turns);
        self.due.push_back((now + self.within, want.page, want.session, turn));
        *self.load.entry(helper).or_default() += 1;
        self.asked.insert(key, Asked { want, helper, turn, is_spoiled: false });
    }

    fn take(&mut self, key: (PageId, SessionId)) -> Option<Asked> {
        let asked = self.asked.remove(&key)?;
        if let Some(load) = self.load.get_mut(&asked.helper) {
            *load = load.saturating_sub(1);
        }
        Some(asked)
    }

    /// A request that is late, if there is one. Its helper is not asked again until it is learned of.
    fn pop_late(&mut self, now: Time) -> Option<Asked> {
        while let Some(&(due, page, session, turn)) = self.due.front()
            && due <= now
        {
            self.due.pop_front();
            if self.asked.get(&(page, session)).is_some_and(|asked| asked.turn == turn) {
                let asked = self.take((page, session))?;
                self.stalled.insert(asked.helper);
                return Some(asked);
            }
        }
        None
    }

    /// The member to ask for a page: of those that have it whole and were not asked before, the one with the least to
    /// do.
    pub(crate) fn helper_for(&self, want: &Want, holders: &Holders) -> Option<SessionId> {
        let can_help = |helper: &&SessionId| {
            **helper != want.session && !want.tried.contains(helper) && !self.stalled.contains(*helper)
        };
        let helpers = holders.whole_of(want.page).iter().filter(can_help);
        helpers.copied().min_by_key(|&helper| (self.load(helper), helper))
    }

    /// The page has come to the member that it was to be sent to by this fetch of its; gives the request.
    fn arrived(&mut self, page: PageId, member: SessionId, number: u64) -> Option<Asked> {
        self.asked.get(&(page, member)).filter(|asked| asked.want.number == number)?;
        self.take((page, member))
    }

    /// The helper does not have the page that it was asked for; gives the want that remains.
    fn refused(&mut self, key: (PageId, SessionId), helper: SessionId, number: u64) -> Option<Want> {
        self.asked.get(&key).filter(|asked| asked.helper == helper && asked.want.number == number)?;
        self.take(key).map(without_help)
    }

    /// Whether the page should be sent to the member, in answer to this fetch of its.
    fn is_asked(&self, page: PageId, member: SessionId, number: u64) -> bool {
        self.asked.get(&(page, member)).is_some_and(|asked| asked.want.number == number)
    }

    /// The member wants the page no more; says whether it was to be sent by another.
    pub(crate) fn forget(&mut self, member: SessionId, page: PageId) -> bool {
        self.take((page, member)).is_some()
    }

    /// The requests to a member, and those for it.
    fn of(&self, member: SessionId) -> Vec<(PageId, SessionId)> {
        let concerned = self.asked.iter().filter(|(key, asked)| asked.helper == member || key.1 == member);
        concerned.map(|(key, _)| *key).collect()
    }
}

impl Redirector {
    /// Pages have arrived that peers sent.
    pub(crate) fn arrived(&mut self, from: SessionId, arrived: &Arrived) {
        for &(page, number) in &arrived.pages {
            let Some(asked) = self.helps.arrived(page, from, number) else {
                self.came_late(page, from, number);
                continue;
            };
            self.stats.from_peers += 1;
            self.members.has_answered(from);
            self.holders.list(page, from);
            if !asked.is_spoiled {
                self.holders.list_whole(page, from);
            }
        }
    }

    /// The page has come after the store was asked for it: the member waits for it no more, and may ask for others.
    /// Whether it is whole is not known, as changes in the meantime were not watched.
    fn came_late(&mut self, page: PageId, session: SessionId, number: u64) {
        if !self.config.broken.is(Rule::CountLateHelp)
            && self.nodes.of_mut(page).fetches.forget_fetch(page, session, number)
        {
            self.members.has_answered(session);
        }
    }

    /// A member does not have pages whole that it was asked for.
    pub(crate) fn no_help(&mut self, now: Time, helper: SessionId, no_help: NoHelp) {
        let NoHelp { requester, number, pages } = no_help;
        let mut wants = Vec::new();
        for page in pages {
            self.holders.unlist_whole(page, helper);
            let Some(session) = self.members.session(requester) else { continue };
            wants.extend(self.helps.refused((page, session), helper, number));
        }
        self.stats.refused_help += wants.len() as u64;
        self.find_sources(now, wants);
    }

    /// A helper that does not reach a member directly sends its page this way.
    pub(crate) fn relay(&mut self, page: PeerPage) {
        let Some(session) = self.members.session(page.requester) else { return };
        if self.helps.is_asked(page.page.page, session, page.page.number) {
            self.stats.relayed += 1;
            self.reply(session, page);
        }
    }

    /// A page that was asked for and has not come in time is asked of others.
    pub(crate) fn ask_others(&mut self, now: Time) {
        while let Some(asked) = self.helps.pop_late(now) {
            self.stats.late_help += 1;
            self.members.take_detour(now, asked.want.session, asked.helper);
            self.find_sources(now, alloc::vec![without_help(asked)]);
        }
    }

    /// A member is gone: pages that it was asked for are asked of others, pages that it has asked for are of no
    /// interest.
    pub(crate) fn helper_is_gone(&mut self, now: Time, gone: SessionId) {
        self.helps.hear(gone);
        for key in self.helps.of(gone) {
            let Some(asked) = self.helps.take(key) else { continue };
            if asked.want.session != gone {
                self.find_sources(now, alloc::vec![without_help(asked)]);
            }
        }
        self.helps.load.remove(&gone);
    }
}

/// The want that remains after a helper has not helped.
fn without_help(asked: Asked) -> Want {
    let Asked { mut want, helper, .. } = asked;
    want.tried.push(helper);
    want
}
