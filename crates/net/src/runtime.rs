//! The threads that the network's tasks run on.

use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinHandle};

/// The threads that the tasks of one or several hosts run on. They end with the last clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Threads(Option<tokio::runtime::Runtime>);

impl Runtime {
    /// Starts `workers` threads. One is enough for a client; a server has use for as many as there are cores.
    pub fn start(workers: usize) -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).thread_name("thorp-net").enable_io().enable_time().build()?;
        Ok(Self { threads: Arc::new(Threads(Some(runtime))) })
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tokio().spawn(task).abort_handle()
    }

    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        self.tokio().spawn_blocking(work)
    }

    /// Waits for `future` on this thread.
    ///
    /// # Panics
    /// On a thread that runs asynchronous tasks: it must not wait.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.tokio().block_on(future)
    }

    fn tokio(&self) -> &tokio::runtime::Runtime {
        self.threads.0.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The last clone may go in one of our own tasks, which must not wait for itself.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
