//! The records of a store's log. Little-endian throughout; `docs/formats.md` draws them.
//!
//! ```text
//!   Incarnation  incarnation u64 | lease in ms u32 | spaces u32 | space u32 ...   what a store of format 1 wrote ends
//!                lives u32 | life u64 | count at which it began u64 ...            with the incarnation, of 3 with the
//!                last count u64                                                    lives
//!                others (see vectors.rs) of the last count, and of each life       of one shard ends without
//!   Commit   client u64 | number u64 | answered u64 | deltas u32 | others u32 | count u64 | other ... | delta ...
//!     delta    page u64 | changes u32 | bytes of values u32 | change ... | values
//!     change   slot u16 | 1 put, 0 delete u16 | bytes of the value u32
//!   Grant    space u32 | next u32
//!
//!   only in a store that was of format 3 or earlier:
//!   Uncounted  client u64 | number u64 | answered u64 | deltas u32 | 0 u32 | delta ...
//!   Counts     counts u32 | 0 u32 | counted ...
//!     counted    client u64 | number u64 | version u64
//! ```

use crate::vectors::{OTHER_BYTES, decode_others, encode_others, others};
use bytes::Bytes;
use log::Records;
use messages::Lineage;
use store::{CommitRecord, Counted, LeasesGiven, Record, UncountedCommit};
use types::{ClientId, Delta, Incarnation, Life, PageId, Shard, SlotChange, TxnId, Vector, Version};
use vfs::{Fields, Malformed};

/// The kind of a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Incarnation = 1,
    Uncounted = 2,
    Counts = 3,
    Grant = 4,
    Commit = 5,
}

impl Kind {
    /// The kind of a record.
    pub(crate) fn of(record: &Record) -> Self {
        match record {
            Record::Incarnation { .. } => Self::Incarnation,
            Record::Commit(_) => Self::Commit,
            Record::Uncounted(_) => Self::Uncounted,
            Record::Counts(_) => Self::Counts,
            Record::Grant { .. } => Self::Grant,
        }
    }

    /// The kind of this number.
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Kind; 5] = [Kind::Incarnation, Kind::Uncounted, Kind::Counts, Kind::Grant, Kind::Commit];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The records of a store.
#[derive(Debug)]
pub(crate) struct StoreRecords;

impl Records for StoreRecords {
    type Record = Record;

    /// The longest that a length field can say: a store bounds each of its records itself.
    const BODY_BYTES_MAX: u32 = u32::MAX;

    fn kind(record: &Record) -> u8 {
        Kind::of(record) as u8
    }

    fn body_bytes(record: &Record) -> usize {
        body_bytes(record)
    }

    fn encode(record: &Record, put: &mut impl FnMut(&[u8])) {
        encode(record, put);
    }

    fn decode(kind: u8, body: Bytes) -> Result<Record, Malformed> {
        decode(Kind::from_byte(kind).ok_or(Malformed)?, body)
    }
}

fn body_bytes(record: &Record) -> usize {
    match record {
        Record::Incarnation { leases, lineage, counts, .. } => {
            let of_leases = leases.as_ref().map_or(0, |leases| 8 + 4 * leases.spaces.len());
            let lives = lineage.lives().len();
            let of_shards = |vectors: &[&Vector]| -> usize {
                vectors.iter().map(|vector| 8 + OTHER_BYTES * others(vector).len()).sum()
            };
            8 + of_leases
                + if lives == 0 { 0 } else { 4 + 16 * lives }
                + if counts.is_some() { 8 } else { 0 }
                + of_shards(&with_others(lineage, counts.as_ref()))
        }
        Record::Grant { .. } => 8,
        Record::Counts(counts) => 8 + 24 * counts.len(),
        Record::Uncounted(commit) => 32 + deltas_bytes(&commit.deltas),
        Record::Commit(commit) => 40 + OTHER_BYTES * others(&commit.counts).len() + deltas_bytes(&commit.deltas),
    }
}

/// The vectors of an incarnation's record whose other counts are at its end: all of them, or none if none has any.
fn with_others<'a>(lineage: &'a Lineage, counts: Option<&'a Vector>) -> Vec<&'a Vector> {
    let began = lineage.lives().iter().map(|(_, began)| began);
    let vectors: Vec<_> = counts.into_iter().chain(began).collect();
    let has_others = counts.is_some() && vectors.iter().any(|vector| !others(vector).is_empty());
    if has_others { vectors } else { Vec::new() }
}

fn deltas_bytes(deltas: &[Delta]) -> usize {
    deltas.iter().map(|delta| 16 + 8 * delta.changes.len() + delta.value_bytes()).sum()
}

fn encode(record: &Record, put: &mut impl FnMut(&[u8])) {
    match record {
        Record::Incarnation { incarnation, leases, lineage, counts } => {
            put(&incarnation.0.to_le_bytes());
            if let Some(LeasesGiven { lease_ms, spaces }) = leases {
                put(&lease_ms.to_le_bytes());
                put_count(spaces.len(), put);
                for space in spaces {
                    put(&space.to_le_bytes());
                }
            }
            if !lineage.lives().is_empty() {
                put_count(lineage.lives().len(), put);
                for (life, began) in lineage.lives() {
                    put(&life.0.to_le_bytes());
                    put(&began.of(Shard::ONLY).0.to_le_bytes());
                }
            }
            if let Some(counts) = counts {
                put(&counts.of(Shard::ONLY).0.to_le_bytes());
            }
            for vector in with_others(lineage, counts.as_ref()) {
                put_count(others(vector).len(), put);
                put(&[0; 4]);
                encode_others(vector, put);
            }
        }
        Record::Grant { space, next } => {
            put(&space.to_le_bytes());
            put(&next.to_le_bytes());
        }
        Record::Counts(counts) => {
            put_count(counts.len(), put);
            put(&[0; 4]);
            for counted in counts {
                put_txn(counted.txn, put);
                put(&counted.version.0.to_le_bytes());
            }
        }
        Record::Uncounted(UncountedCommit { txn, answered, deltas }) => {
            encode_commit(*txn, *answered, None, deltas, put);
        }
        Record::Commit(CommitRecord { txn, counts, answered, deltas }) => {
            encode_commit(*txn, *answered, Some(counts), deltas, put);
        }
    }
}

fn encode_commit(txn: TxnId, answered: u64, counts: Option<&Vector>, deltas: &[Delta], put: &mut impl FnMut(&[u8])) {
    put_txn(txn, put);
    put(&answered.to_le_bytes());
    put_count(deltas.len(), put);
    put_count(counts.map_or(0, |counts| others(counts).len()), put);
    if let Some(counts) = counts {
        put(&counts.of(Shard::ONLY).0.to_le_bytes());
        encode_others(counts, put);
    }
    for delta in deltas {
        encode_delta(delta, put);
    }
}

fn encode_delta(delta: &Delta, put: &mut impl FnMut(&[u8])) {
    put(&delta.page.to_bits().to_le_bytes());
    put_count(delta.changes.len(), put);
    put_count(delta.value_bytes(), put);
    for change in &delta.changes {
        let len = change.value.as_ref().map_or(0, Bytes::len);
        let entry = u64::from(change.slot) | u64::from(change.value.is_some()) << 16 | (len as u64) << 32;
        put(&entry.to_le_bytes());
    }
    for value in delta.changes.iter().filter_map(|change| change.value.as_ref()) {
        put(value);
    }
}

fn put_txn(txn: TxnId, put: &mut impl FnMut(&[u8])) {
    put(&txn.client.0.to_le_bytes());
    put(&txn.number.to_le_bytes());
}

fn put_count(count: usize, put: &mut impl FnMut(&[u8])) {
    put(&u32::try_from(count).expect("a record is smaller than 4 GiB").to_le_bytes());
}

fn decode(kind: Kind, body: Bytes) -> Result<Record, Malformed> {
    let mut fields = Fields::new(body);
    let record = match kind {
        Kind::Incarnation => {
            let incarnation = Incarnation(fields.u64()?);
            let leases = fields.more().then(|| decode_leases(&mut fields)).transpose()?;
            let lineage = fields.more().then(|| decode_lineage(&mut fields)).transpose()?.unwrap_or_default();
            let last = fields.more().then(|| fields.u64()).transpose()?;
            let mut counts = last.map(|count| Vector::only(Version(count)));
            let lineage = if fields.more() {
                let counts = counts.as_mut().ok_or(Malformed)?;
                decode_others_of(&mut fields, counts)?;
                let lives = lineage.lives().iter().cloned().map(|(life, mut began)| {
                    decode_others_of(&mut fields, &mut began)?;
                    Ok((life, began))
                });
                Lineage::new(lives.collect::<Result<_, _>>()?)
            } else {
                lineage
            };
            Record::Incarnation { incarnation, leases, lineage, counts }
        }
        Kind::Grant => Record::Grant { space: fields.u32()?, next: fields.u32()? },
        Kind::Counts => {
            let count = fields.count(24)?;
            fields.zero()?;
            Record::Counts((0..count).map(|_| decode_counted(&mut fields)).collect::<Result<_, _>>()?)
        }
        Kind::Uncounted | Kind::Commit => {
            let (txn, answered) = (decode_txn(&mut fields)?, fields.u64()?);
            let (deltas, others) = (fields.count(16)?, fields.count(OTHER_BYTES)?);
            let counts = match kind {
                Kind::Commit => {
                    let mut counts = Vector::only(Version(fields.u64()?));
                    decode_others(&mut fields, others, &mut counts)?;
                    Some(counts)
                }
                _ if others > 0 => return Err(Malformed),
                _ => None,
            };
            let deltas = (0..deltas).map(|_| decode_delta(&mut fields)).collect::<Result<_, _>>()?;
            match counts {
                Some(counts) => Record::Commit(CommitRecord { txn, counts, answered, deltas }),
                None => Record::Uncounted(UncountedCommit { txn, answered, deltas }),
            }
        }
    };
    fields.end()?;
    Ok(record)
}

fn decode_lineage(fields: &mut Fields) -> Result<Lineage, Malformed> {
    let count = fields.count(16)?;
    let life = |fields: &mut Fields| Ok((Life(fields.u64()?), Vector::only(Version(fields.u64()?))));
    Ok(Lineage::new((0..count).map(|_| life(fields)).collect::<Result<_, _>>()?))
}

fn decode_others_of(fields: &mut Fields, vector: &mut Vector) -> Result<(), Malformed> {
    let others = fields.count(OTHER_BYTES)?;
    fields.zero()?;
    decode_others(fields, others, vector)
}

fn decode_leases(fields: &mut Fields) -> Result<LeasesGiven, Malformed> {
    let (lease_ms, count) = (fields.u32()?, fields.count(4)?);
    Ok(LeasesGiven { lease_ms, spaces: (0..count).map(|_| fields.u32()).collect::<Result<_, _>>()? })
}

fn decode_txn(fields: &mut Fields) -> Result<TxnId, Malformed> {
    Ok(TxnId { client: ClientId(fields.u64()?), number: fields.u64()? })
}

fn decode_counted(fields: &mut Fields) -> Result<Counted, Malformed> {
    Ok(Counted { txn: decode_txn(fields)?, version: Version(fields.u64()?) })
}

fn decode_delta(fields: &mut Fields) -> Result<Delta, Malformed> {
    let page = PageId::from_bits(fields.u64()?);
    let count = fields.count(8)?;
    let value_bytes = fields.u32()? as usize;
    let mut entries = Fields::new(fields.take(8 * count)?);
    let mut values = Fields::new(fields.take(value_bytes)?);
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let (slot, put, len) = (entries.u16()?, entries.u16()?, entries.u32()? as usize);
        let value = match (put, len) {
            (1, _) => Some(values.take(len)?),
            (0, 0) => None,
            _ => return Err(Malformed),
        };
        changes.push(SlotChange { slot, value });
    }
    values.end()?;
    let delta = Delta { page, changes };
    if delta.is_well_formed() { Ok(delta) } else { Err(Malformed) }
}
