//! The pages that follow one that was fetched: those that the object which is read there refers to, those that the
//! objects in these refer to, and so on. Their reader is likely to want them next, and would ask for them one round
//! trip after the other.
//!
//! 1. The content of an object is the front end's to know. It says where one refers to ([`References`]).
//! 2. Pages follow in the order of how many others lie between; of those that one page leads to, the nearest in the
//!    space come first, because what is used together is created together.
//! 3. A following page is announced with the one that it follows, and listed as held by then. From there on its
//!    receiver waits for it as for what it has named itself.
//! 4. Only a page that the session does not hold follows: of another its receiver may just be letting go, and would
//!    come to have a page that it is not listed for.
//! 5. It is bounded by what the receiver takes, and by how much is looked at.

use crate::Master;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use messages::Follow;
use types::limits::{PAGE_BYTES_TARGET, PAGES_BEHIND_MAX, SLOTS_MAX};
use types::{ObjectId, ObjectPage, PageId, Rule, SessionId, SlotNo, SlotSet};

/// Tells where an object refers to, by the bytes of its slot. It only is a hint: a missing reference costs a round
/// trip, a wrong one a page sent in vain.
pub type References = fn(object: &[u8], found: &mut dyn FnMut(ObjectId));

/// The bytes that are looked at of the objects that one fetch leads to. An object counts for some in any case.
const LOOKED_AT_MAX: usize = 64 * 1024;
const OBJECT_COST: usize = 32;

/// A page beyond this size is one large object, which takes the room of several pages and leads to none: it comes last.
const LARGE_BYTES: usize = 2 * PAGE_BYTES_TARGET;

/// Pages that wait to be sent to one session because they follow others.
const WAITING_MAX: usize = 4 * PAGES_BEHIND_MAX;

/// A page that is here, and the objects in it that something refers to.
type Reached = (PageId, ObjectPage, Vec<SlotNo>);

impl Master {
    /// Finds what follows a page, and lists the session as its holder.
    pub(crate) fn follow(
        &mut self,
        session: SessionId,
        page: PageId,
        image: &ObjectPage,
        follow: Follow,
    ) -> Vec<PageId> {
        let mut behind = Vec::new();
        // The pages that a session holds are known when it has said so. A redirector has nothing follow: what its
        // members hold, it knows better.
        if !self.sessions.has_joined(session) || self.sessions.is_group(session) {
            return behind;
        }
        let mut bytes = (follow.bytes as usize).min(self.config.limits.answer_bytes);
        let mut looked_at = 0;
        let mut reached = VecDeque::from([(page, image.clone(), Vec::from([follow.slot]))]);
        while let Some(from) = reached.pop_front() {
            for (next, slots) in self.led_to(from, &mut looked_at) {
                let needed = self.pages.image_bytes_bound(next);
                if needed > bytes || behind.contains(&next) || !self.may_follow(session, next) {
                    continue;
                }
                if behind.len() == PAGES_BEHIND_MAX {
                    return behind;
                }
                bytes -= needed;
                self.list(session, next);
                behind.push(next);
                if let Some(image) = self.pages.image(next) {
                    reached.push_back((next, image, slots));
                }
            }
        }
        behind
    }

    /// The pages that some objects of a page lead to, the nearest first, and the objects there.
    fn led_to(&self, (page, image, slots): Reached, looked_at: &mut usize) -> Vec<(PageId, Vec<SlotNo>)> {
        let mut known: SlotSet = slots.iter().copied().filter(|slot| usize::from(*slot) < SLOTS_MAX).collect();
        let (mut here, mut next) = (VecDeque::from(slots), BTreeMap::<_, Vec<_>>::new());
        while let Some(slot) = here.pop_front()
            && *looked_at < LOOKED_AT_MAX
        {
            let Some(object) = image.get(slot) else { continue };
            *looked_at += object.len() + OBJECT_COST;
            (self.config.references)(object, &mut |ObjectId { page: of, slot }| {
                if usize::from(slot) >= SLOTS_MAX {
                    return;
                }
                if of != page {
                    next.entry(of).or_default().push(slot);
                } else if known.insert(slot) {
                    here.push_back(slot);
                }
            });
        }
        let mut next: Vec<_> = next.into_iter().collect();
        let is_large = |of| self.pages.image_bytes_bound(of) > LARGE_BYTES;
        next.sort_by_key(|(of, _)| (is_large(*of), of.space != page.space, of.number.abs_diff(page.number)));
        next
    }

    fn may_follow(&self, session: SessionId, page: PageId) -> bool {
        let is_held = self.pages.holds(page, session) && !self.config.broken.is(Rule::FollowUnheld);
        let has_room = self.sessions.following(session).is_some_and(|following| following < WAITING_MAX);
        !is_held
            && has_room
            && self.grants.counts(page)
            && !self.pages.is_empty(page)
            && self.pages.damage(page).is_none()
    }
}
