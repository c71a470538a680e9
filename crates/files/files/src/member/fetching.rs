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

/// How often content is fetched that cannot be read afterwards: its disk may be one that keeps nothing.
const TIMES: usize = 3;

/// A reader of content that was not here. The content stays until this is dropped.
pub(crate) struct Reading {
    member: Handle<Member>,
    hash: ChunkHash,
    waiter: Waiter,
    until: Time,
}

impl Reading {
    /// Asks for content, unless it is here. `is_missing` if it was said to be here, and is not. None if too many
    /// readers wait.
    pub(super) fn begin(member: &Handle<Member>, hash: ChunkHash, is_missing: bool) -> Option<Self> {
        let (waiter, now) = member.call_if(|member, now| ((member.want(hash, is_missing), now), true));
        waiter.map(|waiter| Self { member: member.clone(), hash, waiter, until: now + CONTENT_WITHIN })
    }
}

/// The content that was fetched for a request: all of it stays until it was read together.
#[derive(Debug, Default)]
pub(crate) struct Here(Vec<Reading>);

/// Content that a request lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lack {
    /// The content.
    pub(crate) hash: ChunkHash,
    /// How often a fetch for the request has left it absent.
    times: usize,
    /// Until when the request waits, if it has waited before.
    until: Option<Time>,
}

impl Here {
    /// Content that the request lacks, with what it has fetched so far.
    pub(crate) fn lack(&self, hash: ChunkHash) -> Lack {
        let times = self.0.iter().filter(|reading| reading.hash == hash).count();
        Lack { hash, times, until: self.0.first().map(|reading| reading.until) }
    }

    /// Content was fetched.
    pub(crate) fn add(&mut self, reading: Reading) {
        self.0.push(reading);
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

/// Asks for content that is not here.
pub(super) fn fetch(member: &Handle<Member>, Lack { hash, times, until }: Lack) -> Fetching {
    let refused = |why| -> Fetching { Box::pin(std::future::ready(Err(why))) };
    if times >= TIMES {
        return refused(FilesError::ContentUnkept(hash));
    }
    let Some(mut reading) = Reading::begin(member, hash, times > 0) else {
        return refused(FilesError::ContentLate(hash));
    };
    reading.until = until.unwrap_or(reading.until);
    Box::pin(Waiting { reading: Some(reading), is_timed: false })
}

/// A reader who waits.
struct Waiting {
    reading: Option<Reading>,
    is_timed: bool,
}

impl Future for Waiting {
    type Output = Result<Reading, FilesError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let is_timed = std::mem::replace(&mut self.is_timed, true);
        let Some(reading) = &self.reading else { return Poll::Pending };
        let (hash, until, driver) = (reading.hash, reading.until, reading.member.driver());
        driver.wake_on(reading.waiter, context.waker());
        if !is_timed {
            driver.wake_at(until, context.waker());
        }
        let is_late = driver.now() >= until;
        let ended = match reading.member.look(|member| member.wanted(&hash)) {
            FetchedContent::Here => Ok(()),
            FetchedContent::Gone => Err(FilesError::ContentGone(hash)),
            FetchedContent::Unkept => Err(FilesError::ContentUnkept(hash)),
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
