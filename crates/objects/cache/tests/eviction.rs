//! Eviction: the cache's bound in bytes, what is pinned, and what a scan may not push out.

use bytes::Bytes;
use cache::{Cache, FRAME_OVERHEAD_BYTES};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use types::{Broken, ObjectPage, PageId, SlotChange, Version};

fn page(number: u32) -> PageId {
    PageId::new(1, number)
}

fn image(bytes: usize) -> ObjectPage {
    ObjectPage::empty().with(&[SlotChange { slot: 0, value: Some(Bytes::from(vec![7; bytes])) }]).unwrap()
}

/// Touches a page as a transaction does; says whether it was there.
fn read(cache: &mut Cache, number: u32, bytes: usize) -> bool {
    let hit = cache.find(page(number)).is_some();
    if !hit {
        cache.install(page(number), Version(1), image(bytes), &[]);
        while cache.evict().is_some() {}
    }
    if let Some(frame) = cache.find(page(number)) {
        cache.count_use(frame);
    }
    hit
}

/// Numbers that look random and are always the same.
fn numbers(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % below
    }
}

#[test]
fn a_scan_does_not_push_out_what_is_used_again() {
    const PAGES: usize = 100;
    let mut cache = Cache::new(PAGES * (image(1000).len() + FRAME_OVERHEAD_BYTES), Broken::NONE);
    let (mut fifo, mut in_fifo) = (VecDeque::new(), BTreeSet::new());
    let (mut hits, mut fifo_hits, mut reads) = (0, 0, 0);
    let mut random = numbers(1);
    // Ten reads of a hot set that fits, then ten of a scan that never comes back.
    for step in 0..20_000u32 {
        let is_hot = step % 20 < 10;
        let number = if is_hot { random(60) } else { 1000 + step };
        let hit = read(&mut cache, number, 1000);
        let fifo_hit = !in_fifo.insert(number);
        if !fifo_hit {
            fifo.push_back(number);
            if fifo.len() > PAGES {
                in_fifo.remove(&fifo.pop_front().unwrap());
            }
        }
        if is_hot && step > 2000 {
            reads += 1;
            hits += u32::from(hit);
            fifo_hits += u32::from(fifo_hit);
        }
    }
    let (rate, fifo_rate) = (f64::from(hits) / f64::from(reads), f64::from(fifo_hits) / f64::from(reads));
    assert!(rate > 0.99 && fifo_rate < 0.8, "the hot set hits {rate:.3}, in a plain FIFO {fifo_rate:.3}");
}

#[test]
fn a_page_that_comes_back_soon_after_it_left_stays() {
    let mut cache = Cache::new(20 * (image(1000).len() + FRAME_OVERHEAD_BYTES), Broken::NONE);
    (0..30).for_each(|number| assert!(!read(&mut cache, number, 1000)));
    assert!(!read(&mut cache, 3, 1000), "it had left");
    (100..200).for_each(|number| assert!(!read(&mut cache, number, 1000)));
    assert!(read(&mut cache, 3, 1000), "it was remembered, and is not pushed out again");
}

#[derive(Clone, Debug)]
enum Step {
    Read(u32, usize),
    Pin(u32, bool),
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40u32, 0..3000usize).prop_map(|(number, bytes)| Step::Read(number, bytes)),
        2 => (0..40u32, any::<bool>()).prop_map(|(number, pinned)| Step::Pin(number, pinned)),
        1 => (0..40u32).prop_map(Step::Remove),
    ]
}

proptest! {
    /// The bytes are what the frames take, within the bound unless pinned pages alone pass it, and pinned pages stay.
    #[test]
    fn the_bound_holds(steps in proptest::collection::vec(step(), 0..200)) {
        let limit = 15_000;
        let mut cache = Cache::new(limit, Broken::NONE);
        let mut pinned = BTreeSet::new();
        for step in steps {
            match step {
                Step::Read(number, bytes) => { read(&mut cache, number, bytes); }
                Step::Pin(number, true) if cache.get(page(number)).is_some() => {
                    cache.pin(page(number), true);
                    pinned.insert(number);
                }
                Step::Pin(number, _) => {
                    cache.pin(page(number), false);
                    pinned.remove(&number);
                }
                Step::Remove(number) => {
                    cache.remove(page(number));
                    pinned.remove(&number);
                }
            }
            while cache.evict().is_some() {}
            let size = |number| cache.get(page(number)).map_or(0, |frame| frame.page().len() + FRAME_OVERHEAD_BYTES);
            let pinned_bytes: usize = pinned.iter().copied().map(size).sum();
            prop_assert_eq!(cache.bytes(), (0..40).map(size).sum::<usize>());
            prop_assert!(cache.bytes() <= limit.max(pinned_bytes));
            prop_assert!(pinned.iter().all(|&number| cache.get(page(number)).is_some()));
            prop_assert_eq!(cache.len(), cache.frames().count());
        }
    }
}
