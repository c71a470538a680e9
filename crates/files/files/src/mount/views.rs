//! The revision for a reader, and what is at an inode in it.

use super::handles::Handles;
use super::nodes::{DirectoryPath, Nodes, Place, Top, now};
use super::passthrough::Passthrough;
use super::writes::Writes;
use crate::error::FilesError;
use crate::line::lock;
use crate::memory::Memory;
use crate::origin::{NotRead, Sessions};
use crate::reader::Reader;
use crate::tables::MOUNT;
use fuser::Errno;
use machine::{Cell, Table};
use spread::{Opened, Revision, Visit};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tree::{Attributes, ChunkHash, Entry, Name};
use types::Time;

/// How long the kernel may know names without a question. A switch has it forget those that have changed, so this
/// bounds how long a name is wrong that the kernel has asked for again during a switch.
const NAMES_FOR: Duration = Duration::from_secs(10);

/// The failure of a read.
pub(super) const UNREAD: &str = "a file could not be read";

/// How long a failure makes the mount unhealthy.
const RECENT: Duration = Duration::from_secs(300);

/// The state of a mount, which its threads share.
#[derive(Debug)]
pub(super) struct Mounted {
    pub(super) origin: Arc<dyn Sessions>,
    memory: Memory,
    refuses_stale: bool,
    pub(super) nodes: Mutex<Nodes>,
    pub(super) handles: Handles,
    /// The revision that sessions which begin now have.
    newest: Mutex<Option<Revision>>,
    /// Wakes the thread that tells the kernel of switches, and the one for requests that wait.
    pub(super) switched: Notify,
    pub(super) parked: Notify,
    pub(super) opens: AtomicU64,
    pub(super) reads: AtomicU64,
    last_error: Mutex<Option<(Instant, String)>>,
    /// The attributes of the directory that is mounted on: those of the root, which no revision has.
    top: Mutex<Attributes>,
    /// The changes by programs on this host, if they may make some.
    pub(super) writes: Option<Writes>,
    /// The files that the kernel reads by itself, if it may.
    pub(super) passthrough: Option<Passthrough>,
}

/// The reason why the kernel gets no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// An error instead.
    Error(Errno),
    /// The newest revision is being fetched, for which the caller waits since then.
    Later(Time),
    /// Content that is not here, and must be fetched.
    Elsewhere(ChunkHash),
}

/// A file of this host that cannot be used.
impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        Self::Error(Errno::from(error))
    }
}

impl NoAnswer {
    pub(super) const NOT_FOUND: Self = Self::Error(Errno::ENOENT);
    /// The kernel looks the path up again.
    pub(super) const STALE: Self = Self::Error(Errno::ESTALE);

    /// The error for a caller that does not wait.
    pub(super) fn error(self) -> Errno {
        match self {
            Self::Error(error) => error,
            Self::Later(_) | Self::Elsewhere(_) => Errno::EAGAIN,
        }
    }
}

/// The wait for the newest revision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    /// Since when, by the member's clock.
    pub(super) since: Option<Time>,
    /// Whether it is over.
    pub(super) is_over: bool,
}

/// A revision for a reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewed {
    pub(super) revision: Revision,
    /// Whether there may be a newer one.
    is_stale: bool,
}

/// A directory in a revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryIn {
    pub(super) revision: Revision,
    is_stale: bool,
    /// Its topmost node.
    pub(super) node: ChunkHash,
}

impl Mounted {
    pub(super) fn new(
        origin: Arc<dyn Sessions>,
        memory: usize,
        refuses_stale: bool,
        top: Attributes,
        writes: Option<Writes>,
        passthrough: Option<Passthrough>,
    ) -> Self {
        Self {
            origin,
            memory: Memory::new(memory),
            refuses_stale,
            nodes: Mutex::default(),
            handles: Handles::default(),
            newest: Mutex::default(),
            switched: Notify::new(),
            parked: Notify::new(),
            opens: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            last_error: Mutex::default(),
            top: Mutex::new(top),
            writes,
            passthrough,
        }
    }

    /// The attributes of the root.
    pub(super) fn top(&self) -> Attributes {
        lock(&self.top).clone()
    }

    /// Changes the attributes of the root, as this mount shows it.
    pub(super) fn set_top(&self, change: impl FnOnce(&mut Attributes)) {
        change(&mut lock(&self.top));
    }

    /// A name in the root has changed.
    pub(super) fn touch_top(&self) {
        self.set_top(|top| top.modified = now());
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { origin: &*self.origin, memory: &self.memory, waits: true }
    }

    /// The revision for a session that begins now (rules NeverBack, SayWhenOver).
    pub(super) fn newest(&self, wait: Wait) -> Result<Viewed, NoAnswer> {
        let Wait { since, is_over } = wait;
        let visit = Visit { seen: None, navigates: true, since, is_last: is_over };
        let opened = self.origin.open(visit, true).map_err(|not_read| self.failed(not_read))?;
        match opened {
            Opened::View { revision, stale, .. } => {
                Ok(Viewed { revision: self.took(revision), is_stale: stale.is_some() })
            }
            Opened::Later(since) => Err(NoAnswer::Later(since)),
            Opened::Nothing | Opened::Behind | Opened::Gone => Err(NoAnswer::Error(Errno::EAGAIN)),
        }
    }

    /// Takes a revision for the newest. The kernel is told what it changes on a thread of its own.
    fn took(&self, revision: Revision) -> Revision {
        let mut newest = lock(&self.newest);
        match *newest {
            // Another thread was faster.
            Some(known) if known.number > revision.number => return known,
            Some(known) if known == revision => return revision,
            _ => *newest = Some(revision),
        }
        self.switched.notify_one();
        revision
    }

    /// Takes the revision that is served, if it is newer than that of the last session.
    pub(super) fn look_for_newest(&self) {
        match self.origin.current() {
            Ok(Some(revision)) => drop(self.took(revision)),
            Ok(None) => {}
            Err(error) => self.trouble(UNREAD, &error),
        }
    }

    /// The newest revision that a session has been given.
    pub(super) fn last(&self) -> Option<Revision> {
        *lock(&self.newest)
    }

    /// For how long the kernel may know a name of a revision without a question: for no time where readers wait for the
    /// newest revision, as no switch comes without a question there.
    pub(super) fn known_for(&self, revision: Revision, top: Top) -> Duration {
        let is_current = top != Top::Newest || self.last() == Some(revision);
        if is_current && !self.origin.is_lazy() { NAMES_FOR } else { Duration::ZERO }
    }

    /// The revision at the top of a path.
    fn at_top(&self, top: Top, wait: Wait) -> Result<Viewed, NoAnswer> {
        match top {
            Top::Newest => self.newest(wait),
            Top::At(number) => {
                let root = self.origin.visit(number).ok_or(NoAnswer::STALE)?;
                Ok(Viewed { revision: Revision { number, root }, is_stale: false })
            }
        }
    }

    /// A directory in the newest revision, or in that of its path.
    pub(super) fn directory(&self, inode: u64, wait: Wait) -> Result<(DirectoryIn, Top), NoAnswer> {
        let path = lock(&self.nodes).path(inode).ok_or(NoAnswer::STALE)?;
        let Viewed { revision, is_stale } = self.at_top(path.top, wait)?;
        let node = self.walk(revision, &path)?;
        Ok((DirectoryIn { revision, is_stale, node }, path.top))
    }

    /// Refuses to open what is in a directory, if there may be a newer revision and that is refused.
    pub(super) fn check_fresh(&self, directory: DirectoryIn) -> Result<(), NoAnswer> {
        if directory.is_stale && (self.refuses_stale || self.origin.refuses_stale()) {
            Err(NoAnswer::STALE)
        } else {
            Ok(())
        }
    }

    /// The topmost node of a directory in a revision, which later walks are spared.
    fn walk(&self, revision: Revision, path: &DirectoryPath) -> Result<ChunkHash, NoAnswer> {
        let known = {
            let nodes = lock(&self.nodes);
            let known = |(at, (inode, _)): (usize, &(u64, Name))| {
                let (number, node) = nodes.get(*inode)?.directory?;
                (number == revision.number).then_some((at + 1, node))
            };
            path.below.iter().enumerate().rev().find_map(known)
        };
        let (from, mut node) = known.unwrap_or((0, revision.root));
        for (inode, name) in &path.below[from..] {
            let entry = self.reader().entry(node, name).map_err(|not_read| self.failed(not_read))?;
            node = entry.and_then(|entry| entry.directory()).ok_or(NoAnswer::STALE)?;
            if let Some(known) = lock(&self.nodes).get_mut(*inode) {
                known.directory = Some((revision.number, node));
            }
        }
        Ok(node)
    }

    /// The entry of a name in a directory.
    pub(super) fn entry(&self, directory: DirectoryIn, name: &Name) -> Result<Option<Entry>, NoAnswer> {
        self.reader().entry(directory.node, name).map_err(|not_read| self.failed(not_read))
    }

    /// The entry at an inode, and the revision that has it: the newest, or that of its path. An inode of an older
    /// revision is none (**the next open sees the newest**).
    pub(super) fn found(&self, inode: u64, wait: Wait) -> Result<(Revision, Top, Entry), NoAnswer> {
        let node = lock(&self.nodes).get(inode).cloned().ok_or(NoAnswer::STALE)?;
        let Place::In { directory, name, entry } = node.place else { return Err(NoAnswer::Error(Errno::EISDIR)) };
        let (directory_in, top) = self.directory(directory, wait)?;
        self.check_fresh(directory_in)?;
        let revision = directory_in.revision;
        if node.seen_in != revision.number {
            let found = self.entry(directory_in, &name)?.ok_or(NoAnswer::STALE)?;
            let mut nodes = lock(&self.nodes);
            if nodes.number(directory, &name, &found) != Some(inode) {
                return Err(NoAnswer::STALE);
            }
            if let Some(node) = nodes.get_mut(inode) {
                node.seen_in = revision.number;
            }
        }
        Ok((revision, top, entry))
    }

    /// The last entry that was seen at an inode.
    pub(super) fn last_entry(&self, inode: u64) -> Result<Entry, NoAnswer> {
        match lock(&self.nodes).get(inode).map(|node| &node.place) {
            Some(Place::In { entry, .. }) => Ok(entry.clone()),
            Some(Place::Revision(_)) => Err(NoAnswer::Error(Errno::EINVAL)),
            None => Err(NoAnswer::STALE),
        }
    }

    /// The error for the kernel of a read that failed.
    pub(super) fn failed(&self, not_read: NotRead) -> NoAnswer {
        let error = match not_read {
            NotRead::Elsewhere(hash) => return NoAnswer::Elsewhere(hash),
            NotRead::Failed(error) => error,
            NotRead::OnDisk => FilesError::Interrupted,
        };
        self.trouble(UNREAD, &error);
        NoAnswer::Error(Errno::EIO)
    }

    /// Something that has failed, which operators should know.
    pub(super) fn trouble(&self, failed: &str, error: &FilesError) {
        self.say(format!("{failed}: {error}"));
    }

    /// Something that operators should know.
    pub(super) fn say(&self, trouble: String) {
        *lock(&self.last_error) = Some((Instant::now(), trouble));
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let chunks = self.origin.chunks();
        let passthrough = self.passthrough.as_ref();
        let through = passthrough.map_or(0, |passthrough| passthrough.opens.load(Relaxed));
        let (assembled, assembled_bytes) = passthrough.map_or((0, 0), |passthrough| passthrough.assembled.size());
        let own = MOUNT.one([
            ("site", Cell::Text(self.origin.site().to_string())),
            ("revision", Cell::Count(self.last().map_or(0, |it| self.origin.of_site(it.number).count))),
            ("open", Cell::Count(self.handles.len() as u64)),
            ("inodes", Cell::Count(lock(&self.nodes).len() as u64)),
            ("opens", Cell::Count(self.opens.load(Relaxed))),
            ("reads", Cell::Count(self.reads.load(Relaxed))),
            ("chunks", Cell::Count(chunks.chunks)),
            ("chunk_bytes", Cell::Count(chunks.bytes)),
            ("passthrough_opens", Cell::Count(through)),
            ("assembled", Cell::Count(assembled)),
            ("assembled_bytes", Cell::Count(assembled_bytes)),
        ]);
        [own].into_iter().chain(self.origin.tables()).collect()
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        let last = lock(&self.last_error);
        let recent = last.as_ref().filter(|(at, _)| at.elapsed() < RECENT).map(|(_, error)| error.clone());
        self.origin.troubles().into_iter().chain(recent).collect()
    }
}
