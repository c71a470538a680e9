//! The checkpoint's bytes. Little-endian throughout.
//!
//! ```text
//!   applied u64 | forgotten u64 | spaces u32 | clients u32 | space ... | client ... | aside ...
//!     space    space u32 | next page u32
//!     client   client u64 | answered u64 | outcomes u32 | 0 u32 | outcome ...
//!     outcome  number u64 | pages u32 | 0 u32 | advance ...
//!     advance  page u64 | before u64 | since u64
//!     aside    in formats 2 and 3, behind pages u32 | 0 u32: page u64 | version u64 | changes u32 | 0 u32 | change ...
//!     change   slot u32 | bytes u32, FFFFFFFF: deleted | value
//!   in format 3, behind those: the others (see vectors.rs) of applied and of forgotten
//! ```

use crate::vectors::{OTHER_BYTES, decode_others, encode_others, others};
use messages::Advance;
use store::{Checkpoint, ClientOutcomes, SetAside};
use types::{ClientId, PageId, Shard, SlotChange, SlotNo, Vector, Version};
use vfs::{Fields, Malformed};

/// The length that marks a deletion.
const DELETED: u32 = u32::MAX;

/// Adds a checkpoint's bytes to `out`.
pub(crate) fn encode(checkpoint: &Checkpoint, out: &mut Vec<u8>) {
    put_u64(checkpoint.applied.of(Shard::ONLY).0, out);
    put_u64(checkpoint.forgotten.of(Shard::ONLY).0, out);
    put_counts(checkpoint.next_pages.len(), checkpoint.outcomes.len(), out);
    for (space, next) in &checkpoint.next_pages {
        put_counts(*space as usize, *next as usize, out);
    }
    for client in &checkpoint.outcomes {
        put_u64(client.client.0, out);
        put_u64(client.answered, out);
        put_counts(client.committed.len(), 0, out);
        for (number, pages) in &client.committed {
            put_u64(*number, out);
            put_counts(pages.len(), 0, out);
            for advance in pages {
                put_u64(advance.page.to_bits(), out);
                put_u64(advance.prev.0, out);
                put_u64(advance.version.0, out);
            }
        }
    }
}

/// Adds what is set aside, which a state of format 2 has behind its checkpoint.
pub(crate) fn encode_aside(aside: &[SetAside], out: &mut Vec<u8>) {
    put_counts(aside.len(), 0, out);
    for SetAside { page, version, changes } in aside {
        put_u64(page.to_bits(), out);
        put_u64(version.0, out);
        put_counts(changes.len(), 0, out);
        for SlotChange { slot, value } in changes {
            put_counts(usize::from(*slot), value.as_ref().map_or(DELETED as usize, bytes::Bytes::len), out);
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
    }
}

/// Adds the counts of other shards than the first, which a state of format 3 has at its end.
pub(crate) fn encode_shards(checkpoint: &Checkpoint, out: &mut Vec<u8>) {
    for vector in [&checkpoint.applied, &checkpoint.forgotten] {
        put_counts(others(vector).len(), 0, out);
        encode_others(vector, &mut |bytes| out.extend_from_slice(bytes));
    }
}

/// Whether the checkpoint has counts of other shards than the first.
pub(crate) fn has_shards(checkpoint: &Checkpoint) -> bool {
    [&checkpoint.applied, &checkpoint.forgotten].into_iter().any(|vector| !others(vector).is_empty())
}

/// Reads the counts of other shards.
pub(crate) fn decode_shards(fields: &mut Fields, checkpoint: &mut Checkpoint) -> Result<(), Malformed> {
    for vector in [&mut checkpoint.applied, &mut checkpoint.forgotten] {
        let others = fields.count(OTHER_BYTES)?;
        fields.zero()?;
        decode_others(fields, others, vector)?;
    }
    Ok(())
}

fn put_u64(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_counts(first: usize, second: usize, out: &mut Vec<u8>) {
    for number in [first, second] {
        out.extend_from_slice(&u32::try_from(number).expect("counts fit into 32 bits").to_le_bytes());
    }
}

/// Reads a checkpoint.
pub(crate) fn decode(fields: &mut Fields) -> Result<Checkpoint, Malformed> {
    let mut first = || fields.u64().map(|count| Vector::only(Version(count)));
    let (applied, forgotten) = (first()?, first()?);
    let (spaces, clients) = (fields.count(0)?, fields.count(0)?);
    let next_pages = repeat(fields, spaces, |fields| Ok((fields.u32()?, fields.u32()?)))?;
    let outcomes = repeat(fields, clients, decode_client)?;
    Ok(Checkpoint { applied, next_pages, outcomes, forgotten, aside: Vec::new() })
}

fn decode_client(fields: &mut Fields) -> Result<ClientOutcomes, Malformed> {
    let (client, answered) = (ClientId(fields.u64()?), fields.u64()?);
    let count = fields.count(16)?;
    fields.zero()?;
    let committed = repeat(fields, count, |fields| {
        let (number, pages) = (fields.u64()?, fields.count(24)?);
        fields.zero()?;
        Ok((number, repeat(fields, pages, decode_advance)?))
    })?;
    Ok(ClientOutcomes { client, answered, committed })
}

fn decode_advance(fields: &mut Fields) -> Result<Advance, Malformed> {
    let page = PageId::from_bits(fields.u64()?);
    Ok(Advance { page, prev: Version(fields.u64()?), version: Version(fields.u64()?) })
}

/// Reads what is set aside.
pub(crate) fn decode_aside(fields: &mut Fields) -> Result<Vec<SetAside>, Malformed> {
    let pages = fields.count(0)?;
    fields.zero()?;
    repeat(fields, pages, |fields| {
        let (page, version) = (PageId::from_bits(fields.u64()?), Version(fields.u64()?));
        let changes = fields.count(8)?;
        fields.zero()?;
        Ok(SetAside { page, version, changes: repeat(fields, changes, decode_change)? })
    })
}

fn decode_change(fields: &mut Fields) -> Result<SlotChange, Malformed> {
    let slot = SlotNo::try_from(fields.u32()?).map_err(|_| Malformed)?;
    let value = match fields.u32()? {
        DELETED => None,
        bytes => Some(fields.take(bytes as usize)?),
    };
    Ok(SlotChange { slot, value })
}

/// Reads `count` items; ends with the bytes, however large the count.
fn repeat<T>(
    fields: &mut Fields,
    count: usize,
    mut item: impl FnMut(&mut Fields) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    (0..count).map(|_| item(fields)).collect()
}
