//! Pages that do not exist, and are held all the same: a member that has looked for something there is told when it is
//! created.
//!
//! A store lists one session for this many of them, and all members are behind one. So when it takes no more, the
//! member that holds the most is sent away. It comes back without: the store tells a session that brings such pages to
//! drop them.

use crate::Redirector;
use crate::holders::Holders;
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{At, Page};
use types::{PageId, SessionId, Set, Time, Version};

/// The pages that did not exist when the store sent them, as long as they are held and nothing was created there.
#[derive(Debug, Default)]
pub(crate) struct Absent(Set<PageId>);

impl Absent {
    /// The store has sent a page: nothing was ever in one of version zero.
    pub(crate) fn note(&mut self, page: &Page) {
        if page.version == Version::ZERO {
            self.0.insert(page.page);
        }
    }

    /// Something was created in the page, or nobody holds it any more.
    pub(crate) fn forget(&mut self, page: PageId) {
        self.0.remove(&page);
    }

    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.0.contains(&page)
    }

    /// Of these members, the one that holds the most of them.
    fn most_held_by(&self, members: Vec<SessionId>, holders: &Holders) -> Option<SessionId> {
        let count = |member| holders.pages(member).filter(|page| self.contains(*page)).count();
        let counts = members.into_iter().map(|member| (count(member), member));
        counts.filter(|(count, _)| *count > 0).max().map(|(_, member)| member)
    }
}

impl Redirector {
    /// The store does not send a page that is wanted: it is none that exists, and the group holds too many of those.
    pub(crate) fn has_too_many_absent(&mut self, now: Time, at: At, page: PageId) {
        let Some(mut wants) = self.nodes[at].fetches.refused(page) else { return };
        for page in self.standby.remove_those(|page| self.absent.contains(page)) {
            self.release_if_unheld(now, page);
        }
        // Where nobody holds any, those who want more of them are the ones who have too many.
        let most = self.absent.most_held_by(self.members.all(), &self.holders);
        let greedy = most.map_or_else(|| wants.iter().map(|want| want.session).collect(), |most| alloc::vec![most]);
        for session in greedy {
            wants.retain(|want| want.session != session);
            let text = format!("expected fewer pages that do not exist: the group holds too many, got another, {page}");
            self.end(now, session, Goodbye::too_much(text));
        }
        self.ask_store(now, wants);
        self.release_if_unheld(now, page);
    }
}
