//! How a transaction commits.

use crate::bytes::{
    check_slot, get_changes, get_page_slots, get_slots, put_changes, put_page_slots, put_slots, values,
};
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::{check_count, check_order};
use framing::{Field, FieldLayout, Layout, Limits, Meta, Reader, Rest, WireError, fields, messages};
use types::limits::{PIECE_BYTES_MAX, TXN_BYTES_MAX, TXN_CHANGES_MAX, TXN_PAGES_MAX};
use types::{Delta, Incarnation, PageId, Refusal, SlotNo, SlotSet, TxnId, Version};

/// Wants a transaction committed. Safe to send again: the identity has one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The transaction.
    pub txn: TxnId,
    /// The latest incarnation of the store that its client knew of when it sent this copy. A later one does not commit
    /// it any more ([`Refusal::Lapsed`]).
    pub incarnation: Incarnation,
    /// The client has the outcome of each of its transactions with a number below this one and will never ask for it
    /// again: the store may forget them.
    pub answered: u64,
    /// The reads, page by page, in page order. The slots that it writes are among them.
    pub reads: Vec<PageReads>,
    /// The writes, in page order. None for a read-only transaction, which is validated once and leaves no trace.
    pub writes: Vec<Delta>,
}

impl CommitRequest {
    /// The pages that it has read, in order, and behind them those that it writes to.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.reads.iter().map(|reads| reads.page).chain(self.writes.iter().map(|delta| delta.page))
    }

    /// About what it takes of a line, in bytes, if that is more than one frame; else zero: no request waits for it.
    pub fn large_bytes(&self) -> usize {
        let changes = self.writes.iter().flat_map(|delta| &delta.changes);
        let values: usize = changes.map(|change| 4 + change.value.as_ref().map_or(0, Bytes::len)).sum();
        let bytes = values + 32 * self.reads.len();
        if bytes > PIECE_BYTES_MAX { bytes } else { 0 }
    }
}

/// The slots of one page that a transaction read, and how recent they provably were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReads {
    /// The page.
    pub page: PageId,
    /// Its slots that were read; a slot read as free counts.
    pub slots: SlotSet,
    /// All of them were current through this count: the greater of the page's version and the horizon.
    pub evidence: Version,
    /// Slots with later evidence, from the vcache, in slot order.
    pub exceptions: Vec<(SlotNo, Version)>,
}

impl PageReads {
    /// The highest count that anything here is proved by.
    pub fn newest(&self) -> Version {
        self.exceptions.iter().map(|(_, version)| *version).fold(self.evidence, Version::max)
    }
}

impl PageReads {
    /// The count through which `slot` was provably current.
    pub fn evidence_of(&self, slot: SlotNo) -> Version {
        let exception = self.exceptions.iter().find(|(s, _)| *s == slot);
        exception.map_or(self.evidence, |(_, version)| *version)
    }
}

messages! {
    /// Wants to know what became of a commit request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AskOutcome {
        /// The transaction.
        pub txn: TxnId,
    }
}

/// The outcome of a commit request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReply {
    /// The transaction.
    pub txn: TxnId,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a commit request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable and has its count.
    Committed {
        /// How it moved each page that it wrote, in page order. To the committer this stands for the invalidation.
        pages: Vec<Advance>,
    },
    /// It has no effect, and never will.
    Refused(Refusal),
    /// The store does not know: the transaction is older than what it remembers of this client.
    Unknown,
}

impl Outcome {
    /// The request has had no effect and will have none, for a reason that is not the application's: it tries again.
    pub const NO_EFFECT: Self = Self::Refused(Refusal::Stale(Vec::new()));
}

fields! {
    /// A page went from one version to another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Advance {
        /// The page.
        pub page: PageId,
        /// Its version before.
        pub prev: Version,
        /// Its version since.
        pub version: Version,
    }
}

impl Advance {
    /// An advance from an unknown version. It is out of sequence for a cache that lacks a change before it.
    pub fn from_unknown(page: PageId, version: Version) -> Self {
        Self { page, prev: version.before(), version }
    }
}

/// How many pages are read, and how many written, stand before both; the values that are written are the body.
impl Layout for CommitRequest {
    const LIMITS: Limits =
        Limits::bytes(TxnId::BYTES + 2 * u64::BYTES + 2 * u32::BYTES).and_more().with_body(TXN_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages read", self.reads.len(), TXN_PAGES_MAX)?;
        check_count("pages written", self.writes.len(), TXN_PAGES_MAX)?;
        check_count("changes", self.writes.iter().map(|delta| delta.changes.len()).sum(), TXN_CHANGES_MAX)?;
        (self.txn, (self.incarnation, self.answered)).put(meta);
        (self.reads.len() as u32, self.writes.len() as u32).put(meta);
        self.reads.iter().for_each(|reads| put_reads(meta, reads));
        self.writes.iter().try_for_each(|delta| put_delta(meta, delta))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.writes.iter().flat_map(|delta| values(&delta.changes))
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (txn, (incarnation, answered)) = Field::get("txn", reader)?;
        let (reads, writes) = <(u32, u32)>::get("pages", reader)?;
        check_count("pages read", reads as usize, TXN_PAGES_MAX)?;
        check_count("pages written", writes as usize, TXN_PAGES_MAX)?;
        let mut changes_left = TXN_CHANGES_MAX;
        let reads = reader.list(reads as usize, READS_BYTES_MIN, get_reads)?;
        let writes = reader.list(writes as usize, DELTA_BYTES_MIN, |reader| get_delta(reader, &mut changes_left))?;
        check_order("pages read", reads.iter().map(|reads| reads.page))?;
        check_order("pages written", writes.iter().map(|delta| delta.page))?;
        Ok(Self { txn, incarnation, answered, reads, writes })
    }
}

/// The bytes of a page's reads and of its delta, before their slots, exceptions and changes.
const READS_BYTES_MIN: usize = 2 * u64::BYTES + 2 * u16::BYTES;
pub(crate) const DELTA_BYTES_MIN: usize = PageId::BYTES + u16::BYTES;

/// The page, its evidence, how many words its slots have and how many exceptions there are; then the words and the
/// exceptions.
fn put_reads(meta: &mut Meta<'_>, reads: &PageReads) {
    (reads.page, reads.evidence).put(meta);
    (reads.slots.as_words().len() as u16, reads.exceptions.len() as u16).put(meta);
    put_slots(meta, &reads.slots);
    reads.exceptions.iter().for_each(|&(slot, version)| (version, slot).put(meta));
}

fn get_reads(reader: &mut Reader<'_>) -> Result<PageReads, WireError> {
    let (page, evidence) = Field::get("page", reader)?;
    let (words, exceptions) = <(u16, u16)>::get("reads", reader)?;
    let slots = get_slots(reader, words.into())?;
    let exception = |reader: &mut Reader<'_>| {
        let (version, slot) = <(Version, SlotNo)>::get("exception", reader)?;
        Ok((slot, version))
    };
    let exceptions = reader.list(exceptions.into(), Version::BYTES + SlotNo::BYTES, exception)?;
    check_order("exceptions", exceptions.iter().map(|(slot, _)| *slot))?;
    exceptions.last().map_or(Ok(()), |(slot, _)| check_slot(*slot))?;
    Ok(PageReads { page, slots, evidence, exceptions })
}

/// The page and how many changes there are, then those.
pub(crate) fn put_delta(meta: &mut Meta<'_>, delta: &Delta) -> Result<(), WireError> {
    (delta.page, delta.changes.len() as u16).put(meta);
    put_changes(meta, &delta.changes)
}

pub(crate) fn get_delta(reader: &mut Reader<'_>, changes_left: &mut usize) -> Result<Delta, WireError> {
    let (page, changes) = <(PageId, u16)>::get("delta", reader)?;
    let changes = get_changes(reader, changes.into(), changes_left)?;
    check_count("empty deltas", usize::from(changes.is_empty()), 0)?;
    Ok(Delta { page, changes })
}

/// The outcomes, by their numbers on the wire.
mod outcome {
    pub(crate) const COMMITTED: u32 = 0;
    pub(crate) const UNKNOWN: u32 = 1;
    pub(crate) const STALE: u32 = 2;
    pub(crate) const BUSY: u32 = 3;
    pub(crate) const STORE_FULL: u32 = 4;
    pub(crate) const PAGE_FULL: u32 = 5;
    pub(crate) const TOO_LARGE: u32 = 6;
    pub(crate) const NO_SUCH_PAGE: u32 = 7;
    pub(crate) const TOO_MANY: u32 = 8;
    pub(crate) const CLOSING: u32 = 9;
    pub(crate) const LAPSED: u32 = 10;
    pub(crate) const PAGE_DAMAGED: u32 = 11;
}

/// The outcome's number, then what it calls for, to the end of the meta.
impl Layout for CommitReply {
    const LIMITS: Limits = Limits::bytes(TxnId::BYTES + u32::BYTES).and_more();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        self.txn.put(meta);
        match &self.outcome {
            Outcome::Committed { pages } => {
                outcome::COMMITTED.put(meta);
                Advances::put(pages, "pages committed", meta)
            }
            Outcome::Refused(refusal) => put_refusal(refusal, meta),
            Outcome::Unknown => {
                outcome::UNKNOWN.put(meta);
                Ok(())
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (txn, number) = <(TxnId, u32)>::get("outcome", reader)?;
        let outcome = match number {
            outcome::COMMITTED => Outcome::Committed { pages: Advances::get("pages committed", reader)? },
            outcome::UNKNOWN => Outcome::Unknown,
            number => Outcome::Refused(get_refusal(number, reader)?),
        };
        Ok(Self { txn, outcome })
    }
}

/// How the pages of a commit moved.
type Advances = Rest<TXN_PAGES_MAX>;

/// A refusal's number among the outcomes, then what it calls for, to the end of the meta.
pub(crate) fn put_refusal(refusal: &Refusal, meta: &mut Meta<'_>) -> Result<(), WireError> {
    refusal_number(refusal).put(meta);
    match refusal {
        Refusal::Stale(pages) => {
            check_count("stale pages", pages.len(), TXN_PAGES_MAX)?;
            for (page, slots) in pages {
                put_page_slots(meta, *page, slots);
            }
        }
        Refusal::PageFull(page) | Refusal::NoSuchPage(page) | Refusal::PageDamaged(page) => page.put(meta),
        Refusal::Lapsed(incarnation) => incarnation.put(meta),
        Refusal::Busy | Refusal::StoreFull | Refusal::TooLarge | Refusal::TooMany | Refusal::Closing => {}
    }
    Ok(())
}

/// The refusal of this number among the outcomes.
pub(crate) fn get_refusal(number: u32, reader: &mut Reader<'_>) -> Result<Refusal, WireError> {
    Ok(match number {
        outcome::STALE => Refusal::Stale(get_page_slots(reader, "stale pages", TXN_PAGES_MAX)?),
        outcome::BUSY => Refusal::Busy,
        outcome::STORE_FULL => Refusal::StoreFull,
        outcome::PAGE_FULL => Refusal::PageFull(Field::get("page", reader)?),
        outcome::TOO_LARGE => Refusal::TooLarge,
        outcome::NO_SUCH_PAGE => Refusal::NoSuchPage(Field::get("page", reader)?),
        outcome::TOO_MANY => Refusal::TooMany,
        outcome::CLOSING => Refusal::Closing,
        outcome::PAGE_DAMAGED => Refusal::PageDamaged(Field::get("page", reader)?),
        outcome::LAPSED => Refusal::Lapsed(Field::get("incarnation", reader)?),
        got => return Err(WireError::Code { what: "outcome", got: got.into() }),
    })
}

fn refusal_number(refusal: &Refusal) -> u32 {
    match refusal {
        Refusal::Stale(_) => outcome::STALE,
        Refusal::Busy => outcome::BUSY,
        Refusal::StoreFull => outcome::STORE_FULL,
        Refusal::PageFull(_) => outcome::PAGE_FULL,
        Refusal::TooLarge => outcome::TOO_LARGE,
        Refusal::NoSuchPage(_) => outcome::NO_SUCH_PAGE,
        Refusal::TooMany => outcome::TOO_MANY,
        Refusal::Closing => outcome::CLOSING,
        Refusal::Lapsed(_) => outcome::LAPSED,
        Refusal::PageDamaged(_) => outcome::PAGE_DAMAGED,
    }
}
