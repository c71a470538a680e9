//! Removes all documents of a folder, in transactions of bounded size.

use super::{Range, find_documents};
use crate::Result;
use crate::stopper::Interrupt;
use thorp::{Db, Tx};

/// Documents that one transaction removes: its writes stay far below what one may write.
const BATCH: usize = 500;

/// Bytes of documents after which it removes no more.
const BATCH_BYTES: usize = 8 << 20;

/// Removes what is at a path and under it. Each batch is a transaction: calling it again continues where an earlier
/// call was interrupted. Calls `removed` with the number of documents that are gone so far; gives that number at the
/// end, or when it was interrupted.
pub(crate) fn remove_all(db: &Db, path: &str, interrupt: &Interrupt, mut removed: impl FnMut(u64)) -> Result<u64> {
    let mut count = 0;
    loop {
        let gone = db.transact(|tx| remove_some(tx, path))?;
        count += gone;
        removed(count);
        if gone == 0 || interrupt.has_come() {
            return Ok(count);
        }
    }
}

fn remove_some(tx: &mut Tx, path: &str) -> thorp::Result<u64> {
    let Some(documents) = find_documents(tx)? else { return Ok(0) };
    let mut gone = u64::from(documents.remove(tx, path)?.is_some());
    let range = Range::under(path);
    let (mut cursor, mut paths) = (documents.range::<String>(range.bounds()), Vec::new());
    while paths.len() < BATCH
        && let Some(path) = cursor.next_key(tx)?
    {
        paths.push(path);
    }
    let mut bytes = 0;
    for path in paths {
        // A removed document is read, so large ones count for more.
        bytes += documents.remove(tx, &path)?.map_or(0, |document| document.len());
        gone += 1;
        if bytes > BATCH_BYTES {
            break;
        }
    }
    Ok(gone)
}
