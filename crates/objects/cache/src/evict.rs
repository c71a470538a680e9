//! The choice of the frame that leaves when room is needed: S3-FIFO (Yang et al., SOSP 2023), counted in bytes.
//!
//! ```text
//!   new ----> small (a tenth) --- used again ---> main --- used since ---> main again
//!                 |                                 |
//!                 +--- not used again ---> ghost    +--- not used ---> out
//!                                            |
//!   new, and remembered by the ghost --------+--------------------> main
//! ```
//! Pages that are read once, as by a scan, pass through the small queue and never disturb the main one. A use is the
//! first touch by a transaction, not each read: a scan that reads all hundred objects of a page has used it once.

use alloc::collections::VecDeque;
use types::{PageId, Set};

/// Uses are counted up to this.
const USES_MAX: u8 = 3;

/// Uses after which a page has been used again; the first is the one that it was fetched for.
const USES_TO_STAY: u8 = 2;

/// Fewest pages that the ghost remembers.
const GHOST_PAGES_MIN: usize = 64;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

/// A frame's place in the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    queue: Queue,
    uses: u8,
    pinned: bool,
    claimed: bool,
    bytes: u32,
    newer: u32,
    older: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { queue: Queue::Small, uses: 0, pinned: false, claimed: false, bytes: 0, newer: NONE, older: NONE }
    }
}

impl Place {
    /// A transaction has touched the frame.
    pub(crate) fn count_use(&mut self) {
        self.uses = (self.uses + 1).min(USES_MAX);
    }

    /// Whether the frame stays, and so is in no queue.
    fn stays(&self) -> bool {
        self.pinned || self.claimed
    }
}

/// The queues run through a table of places, one for each frame number.
pub(crate) trait Places {
    fn place(&mut self, frame: u32) -> &mut Place;
}

#[derive(Debug)]
struct List {
    newest: u32,
    oldest: u32,
    bytes: usize,
}

impl List {
    const EMPTY: Self = Self { newest: NONE, oldest: NONE, bytes: 0 };
}

#[derive(Debug)]
pub(crate) struct Queues {
    small: List,
    main: List,
    /// The bytes of pinned and claimed frames, which are in no queue.
    pinned_bytes: usize,
    frames: usize,
    ghost: VecDeque<PageId>,
    ghosts: Set<PageId>,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self {
            small: List::EMPTY,
            main: List::EMPTY,
            pinned_bytes: 0,
            frames: 0,
            ghost: VecDeque::new(),
            ghosts: Set::default(),
        }
    }

    /// The bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes + self.pinned_bytes
    }

    /// Takes in a new frame.
    pub(crate) fn enter(&mut self, places: &mut impl Places, frame: u32, page: PageId, bytes: usize) {
        let queue = if self.ghosts.remove(&page) { Queue::Main } else { Queue::Small };
        *places.place(frame) = Place { queue, bytes: bytes as u32, ..Place::default() };
        self.frames += 1;
        self.push(places, frame);
    }

    /// The frame is gone.
    pub(crate) fn leave(&mut self, places: &mut impl Places, frame: u32) {
        self.unlink(places, frame);
        self.frames -= 1;
    }

    /// The frame has another size now.
    pub(crate) fn resize(&mut self, places: &mut impl Places, frame: u32, bytes: usize) {
        let before = core::mem::replace(&mut places.place(frame).bytes, bytes as u32) as usize;
        let sum = self.sum(places.place(frame));
        *sum = *sum + bytes - before;
    }

    /// A pinned frame is in no queue, so it does not leave. When it is unpinned it is the newest of its queue.
    pub(crate) fn pin(&mut self, places: &mut impl Places, frame: u32, pinned: bool) {
        self.keep(places, frame, |place| place.pinned = pinned);
    }

    /// The same for another reason: one does not end with the other.
    pub(crate) fn claim(&mut self, places: &mut impl Places, frame: u32, claimed: bool) {
        self.keep(places, frame, |place| place.claimed = claimed);
    }

    fn keep(&mut self, places: &mut impl Places, frame: u32, keep: impl FnOnce(&mut Place)) {
        let mut place = *places.place(frame);
        keep(&mut place);
        let (pinned, claimed) = (place.pinned, place.claimed);
        if place.stays() == places.place(frame).stays() {
            (places.place(frame).pinned, places.place(frame).claimed) = (pinned, claimed);
            return;
        }
        self.unlink(places, frame);
        (places.place(frame).pinned, places.place(frame).claimed) = (pinned, claimed);
        self.push(places, frame);
    }

    /// The frame that should leave next, if any may; it stays in its queue until [`Queues::leave`].
    pub(crate) fn victim(&mut self, places: &mut impl Places) -> Option<u32> {
        // Each round ends the search, moves a frame from the small queue to the main one, or takes a use from one.
        loop {
            let small_is_full = self.small.bytes * 10 > self.bytes() || self.main.oldest == NONE;
            let from_small = small_is_full && self.small.oldest != NONE;
            let frame = if from_small { self.small.oldest } else { self.main.oldest };
            if frame == NONE {
                return None;
            }
            let place = *places.place(frame);
            let (uses_to_stay, uses_left) =
                if from_small { (USES_TO_STAY, 0) } else { (1, place.uses.saturating_sub(1)) };
            if place.uses < uses_to_stay {
                return Some(frame);
            }
            self.unlink(places, frame);
            let place = places.place(frame);
            (place.queue, place.uses) = (Queue::Main, uses_left);
            self.push(places, frame);
        }
    }

    /// Remembers a page that left from the small queue.
    pub(crate) fn remember(&mut self, places: &mut impl Places, frame: u32, page: PageId) {
        if places.place(frame).queue == Queue::Small && self.ghosts.insert(page) {
            self.ghost.push_back(page);
        }
        while self.ghost.len() > self.frames.max(GHOST_PAGES_MIN) {
            let forgotten = self.ghost.pop_front().expect("longer than its least length");
            self.ghosts.remove(&forgotten);
        }
    }

    /// The bytes of the queue that the frame is in.
    fn sum(&mut self, place: &Place) -> &mut usize {
        match (place.stays(), place.queue) {
            (true, _) => &mut self.pinned_bytes,
            (_, Queue::Small) => &mut self.small.bytes,
            (_, Queue::Main) => &mut self.main.bytes,
        }
    }

    fn list(&mut self, queue: Queue) -> &mut List {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    fn push(&mut self, places: &mut impl Places, frame: u32) {
        let place = *places.place(frame);
        *self.sum(&place) += place.bytes as usize;
        if place.stays() {
            return;
        }
        let list = self.list(place.queue);
        let before = core::mem::replace(&mut list.newest, frame);
        if before == NONE {
            list.oldest = frame;
        } else {
            places.place(before).newer = frame;
        }
        let place = places.place(frame);
        (place.older, place.newer) = (before, NONE);
    }

    fn unlink(&mut self, places: &mut impl Places, frame: u32) {
        let place = *places.place(frame);
        *self.sum(&place) -= place.bytes as usize;
        if place.stays() {
            return;
        }
        let list = self.list(place.queue);
        if place.newer == NONE {
            list.newest = place.older;
        }
        if place.older == NONE {
            list.oldest = place.newer;
        }
        if place.newer != NONE {
            places.place(place.newer).older = place.older;
        }
        if place.older != NONE {
            places.place(place.older).newer = place.newer;
        }
    }
}
