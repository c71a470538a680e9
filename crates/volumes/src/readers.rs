//! Threads that read what is not in memory, so that a disk has several reads to order at a time.

use crate::device::{Answer, Errno, Replies, Ticket};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Threads at most. They are started when there is something for them to do.
const THREADS_MAX: usize = 16;

/// The readers of a file. They end with it.
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    file: Arc<File>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    reads: VecDeque<(Arc<dyn Replies>, Ticket, Vec<u8>)>,
    threads: usize,
    idle: usize,
    is_ended: bool,
}

impl Readers {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { shared: Arc::new(Shared { file, queue: Mutex::default(), changed: Condvar::new() }) }
    }

    /// Reads the range of a request into this memory, and answers it.
    pub(crate) fn read(&self, replies: Arc<dyn Replies>, ticket: Ticket, memory: Vec<u8>) {
        let mut queue = self.shared.lock();
        queue.reads.push_back((replies, ticket, memory));
        if queue.idle >= queue.reads.len() {
            return self.shared.changed.notify_one();
        }
        if queue.threads < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            if thread::Builder::new().name("nbd-read".to_owned()).spawn(move || shared.run()).is_ok() {
                queue.threads += 1;
                return;
            }
        }
        if queue.threads == 0 {
            // The system has no thread for it.
            drop(queue);
            self.shared.serve_one();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut queue = self.lock();
            queue.idle += 1;
            let is_idle = |queue: &mut Queue| queue.reads.is_empty() && !queue.is_ended;
            queue = self.changed.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
            if queue.reads.is_empty() {
                return;
            }
            drop(queue);
            self.serve_one();
        }
    }

    fn serve_one(&self) {
        let Some((replies, ticket, memory)) = self.lock().reads.pop_front() else { return };
        let read = if replies.is_gone() { Err(Errno::Io) } else { read_exact(&self.file, memory, ticket.offset) };
        replies.done(ticket, read);
        replies.send();
    }
}

/// Reads all of it, waiting for the disk.
pub(crate) fn read_exact(file: &File, mut memory: Vec<u8>, offset: u64) -> Result<Answer, Errno> {
    file.read_exact_at(&mut memory, offset).map_err(|_| Errno::Io)?;
    Ok(Answer::data(memory))
}
