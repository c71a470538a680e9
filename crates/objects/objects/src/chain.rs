//! Values too large for a slot: chunks, each alone in its page, behind a head that lists them.
//!
//! Chunks are asked for in windows, each in one message: of as many bytes as the cache can bear, and one chunk at
//! least.
//!
//! A rewrite puts the new chunks where the old ones were, as far as they go, so that a document that is saved again
//! and again does not eat the store's pages.

use crate::ids::{ID_BYTES, id_from, push_id};
use crate::tx::{Fits, Tx};
use crate::value::{CHUNK_BYTES, Chain, part, part_in};
use crate::{Error, Result};
use bytes::Bytes;
use client::{Read, TxnError};
use database::Mode;
use std::task::Poll;
use types::{ObjectId, PageId};

/// The most chunks asked for at a time: enough to fill a long link.
const WINDOW_MAX: usize = 32;

/// The value of a chain.
pub(crate) async fn read<M: Mode>(tx: &mut Tx<M>, object: ObjectId, chain: Chain) -> Result<Vec<u8>> {
    let chunks = list(tx, object, chain).await?;
    let mut value = Vec::with_capacity(chain.total);
    for window in chunks.chunks(window(tx)) {
        for chunk in read_window(tx, window).await? {
            value.extend_from_slice(&chunk);
        }
    }
    if value.len() != chain.total {
        return Err(Error::damaged(object, "its chunks are not as long as they should be"));
    }
    Ok(value)
}

/// How many chunks are asked for at a time.
fn window<M: Mode>(tx: &Tx<M>) -> usize {
    (tx.database.look(|client| client.window_bytes()) / CHUNK_BYTES).clamp(1, WINDOW_MAX)
}

/// Asks for chunks that are about to be changed one after the other.
fn fetch<M: Mode>(tx: &Tx<M>, chunks: &[ObjectId]) {
    let pages: Vec<PageId> = chunks.iter().map(|chunk| chunk.page).collect();
    tx.database.fetch_together(&pages);
}

/// Reads several chunks at once: all are asked for before any is waited for, so they share the round trip.
async fn read_window<M: Mode>(tx: &mut Tx<M>, chunks: &[ObjectId]) -> Result<Vec<Vec<u8>>> {
    let mut values: Vec<Option<Vec<u8>>> = vec![None; chunks.len()];
    fetch(tx, chunks);
    let broken = tx
        .call(|client, now, txn| {
            for (chunk, value) in chunks.iter().zip(&mut values).filter(|(_, value)| value.is_none()) {
                let bytes = match client.read(now, txn, *chunk)? {
                    Read::Value(bytes) => part_in(bytes),
                    Read::Absent => None,
                    Read::Wait => continue,
                };
                match bytes {
                    Some(bytes) => *value = Some(bytes.to_vec()),
                    None => return Ok::<_, TxnError>(Poll::Ready(Some(*chunk))),
                }
            }
            Ok(if values.iter().all(Option::is_some) { Poll::Ready(None) } else { Poll::Pending })
        })
        .await?;
    match broken {
        Some(chunk) => Err(Error::damaged(chunk, "it is a chunk of a large object, and gone")),
        None => Ok(values.into_iter().flatten().collect()),
    }
}

/// Stores a value as a chain, over `old` as far as that goes.
pub(crate) async fn write<M: Mode>(
    tx: &mut Tx<M>,
    object: ObjectId,
    old: Option<Chain>,
    value: &[u8],
) -> Result<Chain> {
    let mut chunks = match old {
        Some(chain) => list(tx, object, chain).await?,
        None => Vec::new(),
    };
    let needed = value.len().div_ceil(CHUNK_BYTES);
    for surplus in chunks.drain(needed.min(chunks.len())..) {
        tx.delete_slot(surplus).await?;
    }
    let (space, window) = (object.page.space, window(tx));
    for (i, bytes) in value.chunks(CHUNK_BYTES).enumerate() {
        if i % window == 0 && i < chunks.len() {
            fetch(tx, &chunks[i..chunks.len().min(i + window)]);
        }
        let bytes = part(bytes);
        match chunks.get(i).copied() {
            Some(chunk) => chunks[i] = rewrite(tx, chunk, None, bytes).await?,
            None => chunks.push(tx.create_slot(space, None, bytes).await?),
        }
    }
    let mut listed = Vec::with_capacity(chunks.len() * ID_BYTES);
    for &chunk in &chunks {
        push_id(&mut listed, chunk);
    }
    let head = match old {
        Some(chain) => rewrite(tx, chain.head, Some(object), part(&listed)).await?,
        None => tx.create_slot(space, Some(object), part(&listed)).await?,
    };
    Ok(Chain { total: value.len(), head })
}

/// Returns a part of a chain new bytes, in another place if its own has no room, and says where it is now. A part that
/// holds just these bytes already is left alone: a large object that changes in one place is logged and sent by that
/// one chunk.
async fn rewrite<M: Mode>(tx: &mut Tx<M>, part: ObjectId, near: Option<ObjectId>, bytes: Bytes) -> Result<ObjectId> {
    if tx.read_slot(part, |old| old == bytes).await? == Some(true) || tx.write(part, &bytes).await? == Fits::Yes {
        return Ok(part);
    }
    tx.delete_slot(part).await?;
    tx.create_slot(part.page.space, near, bytes).await
}

/// Deletes a chain: the chunks and the head.
pub(crate) async fn delete<M: Mode>(tx: &mut Tx<M>, object: ObjectId, chain: Chain) -> Result<()> {
    let chunks = list(tx, object, chain).await?;
    for window in chunks.chunks(window(tx)) {
        fetch(tx, window);
        for &chunk in window {
            tx.delete_slot(chunk).await?;
        }
    }
    tx.delete_slot(chain.head).await
}

/// The chunks of a chain, in order.
async fn list<M: Mode>(tx: &mut Tx<M>, object: ObjectId, chain: Chain) -> Result<Vec<ObjectId>> {
    let listed = |bytes: &[u8]| Some(part_in(bytes)?.chunks_exact(ID_BYTES).map(id_from).collect::<Vec<_>>());
    let chunks = tx.read_slot(chain.head, listed).await?.flatten();
    chunks
        .filter(|chunks| chunks.len() == chain.total.div_ceil(CHUNK_BYTES))
        .ok_or_else(|| Error::damaged(object, "the head of its chain does not list its chunks"))
}
