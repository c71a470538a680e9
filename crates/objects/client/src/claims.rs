//! Pages that have come for transactions which have not looked at them yet.
//!
//! The page that a transaction waits for must still be there when its thread runs. In a small cache, the pages that
//! arrive behind it would drive it out, the transaction would ask for it again, and two such reads would drive each
//! other out for ever. So a page that has come is claimed by those who wait for it: it does not leave before each of
//! them has read of it, or has ended.
//!
//! 1. A claimed page that is in the cache stays there. A claim ends with the first read of the page, with the
//!    transaction, or when the transaction has claimed [`CLAIMS_MAX`] later ones: it may have dropped the read.
//! 2. A claim says nothing of the page's content: the page is notified of changes, and dropped where it must be, like
//!    any other.

use crate::TxnHandle;
use crate::txns::{Txn, Txns};
use alloc::vec::Vec;
use cache::{Cache, FrameNo};
use types::{Map, PageId};

/// Pages that one transaction may claim at a time: more than any operation waits for at once.
pub(crate) const CLAIMS_MAX: usize = 64;

/// The pages that are claimed, and by which transactions.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by: Map<PageId, Vec<TxnHandle>>,
}

impl Claims {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// A page has come and is at `frame`, and these wait for it.
    pub(crate) fn claim(&mut self, frame: FrameNo, waiters: &[TxnHandle], txns: &mut Txns, cache: &mut Cache) {
        let page = cache.page_at(frame);
        for &txn in waiters {
            let Some(claimant) = txns.get(txn).filter(|found| found.is_running()) else { continue };
            // One who has claimed the page before may claim one that was dropped since, and this is another.
            cache.claim_at(frame, true);
            if claimant.claimed.contains(&page) {
                continue;
            }
            claimant.claimed.push_back(page);
            let oldest = if claimant.claimed.len() > CLAIMS_MAX { claimant.claimed.pop_front() } else { None };
            self.by.entry(page).or_default().push(txn);
            if let Some(oldest) = oldest {
                self.end(oldest, txn, cache);
            }
        }
    }

    /// The transaction, whose handle this is, has looked at the page.
    #[cold]
    pub(crate) fn has_looked(&mut self, page: PageId, txn: TxnHandle, found: &mut Txn, cache: &mut Cache) {
        if let Some(claimed) = found.claimed.iter().position(|claimed| *claimed == page) {
            found.claimed.remove(claimed);
            self.end(page, txn, cache);
        }
    }

    /// The transaction reads no more.
    pub(crate) fn end_all(&mut self, txn: TxnHandle, txns: &mut Txns, cache: &mut Cache) {
        let claimed = txns.get(txn).map(|found| core::mem::take(&mut found.claimed)).unwrap_or_default();
        for page in claimed {
            self.end(page, txn, cache);
        }
    }

    /// The transaction claims the page no more. When nobody does, it may leave when room is needed next. Not before:
    /// its reader may be about to write it.
    fn end(&mut self, page: PageId, txn: TxnHandle, cache: &mut Cache) {
        let Some(claimants) = self.by.get_mut(&page) else { return };
        claimants.retain(|claimant| *claimant != txn);
        if claimants.is_empty() {
            self.by.remove(&page);
            cache.claim(page, false);
        }
    }
}
