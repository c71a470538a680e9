//! redb, opened again after an error. redb takes no call after one, and may panic on a damaged file: both become errors
//! of the call that met them.

use crate::backend::{Backend, Failure};
use crate::error::{ChunkError, Doing};
use crate::limits::{READ_ATTEMPTS, TABLE_CACHE_BYTES};
use redb::Database;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};
use types::said;
use vfs::{Call, FileError, Files, How, Verdict, judge, reserve};

/// A failure inside redb.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// An error.
    Redb(Box<redb::Error>),
    /// A panic, or content that makes no sense.
    Damage(String),
    /// A write or a sync failed while the file was opened.
    Lost(Box<redb::Error>),
}

impl<E: Into<redb::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Redb(Box::new(error.into()))
    }
}

#[derive(Debug)]
struct Opened {
    database: Database,
    failure: Arc<Failure>,
}

impl Opened {
    fn open(files: &dyn Files, name: &str, how: How) -> Result<Self, Trouble> {
        let file = files.open(name, how).map_err(redb::Error::Io)?;
        let failure = Arc::new(Failure::default());
        let backend = Backend::new(file, failure.clone());
        let make = || Ok(redb::Builder::new().set_cache_size(TABLE_CACHE_BYTES).create_with_backend(backend)?);
        // The last transaction of a killed process may be in the system's cache only. redb syncs a file that was not
        // closed before it reads it; if that fails, it is not tried again.
        let database = guard(make).map_err(|trouble| match trouble {
            Trouble::Redb(error) if failure.is_lost() => Trouble::Lost(error),
            trouble => trouble,
        })?;
        Ok(Self { database, failure })
    }
}

#[derive(Debug)]
enum State {
    Open(Opened),
    /// The file could not be opened again. The next call tries.
    Closed,
    /// A write has failed, or the file is damaged: only another start can tell what is durable.
    Stopped,
}

/// A file of redb's.
#[derive(Debug)]
pub(crate) struct Reopening {
    files: Arc<dyn Files>,
    name: &'static str,
    state: RwLock<State>,
}

impl Reopening {
    /// Makes a file and fills it by `fill`.
    pub(crate) fn create(
        files: &dyn Files,
        name: &str,
        fill: impl FnOnce(&Database) -> Result<(), Trouble>,
    ) -> Result<(), ChunkError> {
        let make = || {
            let opened = Opened::open(files, name, How::Create)?;
            let filled = guard(|| fill(&opened.database));
            close(opened);
            filled
        };
        make().map_err(|trouble| error(files, name, "create", trouble))
    }

    /// Opens a file. On a full disk it gives up the room that was kept aside.
    pub(crate) fn open(files: Arc<dyn Files>, name: &'static str) -> Result<Self, ChunkError> {
        let opened = open(&*files, name)?;
        Ok(Self { files, name, state: RwLock::new(State::Open(opened)) })
    }

    /// Reads by `work`, which is called again if a write has found the disk full at the same time.
    pub(crate) fn read<T>(&self, work: impl Fn(&Database) -> Result<T, Trouble>) -> Result<T, ChunkError> {
        let mut attempts = 0..READ_ATTEMPTS;
        loop {
            match self.run("read", &work) {
                Err(ChunkError::NoRoom { .. }) if attempts.next().is_some() => {}
                result => return result,
            }
        }
    }

    /// Writes by `work`.
    pub(crate) fn write(&self, work: impl Fn(&Database) -> Result<(), Trouble>) -> Result<(), ChunkError> {
        self.run("write", &work)
    }

    /// The bytes that the file takes on its disk.
    pub(crate) fn disk_bytes(&self) -> Result<u64, ChunkError> {
        let bytes = self.files.open(self.name, How::Read).and_then(|file| file.disk_bytes());
        bytes.doing("read", Call::Read, || self.files.path(self.name))
    }

    /// Moves the content together, and gives the rest of the file back. All other calls wait.
    pub(crate) fn compact(&self) -> Result<(), ChunkError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Open(opened) = &mut *state else { return Ok(()) };
        let failure = opened.failure.clone();
        let Err(trouble) = guard(|| Ok(opened.database.compact()?)) else { return Ok(()) };
        drop(state);
        Err(self.failed("compact", &failure, trouble))
    }

    /// Whether an earlier write has failed.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(*self.state.read().unwrap_or_else(PoisonError::into_inner), State::Stopped)
    }

    fn run<T>(&self, doing: &'static str, work: &dyn Fn(&Database) -> Result<T, Trouble>) -> Result<T, ChunkError> {
        loop {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let (failure, trouble) = match &*state {
                State::Stopped => return Err(ChunkError::Stopped { dir: self.files.path("") }),
                State::Closed => {
                    drop(state);
                    self.reopen(None)?;
                    continue;
                }
                State::Open(opened) => match guard(|| work(&opened.database)) {
                    Ok(done) => return Ok(done),
                    Err(trouble) => (opened.failure.clone(), trouble),
                },
            };
            drop(state);
            return Err(self.failed(doing, &failure, trouble));
        }
    }

    /// Opens the file again after a call has failed, and returns the call's error.
    fn failed(&self, doing: &'static str, failure: &Arc<Failure>, trouble: Trouble) -> ChunkError {
        let is_full = failure.is_full();
        // Its error is met again by the next call.
        let _ = self.reopen(Some(failure));
        if is_full { ChunkError::NoRoom { path: self.files.path(self.name) } } else { self.error(doing, trouble) }
    }

    /// Opens the file again, unless another thread has done so since it met `failure`.
    fn reopen(&self, failure: Option<&Arc<Failure>>) -> Result<(), ChunkError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match (&*state, failure) {
            (State::Open(opened), Some(failure)) if Arc::ptr_eq(&opened.failure, failure) => {}
            (State::Closed, _) => {}
            _ => return Ok(()),
        }
        if let State::Open(opened) = std::mem::replace(&mut *state, State::Closed) {
            close(opened);
        }
        if failure.is_some_and(|failure| failure.is_lost()) {
            *state = State::Stopped;
            return Ok(());
        }
        let (next, result) = match open(&*self.files, self.name) {
            Ok(opened) => (State::Open(opened), Ok(())),
            Err(error) if may_pass(&error) => (State::Closed, Err(error)),
            Err(error) => (State::Stopped, Err(error)),
        };
        *state = next;
        result
    }

    fn error(&self, doing: &'static str, trouble: Trouble) -> ChunkError {
        error(&*self.files, self.name, doing, trouble)
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Open(opened) = std::mem::replace(state, State::Stopped) {
            close(opened);
        }
    }
}

/// Whether a file that could not be opened again may be opened by a later call.
fn may_pass(error: &ChunkError) -> bool {
    match error {
        ChunkError::NoRoom { .. } => true,
        ChunkError::File(FileError::Io { source, .. }) => judge(Call::Open, source) == Verdict::Passes,
        _ => false,
    }
}

fn open(files: &dyn Files, name: &str) -> Result<Opened, ChunkError> {
    let open = || Opened::open(files, name, How::Write).map_err(|trouble| error(files, name, "open", trouble));
    match open() {
        Err(ChunkError::NoRoom { .. }) if reserve::give_up(files) => open(),
        opened => opened,
    }
}

/// Runs what may panic on a damaged file.
fn guard<T>(run: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let ran = catch_unwind(AssertUnwindSafe(run));
    ran.unwrap_or_else(|panic| Err(Trouble::Damage(format!("redb cannot make sense of the file ({})", said(&*panic)))))
}

/// Closes a database, which writes to it: that may panic on a damaged file, too.
fn close(opened: Opened) {
    let _ = guard(|| {
        drop(opened);
        Ok(())
    });
}

fn error(files: &dyn Files, name: &str, doing: &'static str, trouble: Trouble) -> ChunkError {
    let path = files.path(name);
    match trouble {
        Trouble::Damage(what) => ChunkError::corrupt(path, what),
        Trouble::Lost(error) => FileError::Io { doing, file: path, source: io::Error::other(error.to_string()) }.into(),
        Trouble::Redb(error) => match *error {
            redb::Error::Io(source) if is_end_of_file(&source) => ChunkError::corrupt(path, "the file ends too early"),
            redb::Error::Io(source) if judge(Call::Write, &source) == Verdict::NoRoom => ChunkError::NoRoom { path },
            redb::Error::Io(source) => FileError::Io { doing, file: path, source }.into(),
            error @ redb::Error::PreviousIo => {
                FileError::Io { doing, file: path, source: io::Error::other(error.to_string()) }.into()
            }
            error => ChunkError::corrupt(path, error.to_string()),
        },
    }
}

/// redb reports a file that is too short, or is none of its own, as an I/O error.
fn is_end_of_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}
