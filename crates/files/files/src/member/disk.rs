//! The disk of a member: one thread that does the machine's work in its order.
//!
//! Chunks that came one behind the other become durable together.

use super::state;
use crate::error::FilesError;
use crate::local::Used;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use machine::Disk;
use spread::member_work::{Done, Edited, Work};
use spread::{SiteKey, Swept, trees};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use tree::{ChunkHash, Sink, Source, Step, descend};
use types::said;

/// The bytes of chunks that become durable together, about.
const BATCH_BYTES: usize = 32 * 1024 * 1024;

/// The nodes that are looked at before the machine is told.
const BUDGET: usize = 10_000;

type Tell = Box<dyn Fn(Done) + Send + Sync>;

/// The disk.
pub(super) struct MemberDisk {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    dir: PathBuf,
    key: SiteKey,
    chunks: Arc<Chunks>,
    tell: OnceLock<Tell>,
    queue: Mutex<Queue>,
    woken: Condvar,
}

#[derive(Default)]
struct Queue {
    line: VecDeque<Work>,
    is_ended: bool,
}

impl MemberDisk {
    /// Begins to work on a member's directory, for this site.
    pub(super) fn start(dir: &Path, key: SiteKey, chunks: Arc<Chunks>) -> Result<Arc<Self>, FilesError> {
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            key,
            chunks,
            tell: OnceLock::new(),
            queue: Mutex::default(),
            woken: Condvar::new(),
        });
        let running = shared.clone();
        let thread = thread::Builder::new().name("member-disk".to_owned()).spawn(move || running.run());
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread.map_err(FilesError::Thread)?)) }))
    }
}

impl fmt::Debug for MemberDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberDisk").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl Disk for MemberDisk {
    type Work = Work;
    type Done = Done;

    fn submit(&self, work: Work) -> bool {
        lock(&self.shared.queue).line.push_back(work);
        self.shared.woken.notify_one();
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

impl Drop for MemberDisk {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.woken.notify_all();
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn tell(&self, done: Done) {
        if let Some(tell) = self.tell.get() {
            tell(done);
        }
    }

    fn run(&self) {
        loop {
            let is_idle = |queue: &mut Queue| queue.line.is_empty() && !queue.is_ended;
            let queue = self.woken.wait_while(lock(&self.queue), is_idle);
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

    fn put(&self, puts: Vec<(ChunkHash, Bytes)>) {
        if contained(|| self.chunks.put(&puts).map_err(|error| error.to_string())).is_ok() {
            for (hash, _) in puts {
                self.tell(Done::Put(hash, Ok(true)));
            }
            return;
        }
        for put in puts {
            let hash = put.0;
            let stored = contained(|| match self.chunks.put(&[put]) {
                Ok(()) => Ok(true),
                Err(ChunkError::Mismatch { .. } | ChunkError::TooLarge { .. }) => Ok(false),
                Err(error) => Err(error.to_string()),
            });
            self.tell(Done::Put(hash, stored));
        }
    }

    fn work(&self, work: Work) {
        match work {
            Work::Apply(edited) => {
                // The descent behind it finds out what there is.
                let _ = contained(|| self.apply(edited).map_err(|error| error.to_string()));
            }
            Work::Descend(steps) => {
                let found = contained(|| self.descend(steps).map_err(|error| error.to_string()));
                self.tell(Done::Descended(found));
            }
            Work::Put(hash, bytes) => self.put(vec![(hash, bytes)]),
            Work::Switch(state) => {
                let number = state.revisions.last().map(|last| last.number).unwrap_or_default();
                let switched = contained(|| state::write(&self.dir, &self.key, &state));
                self.tell(Done::Switched(number, switched));
            }
            Work::Mark(roots) => {
                let unused = contained(|| self.unused(&roots).map_err(|error| error.to_string()));
                self.tell(Done::Marked(unused));
            }
            Work::Sweep(hashes) => {
                let swept = contained(|| self.chunks.remove(&hashes).map_err(|error| error.to_string()));
                self.tell(Done::Swept(swept.map(|it| Swept { chunks: it.chunks, bytes: it.bytes })));
            }
        }
    }

    fn apply(&self, Edited { base, root, edits }: Edited) -> Result<(), FilesError> {
        let mut made = Made(Vec::new());
        let applied = trees::apply_edits(&Stored(&self.chunks), base, root, edits, &mut made);
        if applied.map_err(|error| FilesError::Malformed(error.to_string()))? {
            self.chunks.put(&made.0)?;
        }
        Ok(())
    }

    fn descend(&self, steps: Vec<Step>) -> Result<tree::Descent, FilesError> {
        let source = Stored(&self.chunks);
        let has = &mut |hashes: &[ChunkHash]| {
            let missing: HashSet<ChunkHash> = self.chunks.missing(hashes)?.into_iter().collect();
            Ok(hashes.iter().map(|hash| !missing.contains(hash)).collect())
        };
        Ok(descend(&source, has, steps, BUDGET)?)
    }

    fn unused(&self, roots: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError> {
        let used = Used::of(&Stored(&self.chunks), roots)?;
        let mut unused = Vec::new();
        self.chunks.for_each(|hash, _| {
            if !used.has(hash) {
                unused.push(*hash);
            }
        })?;
        self.chunks.remove_leftovers()?;
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

/// Chunks that edits have made.
struct Made(Vec<(ChunkHash, Bytes)>);

impl Sink for Made {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        self.0.push((hash, bytes));
        Ok(())
    }
}

/// Takes the chunks at the front of a line that become durable together.
fn take_puts(line: &mut VecDeque<Work>) -> Vec<(ChunkHash, Bytes)> {
    let (mut puts, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES
        && let Some(Work::Put(..)) = line.front()
        && let Some(Work::Put(hash, chunk)) = line.pop_front()
    {
        bytes += chunk.len();
        puts.push((hash, chunk));
    }
    puts
}

/// Works; a panic is a failure like any other.
fn contained<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    ran.unwrap_or_else(|panic| {
        Err(format!(
            "the member's disk panicked ('{}'), which is an error of Thorp's own: please report it",
            said(&*panic)
        ))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
