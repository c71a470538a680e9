//! The body of a request to the origin: none, one that is here as a whole, or one that is passed on as its client
//! sends it.

use crate::request::client_body::ClientBody;
use crate::request::paced::{BodyError, PollFrame};
use crate::request::refusal::Refusal;
use crate::request::spool::{Collected, collect};
use crate::shared::Shared;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// The body of a request to the origin.
#[derive(Debug)]
pub(crate) enum Upload {
    /// None.
    Empty,
    Some(Box<Moving>),
}

/// A body that leaves marks of its way.
#[derive(Debug)]
pub(crate) struct Moving {
    source: Source,
    progress: Arc<Progress>,
}

#[derive(Debug)]
enum Source {
    Collected(Collected),
    Client(ClientBody, Arc<Shared>),
}

/// The progress of a body on its way to the origin.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    /// When the origin last took a piece, in milliseconds since `begun`; [`AWAITED`] while there is no piece to take.
    moved_at: AtomicU64,
}

/// The client, or the disk, has not given the next piece.
const AWAITED: u64 = u64::MAX;

impl Progress {
    fn new() -> Self {
        Self { begun: Instant::now(), moved_at: AtomicU64::new(0) }
    }

    fn mark(&self, is_here: bool) {
        let now = self.begun.elapsed().as_millis() as u64;
        self.moved_at.store(if is_here { now } else { AWAITED }, Relaxed);
    }

    /// How long the origin has not taken a piece that was there.
    pub(crate) fn silence(&self) -> Duration {
        match self.moved_at.load(Relaxed) {
            AWAITED => Duration::ZERO,
            moved_at => self.begun.elapsed().saturating_sub(Duration::from_millis(moved_at)),
        }
    }
}

impl Upload {
    /// The body of a client's request. It is collected first, unless the operator wants it passed on as it comes.
    pub(crate) async fn of(shared: &Arc<Shared>, body: Incoming, path: &str) -> Result<Self, Refusal> {
        if body.is_end_stream() {
            return Ok(Self::Empty);
        }
        let body = ClientBody::new(body, &shared.config.limits);
        let source = if shared.config.streams_upload(path) {
            Source::Client(body, shared.clone())
        } else {
            match collect(shared, body).await? {
                Some(collected) => Source::Collected(collected),
                None => return Ok(Self::Empty),
            }
        };
        Ok(Self::Some(Box::new(Moving { source, progress: Arc::new(Progress::new()) })))
    }

    pub(crate) fn progress(&self) -> Option<Arc<Progress>> {
        match self {
            Self::Empty => None,
            Self::Some(moving) => Some(moving.progress.clone()),
        }
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let Self::Some(moving) = self.get_mut() else { return Poll::Ready(None) };
        let frame = match &mut moving.source {
            Source::Collected(body) => Pin::new(body).poll_frame(cx),
            Source::Client(body, shared) => Pin::new(body).poll_frame(cx).map_ok(|frame| match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(shared.clean_trailers(trailers)),
                Err(frame) => frame,
            }),
        };
        moving.progress.mark(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Some(moving) => match &moving.source {
                Source::Collected(body) => body.is_end_stream(),
                Source::Client(body, _) => body.is_end_stream(),
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Some(moving) => match &moving.source {
                Source::Collected(body) => body.size_hint(),
                Source::Client(body, _) => body.size_hint(),
            },
        }
    }
}
