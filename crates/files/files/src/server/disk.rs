//! The disk of a file server: one thread that changes chunks and records in the order of the work, and some that read.
//!
//! Chunks that were put one behind the other become durable together. The folder of the chunks is made when the first
//! one comes: a store without sites has none.

use super::records::{NotChanged, Spaces};
use crate::error::FilesError;
use crate::local::{CHUNKS, Used, open_chunks};
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use machine::Disk;
use objects::Db;
use spread::server_work::{Check, Checked, Done, NotDone, Work, WorkId};
use spread::{Swept, trees};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use tree::{ChunkHash, ReadError, Source};
use types::said;

/// Threads that read chunks.
const READERS: usize = 4;

/// The bytes of chunks that become durable together, about.
const BATCH_BYTES: usize = 32 * 1024 * 1024;

type Tell = Box<dyn Fn(Done) + Send + Sync>;

/// The disk.
pub(super) struct ServerDisk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    dir: PathBuf,
    chunks: OnceLock<Chunks>,
    spaces: Mutex<Spaces>,
    tell: OnceLock<Tell>,
    queue: Mutex<Queue>,
    write: Condvar,
    read: Condvar,
}

#[derive(Default)]
struct Queue {
    line: VecDeque<Work>,
    reads: VecDeque<ChunkHash>,
    is_ended: bool,
}

impl ServerDisk {
    /// Begins to work on the chunks in a store's directory and the records in `db`.
    pub(super) fn start(db: Db, dir: &Path) -> Result<Arc<Self>, FilesError> {
        let chunks = OnceLock::new();
        if dir.join(CHUNKS).is_dir() {
            let _ = chunks.set(open_chunks(dir)?);
        }
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            chunks,
            spaces: Mutex::new(Spaces::new(db)),
            tell: OnceLock::new(),
            queue: Mutex::default(),
            write: Condvar::new(),
            read: Condvar::new(),
        });
        let disk = Arc::new(Self { shared, threads: Mutex::default() });
        let unstarted = |error: std::io::Error| FilesError::Thread(error);
        disk.spawn("files-write", Shared::write).map_err(unstarted)?;
        (0..READERS).try_for_each(|_| disk.spawn("files-read", Shared::read)).map_err(unstarted)?;
        Ok(disk)
    }

    fn spawn(&self, name: &str, run: fn(&Shared)) -> std::io::Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?;
        lock(&self.threads).push(thread);
        Ok(())
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
        let mut queue = lock(&self.shared.queue);
        if let Work::Read(hash) = work {
            queue.reads.push_back(hash);
            self.shared.read.notify_one();
        } else {
            queue.line.push_back(work);
            self.shared.write.notify_one();
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
        lock(&self.shared.queue).is_ended = true;
        self.shared.write.notify_all();
        self.shared.read.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // The last handle may continue one of them.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
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
        loop {
            let is_idle = |queue: &mut Queue| queue.line.is_empty() && !queue.is_ended;
            let queue = self.write.wait_while(lock(&self.queue), is_idle);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            if queue.is_ended {
                return;
            }
            let puts = take_puts(&mut queue.line);
            let work = if puts.is_empty() { queue.line.pop_front() } else { None };
            drop(queue);
            if !puts.is_empty() {
                self.put(puts);
            } else if let Some(work) = work {
                self.work(work);
            }
        }
    }

    /// A thread that reads chunks.
    fn read(&self) {
        loop {
            let is_idle = |queue: &mut Queue| queue.reads.is_empty() && !queue.is_ended;
            let queue = self.read.wait_while(lock(&self.queue), is_idle);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            if queue.is_ended {
                return;
            }
            let Some(hash) = queue.reads.pop_front() else { continue };
            drop(queue);
            // A damaged chunk counts as missing. Publishing it again repairs it.
            let read = contained(|| self.chunks.get().map_or(Ok(None), |chunks| chunks.get(&hash)));
            self.tell(Done::Read(hash, read.ok().and_then(Result::ok).flatten()));
        }
    }

    /// The chunks, which are made if there are none.
    fn chunks(&self) -> Result<&Chunks, FilesError> {
        if let Some(chunks) = self.chunks.get() {
            return Ok(chunks);
        }
        // The thread that writes is the only one that opens them.
        let chunks = open_chunks(&self.dir)?;
        Ok(self.chunks.get_or_init(|| chunks))
    }

    /// Makes chunks durable together; where that fails, each request's by themselves.
    fn put(&self, puts: Vec<(WorkId, Vec<(ChunkHash, Bytes)>)>) {
        let put = |chunks: &[(ChunkHash, Bytes)]| {
            contained(|| self.chunks()?.put(chunks).map_err(FilesError::from)).unwrap_or_else(|why| Err(why.into()))
        };
        let all: Vec<_> = puts.iter().flat_map(|(_, chunks)| chunks.iter().cloned()).collect();
        if put(&all).is_ok() {
            for (id, _) in puts {
                self.tell(Done::Put(id, Ok(())));
            }
            return;
        }
        for (id, chunks) in puts {
            self.tell(Done::Put(id, put(&chunks).map_err(not_done)));
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
            Work::Put(id, chunks) => self.put(vec![(id, chunks)]),
            Work::Check(id, Check { base, root }) => {
                let checked = doing(|| self.check(base, root));
                self.tell(Done::Checked(id, checked));
            }
            Work::Publish(id, new) => {
                let published = doing(|| lock(&self.spaces).publish(&new));
                self.tell(Done::Published(id, published));
            }
            Work::Change(id, key, change) => {
                let changed = contained(|| lock(&self.spaces).change(&key, change));
                let changed = changed.unwrap_or_else(|why| Err(NotChanged::Failed(why.into())));
                self.tell(Done::Changed(
                    id,
                    changed.map_err(|why| match why {
                        NotChanged::NoSite => NotDone::NoSite,
                        NotChanged::IsThere => NotDone::IsThere,
                        NotChanged::Failed(error) => not_done(error),
                    }),
                ));
            }
            Work::Drop(key, numbers) => {
                // Revisions that stay in the record are dropped later.
                let dropped = doing(|| lock(&self.spaces).drop_revisions(&key, &numbers));
                self.tell(Done::Dropped(key, if dropped.is_ok() { numbers } else { Vec::new() }));
            }
            Work::Mark(roots) => {
                let unused = doing(|| self.unused(&roots));
                self.tell(Done::Marked(unused));
            }
            Work::Sweep(hashes) => {
                let swept = doing(|| {
                    let swept = self.chunks()?.remove(&hashes)?;
                    Ok(Swept { chunks: swept.chunks, bytes: swept.bytes })
                });
                self.tell(Done::Swept(swept));
            }
            Work::Read(hash) => {
                lock(&self.queue).reads.push_back(hash);
                self.read.notify_one();
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

    fn unused(&self, roots: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError> {
        let Some(chunks) = self.chunks.get() else { return Ok(Vec::new()) };
        let used = Used::of(&Stored(chunks), roots)?;
        let mut unused = Vec::new();
        chunks.for_each(|hash, _| {
            if !used.has(hash) {
                unused.push(*hash);
            }
        })?;
        chunks.remove_leftovers()?;
        Ok(unused)
    }
}

/// The chunks as the source of trees.
struct Stored<'a>(&'a Chunks);

impl Source for Stored<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.0.get(hash)?.ok_or(FilesError::MissingChunk(*hash))
    }
}

impl Stored<'_> {
    fn has(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, FilesError> {
        let missing: HashSet<ChunkHash> = self.0.missing(hashes)?.into_iter().collect();
        Ok(hashes.iter().map(|hash| !missing.contains(hash)).collect())
    }
}

/// Takes the puts at the front of a line that become durable together.
fn take_puts(line: &mut VecDeque<Work>) -> Vec<(WorkId, Vec<(ChunkHash, Bytes)>)> {
    let (mut puts, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES
        && let Some(Work::Put(..)) = line.front()
        && let Some(Work::Put(id, chunks)) = line.pop_front()
    {
        bytes += chunks.iter().map(|(_, chunk)| chunk.len()).sum::<usize>();
        puts.push((id, chunks));
    }
    puts
}

fn not_done(error: FilesError) -> NotDone {
    match error {
        FilesError::Chunks(ChunkError::NoRoom { .. }) => NotDone::NoRoom(error.to_string()),
        FilesError::Chunks(ChunkError::Mismatch { .. } | ChunkError::TooLarge { .. })
        | FilesError::Malformed(_)
        | FilesError::SiteName(_) => NotDone::Malformed(error.to_string()),
        error => NotDone::Failed(error.to_string()),
    }
}

/// Does a piece of work, and says why it was not done in the terms of the machine.
fn doing<T>(work: impl FnOnce() -> Result<T, FilesError>) -> Result<T, NotDone> {
    contained(work).unwrap_or_else(|why| Err(why.into())).map_err(not_done)
}

/// A panic, as a text for people.
struct Panicked(String);

impl From<Panicked> for FilesError {
    fn from(Panicked(text): Panicked) -> Self {
        Self::Panicked(text)
    }
}

/// Works; a panic is a failure like any other.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    ran.map_err(|panic| Panicked(said(&*panic).to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
