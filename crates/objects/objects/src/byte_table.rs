//! Where the pages of a byte value are: tables of pages, as processors have them for memory.
//!
//! A table is alone in its page. Entry `n` is in slot `n + 1`: the byte of a part, then the number of a page in the
//! space of the root, `u32le`. A free slot leads nowhere, and all bytes there are zero. An entry of the lowest level
//! leads to a page of lines, one of a higher level to a table of the level below. So two transactions that add
//! different pages change different slots.
//!
//! 1. Slot 0 of a table has the byte of a part and nothing else: a table is never empty, else the store would grant its
//!    page to others.
//! 2. A transaction reads the root before any entry, and writes the root when it takes pages away. So unless a
//!    transaction is doomed, the pages that it has found belong to the value.

use crate::byte_head::{DEPTH_MAX, FAN_OUT, Head, PAGE_BYTES, capacity};
use crate::byte_line::LINES;
use crate::slots::{self, Run};
use crate::tx::{Fits, Tx};
use crate::value::{part, part_in};
use crate::{Error, Mode, Result};
use bytes::Bytes;
use std::ops::Range;
use types::limits::TXN_PAGES_MAX;
use types::{ObjectId, PageId, Refusal, SlotNo};

/// The slots of a table's entries.
const ENTRIES: Range<SlotNo> = 1..FAN_OUT as SlotNo + 1;

/// The bytes of a whole page, in a cache: of a page of lines, or of a table.
pub(crate) const IMAGE_BYTES: usize = PAGE_BYTES as usize + 512;

const _: () = assert!(4 + (FAN_OUT as usize + 1) * (4 + 5) < types::limits::PAGE_BYTES_TARGET, "a table fits a page");

/// The pages that one entry of this level leads to. Level 0 is the lowest.
fn span(level: u8) -> u64 {
    FAN_OUT.pow(u32::from(level))
}

/// The slot of an entry, by its number among all entries of its level.
fn slot_of(entry: u64) -> SlotNo {
    (entry % FAN_OUT) as SlotNo + ENTRIES.start
}

fn entry_of(page: PageId) -> Bytes {
    part(&page.number.to_le_bytes())
}

/// The page that an entry leads to; the reason if the slot holds something else.
fn page_in(space: u32, slot: Option<&[u8]>) -> Result<Option<PageId>, &'static str> {
    let Some(slot) = slot else { return Ok(None) };
    let number = part_in(slot).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    match number {
        Some(number @ 1..) => Ok(Some(PageId::new(space, number))),
        _ => Err("it should be an entry of a table of pages, and is something else"),
    }
}

/// Finds these pages of a value, by their numbers in it. `None` for those that it does not have.
pub(crate) async fn find<M: Mode>(tx: &Tx<M>, head: &Head, pages: Range<u64>) -> Result<Vec<Option<PageId>>> {
    let (mut found, mut first) = (vec![head.top.map(|top| top.page)], 0);
    for level in (0..head.depth).rev() {
        let entries = pages.start / span(level)..pages.end.div_ceil(span(level));
        let mut runs = Vec::new();
        let mut children = vec![None; (entries.end - entries.start) as usize];
        for (table, page) in (first..).zip(found) {
            let Some(page) = page else { continue };
            let of_table = entries.start.max(table * FAN_OUT)..entries.end.min((table + 1) * FAN_OUT);
            runs.push((of_table.start, Run { page, slots: slot_of(of_table.start)..slot_of(of_table.end - 1) + 1 }));
        }
        let (starts, runs): (Vec<u64>, Vec<Run>) = runs.into_iter().unzip();
        slots::ask_for(tx, runs.iter().map(|run| run.page));
        slots::read(tx, &runs, |run, slot, bytes| {
            let space = runs[run].page.space;
            let entry = starts[run] + u64::from(slot - runs[run].slots.start);
            children[(entry - entries.start) as usize] = page_in(space, bytes)?;
            Ok(())
        })
        .await?;
        (found, first) = (children, entries.start);
    }
    Ok(found)
}

/// Puts more tables above the pages, until they can lead to all of the value.
pub(crate) async fn grow<M: Mode>(tx: &mut Tx<M>, head: &mut Head) -> Result<()> {
    while capacity(head.depth) < head.len && head.depth < DEPTH_MAX {
        if let Some(top) = head.top {
            head.top = Some(table_with(tx, 0, top.page).await?);
        }
        head.depth += 1;
    }
    Ok(())
}

/// Gives a value another page, in the place of this number.
pub(crate) async fn attach<M: Mode>(tx: &mut Tx<M>, head: &mut Head, number: u64, page: PageId) -> Result<()> {
    // From the top down, the tables that lead there; from the first one that is missing on, none.
    let mut tables = vec![None; usize::from(head.depth)];
    let mut at = head.top.map(|top| top.page);
    for level in (0..head.depth).rev() {
        let Some(table) = at else { break };
        tables[usize::from(level)] = Some(table);
        let slot = slot_of(number / span(level));
        let found = tx.read_slot(ObjectId::new(table, slot), |bytes| page_in(table.space, Some(bytes))).await?;
        at = found.transpose().map_err(|what| Error::damaged(ObjectId::new(table, slot), what))?.flatten();
    }
    let mut child = page;
    for (level, table) in (0..).zip(tables) {
        let entry = number / span(level);
        match table {
            Some(table) => return put_entry(tx, table, entry, child).await,
            None => child = table_with(tx, entry, child).await?.page,
        }
    }
    head.top = Some(ObjectId::new(child, 0));
    Ok(())
}

/// Creates a table with one entry.
async fn table_with<M: Mode>(tx: &mut Tx<M>, entry: u64, child: PageId) -> Result<ObjectId> {
    let table = tx.create_apart(child.space, Some(child), part(&[])).await?;
    put_entry(tx, table, entry, child).await?;
    Ok(ObjectId::new(table, 0))
}

async fn put_entry<M: Mode>(tx: &mut Tx<M>, table: PageId, entry: u64, child: PageId) -> Result<()> {
    match tx.write(ObjectId::new(table, slot_of(entry)), &entry_of(child)).await? {
        Fits::Yes => Ok(()),
        Fits::No => Err(Error::Refused(Refusal::PageFull(table))),
    }
}

/// Takes away the pages from this number on, and the tables that lead to nothing else. The caller writes the root.
pub(crate) async fn cut<M: Mode>(tx: &mut Tx<M>, head: &mut Head, keep: u64) -> Result<()> {
    let Some(top) = head.top else { return Ok(()) };
    let mut found = vec![(0, top.page)];
    for level in (0..head.depth).rev() {
        let tables = found;
        found = children(tx, &tables, keep / span(level)).await?;
        let first_gone = keep.div_ceil(span(level));
        let gone = tables.into_iter().filter_map(|(table, page)| {
            let start = table * FAN_OUT;
            // With its last entry goes what keeps the table from being empty.
            let from =
                if start >= first_gone { 0 } else { (first_gone - start).min(FAN_OUT) as SlotNo + ENTRIES.start };
            (from < ENTRIES.end).then_some(Run { page, slots: from..ENTRIES.end })
        });
        free(tx, gone.collect()).await?;
    }
    let pages = found.into_iter().filter(|(number, _)| *number >= keep);
    free(tx, pages.map(|(_, page)| Run { page, slots: 0..LINES }).collect()).await?;
    if keep == 0 {
        (head.top, head.depth) = (None, 0);
    }
    Ok(())
}

/// The entries of these tables, from the one of this number on: their numbers, and where they lead.
async fn children<M: Mode>(tx: &Tx<M>, tables: &[(u64, PageId)], from: u64) -> Result<Vec<(u64, PageId)>> {
    let mut children = Vec::new();
    for tables in tables.chunks(slots::window(tx, IMAGE_BYTES)) {
        let run = |&(table, page): &(u64, PageId)| {
            let start = from.saturating_sub(table * FAN_OUT).min(FAN_OUT) as SlotNo + ENTRIES.start;
            Run { page, slots: start..ENTRIES.end }
        };
        let runs: Vec<Run> = tables.iter().map(run).collect();
        slots::ask_for(tx, runs.iter().map(|run| run.page));
        slots::read(tx, &runs, |run, slot, bytes| {
            let entry = tables[run].0 * FAN_OUT + u64::from(slot - ENTRIES.start);
            children.extend(page_in(runs[run].page.space, bytes)?.map(|page| (entry, page)));
            Ok(())
        })
        .await?;
        // No transaction can free so many. Tables that lead to each other would lead to ever more.
        if children.len() > TXN_PAGES_MAX {
            return Err(Error::TransactionTooLarge);
        }
    }
    // They came in any order.
    children.sort_unstable();
    Ok(children)
}

async fn free<M: Mode>(tx: &mut Tx<M>, runs: Vec<Run>) -> Result<()> {
    for window in runs.chunks(slots::window(tx, IMAGE_BYTES)) {
        slots::ask_for(tx, window.iter().map(|run| run.page));
        for run in window {
            slots::free(tx, run).await?;
        }
    }
    Ok(())
}
