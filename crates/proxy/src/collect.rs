//! A response that goes to the client that asked for it, and into the cache at the same time.
//!
//! The origin is read as fast as it sends: what the client has not taken yet is in memory for the cache in any case. When
//! the body turns out to be more than is stored, the rest goes to the client alone, at its pace. The bytes that a slow
//! client leaves here count as being stored, however long ago the cache has its copy.

use crate::paced::Arriving;
use crate::reserved::{NoRoom, Reserved};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The part that has come and is not read.
#[derive(Debug)]
struct Queue {
    pieces: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    end: Option<End>,
    reader: Option<Waker>,
    /// Given back when both ends are gone.
    reserved: Reserved,
}

/// How it ended for the cache.
#[derive(Debug)]
enum End {
    /// It is all here.
    Whole,
    /// The rest, which is for the reader alone.
    Rest(Box<Arriving>),
    /// There is no more, and it is not whole.
    Broken,
}

/// Where the cache puts what comes.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Mutex<Queue>>);

/// The body of the client's answer.
#[derive(Debug)]
pub(crate) struct Reader {
    queue: Arc<Mutex<Queue>>,
    size: SizeHint,
}

/// Both ends of a body whose size is as the origin says, and the room for it.
pub(crate) fn pair(size: SizeHint, reserved: Reserved) -> (Writer, Reader) {
    let queue = Queue { pieces: VecDeque::new(), trailers: None, end: None, reader: None, reserved };
    let queue = Arc::new(Mutex::new(queue));
    (Writer(queue.clone()), Reader { queue, size })
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Makes room for so many bytes in all.
    pub(crate) fn cover(&self, bytes: usize) -> Result<(), NoRoom> {
        lock(&self.0).reserved.cover(bytes)
    }

    pub(crate) fn push(&self, piece: Bytes) {
        self.change(|queue| queue.pieces.push_back(piece));
    }

    pub(crate) fn push_trailers(&self, trailers: HeaderMap) {
        self.change(|queue| queue.trailers = Some(trailers));
    }

    /// All has come.
    pub(crate) fn finish(self) {
        self.change(|queue| queue.end = Some(End::Whole));
    }

    /// The cache has enough of it.
    pub(crate) fn leave(self, rest: Arriving) {
        self.change(|queue| queue.end = Some(End::Rest(Box::new(rest))));
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let reader = {
            let mut queue = lock(&self.0);
            change(&mut queue);
            queue.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Drop for Writer {
    /// A body that nobody has finished broke off.
    fn drop(&mut self) {
        self.change(|queue| {
            queue.end.get_or_insert(End::Broken);
        });
    }
}

/// The next thing for a reader.
pub(crate) enum Next {
    Frame(Frame<Bytes>),
    /// The body that goes on in its place.
    Rest(Arriving),
    End,
    Broken,
}

impl Reader {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut queue = lock(&self.queue);
        if let Some(piece) = queue.pieces.pop_front() {
            return Poll::Ready(Next::Frame(Frame::data(piece)));
        }
        if let Some(trailers) = queue.trailers.take() {
            return Poll::Ready(Next::Frame(Frame::trailers(trailers)));
        }
        match queue.end.take() {
            Some(End::Whole) => Poll::Ready(Next::End),
            Some(End::Rest(rest)) => Poll::Ready(Next::Rest(*rest)),
            Some(End::Broken) => Poll::Ready(Next::Broken),
            None => {
                queue.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The size of the whole, as the origin said it.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.size
    }
}
