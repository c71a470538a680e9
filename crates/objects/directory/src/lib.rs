//! The holders of each page, who are notified of its changes.
//!
//! One component with two users: a master lists the sessions that hold its pages, a redirector lists its members. The
//! one promise: a holder that is listed and not released is found under the page and under the holder alike.
//! Invalidations to holders go by [`Streams`], their acknowledgements are counted in [`Acks`], the latest changes are
//! in [`Recent`].
#![no_std]

extern crate alloc;

mod acks;
mod recent;
mod streams;

pub use acks::Acks;
use core::hash::Hash;
pub use recent::{Recent, stale_slots};
use smallvec::SmallVec;
pub use streams::{Streams, Urgency};
use types::{Map, PageId, Set};

/// The holders of one page. Most pages have one or two, which are in place.
type Holders<H> = SmallVec<[H; 2]>;

/// Page -> holders and holder -> pages.
#[derive(Debug)]
pub struct Directory<H> {
    holders: Map<PageId, Holders<H>>,
    holdings: Map<H, Set<PageId>>,
}

impl<H> Default for Directory<H> {
    fn default() -> Self {
        Self { holders: Map::default(), holdings: Map::default() }
    }
}

impl<H: Copy + Eq + Hash> Directory<H> {
    /// Lists `holder` under `page`; says whether it is new there.
    pub fn list(&mut self, page: PageId, holder: H) -> bool {
        let new = self.holdings.entry(holder).or_default().insert(page);
        if new {
            self.holders.entry(page).or_default().push(holder);
        }
        new
    }

    /// Takes `holder` off `page`; says whether it was listed.
    pub fn release(&mut self, page: PageId, holder: H) -> bool {
        let Some(pages) = self.holdings.get_mut(&holder) else { return false };
        let listed = pages.remove(&page);
        if listed {
            self.strike(page, holder);
        }
        listed
    }

    /// Takes `holder` off all its pages.
    pub fn forget_holder(&mut self, holder: H) {
        for page in self.holdings.remove(&holder).into_iter().flatten() {
            self.strike(page, holder);
        }
    }

    /// Takes all holders off `page`.
    pub fn forget_page(&mut self, page: PageId) {
        for holder in self.holders.remove(&page).into_iter().flatten() {
            self.holdings.get_mut(&holder).expect("both sides list the same pairs").remove(&page);
        }
    }

    /// The holders of `page`, in no particular order.
    pub fn holders(&self, page: PageId) -> &[H] {
        self.holders.get(&page).map_or(&[], |holders| holders)
    }

    /// Every page that anybody holds, in no particular order.
    pub fn all_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.holders.keys().copied()
    }

    /// Whether `holder` is listed under `page`.
    pub fn holds(&self, page: PageId, holder: H) -> bool {
        self.holdings.get(&holder).is_some_and(|pages| pages.contains(&page))
    }

    /// The pages of `holder`, in no particular order.
    pub fn pages(&self, holder: H) -> impl Iterator<Item = PageId> + '_ {
        self.holdings.get(&holder).into_iter().flatten().copied()
    }

    /// How many pages `holder` is listed under.
    pub fn pages_held(&self, holder: H) -> usize {
        self.holdings.get(&holder).map_or(0, Set::len)
    }

    /// Removes one entry of the page's side. A page without holders takes no memory.
    fn strike(&mut self, page: PageId, holder: H) {
        let holders = self.holders.get_mut(&page).expect("a page that is held has holders");
        let at = holders.iter().position(|&h| h == holder).expect("both sides list the same pairs");
        holders.swap_remove(at);
        if holders.is_empty() {
            self.holders.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        List(u32, u8),
        Release(u32, u8),
        Forget(u8),
        ForgetPage(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..6u32, 0..4u8).prop_map(|(page, holder)| Op::List(page, holder)),
            2 => (0..6u32, 0..4u8).prop_map(|(page, holder)| Op::Release(page, holder)),
            1 => (0..4u8).prop_map(Op::Forget),
            1 => (0..6u32).prop_map(Op::ForgetPage),
        ]
    }

    fn page(number: u32) -> PageId {
        PageId::new(1, number)
    }

    proptest! {
        /// After any operations, a directory is the set of pairs that were listed and not taken off.
        #[test]
        fn behaves_like_a_set_of_pairs(ops in proptest::collection::vec(op(), 0..200)) {
            let (mut directory, mut model) = (Directory::default(), BTreeSet::new());
            for op in ops {
                match op {
                    Op::List(p, h) => prop_assert_eq!(directory.list(page(p), h), model.insert((p, h))),
                    Op::Release(p, h) => prop_assert_eq!(directory.release(page(p), h), model.remove(&(p, h))),
                    Op::Forget(h) => {
                        directory.forget_holder(h);
                        model.retain(|&(_, holder)| holder != h);
                    }
                    Op::ForgetPage(p) => {
                        directory.forget_page(page(p));
                        model.retain(|&(page, _)| page != p);
                    }
                }
                let mut pages: Vec<_> = directory.all_pages().map(|page| page.number).collect();
                pages.sort_unstable();
                let mut expected: Vec<_> = model.iter().map(|&(page, _)| page).collect();
                expected.dedup();
                prop_assert_eq!(pages, expected);
                for p in 0..6 {
                    let mut holders = directory.holders(page(p)).to_vec();
                    holders.sort_unstable();
                    let expected: Vec<_> = model.iter().filter(|(q, _)| *q == p).map(|&(_, h)| h).collect();
                    prop_assert_eq!(holders, expected);
                }
                for h in 0..4 {
                    let pages: BTreeSet<_> = directory.pages(h).map(|p| p.number).collect();
                    let expected: BTreeSet<_> = model.iter().filter(|(_, i)| *i == h).map(|&(p, _)| p).collect();
                    prop_assert_eq!(directory.pages_held(h), expected.len());
                    prop_assert_eq!(pages, expected);
                    prop_assert!((0..6).all(|p| directory.holds(page(p), h) == model.contains(&(p, h))));
                }
            }
        }
    }
}
