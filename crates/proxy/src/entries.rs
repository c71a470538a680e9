//! The stored responses in memory: found by key and variant, evicted by S3-FIFO.
//!
//! A hit takes one shard's lock to read, for as long as it takes to find the entry and count a reference; it is never held
//! while anything is awaited or sent. Everything that changes the set goes through the queues' lock first, then a
//! shard's: in this order, so there is no deadlock.

use crate::coherence::Claim;
use crate::content::Content;
use crate::entry::Entry;
use crate::s3fifo::S3Fifo;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use responses::{Key, KeyBytes, KeyRef, Policy, Request, Stored, select};
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::mem;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Parts of the map with a lock each. More than there are threads, so that two rarely meet.
const SHARDS: usize = 64;

/// Variants of one resource. Beyond, the oldest leaves: a client that makes up values for a field of `Vary` displaces
/// variants of that resource, and nothing else.
const VARIANTS_MAX: usize = 32;

/// Counts of removals. Keys that share one keep each other's responses from being stored now and then, no more.
const REMOVAL_COUNTS: usize = 4096;

/// A key, and its hash in [`Entries`].
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    pub(crate) key: Key,
}

/// The outcome of a look-up.
#[derive(Debug)]
pub(crate) enum Found {
    Entry(Arc<Entry>),
    /// Responses to requests that say something else in the fields of `Vary`.
    OtherVariants,
    Nothing,
}

/// A count of removals, taken before a response was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removals(u64);

/// All stored responses.
#[derive(Debug)]
pub(crate) struct Entries {
    shards: Box<[Shard]>,
    hasher: RandomState,
    queues: Mutex<S3Fifo<Entry>>,
    /// How often something was removed on purpose, by the hash of its key. A response that was asked for before a removal
    /// is not stored after it: the origin may have made it before the change that the removal is about.
    removals: Box<[AtomicU64]>,
    /// The number of the next entry, counted round.
    next_number: AtomicU16,
}

/// The variants of a resource lie beside each other, under one hash.
type Shard = RwLock<HashTable<Arc<Entry>>>;

impl Entries {
    pub(crate) fn new(bytes_limit: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            queues: Mutex::new(S3Fifo::new(bytes_limit)),
            removals: (0..REMOVAL_COUNTS).map(|_| AtomicU64::new(0)).collect(),
            next_number: AtomicU16::new(0),
        }
    }

    /// The hash of a key, which the other methods take beside it.
    pub(crate) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &Shard {
        // The table within uses the low and the topmost bits.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// The entry that a request selects.
    pub(crate) fn find<K>(&self, policy: &Policy, hash: u64, key: &K, request: &Request<'_>) -> Found
    where
        K: for<'a> PartialEq<KeyBytes<'a>>,
    {
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let variants = || shard.iter_hash(hash).filter(|entry| *key == entry.key());
        let mut some = variants();
        let Some(first) = some.next() else { return Found::Nothing };
        let selected = if some.next().is_none() {
            select(policy, request, [&first.stored]).map(|_| first)
        } else {
            let mut all: Vec<_> = variants().collect();
            self.newest_last(&mut all);
            select(policy, request, all.iter().map(|entry| &entry.stored)).map(|index| all[index])
        };
        let Some(entry) = selected.cloned() else { return Found::OtherVariants };
        drop(shard);
        entry.meter.use_once();
        Found::Entry(entry)
    }

    /// Of two that the origin has made within the same second the newer one counts.
    fn newest_last(&self, variants: &mut [&Arc<Entry>]) {
        let next = self.next_number.load(Relaxed);
        variants.sort_by_key(|entry| Reverse(entry.meter.since(next)));
    }

    /// All variants under a key, without counting as a use.
    pub(crate) fn variants<K>(&self, hash: u64, key: &K) -> Vec<Arc<Entry>>
    where
        K: for<'a> PartialEq<KeyBytes<'a>>,
    {
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let mut variants: Vec<_> = shard.iter_hash(hash).filter(|entry| *key == entry.key()).collect();
        self.newest_last(&mut variants);
        variants.into_iter().cloned().collect()
    }

    /// Shows every entry, part by part: those that come or go meanwhile may be among them or not.
    pub(crate) fn look_at_all(&self, mut look: impl FnMut(&Entry)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.iter().for_each(|entry| look(entry));
        }
    }

    /// How often responses of this key, or of one that shares its count, were removed on purpose.
    pub(crate) fn removals(&self, hash: u64) -> Removals {
        Removals(self.removal_count(hash).load(Acquire))
    }

    fn removal_count(&self, hash: u64) -> &AtomicU64 {
        &self.removals[hash as usize % REMOVAL_COUNTS]
    }

    /// Stores a response in place of the one that the same requests select; nothing, if its key was removed since.
    pub(crate) fn insert(
        &self,
        name: &Name,
        since: Removals,
        stored: Stored,
        content: &Content,
        claim: Claim,
    ) -> Option<Arc<Entry>> {
        let Name { hash, ref key } = *name;
        let number = self.next_number.fetch_add(1, Relaxed);
        let entry = Arc::new(Entry::new(key, stored, content, claim, number));
        // Dropped behind the locks: the home has one of its own.
        let mut gone;
        let mut queues = self.queues();
        // A removal counts before it takes this lock: it is seen here, or it finds the entry.
        if self.removals(hash) != since {
            return None;
        }
        gone = self.put(hash, &entry);
        for displaced in &gone {
            queues.remove(displaced);
        }
        for (hash, evicted) in queues.insert(entry.clone(), |entry| self.hash_of(entry)) {
            gone.extend(self.take(hash, |entry| Arc::ptr_eq(entry, &evicted)));
        }
        Some(entry)
    }

    /// Removes all variants of a key; gives how many there were.
    pub(crate) fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash_one(key);
        self.removal_count(hash).fetch_add(1, AcqRel);
        // Dropped behind the lock.
        let mut gone = Vec::new();
        let mut queues = self.queues();
        while let Some(entry) = self.take(hash, |entry| *key == entry.key()) {
            queues.remove(&entry);
            gone.push(entry);
        }
        gone.len()
    }

    /// Removes everything, and keeps what is on its way from being stored.
    pub(crate) fn remove_all(&self) {
        for count in &self.removals {
            count.fetch_add(1, AcqRel);
        }
        // Dropped behind the locks.
        let mut gone: Vec<HashTable<Arc<Entry>>> = Vec::new();
        let mut queues = self.queues();
        for shard in &self.shards {
            gone.push(mem::take(&mut shard.write().unwrap_or_else(PoisonError::into_inner)));
        }
        gone.iter().flatten().for_each(|entry| queues.remove(entry));
    }

    /// Keeps all variants of a key, but has each validated before it is used again; gives how many there are.
    pub(crate) fn lapse(&self, key: &Key) -> usize {
        let hash = self.hasher.hash_one(key);
        // Of those that are on their way: they may lack what this is about, and are not stored.
        self.removal_count(hash).fetch_add(1, AcqRel);
        let variants = {
            let _queues = self.queues();
            self.variants(hash, key)
        };
        // Behind the locks: the home has one of its own.
        for entry in &variants {
            entry.lapse();
        }
        variants.len()
    }

    /// How many entries there are, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let queues = self.queues();
        (queues.len(), queues.bytes())
    }

    fn queues(&self) -> MutexGuard<'_, S3Fifo<Entry>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash_of(&self, entry: &Entry) -> u64 {
        self.hasher.hash_one(entry.key())
    }

    /// Puts an entry into the map; gives those that it displaces.
    fn put(&self, hash: u64, entry: &Arc<Entry>) -> Vec<Arc<Entry>> {
        let is_variant = |other: &Arc<Entry>| other.key() == entry.key();
        let is_replaced =
            |other: &Arc<Entry>| is_variant(other) && other.stored.selecting() == entry.stored.selecting();
        let mut displaced = Vec::new();
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        displaced.extend(take_from(&mut shard, hash, is_replaced));
        let mut variants: Vec<_> = shard.iter_hash(hash).filter(|other| is_variant(other)).collect();
        if variants.len() >= VARIANTS_MAX {
            self.newest_last(&mut variants);
            let oldest = variants[0].clone();
            displaced.extend(take_from(&mut shard, hash, |other| Arc::ptr_eq(other, &oldest)));
        }
        shard.insert_unique(hash, entry.clone(), |entry| self.hash_of(entry));
        displaced
    }

    /// Takes an entry out of the map.
    fn take(&self, hash: u64, is_it: impl FnMut(&Arc<Entry>) -> bool) -> Option<Arc<Entry>> {
        take_from(&mut self.shard(hash).write().unwrap_or_else(PoisonError::into_inner), hash, is_it)
    }
}

fn take_from(
    shard: &mut HashTable<Arc<Entry>>,
    hash: u64,
    is_it: impl FnMut(&Arc<Entry>) -> bool,
) -> Option<Arc<Entry>> {
    shard.find_entry(hash, is_it).ok().map(|found| found.remove().0)
}
