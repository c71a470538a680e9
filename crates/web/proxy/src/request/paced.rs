//! A body on its way, whose sender may not pause for too long.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

/// Why a body ended before it was whole.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// Its connection broke, or it was no HTTP.
    Broken(hyper::Error),
    /// Its sender paused for too long.
    Paused,
    /// The response that it belongs to was being stored, and did not become whole.
    Abandoned,
    /// It was on disk, which has not given it back.
    Unreadable,
    /// The file of a request's body cannot be read.
    File(io::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(error) => write!(f, "the body broke off: {error}"),
            Self::Paused => f.write_str("the body's sender paused for too long"),
            Self::Abandoned => f.write_str("the body did not come to its end"),
            Self::Unreadable => f.write_str("the disk did not give the body back"),
            Self::File(error) => write!(f, "the file of the body cannot be read: {error}"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Broken(error) => Some(error),
            Self::File(error) => Some(error),
            Self::Paused | Self::Abandoned | Self::Unreadable => None,
        }
    }
}

/// The next frame of a body.
pub(crate) type PollFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// A body whose sender has a timeout from frame to frame. The time while nobody asks for a frame does not count.
#[derive(Debug)]
pub(crate) struct Paced {
    incoming: Incoming,
    pause_max: Duration,
    /// Runs while a frame is asked for and not there.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(crate) fn new(incoming: Incoming, pause_max: Duration) -> Self {
        Self { incoming, pause_max, timer: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) {
            this.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let pause_max = this.pause_max;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(pause_max)));
        timer.as_mut().poll(cx).map(|()| Some(Err(BodyError::Paused)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The body of a response that comes from the origin.
#[derive(Debug)]
pub(crate) struct Arriving {
    body: Paced,
    #[expect(dead_code, reason = "it is given back when the body is dropped")]
    permit: OwnedSemaphorePermit,
}

impl Arriving {
    /// With the permit of its request to be at the origin.
    pub(crate) fn new(body: Paced, permit: OwnedSemaphorePermit) -> Self {
        Self { body, permit }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
