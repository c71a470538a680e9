//! The private tree of a mount: the site's newest revision with the private changes, as a revision of its own.
//!
//! ```text
//!   writer --edits----------> commit --+                            +--> readers: begin .. end
//!   member --newer revision-> follow --+--> changes, journal, nodes-+
//! ```
//! - The mount reads and writes it like any site, so private revisions have numbers, too: of a life that no store has.
//! - The site's revision below it is kept, until the next one is taken up. Content that would go with it and that a
//!   private entry needs is copied before.

use super::FOLDER;
use super::changes::{Change, Changes, Part, Sent, Updates};
use super::journal::Journal;
use super::nodes::Nodes;
use crate::depot::Depot;
use crate::error::FilesError;
use crate::line::lock;
use crate::member::fetching::{Fetching, Lack, Reading};
use crate::mount::writes::HardLinks;
use crate::origin::{LocalChunks, NotRead, Origin, Private, Sessions};
use crate::record::SiteName;
use crate::upload::Made;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use machine::Table;
use spread::messages::VisitorKey;
use spread::{Number, Opened, Revision, Visit, trees};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::io;
use std::mem;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tree::{ChunkHash, Content, Entry, Growth, Kind, Path, Sink, Source, named, pieces};
use vfs::make_directory;

/// The life of private revisions. Those of stores are times.
const LIFE: u64 = u64::MAX;

/// The folder of the branch's chunks.
const CHUNKS: &str = "chunks";

/// The bytes of chunks, and how many of them, are sent at a time.
const BATCH_BYTES: usize = 32 * 1024 * 1024;
const BATCH_CHUNKS: usize = 4096;

/// The bytes of content that are written until unused chunks are looked for.
const SWEEP_AFTER: u64 = 256 * 1024 * 1024;

/// The paths in conflict that a status names.
const CONFLICTS_MAX: usize = 100;

/// The private tree.
#[derive(Debug)]
pub(in crate::mount) struct Branch {
    site: Arc<dyn Sessions>,
    /// The content of private files.
    chunks: Chunks,
    nodes: Nodes,
    state: Mutex<State>,
    /// Cloned by those who have written content whose change is not made yet.
    stashed: Arc<Stashed>,
    /// The names of the site's files that have several.
    links: Mutex<HardLinks>,
    /// Told of each private revision.
    changed: Notify,
    /// Held by the one publish that is under way.
    pub(super) publishing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    changes: Changes,
    journal: Journal,
    /// The site's revision with which the tree was made last, which is kept, and the tree.
    made: Option<(Revision, Revision)>,
    count: u64,
    /// Private revisions that are being read.
    read: BTreeMap<u64, Read>,
    /// The reason why the site's newest revision was not taken up.
    trouble: Option<String>,
    /// Whether changes have gone whose content may not be needed any longer.
    has_garbage: bool,
}

/// A private revision that is being read.
#[derive(Clone, Copy, Debug)]
struct Read {
    root: ChunkHash,
    /// The site's revision that is kept for it.
    of: Number,
    readers: u64,
}

/// A part of the private changes, made to the site's newest revision, to be published.
pub(super) struct Staged {
    pub(super) base: Revision,
    pub(super) root: ChunkHash,
    pub(super) nodes: Vec<(ChunkHash, Bytes)>,
    pub(super) growth: Growth,
    /// Chunks of content that the store may lack.
    pub(super) content: Vec<ChunkHash>,
    pub(super) changes: usize,
}

impl Branch {
    /// Opens the branch of a site in a directory for files that are being written, which is made if there is none.
    /// Reports what a loss of power has cost.
    pub(in crate::mount) fn open(
        dir: &FilePath,
        site: Arc<dyn Sessions>,
        space: &str,
        reports: &Sender<String>,
    ) -> Result<Self, FilesError> {
        let folder = dir.join(FOLDER);
        for dir in [dir, &folder] {
            let unwritable = |error| FilesError::Unwritable(dir.to_owned(), io::Error::other(error));
            make_directory(dir).map_err(unwritable)?;
        }
        let (journal, kept) = Journal::open(&folder, &format!("{space}/{}", site.site()))?;
        if kept.lost > 0 {
            // The receiver may be gone: reports are optional.
            let _ = reports.send(format!("the last {} bytes of private changes were lost with the power", kept.lost));
        }
        let chunks = Chunks::open(&folder.join(CHUNKS))?;
        let (changes, read) = (Changes::new(kept.changes), BTreeMap::new());
        let state = State { changes, journal, made: None, count: 0, read, trouble: None, has_garbage: true };
        let (nodes, stashed, links, changed, publishing) = Default::default();
        let branch = Self { site, chunks, nodes, state: Mutex::new(state), stashed, links, changed, publishing };
        if let Some(head) = kept.head.filter(|head| branch.site.visit(head.number) == Some(head.root)) {
            // The content that private entries need of it is kept when a newer one is taken up.
            branch.follow(head)?;
        }
        branch.sweep()?;
        Ok(branch)
    }

    /// The private tree with this revision of the site, or a newer one.
    fn follow(&self, to: Revision) -> Result<Revision, FilesError> {
        let mut state = lock(&self.state);
        if let Some((_, tree)) = state.made.filter(|(of, _)| of.number >= to.number) {
            return Ok(tree);
        }
        let gone = || FilesError::NoRevision(self.site.site().to_string(), to.number.count);
        self.site.begin(to.number).ok_or_else(gone)?;
        let followed = self.make(&mut state, to);
        match followed {
            Ok(tree) => {
                if let Some((of, _)) = state.made.replace((to, tree)) {
                    self.site.end(of.number);
                }
                state.trouble = None;
                drop(state);
                self.changed.notify_waiters();
                Ok(tree)
            }
            Err(error) => {
                self.site.end(to.number);
                state.trouble =
                    Some(format!("revision {} cannot be shown with private changes: {error}", to.number.count));
                Err(error)
            }
        }
    }

    /// Makes the changes to a revision of the site.
    fn make(&self, state: &mut State, to: Revision) -> Result<Revision, FilesError> {
        let (older, view) = (state.made.map(|(of, _)| of.root), state.made.map(|(_, tree)| tree.root));
        let mut names = |link| lock(&self.links).names(&self, to.root, link);
        let (mut changes, mut updates) = state.changes.at(&self, older, to.root, view, &mut names)?;
        let copied = self.copy_content(&changes)?;
        changes.update(&copied);
        updates.extend(copied);
        let applied = changes.apply(&self, to.root, None, &mut &self.nodes)?;
        let kept: Updates = applied.kept.into_iter().map(|path| (path, None)).collect();
        changes.update(&kept);
        updates.extend(kept);
        if !updates.is_empty() || !changes.is_empty() {
            state.journal.append(&to, &updates)?;
        }
        state.has_garbage |= !updates.is_empty();
        state.changes = changes;
        Ok(self.next(state, applied.root))
    }

    /// A private revision with this tree, later than all others.
    fn next(&self, state: &mut State, root: ChunkHash) -> Revision {
        state.count += 1;
        let read = state.read.values().map(|read| read.root);
        self.nodes.drop_unused(read.chain(state.made.map(|(_, tree)| tree.root)).chain([root]));
        Revision { number: Number { life: LIFE, count: state.count }, root }
    }

    /// Copies the content of private entries that is the site's, and that the site no longer has where it came from.
    /// Content that is damaged or missing stays so, and its readers get an error.
    fn copy_content(&self, changes: &Changes) -> Result<Updates, FilesError> {
        let is_conflict = |path: &Path| changes.conflicts().contains(path);
        let bases =
            changes.iter().filter(|(path, _)| !is_conflict(path)).filter_map(|(_, change)| change.base.as_ref());
        let there: HashSet<Vec<ChunkHash>> = bases.map(named).collect();
        let lacks = |change: &Change| {
            let own = change.own.as_ref().filter(|own| !change.is_local && own.directory().is_none());
            own.is_some_and(|own| !there.contains(&named(own)))
        };
        let mut copied = Updates::new();
        for (path, change) in changes.iter().filter(|(_, change)| lacks(change)) {
            match self.copy(change) {
                Ok(()) => copied.push((path.clone(), Some(Change { is_local: true, ..change.clone() }))),
                Err(FilesError::MissingChunk(_) | FilesError::Chunks(ChunkError::Damaged { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }

    fn copy(&self, change: &Change) -> Result<(), FilesError> {
        let mut stash = self.new_stash();
        for hash in self.content_of(change.own.as_ref())? {
            stash.add(hash, self.content(&hash)?)?;
        }
        stash.end().map(drop)
    }

    /// All chunks of a file's content.
    fn content_of(&self, entry: Option<&Entry>) -> Result<Vec<ChunkHash>, FilesError> {
        let Some(Entry { kind: Kind::File { size, content, .. }, .. }) = entry else { return Ok(Vec::new()) };
        let lists = if let Content::Lists(lists) = content { lists.clone() } else { Vec::new() };
        let pieces = pieces(&self, *size, content)?;
        Ok(lists.into_iter().chain(pieces.into_iter().map(|piece| piece.hash)).collect())
    }

    /// A place for the content of a private file.
    pub(in crate::mount) fn stash(&self) -> Stash<'_> {
        // No sweep is under way that does not see it.
        let _state = lock(&self.state);
        self.new_stash()
    }

    fn new_stash(&self) -> Stash<'_> {
        Stash { chunks: &self.chunks, batch: Vec::new(), bytes: 0, stashed: self.stashed.clone() }
    }

    /// Makes a tree that was made from the private one the private tree.
    pub(in crate::mount) fn commit(
        &self,
        base: Revision,
        root: ChunkHash,
        nodes: &[(ChunkHash, Bytes)],
    ) -> Result<Revision, FilesError> {
        let mut state = lock(&self.state);
        let made = state.made.filter(|(_, tree)| *tree == base);
        let Some((of, tree)) = made else {
            let head = state.made.map_or(0, |(_, tree)| tree.number.count);
            return Err(FilesError::Overtaken { site: self.site.site().to_string(), base: base.number.count, head });
        };
        for (hash, bytes) in nodes {
            self.nodes.add(*hash, bytes.clone());
        }
        let mut updates = state.changes.updates(&self, of.root, tree.root, root)?;
        let mut has_content = false;
        for change in updates.iter_mut().filter_map(|(_, change)| change.as_mut()) {
            if change.own.as_ref().is_some_and(|own| own.directory().is_none()) {
                change.is_local = self.chunks.missing(&self.content_of(change.own.as_ref())?)?.is_empty();
                has_content = true;
            }
        }
        state.journal.append(&of, &updates)?;
        if has_content {
            // The program may have flushed the file before it was closed.
            state.journal.sync()?;
        }
        state.changes.update(&updates);
        let State { changes, journal, .. } = &mut *state;
        journal.shorten(changes.iter());
        let tree = self.next(&mut state, root);
        state.made = Some((of, tree));
        drop(state);
        self.changed.notify_waiters();
        Ok(tree)
    }

    /// Makes all private changes durable.
    pub(in crate::mount) fn sync(&self) -> Result<(), FilesError> {
        lock(&self.state).journal.sync()
    }

    /// Makes the private changes at a path and below it to the site's newest revision, to be published. Conflicts are
    /// refused, unless private entries replace the site's.
    pub(super) fn stage(&self, at: &Path, overwrites: bool) -> Result<Option<Staged>, FilesError> {
        let mut state = lock(&self.state);
        let part = state.changes.part(at, false);
        let Some((base, _)) = state.made.filter(|_| !part.is_empty()) else { return Ok(None) };
        let conflicts: Vec<&Path> = state.changes.conflicts_of(&part).collect();
        if !overwrites && !conflicts.is_empty() {
            let (site, head) = (self.site.site().to_string(), base.number.count);
            let first: Vec<Path> = conflicts.iter().take(CONFLICTS_MAX).map(|path| (*path).clone()).collect();
            let paths = trees::list(&first, first.len() == conflicts.len());
            return Err(FilesError::PrivateConflict { site, head, paths });
        }
        let mut made = Copied { nodes: &self.nodes, copies: Made::default() };
        let root = state.changes.apply(&self, base.root, Some(&part), &mut made)?.root;
        let nodes = made.copies.0;
        let growth = state.changes.growth(&self, base.root, &part)?;
        let mut content = Vec::new();
        for (_, change) in state.changes.of(&part) {
            content.extend(self.content_of(change.own.as_ref())?);
        }
        // The answer may be lost, and the revision may come without it.
        let sent = |(path, change): (&Path, &Change)| {
            (path.clone(), Some(Change { sent: Some(Sent(change.own.clone())), ..change.clone() }))
        };
        let updates: Updates = state.changes.of(&part).map(sent).collect();
        state.journal.append(&base, &updates)?;
        state.journal.sync()?;
        state.changes.update(&updates);
        Ok(Some(Staged { base, root, nodes, growth, content, changes: updates.len() }))
    }

    /// Sends the chunks that a depot lacks. Calls `on` with the bytes of each.
    pub(super) fn send(
        &self,
        content: &[ChunkHash],
        to: &dyn Depot,
        on: &mut dyn FnMut(u64) -> Result<(), FilesError>,
    ) -> Result<(), FilesError> {
        for content in content.chunks(BATCH_CHUNKS) {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for hash in to.missing(content)? {
                let chunk = self.content(&hash)?;
                bytes += chunk.len();
                on(chunk.len() as u64)?;
                batch.push((hash, chunk));
                if bytes >= BATCH_BYTES {
                    to.put(self.site.site(), &batch)?;
                    (batch, bytes) = (Vec::new(), 0);
                }
            }
            to.put(self.site.site(), &batch)?;
        }
        Ok(())
    }

    /// Drops the private changes at a path and below it, and returns how many there were.
    ///
    /// # Errors
    /// [`FilesError::Publishing`]: a publish is under way, which may have sent them.
    pub(super) fn discard(&self, at: &Path) -> Result<usize, FilesError> {
        let _none = self.publishing.try_lock().map_err(|_| FilesError::Publishing)?;
        let mut state = lock(&self.state);
        let part = state.changes.part(at, true);
        let Some((of, _)) = state.made.filter(|_| !part.is_empty()) else { return Ok(0) };
        let updates: Updates = state.changes.of(&part).map(|(path, _)| (path.clone(), None)).collect();
        let mut changes = state.changes.clone();
        changes.update(&updates);
        let applied = changes.apply(&self, of.root, None, &mut &self.nodes)?;
        state.journal.append(&of, &updates)?;
        (state.changes, state.has_garbage) = (changes, true);
        let tree = self.next(&mut state, applied.root);
        state.made = Some((of, tree));
        drop(state);
        self.changed.notify_waiters();
        Ok(updates.len())
    }

    /// Looks at the private changes at a path and below it, in their order, and whether each is in conflict.
    pub(super) fn look(&self, at: &Path, on: &mut dyn FnMut(&Path, &Change, bool)) {
        let state = lock(&self.state);
        let part: Part = state.changes.part(at, false);
        for (path, change) in state.changes.of(&part) {
            on(path, change, state.changes.conflicts().contains(path));
        }
    }

    /// The site's revision under the private tree.
    pub(super) fn base(&self) -> Option<Revision> {
        lock(&self.state).made.map(|(of, _)| of)
    }

    /// Removes chunks that no private change needs, if there may be some, and unless someone reads an older private
    /// revision or has just written content.
    fn sweep(&self) -> Result<(), FilesError> {
        let mut state = lock(&self.state);
        let is_due = state.has_garbage || self.stashed.bytes.load(Relaxed) >= SWEEP_AFTER;
        let is_read = state.read.keys().any(|count| *count < state.count);
        // A writer of content takes the lock first, and has a clone until its change is made.
        if !is_due || is_read || Arc::strong_count(&self.stashed) > 1 {
            return Ok(());
        }
        let mut used = HashSet::new();
        for (_, change) in state.changes.iter().filter(|(_, change)| change.is_local) {
            for entry in [Some(&change.own), change.sent.as_ref().map(|sent| &sent.0)].into_iter().flatten() {
                used.extend(self.content_of(entry.as_ref())?);
            }
        }
        self.chunks.sweep(|hash| used.contains(hash), |_| ())?;
        self.stashed.bytes.store(0, Relaxed);
        state.has_garbage = false;
        Ok(())
    }
}

impl Source for Branch {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        match self.own_chunk(hash)? {
            Some(bytes) => Ok(bytes),
            None => self.site.source().chunk(hash),
        }
    }
}

impl Origin for Branch {
    fn site(&self) -> &SiteName {
        self.site.site()
    }

    fn open(&self, visit: Visit, waits: bool) -> Result<Opened, NotRead> {
        let opened = self.site.open(visit, waits)?;
        let Opened::View { revision, moves, stale } = opened else { return Ok(opened) };
        match self.follow(revision) {
            Ok(revision) => Ok(Opened::View { revision, moves, stale }),
            Err(error) => match lock(&self.state).made {
                // The view may be older than the newest (rule SayWhenOver).
                Some((_, revision)) => Ok(Opened::View { revision, moves, stale: stale.or(Some(Duration::ZERO)) }),
                None => Err(error.into()),
            },
        }
    }

    fn visitor_key(&self, waits: bool) -> Result<Option<VisitorKey>, NotRead> {
        self.site.visitor_key(waits)
    }

    fn refuses_stale(&self) -> bool {
        self.site.refuses_stale()
    }

    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::select! {
                () = self.site.news() => {}
                () = self.changed.notified() => {}
            }
        })
    }

    fn source(&self) -> &dyn Source<Error = FilesError> {
        self
    }

    fn content(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        match self.own_chunk(hash)? {
            Some(bytes) => Ok(bytes),
            None => self.site.content(hash),
        }
    }

    fn keep(&self, hash: ChunkHash) -> Option<Reading> {
        self.site.keep(hash)
    }

    fn fetch(&self, lack: Lack) -> Fetching {
        self.site.fetch(lack)
    }

    fn head(&self) -> Result<u64, FilesError> {
        self.site.head()
    }

    fn chunks(&self) -> LocalChunks {
        self.site.chunks()
    }

    fn troubles(&self) -> Vec<String> {
        let state = lock(&self.state);
        let conflicts = state.changes.conflicts().iter().next().map(|path| {
            let count = state.changes.conflicts().len();
            format!("the site has changed {count} paths that are changed here, too, such as {path}")
        });
        self.site.troubles().into_iter().chain(state.trouble.clone()).chain(conflicts).collect()
    }

    fn tables(&self) -> Vec<Table> {
        self.site.tables()
    }
}

impl Sessions for Branch {
    fn current(&self) -> Result<Option<Revision>, FilesError> {
        self.site.current()?.map(|revision| self.follow(revision)).transpose()
    }

    fn is_lazy(&self) -> bool {
        self.site.is_lazy()
    }

    fn kept(&self) -> Result<Vec<Revision>, FilesError> {
        self.site.kept()
    }

    fn visit(&self, number: Number) -> Option<ChunkHash> {
        if number.life != LIFE {
            return self.site.visit(number);
        }
        let state = lock(&self.state);
        let newest = state.made.map(|(_, tree)| tree).filter(|tree| tree.number == number);
        newest.map(|tree| tree.root).or_else(|| Some(state.read.get(&number.count)?.root))
    }

    fn begin(&self, number: Number) -> Option<ChunkHash> {
        if number.life != LIFE {
            return self.site.begin(number);
        }
        let mut state = lock(&self.state);
        if let Some(read) = state.read.get_mut(&number.count) {
            read.readers += 1;
            return Some(read.root);
        }
        let (of, tree) = state.made.filter(|(_, tree)| tree.number == number)?;
        self.site.begin(of.number)?;
        state.read.insert(number.count, Read { root: tree.root, of: of.number, readers: 1 });
        Some(tree.root)
    }

    fn end(&self, number: Number) {
        if number.life != LIFE {
            return self.site.end(number);
        }
        let mut state = lock(&self.state);
        let Some(read) = state.read.get_mut(&number.count) else { return };
        read.readers -= 1;
        if read.readers == 0 {
            let of = read.of;
            state.read.remove(&number.count);
            self.site.end(of);
        }
    }

    fn of_site(&self, number: Number) -> Number {
        let made = lock(&self.state).made.filter(|_| number.life == LIFE);
        made.map_or(number, |(of, _)| of.number)
    }

    fn private(&self) -> Option<Private> {
        let state = lock(&self.state);
        let conflicts = state.changes.conflicts().iter().take(CONFLICTS_MAX).cloned().collect();
        Some(Private { changes: state.changes.len(), conflicts })
    }

    fn tidy(&self) -> Result<(), FilesError> {
        self.sweep()
    }
}

impl Branch {
    /// A chunk of the branch's own: a node, or content.
    fn own_chunk(&self, hash: &ChunkHash) -> Result<Option<Bytes>, FilesError> {
        match self.nodes.get(hash) {
            Some(bytes) => Ok(Some(bytes)),
            None => Ok(self.chunks.get(hash)?),
        }
    }
}

/// The nodes of a tree that is going to be published. They are read here, too, while it is made.
struct Copied<'a> {
    nodes: &'a Nodes,
    copies: Made,
}

impl Sink for Copied<'_> {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        self.nodes.add(hash, bytes.clone());
        self.copies.add(hash, bytes)
    }
}

/// Content on its way into the branch's chunks.
#[derive(Debug)]
pub(in crate::mount) struct Stash<'a> {
    chunks: &'a Chunks,
    batch: Vec<(ChunkHash, Bytes)>,
    bytes: usize,
    stashed: Arc<Stashed>,
}

/// Keeps content that was written from being swept: until it is dropped.
#[derive(Debug, Default)]
pub(in crate::mount) struct Stashed {
    /// The bytes that were written since the last sweep.
    bytes: AtomicU64,
}

impl Stash<'_> {
    /// Writes the rest, which is durable on return.
    pub(in crate::mount) fn end(mut self) -> Result<Arc<Stashed>, FilesError> {
        self.flush()?;
        Ok(self.stashed)
    }

    fn flush(&mut self) -> Result<(), FilesError> {
        self.chunks.put(&self.batch)?;
        self.batch.clear();
        self.stashed.bytes.fetch_add(mem::take(&mut self.bytes) as u64, Relaxed);
        Ok(())
    }
}

impl Sink for Stash<'_> {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        self.bytes += bytes.len();
        self.batch.push((hash, bytes));
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }
}
