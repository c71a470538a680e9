//! Home images: those kept in memory, and the waiters for those that are being read.
//!
//! 1. An image here is the page's newest in the home.
//! 2. A page is read once however many wait for it.
//! 3. The newest image stays, whatever its size, so that those that waited for it find it.

use crate::outputs::{Output, Outputs};
use crate::queue::Ahead;
use crate::ticket::Ticket;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use messages::Follow;
use types::{Map, NodeId, ObjectPage, PageId, SessionId};

/// The use of an image that has been read.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// The page goes to this session, for the fetch with this number, and what is to follow it.
    Fetch(SessionId, u64, Option<Follow>),
    /// The page goes to this session, where no request waits for it yet.
    Ahead(SessionId, Ahead),
    /// The commit's size can be checked.
    Commit(Ticket),
    /// The page can be written back.
    WriteBack,
    /// A copy of the page goes to this node.
    Copy(NodeId),
}

#[derive(Debug)]
struct Cached {
    image: ObjectPage,
    /// Used since the hand passed: it is passed over once more.
    used: bool,
}

/// The images. Replacement is second chance: a page that was used since it was last looked at stays for another round.
#[derive(Debug)]
pub(crate) struct Images {
    cached: Map<PageId, Cached>,
    clock: VecDeque<PageId>,
    bytes: usize,
    limit: usize,
    waiting: Map<PageId, Vec<Waiter>>,
}

impl Images {
    pub(crate) fn new(limit: usize) -> Self {
        Self { cached: Map::default(), clock: VecDeque::new(), bytes: 0, limit, waiting: Map::default() }
    }

    /// The image of `page`, if it is in memory.
    pub(crate) fn get(&mut self, page: PageId) -> Option<&ObjectPage> {
        let cached = self.cached.get_mut(&page)?;
        cached.used = true;
        Some(&cached.image)
    }

    /// Takes in what was read, after making room for it.
    pub(crate) fn insert(&mut self, page: PageId, image: ObjectPage) {
        if !self.replace(page, &image) {
            self.make_room(image.len());
            self.bytes += image.len();
            self.cached.insert(page, Cached { image, used: false });
            self.clock.push_back(page);
        }
    }

    /// The home has another image, which is not at hand: none is kept.
    pub(crate) fn remove(&mut self, page: PageId) {
        if let Some(cached) = self.cached.remove(&page) {
            self.bytes -= cached.image.len();
            self.clock.retain(|other| *other != page);
        }
    }

    /// The home has a newer image: it takes the place of one that is kept. Returns whether there is one.
    pub(crate) fn replace(&mut self, page: PageId, image: &ObjectPage) -> bool {
        let Some(cached) = self.cached.get_mut(&page) else { return false };
        let old = core::mem::replace(&mut cached.image, image.clone());
        self.bytes = self.bytes - old.len() + image.len();
        true
    }

    /// Waits for pages of the home, and asks for those that no request waits for yet.
    pub(crate) fn wait(&mut self, waiters: impl IntoIterator<Item = (PageId, Waiter)>, out: &mut Outputs) {
        let mut read = Vec::new();
        for (page, waiter) in waiters {
            let waiting = self.waiting.entry(page).or_default();
            if waiting.is_empty() {
                read.push(page);
            }
            waiting.push(waiter);
        }
        if !read.is_empty() {
            out.push(Output::Read(read));
        }
    }

    /// The waiters for `page`; they wait no longer.
    pub(crate) fn take_waiters(&mut self, page: PageId) -> Vec<Waiter> {
        self.waiting.remove(&page).unwrap_or_default()
    }

    /// The commits that wait for a page.
    pub(crate) fn waiting_commits(&self) -> impl Iterator<Item = &Ticket> {
        self.waiting.values().flatten().filter_map(|waiter| match waiter {
            Waiter::Commit(ticket) => Some(ticket),
            Waiter::Fetch(..) | Waiter::Ahead(..) | Waiter::WriteBack | Waiter::Copy(_) => None,
        })
    }

    /// Takes out the commits that are meant. Their pages are read all the same.
    pub(crate) fn take_waiting_commits(&mut self, is_meant: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        let mut taken = Vec::new();
        for waiters in self.waiting.values_mut() {
            for waiter in core::mem::take(waiters) {
                match waiter {
                    Waiter::Commit(ticket) if is_meant(&ticket) => taken.push(ticket),
                    other => waiters.push(other),
                }
            }
        }
        taken
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.limit
            && let Some(page) = self.clock.pop_front()
        {
            let cached = self.cached.get_mut(&page).expect("the clock shows what is cached");
            if core::mem::take(&mut cached.used) {
                self.clock.push_back(page);
            } else {
                self.bytes -= cached.image.len();
                self.cached.remove(&page);
            }
        }
    }
}
