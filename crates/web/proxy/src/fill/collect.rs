//! A response that goes to the clients that asked for it, and into the cache at the same time.
//!
//! The origin is read as fast as it sends, whatever its readers do: everything that has come is in memory for the cache
//! in any case. When all is there and the cache has made one content of it, readers continue in that, wherever it is.
//! When the body turns out to be more than is stored, the rest goes to the first reader alone, at its pace; there are
//! others only where the size is known before. The bytes that a slow reader leaves here count as being stored, however
//! long ago the cache has its copy.

use crate::fill::reserved::{NoRoom, Reserved};
use crate::request::paced::Arriving;
use crate::stored::content::{self, Content};
use crate::stored::disk_content::{DiskReader, Unreadable};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use responses::Slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// The part that has come.
#[derive(Debug)]
struct Received {
    /// In order; none any more when there is a content.
    pieces: Vec<Bytes>,
    /// The content that was made of all pieces.
    content: Option<Content>,
    trailers: Option<HeaderMap>,
    end: Option<End>,
    /// Of the readers that wait.
    waiting: Vec<Waker>,
    /// Given back when all ends are gone.
    reserved: Reserved,
}

/// How it ended for the cache.
#[derive(Debug)]
enum End {
    /// It is all here.
    Whole,
    /// The rest, which is for the first reader alone, until that has it.
    Rest(Option<Box<Arriving>>),
    /// There is no more, and it is not whole.
    Broken,
}

/// Where the cache puts what comes.
#[derive(Debug)]
pub(crate) struct Writer(Body);

/// A body as far as it has come, for those that want to read it.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    received: Arc<Mutex<Received>>,
    bytes: Option<u64>,
}

/// The body of a client's answer.
#[derive(Debug)]
pub(crate) struct Reader {
    body: Body,
    /// The next piece, and the byte at which it begins.
    piece: usize,
    at: u64,
    /// Whether it has the trailers and the rest as well.
    is_first: bool,
    size: SizeHint,
    rest: Option<Rest>,
}

/// The part of the content that a reader has not had when it was made.
#[derive(Debug)]
enum Rest {
    Memory(content::Reader),
    Disk(DiskReader),
}

/// Both ends of a body whose size is as the origin says, and the room for it.
pub(crate) fn pair(size: SizeHint, reserved: Reserved) -> (Writer, Reader) {
    let (pieces, waiting) = (Vec::new(), Vec::new());
    let received = Received { pieces, content: None, trailers: None, end: None, waiting, reserved };
    let body = Body { received: Arc::new(Mutex::new(received)), bytes: size.exact() };
    (Writer(body.clone()), Reader { body, piece: 0, at: 0, is_first: true, size, rest: None })
}

/// A body that is here.
pub(crate) fn whole(content: Content, reserved: Reserved) -> Body {
    let size = SizeHint::with_exact(content.bytes());
    let (writer, _) = pair(size, reserved);
    writer.settle(content);
    let body = writer.body();
    writer.finish();
    body
}

impl Body {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its size, if that was known before, or all of it has come.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes.or_else(|| self.lock().content.as_ref().map(Content::bytes))
    }

    /// One more reader, of a body of that size.
    pub(crate) fn read(&self, bytes: u64) -> Reader {
        let size = SizeHint::with_exact(bytes);
        Reader { body: self.clone(), piece: 0, at: 0, is_first: false, size, rest: None }
    }
}

impl Writer {
    /// Makes room for this many bytes in all.
    pub(crate) fn cover(&self, bytes: usize) -> Result<(), NoRoom> {
        self.0.lock().reserved.cover(bytes)
    }

    /// The body, for those that want to read it.
    pub(crate) fn body(&self) -> Body {
        self.0.clone()
    }

    pub(crate) fn push(&self, piece: Bytes) {
        self.change(|received| received.pieces.push(piece));
    }

    pub(crate) fn push_trailers(&self, trailers: HeaderMap) {
        self.change(|received| received.trailers = Some(trailers));
    }

    /// All has come, and is this.
    pub(crate) fn settle(&self, content: Content) {
        self.change(|received| {
            received.pieces = Vec::new();
            received.content = Some(content);
        });
    }

    /// There is no more.
    pub(crate) fn finish(self) {
        self.change(|received| received.end = Some(End::Whole));
    }

    /// The cache has enough of it.
    pub(crate) fn leave(self, rest: Arriving) {
        self.change(|received| received.end = Some(End::Rest(Some(Box::new(rest)))));
    }

    fn change(&self, change: impl FnOnce(&mut Received)) {
        let waiting = {
            let mut received = self.0.lock();
            change(&mut received);
            std::mem::take(&mut received.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Writer {
    /// A body that nobody has finished broke off.
    fn drop(&mut self) {
        self.change(|received| {
            received.end.get_or_insert(End::Broken);
        });
    }
}

/// The next thing for a reader.
pub(crate) enum Next {
    Frame(Frame<Bytes>),
    /// The body that continues in its place.
    Rest(Arriving),
    End,
    Broken,
}

impl Reader {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(rest) = &mut self.rest {
            match ready!(rest.poll_next(cx)) {
                Some(Ok(piece)) => return Poll::Ready(Next::Frame(Frame::data(piece))),
                Some(Err(Unreadable)) => return Poll::Ready(Next::Broken),
                None => {}
            }
        }
        let mut received = self.body.lock();
        if let Some(content) = received.content.as_ref().filter(|_| self.rest.is_none()) {
            self.rest = Some(Rest::of(content, self.at));
            drop(received);
            return self.poll_next(cx);
        }
        if let Some(piece) = received.pieces.get(self.piece) {
            self.piece += 1;
            self.at += piece.len() as u64;
            return Poll::Ready(Next::Frame(Frame::data(piece.clone())));
        }
        if let Some(trailers) = received.trailers.take_if(|_| self.is_first) {
            return Poll::Ready(Next::Frame(Frame::trailers(trailers)));
        }
        match &mut received.end {
            Some(End::Whole) => Poll::Ready(Next::End),
            Some(End::Rest(rest)) => {
                Poll::Ready(rest.take_if(|_| self.is_first).map_or(Next::Broken, |rest| Next::Rest(*rest)))
            }
            Some(End::Broken) => Poll::Ready(Next::Broken),
            None => {
                if !received.waiting.iter().any(|waiting| waiting.will_wake(cx.waker())) {
                    received.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// The size of the whole, as the origin said it.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.size
    }
}

impl Rest {
    fn of(content: &Content, at: u64) -> Self {
        let slice = Slice { start: at, end: content.bytes() };
        match content.disk_content() {
            Some(content) => Self::Disk(DiskReader::new(content.clone(), slice)),
            None => Self::Memory(content.read(slice)),
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Unreadable>>> {
        match self {
            Self::Memory(reader) => Poll::Ready(reader.next().map(Ok)),
            Self::Disk(reader) => reader.poll_next(cx),
        }
    }
}
