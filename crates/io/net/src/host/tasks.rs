//! Tasks that work for a host.

use crate::host::core::Core;
use crate::host::failure::{PANICKED, reason};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Weak;
use std::task::Poll;
use tokio::task::AbortHandle;

impl Core {
    /// Runs a task that works for the host.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(contained(self.weak(), task)).abort_handle()
    }
}

/// Runs a task to its end, or to a panic, which ends the host.
pub(crate) async fn contained(core: Weak<Core>, task: impl Future<Output = ()>) {
    let mut task = pin!(task);
    let ended = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Err(panic) => Poll::Ready(Err(reason(&*panic))),
    });
    if let (Err(why), Some(core)) = (ended.await, core.upgrade()) {
        core.fail(PANICKED, &why);
    }
}
