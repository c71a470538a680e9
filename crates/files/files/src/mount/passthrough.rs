//! Passthrough: the kernel reads files by itself, from those that were assembled ([`Assembled`]).
//!
//! The first open of a file asks for it to be assembled, and is cached like all opens of a mount without passthrough.
//! An open when the file is there, and has no cached handles, is one of passthrough.

use super::assembled::{Assembled, Backing, ContentName};
use super::handles::OpenFile;
use crate::error::FilesError;
use crate::line::{Line, lock};
use fuser::{BackingId, InitFlags, KernelConfig, ReplyOpen};
use spread::Number;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The files that wait to be assembled. Further ones are asked for again when they are opened again.
const WAITING_MAX: usize = 64;

/// The time after a failure in which nothing is assembled.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The settings of passthrough.
#[derive(Clone, Debug)]
pub struct MountPassthrough {
    /// The directory for assembled files.
    pub dir: PathBuf,
    /// The bytes that they take at most.
    pub bytes: u64,
    /// Receives the reasons why there is no passthrough.
    pub reports: Sender<String>,
}

impl MountPassthrough {
    /// Removes the assembled files of an earlier mount, and their directory.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub fn remove(dir: &Path) -> Result<(), FilesError> {
        if dir.is_dir() {
            Assembled::open(dir, 0)?;
            fs::remove_dir(dir).map_err(|error| FilesError::Unwritable(dir.to_owned(), error))?;
        }
        Ok(())
    }
}

/// The state of passthrough.
pub(super) struct Passthrough {
    pub(super) assembled: Arc<Assembled>,
    pub(super) reports: Sender<String>,
    /// Opens by which the kernel reads a file by itself.
    pub(super) opens: AtomicU64,
    /// Whether the kernel has it.
    is_offered: AtomicBool,
    /// Whether the kernel lets this process use it.
    is_on: AtomicBool,
    waiting: Line<Job>,
    /// The contents of the jobs that wait or are under way.
    asked: Mutex<HashSet<ContentName>>,
    failed: Mutex<Option<Instant>>,
    is_over: AtomicBool,
}

/// A request to assemble a file.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: ContentName,
    pub(super) file: Arc<OpenFile>,
    /// The revision that had it.
    number: Option<Number>,
}

impl Job {
    /// A revision that has the file, most likely: an open file follows newer revisions.
    pub(super) fn revision(&self) -> Option<Number> {
        self.file.session().or(self.number)
    }
}

impl Passthrough {
    /// Opens the directory.
    pub(super) fn open(settings: MountPassthrough) -> Result<Self, FilesError> {
        Ok(Self {
            assembled: Assembled::open(&settings.dir, settings.bytes)?,
            reports: settings.reports,
            opens: AtomicU64::new(0),
            is_offered: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            waiting: Line::new(),
            asked: Mutex::default(),
            failed: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Asks the kernel for it, when a mount begins.
    pub(super) fn ask(&self, config: &mut KernelConfig) {
        let depth = config.set_max_stack_depth(self.assembled.stack_depth());
        let has = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH);
        self.is_offered.store(depth.is_ok() && has.is_ok(), SeqCst);
    }

    /// Tries it with the kernel of a mount, which has answered.
    ///
    /// # Errors
    /// The reason why there is no passthrough.
    pub(super) fn begin(&self, kernel: impl AsFd) -> Result<(), String> {
        if !self.is_offered.load(SeqCst) {
            return Err("this kernel has none: Linux 6.9 or newer has it".to_owned());
        }
        let probe = self.assembled.probe().map_err(|error| error.to_string())?;
        // The ID of this empty file ends with the mount.
        match BackingId::create_raw(kernel, probe) {
            Ok(_) => {
                self.is_on.store(true, SeqCst);
                Ok(())
            }
            Err(error) => Err(format!("the kernel rejects it, which requires CAP_SYS_ADMIN: {error}")),
        }
    }

    /// An assembled file for an inode that has no handles, or has cached ones. Without one, the file is asked for.
    pub(super) fn backing(&self, name: ContentName, file: &Arc<OpenFile>, reply: &ReplyOpen) -> Option<Backing> {
        if !self.is_on.load(SeqCst) {
            return None;
        }
        let backing = self.assembled.backing(&name, reply);
        if backing.is_none() {
            self.want(name, file);
        }
        backing
    }

    fn want(&self, name: ContentName, file: &Arc<OpenFile>) {
        let has_failed = lock(&self.failed).is_some_and(|at| at.elapsed() < AGAIN_AFTER);
        if has_failed || !self.assembled.lacks(&name, file.size) {
            return;
        }
        let mut asked = lock(&self.asked);
        if asked.len() < WAITING_MAX && asked.insert(name) {
            self.waiting.push(Job { name, file: file.clone(), number: file.session() });
        }
    }

    /// Waits for a job; none once the mount ends.
    pub(super) fn next(&self) -> Option<Job> {
        self.waiting.take(VecDeque::pop_front).flatten()
    }

    /// A job is done, or has failed.
    pub(super) fn done(&self, name: &ContentName, has_failed: bool) {
        lock(&self.asked).remove(name);
        if has_failed {
            *lock(&self.failed) = Some(Instant::now());
        }
    }

    /// Ends all jobs.
    pub(super) fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.waiting.end();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// A handle was opened with a backing.
    pub(super) fn opened(&self) {
        self.opens.fetch_add(1, Relaxed);
    }
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passthrough")
            .field("assembled", &self.assembled)
            .field("is_on", &self.is_on)
            .finish_non_exhaustive()
    }
}
