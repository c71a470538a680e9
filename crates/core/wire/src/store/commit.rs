//! The bytes of the commit messages.

use crate::field::{check_count, check_order};
use crate::layout::{Layout, Meta, Reader};
use crate::store::field::{self, Txn};
use crate::{Limits, WireError};
use bytes::Bytes;
use protocol::{Advance, AskOutcome, CommitReply, CommitRequest, Outcome, PageReads};
use types::limits::{TXN_BYTES_MAX, TXN_CHANGES_MAX, TXN_PAGES_MAX};
use types::{Delta, Incarnation, PageId, Refusal, SlotSet, Version};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A request. Behind it stand its reads, then its writes; the values of the writes are in the body.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestMeta {
    txn: Txn,
    incarnation: U64,
    answered: U64,
    reads: U32,
    writes: U32,
}

/// The read of one page. Behind it stand the words of its slots, then its exceptions.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReadsMeta {
    page: U64,
    evidence: U64,
    words: U16,
    exceptions: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ExceptionMeta {
    version: U64,
    slot: U16,
}

/// The write to one page. Behind it stand its changes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DeltaMeta {
    page: U64,
    changes: U16,
}

impl Layout for CommitRequest {
    const LIMITS: Limits = Limits::fields::<RequestMeta>().and_more().with_body(TXN_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages read", self.reads.len(), TXN_PAGES_MAX)?;
        check_count("pages written", self.writes.len(), TXN_PAGES_MAX)?;
        check_count("changes", self.writes.iter().map(|delta| delta.changes.len()).sum(), TXN_CHANGES_MAX)?;
        meta.put(&RequestMeta {
            txn: self.txn.into(),
            incarnation: self.incarnation.0.into(),
            answered: self.answered.into(),
            reads: (self.reads.len() as u32).into(),
            writes: (self.writes.len() as u32).into(),
        });
        self.reads.iter().for_each(|reads| put_reads(meta, reads));
        self.writes.iter().try_for_each(|delta| put_delta(meta, delta))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.writes.iter().flat_map(|delta| field::values(&delta.changes))
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<RequestMeta>()?;
        let (reads, writes) = (meta.reads.get() as usize, meta.writes.get() as usize);
        check_count("pages read", reads, TXN_PAGES_MAX)?;
        check_count("pages written", writes, TXN_PAGES_MAX)?;
        let mut changes_left = TXN_CHANGES_MAX;
        let request = Self {
            txn: (&meta.txn).into(),
            incarnation: Incarnation(meta.incarnation.get()),
            answered: meta.answered.get(),
            reads: reader.list(reads, size_of::<ReadsMeta>(), get_reads)?,
            writes: reader.list(writes, size_of::<DeltaMeta>(), |reader| get_delta(reader, &mut changes_left))?,
        };
        check_order("pages read", request.reads.iter().map(|reads| reads.page))?;
        check_order("pages written", request.writes.iter().map(|delta| delta.page))?;
        Ok(request)
    }
}

fn put_reads(meta: &mut Meta<'_>, reads: &PageReads) {
    meta.put(&ReadsMeta {
        page: field::page(reads.page),
        evidence: reads.evidence.0.into(),
        words: (reads.slots.as_words().len() as u16).into(),
        exceptions: (reads.exceptions.len() as u16).into(),
    });
    field::put_slots(meta, &reads.slots);
    let exception = |&(slot, version): &(_, Version)| ExceptionMeta { version: version.0.into(), slot: U16::new(slot) };
    meta.put_all(reads.exceptions.iter().map(exception));
}

fn get_reads(reader: &mut Reader<'_>) -> Result<PageReads, WireError> {
    let meta = reader.get::<ReadsMeta>()?;
    let slots = field::get_slots(reader, meta.words.get().into())?;
    let exceptions = reader.many::<ExceptionMeta>(meta.exceptions.get().into())?;
    check_order("exceptions", exceptions.iter().map(|exception| exception.slot.get()))?;
    exceptions.last().map_or(Ok(()), |last| field::check_slot(last.slot.get()))?;
    Ok(PageReads {
        page: field::to_page(meta.page),
        slots,
        evidence: Version(meta.evidence.get()),
        exceptions: exceptions.iter().map(|e| (e.slot.get(), Version(e.version.get()))).collect(),
    })
}

fn put_delta(meta: &mut Meta<'_>, delta: &Delta) -> Result<(), WireError> {
    meta.put(&DeltaMeta { page: field::page(delta.page), changes: (delta.changes.len() as u16).into() });
    field::put_changes(meta, &delta.changes)
}

fn get_delta(reader: &mut Reader<'_>, changes_left: &mut usize) -> Result<Delta, WireError> {
    let meta = reader.get::<DeltaMeta>()?;
    let changes = field::get_changes(reader, meta.changes.get().into(), changes_left)?;
    check_count("empty deltas", usize::from(changes.is_empty()), 0)?;
    Ok(Delta { page: field::to_page(meta.page), changes })
}

impl Layout for AskOutcome {
    const LIMITS: Limits = Limits::fields::<Txn>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&Txn::from(self.txn));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { txn: reader.get::<Txn>()?.into() })
    }
}

/// A reply. Behind it stands what the outcome calls for, to the end of the meta.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReplyMeta {
    txn: Txn,
    outcome: U32,
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

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AdvanceMeta {
    page: U64,
    prev: U64,
    version: U64,
}

/// Stale slots of one page. Behind it stand the words of the slots.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StaleMeta {
    page: U64,
    words: U16,
}

impl Layout for CommitReply {
    const LIMITS: Limits = Limits::fields::<ReplyMeta>().and_more();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&ReplyMeta { txn: self.txn.into(), outcome: outcome_number(&self.outcome).into() });
        match &self.outcome {
            Outcome::Committed { pages } => put_advances(meta, pages),
            Outcome::Refused(Refusal::Stale(pages)) => put_stale(meta, pages),
            Outcome::Refused(Refusal::PageFull(page) | Refusal::NoSuchPage(page) | Refusal::PageDamaged(page)) => {
                meta.put(&field::page(*page));
                Ok(())
            }
            Outcome::Refused(Refusal::Lapsed(incarnation)) => {
                meta.put(&U64::new(incarnation.0));
                Ok(())
            }
            Outcome::Refused(_) | Outcome::Unknown => Ok(()),
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<ReplyMeta>()?;
        let txn = (&meta.txn).into();
        let refusal = match meta.outcome.get() {
            outcome::COMMITTED => return Ok(Self { txn, outcome: get_advances(reader)? }),
            outcome::UNKNOWN => return Ok(Self { txn, outcome: Outcome::Unknown }),
            outcome::STALE => get_stale(reader)?,
            outcome::BUSY => Refusal::Busy,
            outcome::STORE_FULL => Refusal::StoreFull,
            outcome::PAGE_FULL => Refusal::PageFull(field::to_page(*reader.get()?)),
            outcome::TOO_LARGE => Refusal::TooLarge,
            outcome::NO_SUCH_PAGE => Refusal::NoSuchPage(field::to_page(*reader.get()?)),
            outcome::TOO_MANY => Refusal::TooMany,
            outcome::CLOSING => Refusal::Closing,
            outcome::PAGE_DAMAGED => Refusal::PageDamaged(field::to_page(*reader.get()?)),
            outcome::LAPSED => Refusal::Lapsed(Incarnation(reader.get::<U64>()?.get())),
            got => return Err(WireError::Code { what: "outcome", got: got.into() }),
        };
        Ok(Self { txn, outcome: Outcome::Refused(refusal) })
    }
}

fn outcome_number(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::Committed { .. } => outcome::COMMITTED,
        Outcome::Unknown => outcome::UNKNOWN,
        Outcome::Refused(Refusal::Stale(_)) => outcome::STALE,
        Outcome::Refused(Refusal::Busy) => outcome::BUSY,
        Outcome::Refused(Refusal::StoreFull) => outcome::STORE_FULL,
        Outcome::Refused(Refusal::PageFull(_)) => outcome::PAGE_FULL,
        Outcome::Refused(Refusal::TooLarge) => outcome::TOO_LARGE,
        Outcome::Refused(Refusal::NoSuchPage(_)) => outcome::NO_SUCH_PAGE,
        Outcome::Refused(Refusal::TooMany) => outcome::TOO_MANY,
        Outcome::Refused(Refusal::Closing) => outcome::CLOSING,
        Outcome::Refused(Refusal::Lapsed(_)) => outcome::LAPSED,
        Outcome::Refused(Refusal::PageDamaged(_)) => outcome::PAGE_DAMAGED,
    }
}

fn put_advances(meta: &mut Meta<'_>, pages: &[Advance]) -> Result<(), WireError> {
    check_count("pages committed", pages.len(), TXN_PAGES_MAX)?;
    meta.put_all(pages.iter().map(|advance| AdvanceMeta {
        page: field::page(advance.page),
        prev: advance.prev.0.into(),
        version: advance.version.0.into(),
    }));
    Ok(())
}

fn get_advances(reader: &mut Reader<'_>) -> Result<Outcome, WireError> {
    let advances = reader.rest::<AdvanceMeta>()?;
    check_count("pages committed", advances.len(), TXN_PAGES_MAX)?;
    let advance = |advance: &AdvanceMeta| Advance {
        page: field::to_page(advance.page),
        prev: Version(advance.prev.get()),
        version: Version(advance.version.get()),
    };
    Ok(Outcome::Committed { pages: advances.iter().map(advance).collect() })
}

fn put_stale(meta: &mut Meta<'_>, pages: &[(PageId, SlotSet)]) -> Result<(), WireError> {
    check_count("stale pages", pages.len(), TXN_PAGES_MAX)?;
    for (page, slots) in pages {
        let words = (slots.as_words().len() as u16).into();
        meta.put(&StaleMeta { page: field::page(*page), words });
        field::put_slots(meta, slots);
    }
    Ok(())
}

fn get_stale(reader: &mut Reader<'_>) -> Result<Refusal, WireError> {
    let mut pages = alloc::vec::Vec::new();
    while !reader.is_at_end() {
        check_count("stale pages", pages.len() + 1, TXN_PAGES_MAX)?;
        let meta = reader.get::<StaleMeta>()?;
        pages.push((field::to_page(meta.page), field::get_slots(reader, meta.words.get().into())?));
    }
    Ok(Refusal::Stale(pages))
}
