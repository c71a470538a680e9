//! A design out of the store, as the text of a file.

use super::schema::{Design, Object};
use crate::step::{write_entity, write_footer, write_header};
use objects::{AsyncTx, Db, Error, Result};
use std::io::Write;
use std::ops::Bound;

/// Entities that are fetched together, and that one transaction of a dump in parts reads.
const BATCH: usize = 1_000;

/// Writes a design as a file, its entities in the order of their numbers, as it is in one transaction. The text holds
/// if the transaction commits.
pub async fn dump(tx: &mut AsyncTx, design: &Design, out: &mut impl Write) -> Result<()> {
    write_header(out, &design.header).map_err(Error::application)?;
    let mut from = Bound::Unbounded;
    while let Some(last) = write_batch(out, &batch(tx, design, from).await?)? {
        from = Bound::Excluded(last);
    }
    write_footer(out).map_err(Error::application)
}

/// The same for a design that others change all the time: each batch is a transaction of its own, so an entity that is
/// changed meanwhile is written as it was before or as it is since. Calls `progress` with the number of entities that
/// are written.
pub async fn dump_in_parts(
    db: &Db,
    design: &Design,
    out: &mut impl Write,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    write_header(out, &design.header).map_err(Error::application)?;
    let (mut from, mut written) = (Bound::Unbounded, 0);
    loop {
        let objects = db.transact_async(async |mut tx| batch(&mut tx, design, from).await).await?;
        let Some(last) = write_batch(out, &objects)? else { break };
        from = Bound::Excluded(last);
        written += objects.len() as u64;
        progress(written);
    }
    write_footer(out).map_err(Error::application)
}

async fn batch(tx: &mut AsyncTx, design: &Design, from: Bound<u64>) -> Result<Vec<Object>> {
    let mut cursor = design.entities.range((from, Bound::Unbounded));
    let mut places = Vec::with_capacity(BATCH);
    while places.len() < BATCH
        && let Some((_, object)) = cursor.next(tx).await?
    {
        places.push(object);
    }
    tx.read_ahead(places.iter().map(|object| object.id()))?;
    let mut batch = Vec::with_capacity(places.len());
    for object in places {
        batch.push(tx.get(object).await?);
    }
    Ok(batch)
}

/// Gives the last entity's number; `None` if there is none.
fn write_batch(out: &mut impl Write, batch: &[Object]) -> Result<Option<u64>> {
    for object in batch {
        write_entity(out, &object.to_entity()).map_err(Error::application)?;
    }
    Ok(batch.last().map(|object| object.entity.number))
}
