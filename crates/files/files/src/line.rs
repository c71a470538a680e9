//! Work in a line, for the thread of a disk that does it.

use crate::error::FilesError;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use types::said;

/// Work that waits.
pub(crate) struct Line<W> {
    queue: Mutex<Queue<W>>,
    woken: Condvar,
}

struct Queue<W> {
    work: VecDeque<W>,
    is_ended: bool,
}

impl<W> Line<W> {
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::new(Queue { work: VecDeque::new(), is_ended: false }), woken: Condvar::new() }
    }

    pub(crate) fn push(&self, work: W) {
        lock(&self.queue).work.push_back(work);
        self.woken.notify_one();
    }

    /// Waits for work, and returns what `take` takes of it; none once the line has ended.
    pub(crate) fn take<T>(&self, take: impl FnOnce(&mut VecDeque<W>) -> T) -> Option<T> {
        let is_idle = |queue: &mut Queue<W>| queue.work.is_empty() && !queue.is_ended;
        let mut queue = self.woken.wait_while(lock(&self.queue), is_idle).unwrap_or_else(PoisonError::into_inner);
        if queue.is_ended { None } else { Some(take(&mut queue.work)) }
    }

    /// Ends the line: what waits is not done.
    pub(crate) fn end(&self) {
        lock(&self.queue).is_ended = true;
        self.woken.notify_all();
    }
}

/// The threads of a disk.
#[derive(Debug, Default)]
pub(crate) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    pub(crate) fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        lock(&self.0).push(thread);
        Ok(())
    }

    /// Waits for their end, but for the calling one: the last handle of a disk may belong to one of them.
    pub(crate) fn join(&self) {
        for thread in std::mem::take(&mut *lock(&self.0)) {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Works; a panic is a failure like any other.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T, FilesError>) -> Result<T, FilesError> {
    let ran = catch_unwind(AssertUnwindSafe(work));
    ran.unwrap_or_else(|panic| Err(FilesError::Panicked(said(&*panic).to_owned())))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
