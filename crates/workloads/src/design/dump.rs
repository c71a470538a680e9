//! A design out of the store, as the text of a file.

use super::schema::{Design, Object};
use crate::step::{write_entity, write_footer, write_header};
use objects::{Db, Error, Result};
use std::io::Write;
use std::ops::Bound;

/// Entities that one transaction reads.
const BATCH: usize = 1_000;

/// Writes a design as a file, its entities in the order of their numbers. Each batch is a transaction of its own: an
/// entity that is changed meanwhile is written as it was before or as it is since. Calls `progress` with the number of
/// entities that are written.
pub async fn dump(db: &Db, design: &Design, out: &mut impl Write, mut progress: impl FnMut(u64)) -> Result<()> {
    write_header(out, &design.header).map_err(Error::application)?;
    let (mut from, mut written) = (Bound::Unbounded, 0);
    loop {
        let batch = batch(db, design, from).await?;
        let Some(last) = batch.last() else { break };
        from = Bound::Excluded(last.entity.number);
        for object in &batch {
            write_entity(out, &object.to_entity()).map_err(Error::application)?;
        }
        written += batch.len() as u64;
        progress(written);
    }
    write_footer(out).map_err(Error::application)
}

async fn batch(db: &Db, design: &Design, from: Bound<u64>) -> Result<Vec<Object>> {
    let entities = design.entities;
    let read = db.transact_async(async |mut tx| {
        let mut cursor = entities.range((from, Bound::Unbounded));
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some((_, object)) = cursor.next(&mut tx).await?
        {
            batch.push(tx.get(object).await?);
        }
        Ok(batch)
    });
    read.await
}
