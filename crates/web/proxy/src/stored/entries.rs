//! The stored responses: found by key and variant, evicted by S3-FIFO from memory, and from there to the disk.
//!
//! A hit takes one shard's lock to read, for as long as it takes to find the entry and count a reference; it is never
//! held while anything is awaited or sent. Everything that changes the set goes through the queues' lock first, then a
//! shard's, and then the disk's index: in this order, so there is no deadlock.
//!
//! A response on disk is found when there is none in memory that a request selects. It is read on a thread that may
//! wait for the disk, and is in memory as well from then on, unless it is large. One that leaves memory while its
//! record is there costs no write.

#[cfg(test)]
mod tests;

use crate::stored::coherence::Claim;
use crate::stored::content::Content;
use crate::stored::disk::{label, load, record};
use crate::stored::disk_content::Disk;
use crate::stored::entry::{Entry, SMALL_BYTES_MAX};
use crate::stored::s3fifo::{Queued, S3Fifo};
use diskcache::{Held, Label};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use responses::{Key, KeyBytes, KeyRef, Policy, Request, Stored, select};
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::mem;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Parts of the map with a lock each. More than there are threads, so that two rarely meet.
const SHARDS: usize = 64;

/// Variants of one resource. Beyond, the one leaves that was used least since it came, and of several the oldest: a
/// client that makes up values for a field of `Vary` displaces its own variants before those that others ask for.
const VARIANTS_MAX: usize = 32;

/// The share of the memory that several variants of one resource take, as a divisor.
const VARIANTS_SHARE: usize = 8;

/// Counts of removals. Keys that share one keep each other's responses from being stored now and then, no more.
const REMOVAL_COUNTS: usize = 4096;

/// The largest content that is in memory where there is a disk. A larger one is read from there in steps.
const MEMORY_CONTENT_BYTES_MAX: u64 = 1 << 20;

/// The least share of the memory that a larger content is kept out of, as a divisor.
const MEMORY_SHARE: usize = 16;

/// A key, and its hash in [`Entries`].
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    pub(crate) key: Key,
}

/// The outcome of a lookup.
#[derive(Debug)]
pub(crate) enum Found {
    Entry(Arc<Entry>),
    /// Responses to requests that say something else in the fields of `Vary`.
    OtherVariants,
    Nothing,
}

/// Everything that has left, to be dropped behind the locks: the home has one of its own.
#[derive(Default)]
struct Gone {
    entries: Vec<Arc<Entry>>,
    records: Vec<Arc<Held<Claim>>>,
    claims: Vec<Claim>,
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
    disk: Option<Arc<Disk>>,
    /// The largest content that comes into memory.
    memory_content_bytes: u64,
    /// How often something was removed on purpose, by the hash of its key. A response that was asked for before a
    /// removal is not stored after it: the origin may have made it before the change that the removal is about.
    removals: Box<[AtomicU64]>,
    /// The number of the next entry, counted round.
    next_number: AtomicU16,
}

/// The variants of a resource lie beside each other, under one hash.
type Shard = RwLock<HashTable<Arc<Entry>>>;

impl Entries {
    /// With so much memory, and a disk behind it, if there is one; that is opened with the hash of keys.
    pub(crate) fn new<E>(
        bytes_limit: usize,
        open: impl FnOnce(&dyn Fn(&[u8]) -> u64) -> Result<Option<Disk>, E>,
    ) -> Result<Self, E> {
        let hasher = RandomState::default();
        let disk = open(&|key| hasher.hash_one(KeyBytes::new(key)))?.map(Arc::new);
        let with_disk = (bytes_limit / MEMORY_SHARE) as u64;
        let with_disk = with_disk.clamp(SMALL_BYTES_MAX, MEMORY_CONTENT_BYTES_MAX);
        Ok(Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher,
            queues: Mutex::new(S3Fifo::new(bytes_limit)),
            memory_content_bytes: if disk.is_some() { with_disk } else { u64::MAX },
            disk,
            removals: (0..REMOVAL_COUNTS).map(|_| AtomicU64::new(0)).collect(),
            next_number: AtomicU16::new(0),
        })
    }

    /// The disk behind the memory.
    pub(crate) fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.as_ref()
    }

    /// The hash of a key, which the other methods take beside it.
    pub(crate) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &Shard {
        // The table within uses the low and the topmost bits.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// The entry in memory that a request selects.
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

    /// The records of a key, perhaps: of its hash.
    pub(crate) fn records(&self, hash: u64) -> Vec<Arc<Held<Claim>>> {
        self.disk.as_ref().map_or_else(Vec::new, |disk| disk.find(hash))
    }

    /// Reads records of a key. It waits for the disk.
    pub(crate) fn load(&self, key: Option<&Key>, records: &[Arc<Held<Claim>>]) -> Vec<Arc<Entry>> {
        let Some(disk) = &self.disk else { return Vec::new() };
        let number = || self.next_number.fetch_add(1, Relaxed);
        let read = |held| load(disk, key, held, self.memory_content_bytes, number());
        records.iter().filter_map(read).collect()
    }

    /// The one of the entries that were read from disk that a request selects. It comes into memory, unless it is
    /// large. None if it has left the disk in the meantime.
    pub(crate) fn select_loaded(
        &self,
        policy: &Policy,
        name: &Name,
        loaded: &[Arc<Entry>],
        request: &Request<'_>,
    ) -> Option<Arc<Entry>> {
        let index = select(policy, request, loaded.iter().map(|entry| &entry.stored))?;
        let entry = &loaded[index];
        let held = entry.held()?;
        held.use_once();
        if entry.content().disk_content().is_some() {
            return held.is_listed().then(|| entry.clone());
        }
        let mut gone = Gone::default();
        let mut queues = self.queues();
        if !held.is_listed() {
            return None;
        }
        let is_same = |other: &Arc<Entry>| other.held().is_some_and(|other| Arc::ptr_eq(other, held));
        let is_there = |shard: &HashTable<Arc<Entry>>| shard.find(name.hash, is_same).cloned();
        let there = is_there(&self.shard(name.hash).read().unwrap_or_else(PoisonError::into_inner));
        if there.is_some() {
            return there;
        }
        self.add(&mut queues, name.hash, entry, &mut gone);
        drop(queues);
        Some(entry.clone())
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

    /// Shows every entry, part by part: those that come or go in the meantime may be among them or not.
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

    /// Stores a response in place of the one that the same requests select; `false` if its key was removed since.
    pub(crate) fn insert(&self, name: &Name, since: Removals, stored: Stored, content: &Content, claim: Claim) -> bool {
        let Name { hash, ref key } = *name;
        let mut gone = Gone::default();
        let (claim, label) = (&mut Some(claim), self.disk.as_ref().map(|_| label(&stored)));
        let mut queues = self.queues();
        // A removal counts before it takes this lock: it is seen here, or it finds the entry.
        if self.removals(hash) != since {
            return false;
        }
        if let (Some(disk), Some(label)) = (&self.disk, label) {
            gone.records.extend(disk.displace(hash, label));
            if content.bytes() > self.memory_content_bytes
                && let Some(own) = claim.take()
            {
                match disk.put(hash, label, record(key.bytes(), &stored, content.source()), own) {
                    Ok(displaced) => {
                        gone.records.extend(displaced);
                        self.take_displaced(&mut queues, name, label, &mut gone);
                        return true;
                    }
                    // One that is larger than all memory would have everything else leave.
                    Err(own) if content.bytes() > queues.bytes_limit() as u64 => {
                        gone.claims.push(own);
                        return false;
                    }
                    Err(own) => *claim = Some(own),
                }
            }
        }
        let Some(claim) = claim.take() else { return false };
        let number = self.next_number.fetch_add(1, Relaxed);
        let entry = Arc::new(Entry::new(key, stored, content, claim, number));
        self.add(&mut queues, hash, &entry, &mut gone);
        true
    }

    /// Puts an entry into memory; those that leave for it go to the disk, if they are worth it.
    fn add(&self, queues: &mut S3Fifo<Entry>, hash: u64, entry: &Arc<Entry>, gone: &mut Gone) {
        let displaced = self.put(hash, entry, queues.bytes_limit() / VARIANTS_SHARE);
        for displaced in &displaced {
            queues.remove(displaced);
        }
        gone.entries.extend(displaced);
        if let Some(disk) = &self.disk {
            queues.remember_beside(disk.len());
        }
        for (hash, evicted) in queues.insert(entry.clone(), |entry| self.hash_of(entry)) {
            self.take(hash, |entry| Arc::ptr_eq(entry, &evicted));
            let is_worth = evicted.meter.was_used() || self.disk.as_ref().is_some_and(|disk| !disk.is_full());
            self.demote(hash, evicted, is_worth, gone);
        }
    }

    /// An entry has left memory. On a disk that is full it takes the place of others: then it is not worth that unless
    /// it was used.
    fn demote(&self, hash: u64, entry: Arc<Entry>, is_worth: bool, gone: &mut Gone) {
        let Some(disk) = &self.disk else { return gone.entries.push(entry) };
        if let Some(held) = entry.held().filter(|held| held.is_listed()) {
            if entry.meter.was_used() {
                held.use_once();
            }
            return gone.entries.push(entry);
        }
        let label = label(&entry.stored);
        if !is_worth || !entry.is_of_use() || self.has_other_kind(hash, &entry, label) {
            return gone.entries.push(entry);
        }
        let record = record(entry.key(), &entry.stored, entry.source());
        if let Some(held) = entry.held() {
            gone.records.extend(disk.put_again(held, record));
            return gone.entries.push(entry);
        }
        // One that is being answered with right now is not worth a wait.
        match Arc::try_unwrap(entry).map(Entry::into_claim) {
            Ok(Some(claim)) => match disk.put(hash, label, record, claim) {
                Ok(displaced) => gone.records.extend(displaced),
                Err(claim) => gone.claims.push(claim),
            },
            Ok(None) => {}
            Err(entry) => gone.entries.push(entry),
        }
    }

    /// Whether there is a response in memory under the key of an entry that another set of request fields selects.
    fn has_other_kind(&self, hash: u64, entry: &Entry, own: Label) -> bool {
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let is_other = |other: &&Arc<Entry>| other.key() == entry.key() && label(&other.stored).kind != own.kind;
        shard.iter_hash(hash).any(|other| is_other(&other))
    }

    /// Takes out of memory what a response displaces that goes to the disk at once.
    fn take_displaced(&self, queues: &mut S3Fifo<Entry>, name: &Name, own: Label, gone: &mut Gone) {
        let is_displaced = |other: &Arc<Entry>| {
            let other_label = label(&other.stored);
            name.key == other.key() && (other_label.variant == own.variant || other_label.kind != own.kind)
        };
        while let Some(entry) = self.take(name.hash, is_displaced) {
            queues.remove(&entry);
            gone.entries.push(entry);
        }
    }

    /// Removes all variants of a key; gives how many there were.
    pub(crate) fn remove(&self, key: &Key) -> usize {
        let hash = self.hasher.hash_one(key);
        self.removal_count(hash).fetch_add(1, AcqRel);
        let mut gone = Gone::default();
        let mut queues = self.queues();
        while let Some(entry) = self.take(hash, |entry| *key == entry.key()) {
            queues.remove(&entry);
            gone.entries.push(entry);
        }
        if let Some(disk) = &self.disk {
            gone.records.extend(disk.remove_all_of(hash));
        }
        drop(queues);
        count(&gone.entries, &gone.records)
    }

    /// Removes everything, and keeps what is on its way from being stored. From now on this is another origin's.
    pub(crate) fn remove_all(&self, origin: &str) {
        for count in &self.removals {
            count.fetch_add(1, AcqRel);
        }
        let mut gone = Gone::default();
        let mut queues = self.queues();
        for shard in &self.shards {
            let entries = mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            gone.entries.extend(entries);
        }
        gone.entries.iter().for_each(|entry| queues.remove(entry));
        if let Some(disk) = &self.disk {
            gone.records.extend(disk.clear());
            drop(queues);
            // It waits for the disk: no request waits for this.
            disk.begin_anew(origin);
        }
    }

    /// Keeps all variants of a key, but has each validated before it is used again; gives how many there are.
    pub(crate) fn lapse(&self, key: &Key) -> usize {
        let hash = self.hasher.hash_one(key);
        // Of those that are on their way: they may lack what this is about, and are not stored.
        self.removal_count(hash).fetch_add(1, AcqRel);
        let (variants, records) = {
            let _queues = self.queues();
            (self.variants(hash, key), self.records(hash))
        };
        // Behind the locks: the home has one of its own.
        for entry in &variants {
            entry.lapse();
        }
        records.iter().filter_map(|held| held.claim()).for_each(Claim::lapse);
        count(&variants, &records)
    }

    /// Has the disk keep what is in memory: the process ends. It waits for the disk, as long as until then.
    pub(crate) fn save(&self, until: Instant) {
        let Some(disk) = &self.disk else { return };
        let mut gone = Gone::default();
        for shard in &self.shards {
            let entries = mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            for entry in entries {
                self.queues().remove(&entry);
                if !disk.wait_for_room(entry.bytes() as u64, until) {
                    return;
                }
                self.demote(self.hash_of(&entry), entry, true, &mut gone);
            }
        }
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

    /// Puts an entry into the map; returns those that it displaces. The variants of its key take that many bytes at
    /// most, unless there is one alone.
    fn put(&self, hash: u64, entry: &Arc<Entry>, bytes_max: usize) -> Vec<Arc<Entry>> {
        let is_variant = |other: &Arc<Entry>| other.key() == entry.key();
        let is_replaced =
            |other: &Arc<Entry>| is_variant(other) && other.stored.selecting() == entry.stored.selecting();
        let mut displaced = Vec::new();
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        displaced.extend(take_from(&mut shard, hash, is_replaced));
        let mut variants: Vec<_> = shard.iter_hash(hash).filter(|other| is_variant(other)).collect();
        self.newest_last(&mut variants);
        let mut variants: Vec<Arc<Entry>> = variants.into_iter().cloned().collect();
        let mut bytes = entry.bytes() + variants.iter().map(|other| other.bytes()).sum::<usize>();
        while variants.len() >= VARIANTS_MAX || bytes > bytes_max {
            let Some(at) = least_used(&variants) else { break };
            let gone = variants.remove(at);
            bytes -= gone.bytes();
            displaced.extend(take_from(&mut shard, hash, |other| Arc::ptr_eq(other, &gone)));
        }
        shard.insert_unique(hash, entry.clone(), |entry| self.hash_of(entry));
        displaced
    }

    /// Takes an entry out of the map.
    fn take(&self, hash: u64, is_it: impl FnMut(&Arc<Entry>) -> bool) -> Option<Arc<Entry>> {
        take_from(&mut self.shard(hash).write().unwrap_or_else(PoisonError::into_inner), hash, is_it)
    }
}

/// The place of the variant that leaves: of those that were used least, the first. If that was used, its uses are
/// taken from all: uses of long ago do not keep a variant for ever.
fn least_used(variants: &[Arc<Entry>]) -> Option<usize> {
    let (at, least) = variants.iter().enumerate().min_by_key(|(at, entry)| (entry.meter.uses(), *at))?;
    let uses = least.meter.uses();
    if uses > 0 {
        for entry in variants {
            entry.meter.forget(uses);
        }
    }
    Some(at)
}

/// How many responses these are: one may be in memory and on disk.
fn count(entries: &[Arc<Entry>], records: &[Arc<Held<Claim>>]) -> usize {
    let is_in_memory = |held: &&Arc<Held<Claim>>| {
        entries.iter().filter_map(|entry| entry.held()).any(|other| Arc::ptr_eq(other, held))
    };
    entries.len() + records.iter().filter(|held| !is_in_memory(held)).count()
}

fn take_from(
    shard: &mut HashTable<Arc<Entry>>,
    hash: u64,
    is_it: impl FnMut(&Arc<Entry>) -> bool,
) -> Option<Arc<Entry>> {
    shard.find_entry(hash, is_it).ok().map(|found| found.remove().0)
}
