//! The objects that a transaction has read already, at hand for the thread that runs it: to read one again takes no
//! lock.
//!
//! The lock costs more than a look at the value, and whatever waits behind it cannot begin before: two reads of values
//! that are far away in memory then take as long as both one after the other.
//!
//! 1. A slot here is one that the transaction has read and not written, with the value that it read. To read it again
//!    tells the transaction nothing that it does not know, so there is nothing to prove and nothing to note.
//! 2. Every change of the transaction out of its running state raises its stale flag. A raised flag hides everything
//!    that is here: the next read asks the client, which says what has happened.
//! 3. So does a hole made in a page that it has touched: a value that must not be read is not read again either.
//! 4. Pages are kept alive by being here, so a page of the transaction that leaves the cache raises the flag too, and
//!    there is a bound on what is here besides.

use crate::workspace::Touched;
use alloc::sync::Arc;
use cache::Frame;
use core::sync::atomic::{AtomicBool, Ordering};
use types::{Map, ObjectId, ObjectPage, PageId, SlotNo, SlotSet};

/// The bytes of page images that one transaction keeps at hand. When there would be more, it begins again: an object
/// that is read again soon is back soon.
const SEEN_BYTES_MAX: usize = 16 << 20;

/// The objects that a transaction has read already; see [`crate::Client::hit`]. They belong to one transaction.
#[derive(Debug, Default)]
pub struct Seen {
    /// The transaction's, once there is something here.
    stale: Option<StaleFlag>,
    pages: Map<PageId, SeenPage>,
    bytes: usize,
}

#[derive(Debug)]
struct SeenPage {
    slots: SlotSet,
    image: ObjectPage,
}

/// Tells the thread that runs a transaction that something has happened to it. Raised and lowered under the client's
/// lock, read without it.
///
/// Nothing is handed over with it, so the order of memory is no concern: a thread that has learned of a change by other
/// ways has learned of the flag by these.
#[derive(Clone, Debug, Default)]
pub(crate) struct StaleFlag(Arc<AtomicBool>);

impl StaleFlag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn lower(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Seen {
    /// The value of an object, if the transaction has read it, has not written to its page since, and may still run.
    #[inline]
    pub fn get(&mut self, object: ObjectId) -> Option<&[u8]> {
        if self.stale.as_ref()?.is_raised() {
            self.clear();
            return None;
        }
        let page = self.pages.get(&object.page)?;
        if page.slots.contains(object.slot) { page.image.get(object.slot) } else { None }
    }

    /// The transaction is about to write to this page, and will read its own writes.
    pub fn forget(&mut self, page: PageId) {
        if let Some(page) = self.pages.remove(&page) {
            self.bytes -= page.image.len();
        }
    }

    /// Puts a page here, as far as the transaction has read and not written it; `frame` is the page that it has read.
    /// The flag is the transaction's, which is running.
    pub(crate) fn keep(&mut self, stale: &StaleFlag, touched: &Touched, frame: &Frame) {
        let image = frame.page();
        self.forget(touched.page);
        if stale.is_raised() || self.bytes + image.len() > SEEN_BYTES_MAX {
            self.clear();
        }
        stale.lower();
        self.stale.get_or_insert_with(|| stale.clone());
        let slots = if frame.is_complete() && !touched.has_writes() {
            touched.reads().clone()
        } else {
            let stands = |&slot: &SlotNo| !frame.is_hole(slot) && touched.written(slot).is_none();
            touched.reads().iter().filter(stands).collect()
        };
        self.bytes += image.len();
        self.pages.insert(touched.page, SeenPage { slots, image: image.clone() });
    }

    fn clear(&mut self) {
        self.pages.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;
    use alloc::vec;
    use bytes::Bytes;
    use types::{SlotChange, Version};

    const IMAGE_BYTES: usize = 60_000;

    /// A page with two objects, of which the transaction has read the first.
    fn page() -> Frame {
        let put = |slot, len| SlotChange { slot, value: Some(Bytes::from(vec![7; len])) };
        Frame::new(Version(1), ObjectPage::empty().with(&[put(0, IMAGE_BYTES), put(1, 1)]).unwrap())
    }

    fn read(workspace: &mut Workspace, number: u32) -> usize {
        let place = workspace.touch(PageId::new(0, number), None).unwrap();
        workspace.mark_read(place, 0);
        place
    }

    fn has(seen: &mut Seen, number: u32, slot: u16) -> bool {
        seen.get(ObjectId::new(PageId::new(0, number), slot)).is_some()
    }

    #[test]
    fn only_what_was_read_is_here_and_a_stale_flag_hides_it() {
        let (mut seen, mut workspace, stale) = (Seen::default(), Workspace::default(), StaleFlag::default());
        let (one, two) = (read(&mut workspace, 1), read(&mut workspace, 2));
        assert!(!has(&mut seen, 1, 0));
        seen.keep(&stale, workspace.at(one), &page());
        assert_eq!([(1, 0), (1, 1), (2, 0)].map(|(page, slot)| has(&mut seen, page, slot)), [true, false, false]);
        stale.raise();
        assert!(!has(&mut seen, 1, 0));
        seen.keep(&stale, workspace.at(two), &page());
        assert_eq!([1, 2].map(|page| has(&mut seen, page, 0)), [false, true], "the flag hides what was here before it");
    }

    #[test]
    fn a_written_or_stale_object_is_not_here() {
        let (mut seen, mut workspace, stale) = (Seen::default(), Workspace::default(), StaleFlag::default());
        let place = read(&mut workspace, 1);
        seen.keep(&stale, workspace.at(place), &page());
        seen.forget(PageId::new(0, 1));
        assert!(!has(&mut seen, 1, 0));
        workspace.mark_read(place, 1);
        workspace.write(place, 0, None, page().page()).unwrap().unwrap();
        seen.keep(&stale, workspace.at(place), &page());
        assert_eq!([0, 1].map(|slot| has(&mut seen, 1, slot)), [false, true]);
        let mut punctured = page();
        punctured.puncture(&[1].into_iter().collect());
        seen.keep(&stale, workspace.at(place), &punctured);
        assert!(!has(&mut seen, 1, 1), "a hole");
    }

    #[test]
    fn the_bytes_are_bounded() {
        let (mut seen, mut workspace, stale) = (Seen::default(), Workspace::default(), StaleFlag::default());
        for number in 0..1000 {
            let place = read(&mut workspace, number);
            for _ in 0..2 {
                seen.keep(&stale, workspace.at(place), &page());
            }
            let bytes: usize = seen.pages.values().map(|page| page.image.len()).sum();
            assert!(bytes == seen.bytes && bytes <= SEEN_BYTES_MAX && has(&mut seen, number, 0));
        }
        assert!(!has(&mut seen, 0, 0));
    }
}
