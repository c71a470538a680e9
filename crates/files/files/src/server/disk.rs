//! The disk of a file server: one thread that changes chunks and records in the order of the work, and some that read.
//! A search for unused chunks begins in that order, and runs while later work is done.
//!
//! Chunks that were put one behind the other become durable together. The folder of the chunks is made when the first
//! one comes: a store without sites has none.
//!
//! Work that may have to wait for a bucket has threads of its own, and no other work waits for them. So chunks that are
//! put have no order among the other work: the machine relies on a chunk once it knows that it is durable.

use super::homes::Homes;
use super::records::Spaces;
use crate::error::FilesError;
use crate::line::{Line, Threads, contained, lock};
use crate::local::{CHUNKS, open_chunks};
use crate::stored::Stored;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use machine::Disk;
use objects::Db;
use spread::server_work::{Check, Checked, Done, Merged, NotDone, Place, Work, WorkId};
use spread::{Swept, trees};
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tree::{ChunkHash, Parts, ReadError, Sides};

/// Threads that read chunks.
const READERS: usize = 4;

/// Threads of a node that search for places.
const SEARCHERS: usize = 4;

/// Threads that read chunks from a bucket, and that put batches into it.
const BUCKET_READERS: usize = 32;
const BUCKET_WRITERS: usize = 8;

/// The bytes of chunks that become durable together, about.
const BATCH_BYTES: usize = 32 * 1024 * 1024;

type Tell = Box<dyn Fn(Done) + Send + Sync>;

/// The disk.
pub(super) struct ServerDisk {
    shared: Arc<Shared>,
    threads: Threads,
}

struct Shared {
    dir: PathBuf,
    chunks: OnceLock<Arc<Chunks>>,
    /// Held by the thread that opens them.
    opening: Mutex<()>,
    /// Where the sites of a store of several nodes are.
    homes: Option<Arc<Homes>>,
    spaces: Mutex<Spaces>,
    tell: OnceLock<Tell>,
    line: Line<Work>,
    reads: Line<Reading>,
    /// Puts alone.
    bucket_puts: Line<Work>,
    bucket_reads: Line<ChunkHash>,
    /// Changes of records at a node: they may have to wait for other nodes, and chunks do not wait with them.
    changes: Line<Work>,
    /// Searches for places at a node, which may have to wait, too.
    searches: Line<Work>,
}

/// Chunks of a request that become durable together.
type Put = (WorkId, Vec<(ChunkHash, Bytes)>);

impl ServerDisk {
    /// Begins to work on the chunks in a store's directory and the records in `db`.
    pub(super) fn start(db: Db, dir: &Path) -> Result<Arc<Self>, FilesError> {
        Self::begin(Spaces::new(db), dir, None)
    }

    /// Begins to work in the directory of a node, for the spaces that are at home there.
    pub(super) fn of_node(homes: Arc<Homes>, dir: &Path) -> Result<Arc<Self>, FilesError> {
        let disk = Self::begin(Spaces::of_node(homes.clone()), dir, Some(homes))?;
        disk.spawn("files-records", |shared| shared.work_on(&shared.changes))?;
        (0..SEARCHERS).try_for_each(|_| disk.spawn("files-search", |shared| shared.work_on(&shared.searches)))?;
        Ok(disk)
    }

    fn begin(spaces: Spaces, dir: &Path, homes: Option<Arc<Homes>>) -> Result<Arc<Self>, FilesError> {
        let chunks = OnceLock::new();
        if dir.join(CHUNKS).is_dir() {
            let _ = chunks.set(Arc::new(open_chunks(dir)?));
        }
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            chunks,
            opening: Mutex::default(),
            homes,
            spaces: Mutex::new(spaces),
            tell: OnceLock::new(),
            line: Line::new(),
            reads: Line::new(),
            bucket_puts: Line::new(),
            bucket_reads: Line::new(),
            changes: Line::new(),
            searches: Line::new(),
        });
        let disk = Arc::new(Self { shared, threads: Threads::default() });
        disk.spawn("files-write", Shared::write)?;
        (0..READERS).try_for_each(|_| disk.spawn("files-read", Shared::read))?;
        // A store has a bucket from its start on, or has none.
        if disk.shared.chunks.get().is_some_and(|chunks| chunks.has_bucket()) {
            (0..BUCKET_WRITERS).try_for_each(|_| disk.spawn("bucket-write", Shared::write_to_bucket))?;
            (0..BUCKET_READERS).try_for_each(|_| disk.spawn("bucket-read", Shared::read_from_bucket))?;
        }
        Ok(disk)
    }

    /// The chunks, for one that copies some to them.
    pub(super) fn open_chunks(&self) -> Result<Arc<Chunks>, FilesError> {
        self.shared.chunks().cloned()
    }

    /// Why the bucket of the chunks cannot be used, if its last request has failed.
    pub(super) fn bucket_trouble(&self) -> Option<String> {
        self.shared.chunks.get()?.bucket_trouble()
    }

    fn spawn(&self, name: &str, run: fn(&Shared)) -> Result<(), FilesError> {
        let shared = self.shared.clone();
        self.threads.spawn(name, move || run(&shared)).map_err(FilesError::Thread)
    }
}

impl fmt::Debug for ServerDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDisk").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl Disk for ServerDisk {
    type Work = Work;
    type Done = Done;

    fn submit(&self, work: Work) -> bool {
        let shared = &self.shared;
        match work {
            // It has no order, and is done by the threads that read.
            Work::Read(_) | Work::Edits(..) => shared.work(work),
            Work::Locate(_) | Work::HandOver(..) => shared.searches.push(work),
            Work::Publish(..) | Work::Change(..) | Work::Drop(..) if shared.homes.is_some() => {
                shared.changes.push(work);
            }
            work => shared.line.push(work),
        }
        false
    }

    fn flush(&self, _: &mut dyn FnMut(Done)) -> bool {
        false
    }

    fn on_done(&self, done: Tell) {
        assert!(self.shared.tell.set(done).is_ok(), "registered once");
    }

    fn on_failed(&self, _: Box<dyn Fn(&str) + Send + Sync>) {}
}

impl Drop for ServerDisk {
    fn drop(&mut self) {
        let Shared { chunks, line, reads, bucket_puts, bucket_reads, changes, searches, .. } = &*self.shared;
        changes.end();
        searches.end();
        line.end();
        reads.end();
        bucket_puts.end();
        bucket_reads.end();
        if let Some(chunks) = chunks.get() {
            chunks.end_bucket();
        }
        self.threads.join();
    }
}

impl Shared {
    fn tell(&self, done: Done) {
        if let Some(tell) = self.tell.get() {
            tell(done);
        }
    }

    /// The thread that does the work that has an order.
    fn write(&self) {
        while let Some(next) = self.line.take(next) {
            match next {
                Next::Puts(puts) => self.put_or_pass_on(puts),
                Next::Work(work) => self.work(work),
            }
        }
    }

    /// A thread that does the work of a line, in its order.
    fn work_on(&self, line: &Line<Work>) {
        while let Some(Some(work)) = line.take(VecDeque::pop_front) {
            self.work(work);
        }
    }

    /// A thread that reads chunks.
    fn read(&self) {
        while let Some(Some(reading)) = self.reads.take(VecDeque::pop_front) {
            match reading {
                Reading::Chunk(hash) => {
                    let is_far = self.chunks.get().is_some_and(|chunks| chunks.is_in_bucket(&hash).unwrap_or(false));
                    if is_far { self.bucket_reads.push(hash) } else { self.read_chunk(hash) }
                }
                Reading::Edits(id, base, root) => {
                    let edits = contained(|| match self.chunks.get() {
                        Some(chunks) => trees::edits_between(&Stored(chunks), base, root).map_err(FilesError::from),
                        None => Ok(Bytes::new()),
                    });
                    // Without them a subscriber compares the trees.
                    self.tell(Done::Edits(id, edits.unwrap_or_default()));
                }
                Reading::Mark(roots) => self.tell(Done::Marked(doing(|| self.unused(&roots)))),
            }
        }
    }

    fn read_chunk(&self, hash: ChunkHash) {
        let read = contained(|| match self.chunks.get() {
            Some(chunks) => Ok(chunks.get(&hash)?),
            None => Ok(None),
        });
        self.tell(match read {
            Err(FilesError::Chunks(error)) if error.is_of_bucket() => Done::Unread(hash, error.to_string()),
            // A damaged chunk counts as missing. Publishing it again repairs it.
            read => Done::Read(hash, read.ok().flatten()),
        });
    }

    /// A thread that reads chunks from the bucket.
    fn read_from_bucket(&self) {
        while let Some(Some(hash)) = self.bucket_reads.take(VecDeque::pop_front) {
            self.read_chunk(hash);
        }
    }

    /// A thread that puts chunks into the bucket.
    fn write_to_bucket(&self) {
        while let Some(Next::Puts(puts)) = self.bucket_puts.take(next) {
            self.put(puts);
        }
    }

    /// Puts chunks, or passes those on that may have to wait for a bucket.
    fn put_or_pass_on(&self, puts: Vec<Put>) {
        let chunks = self.chunks.get();
        let waits = |(_, put): &Put| chunks.is_some_and(|chunks| chunks.waits_for_bucket(put));
        let (far, near): (Vec<_>, Vec<_>) = puts.into_iter().partition(waits);
        for (id, chunks) in far {
            self.bucket_puts.push(Work::Put(id, chunks));
        }
        self.put(near);
    }

    /// The chunks, which are made if there are none.
    fn chunks(&self) -> Result<&Arc<Chunks>, FilesError> {
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        // A thread that copies chunks may come at the same time.
        let _opening = lock(&self.opening);
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        let chunks = Arc::new(open_chunks(&self.dir)?);
        Ok(self.chunks.get_or_init(|| chunks))
    }

    /// Makes chunks durable together; where that fails, each request's by themselves, unless a bucket has failed: that
    /// would make each of them wait.
    fn put(&self, puts: Vec<Put>) {
        let put = |chunks: &[(ChunkHash, Bytes)]| contained(|| Ok(self.chunks()?.put(chunks)?));
        let all: Vec<_> = puts.iter().flat_map(|(_, chunks)| chunks.iter().cloned()).collect();
        let done = match put(&all) {
            Err(FilesError::Chunks(error)) if error.is_of_bucket() => Some(Err(NotDone::Failed(error.to_string()))),
            Err(_) => None,
            Ok(()) => Some(Ok(())),
        };
        for (id, chunks) in puts {
            let done = done.clone().unwrap_or_else(|| put(&chunks).map_err(not_done));
            self.tell(Done::Put(id, done));
        }
    }

    fn work(&self, work: Work) {
        match work {
            Work::Missing(id, hashes) => {
                let missing = doing(|| match self.chunks.get() {
                    Some(chunks) => Ok(chunks.missing(&hashes)?),
                    None => Ok(hashes),
                });
                self.tell(Done::Missing(id, missing));
            }
            Work::Put(id, chunks) => self.put_or_pass_on(vec![(id, chunks)]),
            Work::Check(id, Check { base, root }) => {
                let checked = doing(|| self.check(base, root));
                self.tell(Done::Checked(id, checked));
            }
            Work::Merge(id, sides) => {
                let merged = doing(|| self.merge(sides));
                self.tell(Done::Merged(id, merged));
            }
            Work::Compare(id, compare) => {
                let changed = doing(|| Ok(trees::changed(&Stored(self.chunks()?), compare)));
                self.tell(Done::Compared(id, changed));
            }
            Work::Publish(id, new) => {
                let published = doing(|| lock(&self.spaces).publish(&new));
                self.tell(Done::Published(id, published));
            }
            Work::Change(id, key, change) => {
                let changed = doing(|| lock(&self.spaces).change(&key, change));
                self.tell(Done::Changed(id, changed));
            }
            Work::Drop(key, numbers) => {
                // Revisions that stay in the record are dropped later.
                let dropped = doing(|| lock(&self.spaces).drop_revisions(&key, &numbers));
                self.tell(Done::Dropped(key, if dropped.is_ok() { numbers } else { Vec::new() }));
            }
            Work::Mark(roots) => self.reads.push(Reading::Mark(roots)),
            Work::Sweep(hashes) => {
                let swept = doing(|| {
                    let swept = self.chunks()?.remove(&hashes)?;
                    Ok(Swept { chunks: swept.chunks, bytes: swept.bytes })
                });
                self.tell(Done::Swept(swept));
            }
            Work::Edits(id, base, root) => self.reads.push(Reading::Edits(id, base, root)),
            Work::Read(hash) => self.reads.push(Reading::Chunk(hash)),
            Work::Locate(space) => {
                let place = self.homes.as_ref().map_or(Place::Here, |homes| homes.locate(&space));
                self.tell(Done::Located(space, place));
            }
            Work::HandOver(id, space, to) => {
                let term = doing(|| match &self.homes {
                    Some(homes) => homes.hand_over(&space, to),
                    None => Err(FilesError::Stays(space)),
                });
                self.tell(Done::HandOver(id, term));
            }
        }
    }

    fn check(&self, base: Option<ChunkHash>, root: ChunkHash) -> Result<Checked, FilesError> {
        let source = Stored(self.chunks()?);
        let has = &mut |hashes: &[ChunkHash]| source.has(hashes);
        match trees::check(&source, has, base, root) {
            Ok(checked) => Ok(checked),
            Err(ReadError::Malformed(hash, why)) => {
                Err(FilesError::Malformed(format!("chunk {hash} cannot be a node of a tree: {why}")))
            }
            Err(ReadError::Source(error)) => Err(error),
        }
    }

    /// Merges two trees. The nodes of the merged one are durable when this returns (rule DurableFirst).
    fn merge(&self, sides: Sides) -> Result<Merged, FilesError> {
        let chunks = self.chunks()?;
        let (merged, nodes) = trees::merge(&Stored(chunks), sides)?;
        chunks.put(&nodes.into_iter().collect::<Vec<_>>())?;
        Ok(merged)
    }

    fn unused(&self, roots: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError> {
        self.chunks.get().map_or_else(
            || Ok(Vec::new()),
            |chunks| {
                let unused = Stored(chunks).unused(Parts::Whole, roots)?;
                Ok(unused.into_iter().map(|(hash, _)| hash).collect())
            },
        )
    }
}

/// Work of the threads that read.
enum Reading {
    Chunk(ChunkHash),
    /// The edits from one tree to another.
    Edits(WorkId, ChunkHash, ChunkHash),
    /// The chunks that none of these trees needs.
    Mark(Vec<ChunkHash>),
}

/// The next work of the line.
enum Next {
    /// Chunks that become durable together.
    Puts(Vec<Put>),
    Work(Work),
}

/// Takes the next work of a line that has some.
fn next(line: &mut VecDeque<Work>) -> Next {
    let (mut puts, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES
        && let Some(work) = line.pop_front()
    {
        match work {
            Work::Put(id, chunks) => {
                bytes += chunks.iter().map(|(_, chunk)| chunk.len()).sum::<usize>();
                puts.push((id, chunks));
            }
            work if puts.is_empty() => return Next::Work(work),
            work => {
                line.push_front(work);
                break;
            }
        }
    }
    Next::Puts(puts)
}

fn not_done(error: FilesError) -> NotDone {
    match error {
        FilesError::NoSite(_) => NotDone::NoSite,
        FilesError::IsThere(_) => NotDone::IsThere,
        FilesError::OtherHome => NotDone::Elsewhere,
        FilesError::Chunks(ChunkError::NoRoom { .. }) => NotDone::NoRoom(error.to_string()),
        FilesError::Chunks(ChunkError::Mismatch { .. } | ChunkError::TooLarge { .. })
        | FilesError::Malformed(_)
        | FilesError::SiteName(_) => NotDone::Malformed(error.to_string()),
        error => NotDone::Failed(error.to_string()),
    }
}

/// Does a piece of work, and says why it was not done in the terms of the machine.
fn doing<T>(work: impl FnOnce() -> Result<T, FilesError>) -> Result<T, NotDone> {
    contained(work).map_err(not_done)
}
