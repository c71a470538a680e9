//! Which stored responses leave when space is short: S3-FIFO (Yang et al., SOSP 2023), by bytes.
//!
//! ```text
//!   new -----------> small (a tenth) --- used again? ---> main ---- not used: evicted
//!     \                   |                                ^  \
//!      \                  | not used: evicted              |   +-- used: to its begin, counted down
//!       \                 v                                |
//!        +---- known? - ghost (fingerprints alone) --------+
//! ```
//! A use is a count in the entry's [`Meter`], up to three, and touches nothing that others wait for. Most entries of web
//! caches are never used again: they pass through the small queue and displace nothing that is.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The share of the memory that entries have before they have been used, as a divisor.
const SMALL_SHARE: usize = 10;

/// Uses are counted up to here.
const USES_MAX: u8 = 3;

/// Uses in the small queue from which on an entry moves to the main one.
const USES_TO_STAY: u8 = 2;

/// Numbers of removed entries that stay in the queues, beyond as many as there are entries.
const REMOVED_MAX: usize = 64;

/// An entry as eviction sees it.
#[derive(Debug)]
pub(crate) struct Meter {
    /// A number of its own.
    pub(crate) id: u64,
    /// The same for an entry that comes later for the same requests.
    pub(crate) fingerprint: u64,
    /// Its share of the memory.
    pub(crate) bytes: usize,
    uses: AtomicU8,
}

impl Meter {
    pub(crate) fn new(id: u64, fingerprint: u64, bytes: usize) -> Self {
        Self { id, fingerprint, bytes, uses: AtomicU8::new(0) }
    }

    /// Counts a use. An entry that is used all the time is not written to: its cache line stays shared.
    pub(crate) fn use_once(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Relaxed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Main,
}

/// The queues.
#[derive(Debug)]
pub(crate) struct S3Fifo {
    bytes_limit: usize,
    entries: HashMap<u64, (Arc<Meter>, Place), FixedState>,
    /// Numbers of entries, the oldest in front. Those of entries that were removed are passed over.
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    small_bytes: usize,
    main_bytes: usize,
    /// Fingerprints of what left the small queue, the oldest in front.
    ghosts: VecDeque<u64>,
    ghost_set: HashSet<u64, FixedState>,
}

impl S3Fifo {
    pub(crate) fn new(bytes_limit: usize) -> Self {
        Self {
            bytes_limit,
            entries: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_bytes: 0,
            main_bytes: 0,
            ghosts: VecDeque::new(),
            ghost_set: HashSet::default(),
        }
    }

    /// The bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.small_bytes + self.main_bytes
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes an entry in, and gives those that leave for it. The entry itself may be one of them.
    pub(crate) fn insert(&mut self, meter: Arc<Meter>) -> Vec<Arc<Meter>> {
        let place = if self.ghost_set.remove(&meter.fingerprint) { Place::Main } else { Place::Small };
        let (id, bytes) = (meter.id, meter.bytes);
        self.enqueue(id, bytes, place);
        self.entries.insert(id, (meter, place));
        let mut evicted = Vec::new();
        while self.bytes() > self.bytes_limit {
            let is_small_full = self.small_bytes > self.bytes_limit / SMALL_SHARE || self.main_bytes == 0;
            evicted.extend(if is_small_full { self.evict_small() } else { self.evict_main() });
        }
        self.shrink();
        evicted
    }

    /// Takes an entry out that is not to be kept for another reason.
    pub(crate) fn remove(&mut self, id: u64) {
        if let Some((meter, place)) = self.entries.remove(&id) {
            *self.bytes_of(place) -= meter.bytes;
        }
        self.shrink();
    }

    fn enqueue(&mut self, id: u64, bytes: usize, place: Place) {
        match place {
            Place::Small => self.small.push_back(id),
            Place::Main => self.main.push_back(id),
        }
        *self.bytes_of(place) += bytes;
    }

    fn bytes_of(&mut self, place: Place) -> &mut usize {
        match place {
            Place::Small => &mut self.small_bytes,
            Place::Main => &mut self.main_bytes,
        }
    }

    /// Looks at the oldest entry of the small queue: it moves on, or leaves.
    fn evict_small(&mut self) -> Option<Arc<Meter>> {
        let id = self.small.pop_front()?;
        let (meter, place) = self.entries.get_mut(&id)?;
        self.small_bytes -= meter.bytes;
        if meter.uses.load(Relaxed) >= USES_TO_STAY {
            meter.uses.store(0, Relaxed);
            *place = Place::Main;
            self.main_bytes += meter.bytes;
            self.main.push_back(id);
            return None;
        }
        let (meter, _) = self.entries.remove(&id)?;
        self.remember(meter.fingerprint);
        Some(meter)
    }

    /// Looks at the oldest entry of the main queue: it goes round once more, or leaves.
    fn evict_main(&mut self) -> Option<Arc<Meter>> {
        let id = self.main.pop_front()?;
        let (meter, _) = self.entries.get(&id)?;
        let uses = meter.uses.load(Relaxed);
        if uses > 0 {
            meter.uses.store(uses - 1, Relaxed);
            self.main.push_back(id);
            return None;
        }
        let (meter, _) = self.entries.remove(&id)?;
        self.main_bytes -= meter.bytes;
        Some(meter)
    }

    fn remember(&mut self, fingerprint: u64) {
        if self.ghost_set.insert(fingerprint) {
            self.ghosts.push_back(fingerprint);
        }
    }

    /// Keeps at most as many ghosts as entries, and few numbers of removed ones.
    fn shrink(&mut self) {
        while self.ghosts.len() > self.entries.len().max(1) {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.ghost_set.remove(&oldest);
            }
        }
        if self.small.len() + self.main.len() > 2 * self.entries.len() + REMOVED_MAX {
            let entries = &self.entries;
            self.small.retain(|id| entries.contains_key(id));
            self.main.retain(|id| entries.contains_key(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(id: u64, bytes: usize) -> Arc<Meter> {
        Arc::new(Meter::new(id, id, bytes))
    }

    fn ids(evicted: &[Arc<Meter>]) -> Vec<u64> {
        evicted.iter().map(|meter| meter.id).collect()
    }

    #[test]
    fn what_is_used_survives_a_scan_and_what_is_not_leaves_first() {
        let mut queues = S3Fifo::new(100);
        let used = meter(1, 10);
        assert!(queues.insert(used.clone()).is_empty());
        used.use_once();
        used.use_once();
        let gone: Vec<u64> = (2..200).flat_map(|id| ids(&queues.insert(meter(id, 10)))).collect();
        assert!(!gone.contains(&1), "an entry that was used twice went with the scan");
        assert_eq!(gone[..3], [2, 3, 4], "the others leave in their order");
        assert_eq!((queues.len(), queues.bytes()), (10, 100));
    }

    #[test]
    fn what_comes_back_soon_is_not_on_trial_again() {
        let mut queues = S3Fifo::new(100);
        let first: Vec<u64> = (1..=11).flat_map(|id| ids(&queues.insert(meter(id, 10)))).collect();
        assert_eq!(first, [1]);
        queues.insert(Arc::new(Meter::new(100, 1, 10)));
        let gone: Vec<u64> = (12..60).flat_map(|id| ids(&queues.insert(meter(id, 10)))).collect();
        assert!(!gone.contains(&100), "it is in the main queue");
    }

    #[test]
    fn an_entry_that_can_never_fit_leaves_at_once() {
        let mut queues = S3Fifo::new(100);
        queues.insert(meter(1, 50));
        assert!(ids(&queues.insert(meter(2, 101))).contains(&2));
        assert!(queues.bytes() <= 100);
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
            let mut model = std::collections::BTreeMap::<u64, Arc<Meter>>::new();
            for id in 0..20_000 {
                match next(10) {
                    0..5 => {
                        let meter = Arc::new(Meter::new(id, next(200), next(40) as usize + 1));
                        model.insert(id, meter.clone());
                        for evicted in queues.insert(meter) {
                            assert!(model.remove(&evicted.id).is_some(), "entry {} left twice", evicted.id);
                        }
                    }
                    5..9 => {
                        if let Some((_, meter)) = model.range(next(id + 1)..).next() {
                            meter.use_once();
                        }
                    }
                    _ => {
                        if let Some((&id, _)) = model.range(next(id + 1)..).next() {
                            model.remove(&id);
                            queues.remove(id);
                        }
                    }
                }
                assert_eq!(queues.len(), model.len());
                assert_eq!(queues.bytes(), model.values().map(|meter| meter.bytes).sum::<usize>());
                assert!(queues.bytes() <= limit);
                assert!(
                    queues.small.len() + queues.main.len() <= 2 * model.len() + REMOVED_MAX,
                    "removed entries pile up"
                );
                assert!(queues.ghosts.len() <= model.len().max(1));
            }
        }
    }
}
