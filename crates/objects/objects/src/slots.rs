//! Many slots in one call: runs of neighbouring slots, in as many pages as an operation needs.
//!
//! All pages are asked for before any is waited for, so that they share the round trip.

use crate::tx::{Fits, Plan, Tx};
use crate::{Error, Mode, Result};
use bytes::Bytes;
use client::{Client, Read, TxnError, TxnHandle};
use std::ops::Range;
use std::task::Poll;
use types::{ObjectId, PageId, Refusal, SlotChange, SlotNo, Time};

/// The most pages that are asked for at a time: enough to fill a long line.
const WINDOW_MAX: usize = 128;

/// Neighbouring slots of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) page: PageId,
    pub(crate) slots: Range<SlotNo>,
}

/// How many pages of this size are asked for at a time. While one window is read, the next one is on its way.
pub(crate) fn window<M: Mode>(tx: &Tx<M>, page_bytes: usize) -> usize {
    (tx.database.look(|client| client.window_bytes()) / (2 * page_bytes)).clamp(1, WINDOW_MAX)
}

/// Asks for the pages of some runs, and returns without waiting. A single page is asked for when it is read.
pub(crate) fn ask_for<M: Mode>(tx: &Tx<M>, pages: impl IntoIterator<Item = PageId>) {
    let mut pages: Vec<PageId> = pages.into_iter().collect();
    pages.dedup();
    if pages.len() > 1 {
        tx.database.fetch_together(&pages);
    }
}

/// Shows each slot of the runs to `see`, once, with the number of its run. `see` returns an error for a slot that holds
/// something else than it should.
///
/// The last page is waited for first: usually all others are here by then, and the thread was woken once. If pages are
/// missing still, they are waited for together.
pub(crate) async fn read<M: Mode>(
    tx: &Tx<M>,
    runs: &[Run],
    mut see: impl FnMut(usize, SlotNo, Option<&[u8]>) -> Result<(), &'static str>,
) -> Result<()> {
    // The slots of each run that were not seen yet.
    let mut left: Vec<(usize, Range<SlotNo>)> = runs.iter().map(|run| run.slots.clone()).enumerate().rev().collect();
    let mut is_last_here = false;
    let broken = tx.call(|client, now, txn| {
        for (run, slots) in &mut left {
            while let Some(slot) = slots.clone().next() {
                let object = ObjectId::new(runs[*run].page, slot);
                let seen = match client.read(now, txn, object)? {
                    Read::Value(bytes) => see(*run, slot, Some(bytes)),
                    Read::Absent => see(*run, slot, None),
                    Read::Wait if is_last_here => break,
                    Read::Wait => return Ok(Poll::Pending),
                };
                if let Err(what) = seen {
                    return Ok::<_, TxnError>(Poll::Ready(Err((object, what))));
                }
                is_last_here = true;
                slots.start += 1;
            }
        }
        left.retain(|(_, slots)| !slots.is_empty());
        Ok(if left.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending })
    });
    broken.await?.map_err(|(object, what)| Error::damaged(object, what))
}

/// The new content of a slot.
pub(crate) enum Change {
    Keep,
    Put(Bytes),
    Free,
}

/// Gives each slot of a run the content that `change` makes of the one before, all of them in one call. `change`
/// returns an error for a slot that holds something else than it should.
pub(crate) async fn change<M: Mode>(
    tx: &mut Tx<M>,
    run: &Run,
    mut change: impl FnMut(SlotNo, Option<&[u8]>) -> Result<Change, &'static str>,
) -> Result<()> {
    let plan = |client: &mut Client, now: Time, txn: TxnHandle| -> Result<Plan<(ObjectId, &'static str)>, TxnError> {
        let mut changes = Vec::new();
        for slot in run.slots.clone() {
            let object = ObjectId::new(run.page, slot);
            let changed = match client.read(now, txn, object)? {
                Read::Value(bytes) => change(slot, Some(bytes)),
                Read::Absent => change(slot, None),
                Read::Wait => return Ok(Poll::Pending),
            };
            match changed {
                Ok(Change::Keep) => {}
                Ok(Change::Put(bytes)) => changes.push(SlotChange { slot, value: Some(bytes) }),
                Ok(Change::Free) => changes.push(SlotChange { slot, value: None }),
                Err(what) => return Ok(Poll::Ready(Err((object, what)))),
            }
        }
        Ok(Poll::Ready(Ok(changes)))
    };
    match tx.change_page(run.page, plan).await? {
        Ok(Fits::Yes) => Ok(()),
        Ok(Fits::No) => Err(Error::Refused(Refusal::PageFull(run.page))),
        Err((object, what)) => Err(Error::damaged(object, what)),
    }
}

/// Frees the slots of a run.
pub(crate) async fn free<M: Mode>(tx: &mut Tx<M>, run: &Run) -> Result<()> {
    change(tx, run, |_, slot| Ok(if slot.is_some() { Change::Free } else { Change::Keep })).await
}
