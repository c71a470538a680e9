//! A thread that serves until nobody needs it any more.
//!
//! ```text
//!   Worker ── pipe ──► thread      dropping the worker closes the pipe's end: the thread, which waits for that beside
//!                                  whatever it serves, returns, and is waited for.
//! ```

use crate::Result;
use std::io::{PipeReader, PipeWriter, pipe};
use std::thread::{Builder, JoinHandle};

/// A thread that lasts as long as this.
pub(super) struct Worker {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread. It is to return when the pipe it gets has come to its end.
    pub(super) fn start(name: &str, serve: impl FnOnce(PipeReader) + Send + 'static) -> Result<Self> {
        let (stopped, stop) = pipe().map_err(|error| format!("lab: cannot make a pipe: {error}"))?;
        let thread = Builder::new().name(name.to_owned()).spawn(move || serve(stopped));
        let thread = thread.map_err(|error| format!("lab: cannot start a thread: {error}"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}
