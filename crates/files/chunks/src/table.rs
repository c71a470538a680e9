//! The table: which chunks there are, and the bytes of the small ones.
//!
//! | table | key | value |
//! |---|---|---|
//! | `small` | hash | the chunk |
//! | `large` | hash | the chunk's length u32; its bytes are in a file |
//! | `total` | 0 | the bytes of all chunks u64 |

use crate::database::{Reopening, Trouble};
use crate::directory::TABLE;
use crate::error::ChunkError;
use crate::limits::{SMALL_BYTES_MAX, TABLE_UNUSED_BYTES_MAX};
use bytes::Bytes;
use redb::{Database, Durability, Key, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, Value};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use tree::ChunkHash;
use vfs::Files;

type Hash = &'static [u8; ChunkHash::BYTES];
type SmallTable<'a> = redb::Table<'a, Hash, &'static [u8]>;
type LargeTable<'a> = redb::Table<'a, Hash, u32>;

const SMALL: TableDefinition<Hash, &[u8]> = TableDefinition::new("small");
const LARGE: TableDefinition<Hash, u32> = TableDefinition::new("large");
const TOTAL: TableDefinition<u64, u64> = TableDefinition::new("total");

/// The two kinds of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value in the table.
    Small,
    /// A file.
    Large,
}

impl Kind {
    /// The kind of a chunk of this length.
    pub(crate) fn of(bytes: usize) -> Self {
        if bytes <= SMALL_BYTES_MAX { Self::Small } else { Self::Large }
    }
}

/// The table's record of a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Its bytes, which are not verified.
    Small(Bytes),
    /// The length of its file.
    Large(u32),
}

/// A chunk in a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: ChunkHash,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// Whether a small chunk is what its name stands for, if that was asked.
    pub(crate) is_whole: bool,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table(Reopening);

impl Table {
    /// Makes the file of a new store under a name.
    pub(crate) fn create(files: &dyn Files, name: &str) -> Result<(), ChunkError> {
        Reopening::create(files, name, |database| {
            let write = database.begin_write()?;
            write.open_table(SMALL)?;
            write.open_table(LARGE)?;
            write.open_table(TOTAL)?.insert(0, 0)?;
            Ok(write.commit()?)
        })
    }

    /// Opens the table.
    pub(crate) fn open(files: Arc<dyn Files>) -> Result<Self, ChunkError> {
        let table = Self(Reopening::open(files, TABLE)?);
        // A file that is not the table of a store is noticed here.
        table.totals()?;
        Ok(table)
    }

    /// Whether an earlier write has failed in a way that leaves its outcome unknown.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Returns for each hash whether the table has it.
    pub(crate) fn has(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, ChunkError> {
        self.0.read(|database| {
            let read = database.begin_read()?;
            let (small, large) = (read.open_table(SMALL)?, read.open_table(LARGE)?);
            let has =
                |hash: &ChunkHash| Ok(small.get(hash.as_bytes())?.is_some() || large.get(hash.as_bytes())?.is_some());
            hashes.iter().map(has).collect()
        })
    }

    /// Returns the record of a chunk.
    pub(crate) fn find(&self, hash: &ChunkHash) -> Result<Option<Found>, ChunkError> {
        self.0.read(|database| {
            let read = database.begin_read()?;
            if let Some(value) = read.open_table(SMALL)?.get(hash.as_bytes())? {
                return Ok(Some(Found::Small(Bytes::copy_from_slice(value.value()))));
            }
            Ok(read.open_table(LARGE)?.get(hash.as_bytes())?.map(|value| Found::Large(value.value())))
        })
    }

    /// Returns those of the chunks that the table has, each once.
    pub(crate) fn entries(&self, hashes: &[ChunkHash]) -> Result<Vec<Entry>, ChunkError> {
        let hashes: BTreeSet<ChunkHash> = hashes.iter().copied().collect();
        self.0.read(|database| {
            let read = database.begin_read()?;
            let (small, large) = (read.open_table(SMALL)?, read.open_table(LARGE)?);
            let mut entries = Vec::new();
            for &hash in &hashes {
                let found = match small.get(hash.as_bytes())? {
                    Some(value) => Some((Kind::Small, value.value().len() as u64)),
                    None => large.get(hash.as_bytes())?.map(|value| (Kind::Large, u64::from(value.value()))),
                };
                entries.extend(found.map(|(kind, bytes)| Entry { hash, bytes, kind, is_whole: true }));
            }
            Ok(entries)
        })
    }

    /// Adds chunks, durably: the bytes of small ones and the lengths of large ones.
    pub(crate) fn add(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<(), ChunkError> {
        self.change(|small, large| {
            let (mut added, mut replaced) = (0, 0);
            for (hash, bytes) in chunks {
                let old = match Kind::of(bytes.len()) {
                    Kind::Small => small.insert(hash.as_bytes(), &**bytes)?.map(|old| old.value().len() as u64),
                    Kind::Large => large.insert(hash.as_bytes(), bytes.len() as u32)?.map(|old| u64::from(old.value())),
                };
                added += bytes.len() as u64;
                replaced += old.unwrap_or(0);
            }
            Ok((added, replaced))
        })
    }

    /// Removes chunks, durably.
    pub(crate) fn remove(&self, chunks: &[Entry]) -> Result<(), ChunkError> {
        self.change(|small, large| {
            let mut removed = 0;
            for Entry { hash, kind, .. } in chunks {
                let old = match kind {
                    Kind::Small => small.remove(hash.as_bytes())?.map(|old| old.value().len() as u64),
                    Kind::Large => large.remove(hash.as_bytes())?.map(|old| u64::from(old.value())),
                };
                removed += old.unwrap_or(0);
            }
            Ok((0, removed))
        })
    }

    /// Changes both tables by `work`, which returns the bytes that it has added and removed.
    fn change(
        &self,
        work: impl Fn(&mut SmallTable<'_>, &mut LargeTable<'_>) -> Result<(u64, u64), Trouble>,
    ) -> Result<(), ChunkError> {
        self.0.write(|database| {
            let mut write = database.begin_write()?;
            write.set_durability(Durability::Immediate)?;
            // Without it, a start after a crash reads the whole file.
            write.set_quick_repair(true);
            {
                let (mut small, mut large) = (write.open_table(SMALL)?, write.open_table(LARGE)?);
                let (added, removed) = work(&mut small, &mut large)?;
                let mut total = write.open_table(TOTAL)?;
                let old = total.get(0)?.map_or(0, |value| value.value());
                total.insert(0, old.saturating_add(added).saturating_sub(removed))?;
            }
            Ok(write.commit()?)
        })
    }

    /// Returns the next chunks of a kind after a hash, in the order of hashes, and whether these are the last.
    /// `verify` compares small ones with their names.
    pub(crate) fn page(
        &self,
        kind: Kind,
        after: Option<ChunkHash>,
        chunks_max: usize,
        verify: bool,
    ) -> Result<(Vec<Entry>, bool), ChunkError> {
        let entries = self.0.read(|database| {
            let read = database.begin_read()?;
            match kind {
                Kind::Small => collect(&read.open_table(SMALL)?, after, chunks_max, |hash, value| {
                    let is_whole = !verify || ChunkHash::of(value) == hash;
                    Entry { hash, bytes: value.len() as u64, kind, is_whole }
                }),
                Kind::Large => collect(&read.open_table(LARGE)?, after, chunks_max, |hash, value| Entry {
                    hash,
                    bytes: u64::from(value),
                    kind,
                    is_whole: true,
                }),
            }
        })?;
        let is_last = entries.len() < chunks_max;
        Ok((entries, is_last))
    }

    /// Gives unused room of the file back, if that is most of it.
    pub(crate) fn compact(&self) -> Result<(), ChunkError> {
        let bytes_max = self.0.read(|database| {
            let read = database.begin_read()?;
            let small = read.open_table(SMALL)?.len()? * SMALL_BYTES_MAX as u64;
            Ok(read.open_table(TOTAL)?.get(0)?.map_or(0, |value| value.value()).min(small))
        })?;
        if self.0.disk_bytes()? > 2 * bytes_max + TABLE_UNUSED_BYTES_MAX { self.0.compact() } else { Ok(()) }
    }

    /// Returns the number of chunks and of their bytes.
    pub(crate) fn totals(&self) -> Result<(u64, u64), ChunkError> {
        self.0.read(|database: &Database| {
            let read = database.begin_read()?;
            let chunks = read.open_table(SMALL)?.len()? + read.open_table(LARGE)?.len()?;
            Ok((chunks, read.open_table(TOTAL)?.get(0)?.map_or(0, |value| value.value())))
        })
    }
}

fn collect<V: Value + 'static>(
    table: &impl ReadableTable<Hash, V>,
    after: Option<ChunkHash>,
    chunks_max: usize,
    entry: impl Fn(ChunkHash, V::SelfType<'_>) -> Entry,
) -> Result<Vec<Entry>, Trouble>
where
    Hash: Key,
{
    let from = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_bytes()));
    let (mut entries, mut last) = (Vec::new(), after);
    for item in table.range::<&[u8; ChunkHash::BYTES]>((from, Bound::Unbounded))?.take(chunks_max) {
        let (key, value) = item?;
        let hash = ChunkHash::from(*key.value());
        // Chunks behind one that is out of order would be passed over.
        if last.is_some_and(|last| last >= hash) {
            return Err(Trouble::Damage(format!("chunk {hash} is out of order")));
        }
        last = Some(hash);
        entries.push(entry(hash, value.value()));
    }
    Ok(entries)
}
