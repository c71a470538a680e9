//! The stored responses in memory: found by key and variant, evicted by S3-FIFO.
//!
//! A hit takes one shard's lock to read, for as long as it takes to find the entry and count a reference; it is never held
//! while anything is awaited or sent. Everything that changes the set goes through the queues' lock first, then a
//! shard's: in this order, so there is no deadlock.

use crate::coherence::{Claim, Word};
use crate::content::Content;
use crate::s3fifo::{Meter, S3Fifo};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use http::header::{CONTENT_LENGTH, VIA};
use http::{HeaderMap, HeaderValue};
use responses::{Key, KeyRef, Policy, Request, Stored, Validity, select};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Parts of the map with a lock each. More than there are threads, so that two rarely meet.
const SHARDS: usize = 64;

/// Variants of one resource. Beyond, the oldest leaves: a client that makes up values for a field of `Vary` displaces
/// variants of that resource, and nothing else.
const VARIANTS_MAX: usize = 32;

/// Counts of removals. Keys that share one keep each other's responses from being stored now and then, no more.
const REMOVAL_COUNTS: usize = 4096;

/// The memory of an entry beside its content, fields and key: this structure, its place in the map and in the queues.
const ENTRY_BYTES: usize = 512;

/// A stored response.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) stored: Stored,
    pub(crate) content: Content,
    /// None for one that is not among the others.
    claim: Option<Claim>,
    meter: Arc<Meter>,
    /// The fields of an answer with all of it, but for those that change from answer to answer. Made at the first use:
    /// most entries have none.
    whole: OnceLock<Box<HeaderMap>>,
}

impl Entry {
    /// One that is not among the others, for a single answer.
    pub(crate) fn alone(stored: Stored, content: Content) -> Self {
        Self { stored, content, claim: None, meter: Arc::new(Meter::new(0, 0, 0)), whole: OnceLock::new() }
    }

    /// The word of the home on it. A request that it is to answer has come before.
    pub(crate) fn validity(&self) -> Validity {
        let is_current = self.claim.as_ref().is_some_and(Claim::is_current);
        if is_current { Validity::Current } else { Validity::Invalidated }
    }

    /// Its place at the home, if it has one.
    pub(crate) fn word(&self) -> Option<Word> {
        self.claim.as_ref().map(Claim::word)
    }

    /// The fields of an answer with all of it, but for `Age` and `Cache-Status`.
    pub(crate) fn whole(&self, via: &HeaderValue) -> &HeaderMap {
        self.whole.get_or_init(|| {
            let mut fields = self.stored.fields().to_map();
            if !self.stored.status().is_informational() && self.stored.status() != http::StatusCode::NO_CONTENT {
                fields.insert(CONTENT_LENGTH, self.content.bytes().into());
            }
            fields.append(VIA, via.clone());
            Box::new(fields)
        })
    }
}

/// The responses that are stored under one key, the newest last.
#[derive(Debug)]
struct Resource {
    key: Key,
    variants: Vec<Arc<Entry>>,
}

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
    shards: Box<[RwLock<HashTable<Resource>>]>,
    hasher: RandomState,
    queues: Mutex<S3Fifo>,
    /// How often something was removed on purpose, by the hash of its key. A response that was asked for before a removal
    /// is not stored after it: the origin may have made it before the change that the removal is about.
    removals: Box<[AtomicU64]>,
    next_id: AtomicU64,
}

impl Entries {
    pub(crate) fn new(bytes_limit: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            queues: Mutex::new(S3Fifo::new(bytes_limit)),
            removals: (0..REMOVAL_COUNTS).map(|_| AtomicU64::new(0)).collect(),
            next_id: AtomicU64::new(1),
        }
    }

    /// The hash of a key, which the other methods take beside it.
    pub(crate) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &RwLock<HashTable<Resource>> {
        // The table within uses the low and the topmost bits.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// The entry that a request selects.
    pub(crate) fn find<K>(&self, policy: &Policy, hash: u64, key: &K, request: &Request<'_>) -> Found
    where
        K: PartialEq<Key>,
    {
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let Some(resource) = shard.find(hash, |resource| *key == resource.key) else { return Found::Nothing };
        let variants = resource.variants.iter().map(|entry| &entry.stored);
        let Some(index) = select(policy, request, variants) else { return Found::OtherVariants };
        let entry = resource.variants[index].clone();
        entry.meter.use_once();
        Found::Entry(entry)
    }

    /// All variants under a key, without counting as a use.
    pub(crate) fn variants<K: PartialEq<Key>>(&self, hash: u64, key: &K) -> Vec<Arc<Entry>> {
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, |resource| *key == resource.key).map_or_else(Vec::new, |found| found.variants.clone())
    }

    /// Shows every entry, part by part: those that come or go meanwhile may be among them or not.
    pub(crate) fn look_at_all(&self, mut look: impl FnMut(&Key, &Entry)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for resource in shard.iter() {
                resource.variants.iter().for_each(|entry| look(&resource.key, entry));
            }
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
        content: Content,
        claim: Claim,
    ) -> Option<Arc<Entry>> {
        let Name { hash, ref key } = *name;
        let bytes = ENTRY_BYTES + key.as_bytes().len() + stored.fields().as_bytes().len() + content.bytes() as usize;
        let id = self.next_id.fetch_add(1, Relaxed);
        let meter = Arc::new(Meter::new(id, hash, bytes));
        let entry =
            Arc::new(Entry { stored, content, claim: Some(claim), meter: meter.clone(), whole: OnceLock::new() });
        // Dropped behind the locks: the home has one of its own.
        let mut gone;
        let mut queues = self.queues();
        // A removal counts before it takes this lock: it is seen here, or it finds the entry.
        if self.removals(hash) != since {
            return None;
        }
        gone = self.put(hash, key, entry.clone());
        for replaced in &gone {
            queues.remove(replaced.meter.id);
        }
        for evicted in queues.insert(meter) {
            gone.extend(self.take(&evicted));
        }
        Some(entry)
    }

    /// Removes all variants of a key; gives how many there were.
    pub(crate) fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash_one(key);
        self.removal_count(hash).fetch_add(1, AcqRel);
        let gone;
        let mut queues = self.queues();
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        let Ok(found) = shard.find_entry(hash, |resource| resource.key == *key) else { return 0 };
        (gone, _) = found.remove();
        for entry in &gone.variants {
            queues.remove(entry.meter.id);
        }
        gone.variants.len()
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
        variants.iter().filter_map(|entry| entry.claim.as_ref()).for_each(Claim::lapse);
        variants.len()
    }

    /// How many entries there are, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let queues = self.queues();
        (queues.len(), queues.bytes())
    }

    fn queues(&self) -> MutexGuard<'_, S3Fifo> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry into the map; gives those that it displaces.
    fn put(&self, hash: u64, key: &Key, entry: Arc<Entry>) -> Vec<Arc<Entry>> {
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        let place = shard.entry(hash, |resource| resource.key == *key, |resource| self.hasher.hash_one(&resource.key));
        let mut place = place.or_insert_with(|| Resource { key: key.clone(), variants: Vec::with_capacity(1) });
        let variants = &mut place.get_mut().variants;
        let selecting = entry.stored.selecting();
        let mut displaced: Vec<_> = variants.extract_if(.., |other| other.stored.selecting() == selecting).collect();
        if variants.len() >= VARIANTS_MAX {
            displaced.push(variants.remove(0));
        }
        variants.push(entry);
        displaced
    }

    /// Takes an evicted entry out of the map.
    fn take(&self, evicted: &Meter) -> Option<Arc<Entry>> {
        let is_it = |entry: &Arc<Entry>| entry.meter.id == evicted.id;
        let mut shard = self.shard(evicted.fingerprint).write().unwrap_or_else(PoisonError::into_inner);
        let found = shard.find_entry(evicted.fingerprint, |resource| resource.variants.iter().any(is_it));
        let mut found = found.ok()?;
        let variants = &mut found.get_mut().variants;
        let entry = variants.remove(variants.iter().position(is_it)?);
        if variants.is_empty() {
            found.remove();
        }
        Some(entry)
    }
}
