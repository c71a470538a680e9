//! The version cache at its worst: a change of 200 objects arrives before one that comes before it, on every page.

use crate::{Result, Sample};
use cache::Frame;
use messages::Invalidation;
use std::hint::black_box;
use std::time::Instant;
use types::{Broken, ClientId, ObjectPage, PageId, SlotChange, SlotSet, TxnId, Version};

/// As many as half of the objects that the paper's transaction changes.
const OBJECTS: u16 = 200;

/// Objects of about a hundred bytes on a page of 8 KiB, and the pages that hold all of them.
const OBJECTS_PER_PAGE: u16 = 50;
const PAGES: u16 = OBJECTS / OBJECTS_PER_PAGE;
const OBJECT_BYTES: usize = 100;

const TURNS: usize = 500;

/// How long it takes to apply the change out of sequence, to look every object's version up for a commit, and to apply
/// the change that was missing, on all pages. The median, in microseconds.
pub(crate) fn reordered_us() -> Result<f64> {
    let page = page()?;
    let mut sample = Sample::default();
    for _ in 0..TURNS {
        let mut frames: Vec<Frame> = (0..PAGES).map(|_| Frame::new(Version(1), page.clone())).collect();
        let missing = invalidation(1, 2, [0].into_iter().collect());
        let reordered = invalidation(2, 3, (0..OBJECTS_PER_PAGE).collect());
        let start = Instant::now();
        for frame in &mut frames {
            frame.apply(&reordered, Broken::NONE);
            for slot in 0..OBJECTS_PER_PAGE {
                black_box(frame.evidence(slot));
            }
            frame.apply(&missing, Broken::NONE);
        }
        sample.push(start.elapsed());
        if frames.iter().any(|frame| frame.version() != Version(3)) {
            return Err("a page has not reached the version that is whole".into());
        }
    }
    Ok(sample.micros(0.5))
}

fn page() -> Result<ObjectPage> {
    let change = |slot| SlotChange { slot, value: Some(vec![7; OBJECT_BYTES].into()) };
    let changes: Vec<_> = (0..OBJECTS_PER_PAGE).map(change).collect();
    Ok(ObjectPage::empty().with(&changes).map_err(|_| "a page is full")?)
}

/// An invalidation: the cost of copying values is not the version cache's.
fn invalidation(prev: u64, version: u64, slots: SlotSet) -> Invalidation {
    let txn = TxnId { client: ClientId(1), number: version };
    Invalidation { page: PageId::new(0, 1), prev: Version(prev), version: Version(version), slots, txn, data: None }
}
