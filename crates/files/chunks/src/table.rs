//! The table: which chunks there are, and the bytes of the small ones.
//!
//! | table | key | value |
//! |---|---|---|
//! | `small` | hash | the chunk |
//! | `large` | hash | the chunk's length u32; its bytes are in a file |
//! | `objects` | hash | the chunk's length u32 and the number of its put u64; its bytes are in a bucket |
//! | `total` | 0 | the bytes of all chunks u64 |
//!
//! `objects` is made with the first object.

use crate::bucket::Object;
use crate::database::{Reopening, Trouble};
use crate::directory::TABLE;
use crate::error::ChunkError;
use crate::limits::{SMALL_BYTES_MAX, TABLE_UNUSED_BYTES_MAX};
use bytes::Bytes;
use redb::{
    Database, Durability, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, TableError, TableHandle, Value, WriteTransaction,
};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use tree::ChunkHash;
use vfs::Files;

type Hash = &'static [u8; ChunkHash::BYTES];

type ObjectTable = ReadOnlyTable<Hash, (u32, u64)>;

const SMALL: TableDefinition<Hash, &[u8]> = TableDefinition::new("small");
const LARGE: TableDefinition<Hash, u32> = TableDefinition::new("large");
const OBJECTS: TableDefinition<Hash, (u32, u64)> = TableDefinition::new("objects");
const TOTAL: TableDefinition<u64, u64> = TableDefinition::new("total");

/// The kinds of chunks, by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value in the table.
    Small,
    /// A file.
    Large,
    /// An object in a bucket.
    Object,
}

impl Kind {
    /// The kind of a chunk of this length on a disk.
    pub(crate) fn of(bytes: usize) -> Self {
        if bytes <= SMALL_BYTES_MAX { Self::Small } else { Self::Large }
    }
}

/// A chunk to be added, whose file or object is durable.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) hash: ChunkHash,
    pub(crate) bytes: Bytes,
    /// The number of its put, if it is an object.
    pub(crate) put: Option<u64>,
}

/// The table's record of a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Its bytes, which are not verified.
    Small(Bytes),
    /// The length of its file.
    Large(u32),
    /// Its object, and its length.
    Object(Object, u32),
}

/// A chunk in a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: ChunkHash,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// The number of its put, if it is an object.
    pub(crate) put: u64,
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
            let tables = Tables::of(&database.begin_read()?)?;
            hashes.iter().map(|hash| Ok(tables.entry(*hash)?.is_some())).collect()
        })
    }

    /// Returns for each hash whether the table says that it is in a file.
    pub(crate) fn has_file(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, ChunkError> {
        self.0.read(|database| {
            let large = database.begin_read()?.open_table(LARGE)?;
            hashes.iter().map(|hash| Ok(large.get(hash.as_bytes())?.is_some())).collect()
        })
    }

    /// Returns the record of a chunk.
    pub(crate) fn find(&self, hash: &ChunkHash) -> Result<Option<Found>, ChunkError> {
        self.0.read(|database| {
            let read = database.begin_read()?;
            let tables = Tables::of(&read)?;
            if let Some(value) = tables.small.get(hash.as_bytes())? {
                return Ok(Some(Found::Small(Bytes::copy_from_slice(value.value()))));
            }
            Ok(tables.entry(*hash)?.map(|entry| match entry.kind {
                Kind::Object => Found::Object(entry.object(), entry.bytes as u32),
                Kind::Small | Kind::Large => Found::Large(entry.bytes as u32),
            }))
        })
    }

    /// Whether it has an object.
    pub(crate) fn has_objects(&self) -> Result<bool, ChunkError> {
        let (first, _) = self.page(Kind::Object, None, 1, false)?;
        Ok(!first.is_empty())
    }

    /// Returns those of the chunks that the table has, each once.
    pub(crate) fn entries(&self, hashes: &[ChunkHash]) -> Result<Vec<Entry>, ChunkError> {
        let hashes: BTreeSet<ChunkHash> = hashes.iter().copied().collect();
        self.0.read(|database| {
            let read = database.begin_read()?;
            let tables = Tables::of(&read)?;
            hashes.iter().filter_map(|hash| tables.entry(*hash).transpose()).collect()
        })
    }

    /// Adds chunks, durably: the bytes of small ones and the lengths of large ones. They take the place of those that
    /// were damaged, wherever these were.
    pub(crate) fn add(&self, chunks: &[New]) -> Result<(), ChunkError> {
        self.change(|tables| {
            let (mut added, mut replaced) = (0, 0);
            for New { hash, bytes, put } in chunks {
                let length = bytes.len() as u32;
                replaced += match (put, Kind::of(bytes.len())) {
                    (None, Kind::Small) => {
                        tables.small.insert(hash.as_bytes(), &**bytes)?.map_or(0, |old| old.value().len() as u64)
                    }
                    (None, _) => {
                        let old = tables.large.insert(hash.as_bytes(), length)?.map_or(0, |old| old.value().into());
                        old + tables.remove(hash, Kind::Object)?
                    }
                    (Some(put), _) => {
                        let objects = tables.objects()?;
                        let old =
                            objects.insert(hash.as_bytes(), (length, *put))?.map_or(0, |old| old.value().0.into());
                        old + tables.remove(hash, Kind::Large)?
                    }
                };
                added += bytes.len() as u64;
            }
            Ok((added, replaced))
        })
    }

    /// Removes chunks, durably.
    pub(crate) fn remove(&self, chunks: &[Entry]) -> Result<(), ChunkError> {
        self.change(|tables| {
            let mut removed = 0;
            for Entry { hash, kind, .. } in chunks {
                removed += tables.remove(hash, *kind)?;
            }
            Ok((0, removed))
        })
    }

    /// Changes the tables by `work`, which returns the bytes that it has added and removed.
    fn change(&self, work: impl Fn(&mut Changing<'_>) -> Result<(u64, u64), Trouble>) -> Result<(), ChunkError> {
        self.0.write(|database| {
            let mut write = database.begin_write()?;
            write.set_durability(Durability::Immediate)?;
            // Without it, a start after a crash reads the whole file.
            write.set_quick_repair(true);
            {
                let (added, removed) = work(&mut Changing::of(&write)?)?;
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
                    Entry { is_whole, ..Entry::of(hash, kind, value.len() as u64) }
                }),
                Kind::Large => collect(&read.open_table(LARGE)?, after, chunks_max, |hash, value| {
                    Entry::of(hash, kind, value.into())
                }),
                Kind::Object => match open_objects(&read)? {
                    Some(objects) => collect(&objects, after, chunks_max, |hash, (bytes, put)| Entry {
                        put,
                        ..Entry::of(hash, kind, bytes.into())
                    }),
                    None => Ok(Vec::new()),
                },
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
            let objects = open_objects(&read)?.map_or(Ok(0), |objects| objects.len())?;
            let chunks = read.open_table(SMALL)?.len()? + read.open_table(LARGE)?.len()? + objects;
            Ok((chunks, read.open_table(TOTAL)?.get(0)?.map_or(0, |value| value.value())))
        })
    }
}

impl Entry {
    fn of(hash: ChunkHash, kind: Kind, bytes: u64) -> Self {
        Self { hash, bytes, kind, put: 0, is_whole: true }
    }

    /// Its object, if it is one.
    pub(crate) fn object(&self) -> Object {
        Object { hash: self.hash, put: self.put }
    }
}

/// The tables of chunks, to read from.
struct Tables {
    small: ReadOnlyTable<Hash, &'static [u8]>,
    large: ReadOnlyTable<Hash, u32>,
    objects: Option<ObjectTable>,
}

impl Tables {
    fn of(read: &ReadTransaction) -> Result<Self, Trouble> {
        Ok(Self { small: read.open_table(SMALL)?, large: read.open_table(LARGE)?, objects: open_objects(read)? })
    }

    fn entry(&self, hash: ChunkHash) -> Result<Option<Entry>, Trouble> {
        if let Some(value) = self.small.get(hash.as_bytes())? {
            return Ok(Some(Entry::of(hash, Kind::Small, value.value().len() as u64)));
        }
        if let Some(value) = self.large.get(hash.as_bytes())? {
            return Ok(Some(Entry::of(hash, Kind::Large, value.value().into())));
        }
        let Some(objects) = &self.objects else { return Ok(None) };
        Ok(objects.get(hash.as_bytes())?.map(|value| {
            let (bytes, put) = value.value();
            Entry { put, ..Entry::of(hash, Kind::Object, bytes.into()) }
        }))
    }
}

/// The table of objects, if there is one.
fn open_objects(read: &ReadTransaction) -> Result<Option<ObjectTable>, Trouble> {
    match read.open_table(OBJECTS) {
        Ok(objects) => Ok(Some(objects)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The tables of chunks, to change.
struct Changing<'a> {
    write: &'a WriteTransaction,
    small: redb::Table<'a, Hash, &'static [u8]>,
    large: redb::Table<'a, Hash, u32>,
    /// Opened when it is needed, which makes it.
    objects: Option<redb::Table<'a, Hash, (u32, u64)>>,
}

impl<'a> Changing<'a> {
    fn of(write: &'a WriteTransaction) -> Result<Self, Trouble> {
        let has_objects = write.list_tables()?.any(|table| table.name() == OBJECTS.name());
        let objects = if has_objects { Some(write.open_table(OBJECTS)?) } else { None };
        Ok(Self { write, small: write.open_table(SMALL)?, large: write.open_table(LARGE)?, objects })
    }

    fn objects(&mut self) -> Result<&mut redb::Table<'a, Hash, (u32, u64)>, Trouble> {
        let objects = match self.objects.take() {
            Some(objects) => objects,
            None => self.write.open_table(OBJECTS)?,
        };
        Ok(self.objects.insert(objects))
    }

    /// Removes a chunk of a kind, and returns its bytes.
    fn remove(&mut self, hash: &ChunkHash, kind: Kind) -> Result<u64, Trouble> {
        Ok(match (kind, &mut self.objects) {
            (Kind::Small, _) => self.small.remove(hash.as_bytes())?.map_or(0, |old| old.value().len() as u64),
            (Kind::Large, _) => self.large.remove(hash.as_bytes())?.map_or(0, |old| old.value().into()),
            (Kind::Object, Some(objects)) => objects.remove(hash.as_bytes())?.map_or(0, |old| old.value().0.into()),
            (Kind::Object, None) => 0,
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
