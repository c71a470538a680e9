//! The activity of a client's connection: a client that neither sends nor reads loses it.
//!
//! Bytes, requests and bodies leave their marks here with plain stores, and one timer for each connection looks at the
//! marks now and then. So a request costs no timer. On HTTP/1.1, a client that does not read shows as a full socket. On
//! HTTP/2 it shows as bodies from which nothing is taken: the connection goes on writing frames of its own, such as
//! answers to PING, while every window is full.

use crate::limits::Limits;
use crate::pending_hints::Hints;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Milliseconds of a clock that only goes forward, and never 0. It is asked several times for each request, and the
/// limits are of seconds: that of the system's ticks is read in a fraction of the time of an exact one.
fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000 + 1
}

/// The marks of one connection. Times are in milliseconds by a coarse clock; 0 means never.
#[derive(Debug, Default)]
pub struct Activity {
    /// When the last request ended, or the connection began.
    idle_since: AtomicU64,
    /// When the first byte of a head came that is not there yet.
    head_since: AtomicU64,
    /// When the client last took bytes of a body, or one was begun that it should take.
    taken_at: AtomicU64,
    /// When bytes last moved, in any direction.
    moved_at: AtomicU64,
    /// Requests that have no whole response yet.
    requests: AtomicU32,
    /// Bodies of responses that wait for the client, and not for the origin.
    offered: AtomicU32,
    /// Whether it speaks HTTP/2. Bytes may be of the connection itself then: neither a request's head, nor a body.
    is_http2: AtomicBool,
    /// How many requests have begun.
    number: AtomicU64,
    /// Hints that the origin has sent before its response to the last of them.
    pub(crate) hints: Hints,
    /// Whether a request has begun whose body comes in chunks.
    is_chunked: AtomicBool,
    /// Whether the connection was told to make room for another one, and the task that drives it.
    is_displaced: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Its place among all connections.
    _place: Option<Box<dyn Debug + Send + Sync>>,
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// No request came.
    Idle,
    /// A request's head did not become whole.
    Head,
    /// The client does not read.
    Stalled,
    /// The connection was idle, and another one needed its place.
    Displaced,
}

impl Overdue {
    /// How many reasons there are.
    pub const COUNT: usize = 4;
}

impl Activity {
    /// The activity of a connection that has begun, and has this place until its end.
    pub(crate) fn at(place: Option<Box<dyn Debug + Send + Sync>>) -> Self {
        let (now, activity) = (now_ms(), Self { _place: place, ..Self::default() });
        activity.idle_since.store(now, Relaxed);
        activity.moved_at.store(now, Relaxed);
        activity
    }

    /// Sets the protocol of the connection. The bytes that revealed HTTP/2 belong to no request's head.
    pub(crate) fn speaks(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Relaxed);
        if is_http2 {
            self.head_since.store(0, Relaxed);
        }
    }

    /// There is something for the client to take.
    pub(crate) fn offer(&self) {
        if self.offered.fetch_add(1, Relaxed) == 0 {
            self.taken_at.store(now_ms(), Relaxed);
        }
    }

    /// A part of a body was taken, as it only is on HTTP/2 where the client's windows let it go.
    pub(crate) fn taken(&self) {
        if self.is_http2() {
            self.taken_at.store(now_ms(), Relaxed);
        }
    }

    /// Whether the client speaks HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.is_http2.load(Relaxed)
    }

    /// Nothing more of one body waits for the client.
    pub(crate) fn withdraw(&self) {
        self.offered.fetch_sub(1, Relaxed);
    }

    fn read(&self) {
        let now = now_ms();
        self.moved_at.store(now, Relaxed);
        let is_of_head = !self.is_http2() && self.requests.load(Relaxed) == 0;
        if is_of_head && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(now, Relaxed);
        }
    }

    fn written(&self) {
        let now = now_ms();
        self.moved_at.store(now, Relaxed);
        if !self.is_http2() {
            self.taken_at.store(now, Relaxed);
        }
    }

    /// Why the connection should end now; else, how long it cannot be overdue.
    pub(crate) fn overdue(&self, limits: &Limits) -> Result<Duration, Overdue> {
        let now = now_ms();
        let left = |since: u64, limit: Duration| limit.checked_sub(Duration::from_millis(now.saturating_sub(since)));
        if self.requests.load(Relaxed) > 0 {
            if self.offered.load(Relaxed) == 0 {
                return Ok(limits.stall.min(limits.head));
            }
            return left(self.taken_at.load(Relaxed), limits.stall).ok_or(Overdue::Stalled);
        }
        match self.head_since.load(Relaxed) {
            0 => {
                left(self.idle_since.load(Relaxed), limits.idle).map(|left| left.min(limits.head)).ok_or(Overdue::Idle)
            }
            since => left(since, limits.head).ok_or(Overdue::Head),
        }
    }

    /// A request has begun on HTTP/1.1, and its body comes in chunks.
    pub(crate) fn begins_chunks(&self) {
        self.is_chunked.store(true, Relaxed);
    }

    /// Whether one has begun since the last call.
    pub(crate) fn take_chunked(&self) -> bool {
        self.is_chunked.load(Relaxed) && self.is_chunked.swap(false, Relaxed)
    }

    /// Since when it has been without a request, if it is.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        (self.requests.load(Relaxed) == 0).then(|| self.idle_since.load(Relaxed))
    }

    /// Tells it to make room for another connection.
    pub(crate) fn displace(&self) {
        self.is_displaced.store(true, Release);
        self.wake();
    }

    /// Has the task of its connection look again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker() {
            waker.wake_by_ref();
        }
    }

    /// The number of the last request.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a task woken when there is something to do on its connection.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        *self.waker() = Some(cx.waker().clone());
    }

    /// Whether it was told to make room, and still can.
    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Acquire) && self.idle_since().is_some()
    }

    /// Waits until this connection has to make room.
    pub(crate) async fn displaced(&self) {
        poll_fn(|cx| {
            self.register(cx);
            if self.is_displaced() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// How long nothing has moved.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.moved_at.load(Relaxed)))
    }
}

/// A request from its head until its response is sent, or given up.
#[derive(Debug)]
pub struct UnderWay(Arc<Activity>);

impl UnderWay {
    /// A request's head is there.
    pub fn begin(activity: Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Relaxed);
        activity.number.fetch_add(1, Relaxed);
        // A connection that was told to end at this moment stays: it has a request.
        if activity.is_displaced.load(Relaxed) {
            activity.is_displaced.store(false, Relaxed);
        }
        activity.head_since.store(0, Relaxed);
        Self(activity)
    }

    /// The marks of its connection.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Relaxed) == 1 {
            self.0.idle_since.store(now_ms(), Relaxed);
        }
    }
}

/// A connection whose bytes leave their marks.
#[derive(Debug)]
pub(crate) struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Observed<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, into))?;
        if into.filled().len() > before {
            this.activity.read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.activity.written();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, slices))?;
        this.activity.written();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
