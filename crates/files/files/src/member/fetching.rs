//! Readers of a member that keeps a part of the content, who wait for what is not here.

use crate::error::FilesError;
use machine::Waiter;
use net::Handle;
use spread::{FetchedContent, Member};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;
use tree::ChunkHash;
use types::Time;

/// How long a reader waits for content: as long as for the newest revision.
pub(crate) const CONTENT_WITHIN: Duration = Duration::from_secs(10);

/// A reader of content that was not here. The content stays until this is dropped.
pub(crate) struct Reading {
    member: Handle<Member>,
    hash: ChunkHash,
    waiter: Waiter,
}

impl Reading {
    /// The content.
    pub(crate) fn hash(&self) -> ChunkHash {
        self.hash
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reading").field(&self.hash).finish()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let (hash, waiter) = (self.hash, self.waiter);
        self.member.call(|member| member.let_go(hash, waiter));
        self.member.driver().forget(waiter);
    }
}

/// Content on its way to a reader.
pub(crate) type Fetching = Pin<Box<dyn Future<Output = Result<Reading, FilesError>> + Send>>;

/// Asks for content that is not here. `is_missing` if it was said to be here, and is not.
pub(super) fn fetch(member: &Handle<Member>, hash: ChunkHash, is_missing: bool) -> Fetching {
    let wanted = member.call_if(|member, now| ((member.want(hash, is_missing), now), true));
    let (Some(waiter), now) = wanted else {
        return Box::pin(std::future::ready(Err(FilesError::ContentLate(hash))));
    };
    let reading = Reading { member: member.clone(), hash, waiter };
    Box::pin(Waiting { reading: Some(reading), until: now + CONTENT_WITHIN, is_timed: false })
}

/// A reader who waits.
struct Waiting {
    reading: Option<Reading>,
    until: Time,
    is_timed: bool,
}

impl Future for Waiting {
    type Output = Result<Reading, FilesError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let until = self.until;
        let is_timed = std::mem::replace(&mut self.is_timed, true);
        let Some(reading) = &self.reading else { return Poll::Pending };
        let (hash, driver) = (reading.hash, reading.member.driver());
        driver.wake_on(reading.waiter, context.waker());
        if !is_timed {
            driver.wake_at(until, context.waker());
        }
        let is_late = driver.now() >= until;
        let ended = match reading.member.look(|member| member.wanted(&hash)) {
            FetchedContent::Here => Ok(()),
            FetchedContent::Missing => Err(FilesError::ContentGone(hash)),
            FetchedContent::Later if is_late => Err(FilesError::ContentLate(hash)),
            FetchedContent::Later => return Poll::Pending,
        };
        let reading = self.reading.take();
        Poll::Ready(ended.and(reading.ok_or(FilesError::Interrupted)))
    }
}

/// Wakes a thread.
pub(super) struct Unpark(pub(super) Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for content on this thread.
#[cfg(feature = "fuse")]
pub(crate) fn wait(fetching: Fetching) -> Result<Reading, FilesError> {
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut fetching, mut context) = (fetching, Context::from_waker(&waker));
    loop {
        match fetching.as_mut().poll(&mut context) {
            Poll::Ready(fetched) => return fetched,
            Poll::Pending => std::thread::park(),
        }
    }
}
