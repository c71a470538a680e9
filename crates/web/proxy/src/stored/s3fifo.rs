//! Which stored responses leave when space is short: S3-FIFO (Yang et al., SOSP 2023), by bytes.
//!
//! ```text
//!   new -----------> small (a tenth) --- used again? ---> main ---- not used: evicted
//!     \                   |                                ^  \
//!      \                  | not used: evicted              |   +-- used: to its begin, counted down
//!       \                 v                                |
//!        +---- known? - ghost (fingerprints alone) --------+
//! ```
//! A use is a count in the entry's [`Meter`], up to three, and touches nothing that others wait for. Most entries of
//! web caches are never used again: they pass through the small queue and displace nothing that is.
//!
//! Both queues are lists through one array of nodes, 16 bytes for each entry, so that one leaves at once wherever it
//! is.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// The share of the memory that entries have before they have been used, as a divisor.
const SMALL_SHARE: usize = 10;

/// Uses are counted up to here.
const USES_MAX: u8 = 3;

/// Uses in the small queue from which on an entry moves to the main one.
const USES_TO_STAY: u8 = 2;

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// An entry, as eviction sees it.
pub(crate) trait Queued {
    /// Its place and its uses.
    fn meter(&self) -> &Meter;
    /// Its share of the memory; always the same.
    fn bytes(&self) -> usize;
}

/// The part of an entry that the queues keep in it.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Its node. Read and written by whoever has the queues.
    node: AtomicU32,
    /// Its number, counted round.
    number: u16,
    is_main: AtomicBool,
    uses: AtomicU8,
}

impl Meter {
    /// Of the entry with this number.
    pub(crate) fn new(number: u16) -> Self {
        Self { node: AtomicU32::new(NONE), number, is_main: AtomicBool::new(false), uses: AtomicU8::new(0) }
    }

    /// How many entries have come since, if it is the turn of the one with that number.
    pub(crate) fn since(&self, number: u16) -> u16 {
        number.wrapping_sub(self.number)
    }

    /// Whether it was used since it came, or came again soon after it left.
    pub(crate) fn was_used(&self) -> bool {
        self.is_main.load(Relaxed) || self.uses.load(Relaxed) > 0
    }

    /// How often it was used, up to [`USES_MAX`].
    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Relaxed)
    }

    /// Counts so many uses less.
    pub(crate) fn forget(&self, count: u8) {
        let uses = self.uses.load(Relaxed);
        self.uses.store(uses.saturating_sub(count), Relaxed);
    }

    /// Counts a use. An entry that is used all the time is not written to: its cache line stays shared.
    pub(crate) fn use_once(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Relaxed);
        }
    }
}

/// An entry in its queue; or a node that is free, whose `after` is the next one.
#[derive(Debug)]
struct Node<T> {
    entry: Option<Arc<T>>,
    before: u32,
    after: u32,
}

/// One queue: the oldest is first.
#[derive(Debug)]
struct Queue {
    first: u32,
    last: u32,
    bytes: usize,
}

impl Queue {
    const EMPTY: Self = Self { first: NONE, last: NONE, bytes: 0 };
}

/// The queues.
#[derive(Debug)]
pub(crate) struct S3Fifo<T> {
    bytes_limit: usize,
    nodes: Vec<Node<T>>,
    free: u32,
    entries: usize,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// How many are remembered beside as many as there are entries.
    remembered_beside: usize,
}

/// An entry that has left, and the fingerprint that one has which comes later for the same requests.
pub(crate) type Evicted<T> = Vec<(u64, Arc<T>)>;

impl<T: Queued> S3Fifo<T> {
    pub(crate) fn new(bytes_limit: usize) -> Self {
        let (small, main, ghosts) = (Queue::EMPTY, Queue::EMPTY, Ghosts::default());
        Self { bytes_limit, nodes: Vec::new(), free: NONE, entries: 0, small, main, ghosts, remembered_beside: 0 }
    }

    /// So many more that have left are remembered: those who come to a cache behind this one are told apart by it.
    pub(crate) fn remember_beside(&mut self, entries: usize) {
        self.remembered_beside = entries;
    }

    /// The most bytes that all entries may have.
    pub(crate) fn bytes_limit(&self) -> usize {
        self.bytes_limit
    }

    /// The bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Takes an entry in, and gives those that leave for it. The entry itself may be one of them. `fingerprint` is the
    /// same for an entry that comes later for the same requests.
    pub(crate) fn insert(&mut self, entry: Arc<T>, fingerprint: impl Fn(&T) -> u64) -> Evicted<T> {
        let is_main = self.ghosts.forget(fingerprint(&entry));
        let node = self.node();
        let meter = entry.meter();
        meter.node.store(node, Relaxed);
        meter.is_main.store(is_main, Relaxed);
        self.queue(is_main).bytes += entry.bytes();
        self.nodes[node as usize].entry = Some(entry);
        self.push(node, is_main);
        self.entries += 1;
        let mut evicted = Vec::new();
        while self.bytes() > self.bytes_limit {
            let is_small_full = self.small.bytes > self.bytes_limit / SMALL_SHARE || self.main.bytes == 0;
            let gone = if is_small_full { self.evict_small(&fingerprint) } else { self.evict_main() };
            evicted.extend(gone.map(|gone| (fingerprint(&gone), gone)));
        }
        self.ghosts.shrink(self.entries + self.remembered_beside);
        evicted
    }

    /// Takes an entry out that is not to be kept for another reason.
    pub(crate) fn remove(&mut self, entry: &T) {
        let node = entry.meter().node.load(Relaxed);
        if node != NONE {
            self.take(node);
            self.ghosts.shrink(self.entries + self.remembered_beside);
        }
    }

    fn queue(&mut self, is_main: bool) -> &mut Queue {
        if is_main { &mut self.main } else { &mut self.small }
    }

    /// A node that is free.
    fn node(&mut self) -> u32 {
        let node = self.free;
        if node == NONE {
            self.nodes.push(Node { entry: None, before: NONE, after: NONE });
            return self.nodes.len() as u32 - 1;
        }
        self.free = self.nodes[node as usize].after;
        node
    }

    /// Puts a node at the end of a queue.
    fn push(&mut self, node: u32, is_main: bool) {
        let last = std::mem::replace(&mut self.queue(is_main).last, node);
        let place = &mut self.nodes[node as usize];
        (place.before, place.after) = (last, NONE);
        if last == NONE {
            self.queue(is_main).first = node;
        } else {
            self.nodes[last as usize].after = node;
        }
    }

    /// Takes a node out of a queue.
    fn unlink(&mut self, node: u32, is_main: bool) {
        let Node { before, after, .. } = self.nodes[node as usize];
        if before == NONE {
            self.queue(is_main).first = after;
        } else {
            self.nodes[before as usize].after = after;
        }
        if after == NONE {
            self.queue(is_main).last = before;
        } else {
            self.nodes[after as usize].before = before;
        }
    }

    /// Takes the entry of a node out of everything.
    fn take(&mut self, node: u32) -> Option<Arc<T>> {
        let entry = self.nodes[node as usize].entry.take()?;
        let meter = entry.meter();
        meter.node.store(NONE, Relaxed);
        let is_main = meter.is_main.load(Relaxed);
        self.unlink(node, is_main);
        self.queue(is_main).bytes -= entry.bytes();
        self.nodes[node as usize].after = std::mem::replace(&mut self.free, node);
        self.entries -= 1;
        Some(entry)
    }

    fn entry(&self, node: u32) -> Option<&Arc<T>> {
        self.nodes.get(node as usize)?.entry.as_ref()
    }

    /// Looks at the oldest entry of the small queue: it moves on, or leaves.
    fn evict_small(&mut self, fingerprint: impl Fn(&T) -> u64) -> Option<Arc<T>> {
        let node = self.small.first;
        let entry = self.entry(node)?;
        let (meter, bytes) = (entry.meter(), entry.bytes());
        if meter.uses.load(Relaxed) < USES_TO_STAY {
            let gone = self.take(node)?;
            self.ghosts.remember(fingerprint(&gone));
            return Some(gone);
        }
        meter.uses.store(0, Relaxed);
        meter.is_main.store(true, Relaxed);
        self.unlink(node, false);
        self.small.bytes -= bytes;
        self.push(node, true);
        self.main.bytes += bytes;
        None
    }

    /// Looks at the oldest entry of the main queue: it goes round once more, or leaves.
    fn evict_main(&mut self) -> Option<Arc<T>> {
        let node = self.main.first;
        let meter = self.entry(node)?.meter();
        let uses = meter.uses.load(Relaxed);
        if uses == 0 {
            return self.take(node);
        }
        meter.uses.store(uses - 1, Relaxed);
        self.unlink(node, true);
        self.push(node, true);
        None
    }
}

/// Fingerprints of what left the small queue: 32 bits of each, so one of four thousand million is considered another.
#[derive(Debug, Default)]
struct Ghosts {
    /// The oldest in front.
    order: VecDeque<u32>,
    all: HashSet<u32, FixedState>,
}

impl Ghosts {
    fn remember(&mut self, fingerprint: u64) {
        if self.all.insert(fingerprint as u32) {
            self.order.push_back(fingerprint as u32);
        }
    }

    /// Whether it was remembered.
    fn forget(&mut self, fingerprint: u64) -> bool {
        self.all.remove(&(fingerprint as u32))
    }

    /// Keeps at most as many as there are entries.
    fn shrink(&mut self, entries: usize) {
        while self.order.len() > entries.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.all.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Item {
        id: u64,
        fingerprint: u64,
        bytes: usize,
        meter: Meter,
    }

    impl Queued for Item {
        fn meter(&self) -> &Meter {
            &self.meter
        }

        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    fn item(id: u64, fingerprint: u64, bytes: usize) -> Arc<Item> {
        Arc::new(Item { id, fingerprint, bytes, meter: Meter::new(0) })
    }

    fn insert(queues: &mut S3Fifo<Item>, item: Arc<Item>) -> Vec<u64> {
        queues.insert(item, |item| item.fingerprint).iter().map(|(_, gone)| gone.id).collect()
    }

    #[test]
    fn what_is_used_survives_a_scan_and_what_is_not_leaves_first() {
        let mut queues = S3Fifo::new(100);
        let used = item(1, 1, 10);
        assert!(insert(&mut queues, used.clone()).is_empty());
        used.meter.use_once();
        used.meter.use_once();
        let gone: Vec<u64> = (2..200).flat_map(|id| insert(&mut queues, item(id, id, 10))).collect();
        assert!(!gone.contains(&1), "an entry that was used twice went with the scan");
        assert_eq!(gone[..3], [2, 3, 4], "the others leave in their order");
        assert_eq!((queues.len(), queues.bytes()), (10, 100));
    }

    #[test]
    fn what_comes_back_soon_is_not_on_trial_again() {
        let mut queues = S3Fifo::new(100);
        let first: Vec<u64> = (1..=11).flat_map(|id| insert(&mut queues, item(id, id, 10))).collect();
        assert_eq!(first, [1]);
        insert(&mut queues, item(100, 1, 10));
        let gone: Vec<u64> = (12..60).flat_map(|id| insert(&mut queues, item(id, id, 10))).collect();
        assert!(!gone.contains(&100), "it is in the main queue");
    }

    #[test]
    fn an_entry_that_can_never_fit_leaves_at_once() {
        let mut queues = S3Fifo::new(100);
        insert(&mut queues, item(1, 1, 50));
        assert!(insert(&mut queues, item(2, 2, 101)).contains(&2));
        assert!(queues.bytes() <= 100);
    }

    /// 200,000 requests for 10,000 entries of one size, whose popularity is Zipf's: the share that misses is that of
    /// libCacheSim 0.3.5's `S3FIFO` for the same requests. LRU misses 0.610, 0.325 and 0.234.
    #[test]
    fn it_misses_as_often_as_the_simulator_of_those_who_made_it() {
        let weights = (1..=10_000).scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        });
        let weights: Vec<f64> = weights.collect();
        for (limit, theirs) in [(100, 0.4952), (1000, 0.2663), (2000, 0.1986)] {
            let (mut queues, mut stored) = (S3Fifo::new(limit), std::collections::HashMap::<u64, Arc<Item>>::new());
            let (mut random, mut misses) = (1u64, 0);
            for _ in 0..200_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 11) as f64 / (1u64 << 53) as f64 * weights[weights.len() - 1];
                let id = weights.partition_point(|weight| *weight < at) as u64;
                if let Some(item) = stored.get(&id) {
                    item.meter.use_once();
                    continue;
                }
                misses += 1;
                let item = item(id, id, 1);
                stored.insert(id, item.clone());
                for evicted in insert(&mut queues, item) {
                    stored.remove(&evicted);
                }
            }
            let share = f64::from(misses) / 200_000.0;
            assert!((share - theirs).abs() < 0.003, "{share} of the requests for {limit} places miss, not {theirs}");
        }
    }

    /// Any sequence of inserts, uses and removals: the bytes are those of the entries that are there, within the limit,
    /// and each entry leaves once.
    #[test]
    fn the_queues_account_for_every_entry() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for limit in [10, 100, 1000] {
            let mut queues = S3Fifo::new(limit);
            let (mut model, mut most) = (std::collections::BTreeMap::<u64, Arc<Item>>::new(), 0);
            for id in 0..20_000 {
                match next(10) {
                    0..5 => {
                        let item = item(id, next(200), next(40) as usize + 1);
                        model.insert(id, item.clone());
                        most = most.max(model.len());
                        for evicted in insert(&mut queues, item) {
                            assert!(model.remove(&evicted).is_some(), "entry {evicted} left twice");
                        }
                    }
                    5..9 => {
                        if let Some((_, item)) = model.range(next(id + 1)..).next() {
                            item.meter.use_once();
                        }
                    }
                    _ => {
                        if let Some((&id, item)) = model.range(next(id + 1)..).next() {
                            queues.remove(item);
                            queues.remove(item);
                            model.remove(&id);
                        }
                    }
                }
                assert_eq!(queues.len(), model.len());
                assert_eq!(queues.bytes(), model.values().map(|item| item.bytes).sum::<usize>());
                assert!(queues.bytes() <= limit);
                assert!(queues.nodes.len() <= most, "nodes are used again");
                assert!(queues.ghosts.order.len() <= model.len().max(1));
            }
        }
    }
}
