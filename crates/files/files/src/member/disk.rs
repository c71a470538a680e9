//! The disk of a member: one thread that does the machine's work in its order, and one that looks for unused chunks.
//!
//! Chunks that came one behind the other become durable together.

use super::state;
use crate::error::FilesError;
use crate::line::{Line, Threads, contained};
use crate::stored::Stored;
use crate::upload::Made;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use machine::Disk;
use spread::member_work::{Applied, Done, Edited, Work};
use spread::{SiteKey, Swept, trees};
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tree::{ChunkHash, Parts, descend};

/// The bytes of chunks that become durable together, about.
const BATCH_BYTES: usize = 32 * 1024 * 1024;

/// The nodes that are looked at before the machine is told.
const BUDGET: usize = 10_000;

type Tell = Box<dyn Fn(Done) + Send + Sync>;

/// The disk.
pub(super) struct MemberDisk {
    shared: Arc<Shared>,
    threads: Threads,
}

struct Shared {
    dir: PathBuf,
    key: SiteKey,
    chunks: Arc<Chunks>,
    tell: OnceLock<Tell>,
    line: Line<Work>,
    /// Trees beside which unused chunks are looked for.
    marks: Line<(Parts, Vec<ChunkHash>)>,
}

impl MemberDisk {
    /// Begins to work on a member's directory, for this site.
    pub(super) fn start(dir: &Path, key: SiteKey, chunks: Arc<Chunks>) -> Result<Arc<Self>, FilesError> {
        let (dir, tell, line, marks) = (dir.to_owned(), OnceLock::new(), Line::new(), Line::new());
        let shared = Arc::new(Shared { dir, key, chunks, tell, line, marks });
        let threads = Threads::default();
        let (running, marking) = (shared.clone(), shared.clone());
        threads.spawn("member-disk", move || running.run()).map_err(FilesError::Thread)?;
        threads.spawn("member-mark", move || marking.mark()).map_err(FilesError::Thread)?;
        Ok(Arc::new(Self { shared, threads }))
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
        self.shared.line.push(work);
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
        self.shared.line.end();
        self.shared.marks.end();
        self.threads.join();
    }
}

impl Shared {
    fn tell(&self, done: Done) {
        if let Some(tell) = self.tell.get() {
            tell(done);
        }
    }

    fn run(&self) {
        while let Some(next) = self.line.take(next) {
            match next {
                Next::Puts(puts) => self.put(puts),
                Next::Work(work) => self.work(work),
            }
        }
    }

    /// The thread that looks for unused chunks: it begins in the order of the work, and what comes behind it does not
    /// wait.
    fn mark(&self) {
        while let Some(Some((parts, roots))) = self.marks.take(VecDeque::pop_front) {
            self.tell(Done::Marked(doing(|| Stored(&self.chunks).unused(parts, &roots))));
        }
    }

    fn put(&self, puts: Vec<(ChunkHash, Bytes)>) {
        if contained(|| Ok(self.chunks.put(&puts)?)).is_ok() {
            for (hash, _) in puts {
                self.tell(Done::Put(hash, Ok(true)));
            }
            return;
        }
        for put in puts {
            let hash = put.0;
            let stored = match contained(|| Ok(self.chunks.put(&[put])?)) {
                Ok(()) => Ok(true),
                Err(FilesError::Chunks(ChunkError::Mismatch { .. } | ChunkError::TooLarge { .. })) => Ok(false),
                Err(error) => Err(error.to_string()),
            };
            self.tell(Done::Put(hash, stored));
        }
    }

    fn work(&self, work: Work) {
        match work {
            Work::Apply(edited) => {
                let look = Applied::look(edited.parts, edited.base, edited.root);
                // If they cannot be applied, a descent finds out what there is.
                self.tell(Done::Applied(contained(|| self.apply(edited)).unwrap_or(look)));
            }
            Work::Descend(steps) => {
                let found = doing(|| {
                    let source = Stored(&self.chunks);
                    Ok(descend(&source, &mut |hashes| source.has(hashes), steps, BUDGET)?)
                });
                self.tell(Done::Descended(found));
            }
            Work::Put(hash, bytes) => self.put(vec![(hash, bytes)]),
            Work::Switch(state) => {
                let number = state.revisions.last().map(|last| last.number).unwrap_or_default();
                let switched = doing(|| state::write(&self.dir, &self.key, &state));
                self.tell(Done::Switched(number, switched));
            }
            Work::Mark(parts, roots) => self.marks.push((parts, roots)),
            Work::Sweep(hashes) => {
                let swept = doing(|| Ok(self.chunks.remove(&hashes)?));
                self.tell(Done::Swept(swept.map(|it| Swept { chunks: it.chunks, bytes: it.bytes })));
            }
        }
    }

    fn apply(&self, edited: Edited) -> Result<Applied, FilesError> {
        let (source, mut made) = (Stored(&self.chunks), Made::default());
        let has = &mut |hashes: &[ChunkHash]| source.has(hashes);
        let applied = trees::apply_edits(&source, has, edited, &mut made);
        let applied = applied.map_err(|error| FilesError::Malformed(error.to_string()))?;
        if applied.is_stored() {
            self.chunks.put(&made.0)?;
        }
        Ok(applied)
    }
}

/// The next work of the line.
enum Next {
    /// Chunks that become durable together.
    Puts(Vec<(ChunkHash, Bytes)>),
    Work(Work),
}

/// Takes the next work of a line that has some.
fn next(line: &mut VecDeque<Work>) -> Next {
    let (mut puts, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES
        && let Some(work) = line.pop_front()
    {
        match work {
            Work::Put(hash, chunk) => {
                bytes += chunk.len();
                puts.push((hash, chunk));
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

/// Does a piece of work, and says why it was not done.
fn doing<T>(work: impl FnOnce() -> Result<T, FilesError>) -> Result<T, String> {
    contained(work).map_err(|error| error.to_string())
}
