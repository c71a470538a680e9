//! The version table of a home: one word for each stored response, read at every hit without the home's processor.
//!
//! ```text
//!   lease | generation | word 0 | word 1 | ...
//! ```
//! A response was stored with a word, in a generation of the table. An update that changes it changes the word; a home
//! that begins anew changes the generation, and with that all of them in one store. The home alone writes.
//!
//! # Why a look-up is right
//! A reader loads the lease, then the word, then reads the clock. If the clock is within the lease that was loaded, the
//! word was read within it too, as leases only grow; and within a lease no update is released before the home has changed
//! the words of all that depends on it. A lease that was loaded *after* the word would not do: it may have been given
//! when the home had joined again, to a reader that has slept since it read the word.

use crate::rule::Rule;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use types::{Broken, Time};

/// Where a response's word is, and what it was when the response was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub(crate) generation: u64,
    pub(crate) word: u64,
    pub(crate) slot: u32,
}

impl Proof {
    /// The number of the response's place.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The place's word. It is another one when the response has changed.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// The generation of the table.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// A version table.
#[derive(Debug)]
pub struct Table {
    /// When the home's lease is over, by the home's clock.
    lease: AtomicU64,
    generation: AtomicU64,
    words: Box<[AtomicU64]>,
    broken: Broken<Rule>,
}

impl Table {
    pub(crate) fn new(slots: u32, generation: u64, broken: Broken<Rule>) -> Self {
        let words = (0..slots).map(|_| AtomicU64::new(0)).collect();
        Self { lease: AtomicU64::new(0), generation: AtomicU64::new(generation), words, broken }
    }

    /// Whether a stored response is current: at a moment after this was called it reflected every update that had been
    /// released. `clock` is the home's, and is read last.
    #[inline]
    pub fn is_current(&self, proof: &Proof, clock: impl FnOnce() -> Time) -> bool {
        let mut lease = self.lease.load(Ordering::Acquire);
        let Some(word) = self.words.get(proof.slot as usize) else { return false };
        let is_same_word = word.load(Ordering::Acquire) == proof.word;
        let is_same_generation = self.generation.load(Ordering::Acquire) == proof.generation;
        // The clock is no memory: without the fence it could be read before the word is.
        fence(Ordering::SeqCst);
        let now = clock();
        if self.broken.is(Rule::ClockAfterWord) {
            lease = self.lease.load(Ordering::Acquire);
        }
        is_same_word
            && (is_same_generation || self.broken.is(Rule::GenerationOfHome))
            && (now.0 < lease || self.broken.is(Rule::LeaseOfHome))
    }

    /// The number of words.
    pub(crate) fn slots(&self) -> u32 {
        self.words.len() as u32
    }

    /// Whether the lease goes on at this time.
    pub(crate) fn is_leased(&self, now: Time) -> bool {
        now.0 < self.lease.load(Ordering::Relaxed)
    }

    pub(crate) fn extend(&self, until: Time) {
        self.lease.fetch_max(until.0, Ordering::Release);
    }

    /// The home answers for nothing any more.
    pub(crate) fn revoke(&self) {
        self.lease.store(0, Ordering::Release);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Changes all words at once.
    pub(crate) fn flush(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Changes a word.
    pub(crate) fn bump(&self, slot: u32) {
        self.words[slot as usize].fetch_add(1, Ordering::Release);
    }

    /// The proof of a response that is stored in this slot now.
    pub(crate) fn proof(&self, slot: u32) -> Proof {
        Proof { generation: self.generation(), word: self.words[slot as usize].load(Ordering::Relaxed), slot }
    }
}
