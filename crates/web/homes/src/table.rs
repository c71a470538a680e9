//! The version table of a home: one word for each stored response, read at every hit without the home's processor.
//!
//! ```text
//!   layout | slots | life | lease | generation | ... | clock | ... | word 0 | word 1 | ...
//! ```
//! A response was stored with a word, in a generation of the table. An update that changes it changes the word; a home
//! that begins again changes the generation, and with that all of them in one store. The home alone writes. Its memory
//! is the process's own, or a mapped file that other processes read: they check what it says of itself, and no value in
//! it can have them read beside it.
//!
//! # Why a lookup is right
//! A reader loads the lease, then the word, then reads the clock. If the clock is within the lease that was loaded, the
//! word was read within it too, as leases only grow; and within a lease no update is released before the home has
//! changed the words of everything that depends on it. A lease that was loaded *after* the word would not do: it may
//! have been given when the home had joined again, to a reader that has slept since it read the word.
//!
//! # Why a ticket is right
//! It is the home's fill clock, which counts unmarkings. One that is read too early is older than it need be, and the
//! home declines what it would otherwise have stored.

use crate::messages::caches::{Proof, Ticket};
use crate::messages::look_ups::Head;
use crate::rule::Rule;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use types::limits::TABLE_SLOTS_MAX;
use types::{Broken, Time};

/// The first word of a table: what its memory is, and how it is laid out.
const LAYOUT: u64 = u64::from_be_bytes(*b"thorp-t1");

// The words of the head. Its first line of a processor's cache is read at each hit and rarely written; the clock, which
// each update changes, has one of its own.
const LAYOUT_AT: usize = 0;
const SLOTS: usize = 1;
const LIFE: usize = 2;
const LEASE: usize = 3;
const GENERATION: usize = 4;
const CLOCK: usize = 8;
const HEAD: usize = 16;

/// The memory of a table.
pub trait Memory: AsRef<[AtomicU64]> + fmt::Debug + Send + Sync + 'static {}

impl<M: AsRef<[AtomicU64]> + fmt::Debug + Send + Sync + 'static> Memory for M {}

/// A version table.
#[derive(Debug)]
pub struct Table<M = Box<[AtomicU64]>> {
    memory: M,
    broken: Broken<Rule>,
}

/// Why memory is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTable {
    /// It does not begin like one, of this layout.
    Layout,
    /// It has fewer or more words than it says.
    Size,
}

impl fmt::Display for NoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layout => "it is no version table of this program's layout",
            Self::Size => "it has not as many words as it says",
        })
    }
}

impl core::error::Error for NoTable {}

impl Table {
    /// The place of the generation, for a reader that reads words by their places. One that has read it, and a slot's
    /// word, after a request has come and within the home's lease has looked at the response: in either order, as both
    /// only grow.
    pub const GENERATION: u64 = GENERATION as u64;

    /// The words of the memory that a table of this many slots takes.
    pub fn words(slots: u32) -> usize {
        HEAD + slots.min(TABLE_SLOTS_MAX) as usize
    }

    /// The place of a slot's word.
    pub fn place(slot: u32) -> u64 {
        HEAD as u64 + u64::from(slot)
    }

    /// Memory of this process for a table.
    pub(crate) fn memory(slots: u32) -> Box<[AtomicU64]> {
        (0..Self::words(slots)).map(|_| AtomicU64::new(0)).collect()
    }
}

impl<M: Memory> AsRef<[AtomicU64]> for Table<M> {
    fn as_ref(&self) -> &[AtomicU64] {
        self.all()
    }
}

impl<M: Memory> Table<M> {
    /// A table of a home that begins, in memory that is all zero and has [`Table::words`].
    pub(crate) fn new(memory: M, life: u64, broken: Broken<Rule>) -> Self {
        let table = Self { memory, broken };
        let slots = table.all().len().saturating_sub(HEAD) as u64;
        table.head(SLOTS).store(slots, Ordering::Relaxed);
        table.head(LIFE).store(life, Ordering::Relaxed);
        table.head(GENERATION).store(life, Ordering::Relaxed);
        table.head(LAYOUT_AT).store(LAYOUT, Ordering::Release);
        table
    }

    /// The table of another process, in memory that it writes to.
    ///
    /// # Errors
    /// Why the memory is none.
    pub fn of_another(memory: M) -> Result<Self, NoTable> {
        let table = Self { memory, broken: Broken::NONE };
        let words = table.all();
        let load = |at: usize| words.get(at).map(|word| word.load(Ordering::Acquire));
        match (load(LAYOUT_AT), load(SLOTS)) {
            (Some(LAYOUT), Some(slots)) if (words.len() as u64).checked_sub(HEAD as u64) == Some(slots) => Ok(table),
            (Some(LAYOUT), _) => Err(NoTable::Size),
            _ => Err(NoTable::Layout),
        }
    }

    fn all(&self) -> &[AtomicU64] {
        self.memory.as_ref()
    }

    fn head(&self, at: usize) -> &AtomicU64 {
        &self.all()[at]
    }

    fn word(&self, slot: u32) -> Option<&AtomicU64> {
        self.all().get(HEAD + slot as usize)
    }

    /// Whether a stored response is current: at a moment after this was called it reflected every update that had been
    /// released. `clock` is the home's, and is read last.
    #[inline]
    pub fn is_current(&self, proof: &Proof, clock: impl FnOnce() -> Time) -> bool {
        let mut lease = self.head(LEASE).load(Ordering::Acquire);
        let Some(word) = self.word(proof.slot) else { return false };
        let is_same_word = word.load(Ordering::Acquire) == proof.word;
        let is_same_generation = self.head(GENERATION).load(Ordering::Acquire) == proof.generation;
        // The clock is no memory: without the fence it could be read before the word is.
        fence(Ordering::SeqCst);
        let now = clock();
        if self.broken.is(Rule::ClockAfterWord) {
            lease = self.head(LEASE).load(Ordering::Acquire);
        }
        is_same_word
            && (is_same_generation || self.broken.is(Rule::GenerationOfHome))
            && (now.0 < lease || self.broken.is(Rule::LeaseOfHome))
    }

    /// Reads words for a reader that cannot, and what says whether they count. A word beside the table is zero: it is
    /// asked for by who has stored something in an earlier life of its home, and is of no response. `clock` is the
    /// home's, and is read last.
    pub(crate) fn read(&self, slots: &[u32], clock: impl FnOnce() -> Time) -> (Head, Vec<u64>) {
        let mut lease = self.head(LEASE).load(Ordering::Acquire);
        let word = |slot: &u32| self.word(*slot).map_or(0, |word| word.load(Ordering::Acquire));
        let words = slots.iter().map(word).collect();
        let generation = self.head(GENERATION).load(Ordering::Acquire);
        let (life, fills) = (self.head(LIFE).load(Ordering::Relaxed), self.head(CLOCK).load(Ordering::Acquire));
        fence(Ordering::SeqCst);
        let now = clock();
        if self.broken.is(Rule::ClockAfterWord) {
            lease = self.head(LEASE).load(Ordering::Acquire);
        }
        (Head { life, generation, lease: Time(lease), now, fills }, words)
    }

    /// A ticket for a response that is about to be asked for. Without one it is not to be stored.
    pub fn ticket(&self, now: Time) -> Option<Ticket> {
        let clock = self.head(CLOCK).load(Ordering::Acquire);
        let life = self.head(LIFE).load(Ordering::Relaxed);
        (clock != 0 && self.is_leased(now)).then_some(Ticket { life, clock })
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        (self.all().len() - HEAD) as u32
    }

    /// Whether the lease continues at this time.
    pub(crate) fn is_leased(&self, now: Time) -> bool {
        now.0 < self.head(LEASE).load(Ordering::Relaxed)
    }

    pub(crate) fn extend(&self, until: Time) {
        self.head(LEASE).fetch_max(until.0, Ordering::Release);
    }

    /// The home answers for nothing any more, until it has another lease.
    pub(crate) fn revoke(&self) {
        self.head(LEASE).store(0, Ordering::Release);
    }

    /// Tickets are of this time from now on; `None` if none are given.
    pub(crate) fn set_clock(&self, clock: Option<u64>) {
        self.head(CLOCK).store(clock.unwrap_or(0), Ordering::Release);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.head(GENERATION).load(Ordering::Relaxed)
    }

    /// Changes all words at once.
    pub(crate) fn flush(&self) {
        self.head(GENERATION).fetch_add(1, Ordering::Release);
    }

    /// Changes a word.
    pub(crate) fn bump(&self, slot: u32) {
        if let Some(word) = self.word(slot) {
            word.fetch_add(1, Ordering::Release);
        }
    }

    /// The proof of a response that is stored in this slot now; `None` if there is no such slot.
    pub fn proof(&self, slot: u32) -> Option<Proof> {
        let word = self.word(slot)?.load(Ordering::Relaxed);
        Some(Proof { generation: self.generation(), word, slot })
    }
}
