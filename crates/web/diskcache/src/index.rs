//! The records that there are: found by the hashes of their keys.
//!
//! An entry takes 80 bytes with a claim of 32, and some 24 in the tables.

use crate::area::{Pin, Place};
use crate::format::Label;
use hashbrown::HashTable;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Weak};

/// Uses are counted up to here: so often a record is written again.
const USES_MAX: u8 = 3;

/// The records of one key. Beyond, one of them leaves.
const VARIANTS_MAX: usize = 32;

/// A record in the cache, with its user's claim on it.
#[derive(Debug)]
pub struct Held<C> {
    pub(crate) hash: u64,
    pub(crate) label: Label,
    claim: Option<C>,
    /// Zero until it is written.
    place: AtomicU64,
    uses: AtomicU8,
    is_listed: AtomicBool,
    /// Whether its content has been compared with its checksums since it came, or comes from this process.
    is_checked: AtomicBool,
}

impl<C> Held<C> {
    pub(crate) fn new(hash: u64, label: Label, claim: Option<C>) -> Self {
        let (place, uses) = (AtomicU64::new(0), AtomicU8::new(0));
        let (is_listed, is_checked) = (AtomicBool::new(false), AtomicBool::new(claim.is_some()));
        Self { hash, label, claim, place, uses, is_listed, is_checked }
    }

    /// The claim that it came with; none for one that was found at the start.
    pub fn claim(&self) -> Option<&C> {
        self.claim.as_ref()
    }

    /// Whether it is in the cache now.
    pub fn is_listed(&self) -> bool {
        self.is_listed.load(Acquire)
    }

    /// Counts a use.
    pub fn use_once(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Relaxed);
        }
    }

    /// Counts one less.
    pub(crate) fn count_down(&self) {
        self.uses.store(self.uses().saturating_sub(1), Relaxed);
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Relaxed)
    }

    pub(crate) fn place(&self) -> Option<Place> {
        Place::unpack(self.place.load(Acquire))
    }

    pub(crate) fn set_place(&self, place: Option<Place>) {
        self.place.store(place.map_or(0, Place::pack), Release);
    }

    pub(crate) fn is_checked(&self) -> bool {
        self.is_checked.load(Relaxed)
    }

    pub(crate) fn set_checked(&self) {
        self.is_checked.store(true, Relaxed);
    }
}

/// A segment, as the index knows it.
#[derive(Debug)]
pub(crate) struct Segment<C> {
    /// Zero if it has never been begun.
    pub(crate) generation: u64,
    pub(crate) pin: Pin,
    /// The records that were written to it; many may have left since.
    pub(crate) held: Vec<Weak<Held<C>>>,
}

/// The records.
#[derive(Debug)]
pub(crate) struct Index<C> {
    table: HashTable<Arc<Held<C>>>,
    pub(crate) segments: Vec<Segment<C>>,
    /// The bytes of the records that are written.
    bytes: u64,
}

impl<C> Index<C> {
    pub(crate) fn new(segments: usize) -> Self {
        let segments =
            (0..segments).map(|_| Segment { generation: 0, pin: Pin::default(), held: Vec::new() }).collect();
        Self { table: HashTable::new(), segments, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The records whose keys have this hash.
    pub(crate) fn find(&self, hash: u64) -> impl Iterator<Item = &Arc<Held<C>>> {
        self.table.iter_hash(hash).filter(move |held| held.hash == hash)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Held<C>>> {
        self.table.iter()
    }

    /// Takes a record in; gives those that it displaces, to be dropped behind the lock.
    pub(crate) fn list(&mut self, held: &Arc<Held<C>>) -> Vec<Arc<Held<C>>> {
        let mut gone = self.displace(held.hash, held.label);
        while self.find(held.hash).count() >= VARIANTS_MAX {
            let Some(one) = self.find(held.hash).next().cloned() else { break };
            gone.extend(self.unlist(&one));
        }
        held.is_listed.store(true, Release);
        self.bytes += held.place().map_or(0, |place| place.size);
        self.table.insert_unique(held.hash, held.clone(), |held| held.hash);
        gone
    }

    /// Takes out what a newer response displaces: of the same variant, or of another kind.
    pub(crate) fn displace(&mut self, hash: u64, label: Label) -> Vec<Arc<Held<C>>> {
        self.take(hash, |held| held.label.variant == label.variant || held.label.kind != label.kind)
    }

    /// Takes records of a hash out.
    pub(crate) fn take(&mut self, hash: u64, is_one: impl Fn(&Held<C>) -> bool) -> Vec<Arc<Held<C>>> {
        let gone: Vec<_> = self.find(hash).filter(|held| is_one(held)).cloned().collect();
        for held in &gone {
            self.unlist(held);
        }
        gone
    }

    /// Takes a record out.
    pub(crate) fn unlist(&mut self, held: &Arc<Held<C>>) -> Option<Arc<Held<C>>> {
        let found = self.table.find_entry(held.hash, |other| Arc::ptr_eq(other, held)).ok()?;
        let (gone, _) = found.remove();
        gone.is_listed.store(false, Release);
        self.bytes -= gone.place().map_or(0, |place| place.size);
        Some(gone)
    }

    /// Takes all out.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Held<C>>> {
        self.bytes = 0;
        let gone: Vec<_> = self.table.drain().collect();
        for held in &gone {
            held.is_listed.store(false, Release);
        }
        gone
    }

    /// A record has a place, or is on its way to another one.
    pub(crate) fn set_place(&mut self, held: &Arc<Held<C>>, segment: usize, place: Option<Place>) {
        self.bytes -= held.place().map_or(0, |place| place.size);
        self.bytes += place.map_or(0, |place| place.size);
        held.set_place(place);
        if place.is_some() {
            self.segments[segment].held.push(Arc::downgrade(held));
        }
    }
}
