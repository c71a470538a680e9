//! The body of an answer to a client: bytes that are here, or that come from the origin.

use crate::fill::collect::{self, Next};
use crate::limits::STREAM_STEP_BYTES_MAX;
use crate::listen::activity::UnderWay;
use crate::operate::access_log::Logged;
use crate::request::paced::{Arriving, BodyError, PollFrame};
use crate::stored::content::{self, Content};
use crate::stored::disk_content::{DiskReader, Unreadable};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use responses::Slice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of an answer.
#[derive(Debug, Default)]
pub(crate) enum Body {
    /// None, or no more.
    #[default]
    Empty,
    /// Bytes that are here.
    Whole(Bytes),
    /// The content of a stored response, or a part of it.
    Stored(content::Reader),
    /// The same of one whose content is on disk.
    OnDisk(DiskReader),
    /// A response of the origin that is being stored.
    Collected(Box<collect::Reader>),
    /// A response of the origin as it comes.
    Origin(Arriving),
}

impl Body {
    /// All of a stored response's content.
    pub(crate) fn stored(content: &Content) -> Self {
        match content.only_piece() {
            Some(piece) => Self::whole(piece.clone()),
            None => Self::part(content, Slice { start: 0, end: content.bytes() }),
        }
    }

    /// A part of it.
    pub(crate) fn part(content: &Content, slice: Slice) -> Self {
        match content.disk_content() {
            Some(content) => Self::OnDisk(DiskReader::new(content.clone(), slice)),
            None => Self::Stored(content.read(slice)),
        }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::Empty } else { Self::Whole(bytes) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let this = self.get_mut();
        loop {
            return match this {
                Self::Empty => Poll::Ready(None),
                Self::Whole(bytes) => {
                    let frame = Frame::data(std::mem::take(bytes));
                    *this = Self::Empty;
                    Poll::Ready(Some(Ok(frame)))
                }
                Self::Stored(content) => Poll::Ready(content.next().map(|piece| Ok(Frame::data(piece)))),
                Self::OnDisk(reader) => Poll::Ready(ready!(reader.poll_next(cx)).map(|step| match step {
                    Ok(piece) => Ok(Frame::data(piece)),
                    Err(Unreadable) => Err(BodyError::Unreadable),
                })),
                Self::Origin(body) => Pin::new(body).poll_frame(cx),
                Self::Collected(reader) => match ready!(reader.poll_next(cx)) {
                    Next::Frame(frame) => Poll::Ready(Some(Ok(frame))),
                    Next::Broken => Poll::Ready(Some(Err(BodyError::Abandoned))),
                    Next::End => {
                        *this = Self::Empty;
                        Poll::Ready(None)
                    }
                    Next::Rest(rest) => {
                        *this = Self::Origin(rest);
                        continue;
                    }
                },
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stored(content) => content.left() == 0,
            Self::OnDisk(reader) => reader.left() == 0,
            Self::Origin(body) => body.is_end_stream(),
            Self::Whole(_) | Self::Collected(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stored(content) => SizeHint::with_exact(content.left()),
            Self::OnDisk(reader) => SizeHint::with_exact(reader.left()),
            Self::Origin(body) => body.size_hint(),
            Self::Collected(reader) => reader.size_hint(),
        }
    }
}

/// An answer's body on its client's connection, where it leaves its marks.
#[derive(Debug)]
pub(crate) struct Answered {
    body: Body,
    /// The rest of a piece of which a part was taken.
    rest: Bytes,
    request: UnderWay,
    /// Whether it waits for the client, not for the origin.
    is_offered: bool,
    /// The request's line in the access log, which is written when this is dropped.
    logged: Option<Box<Logged>>,
}

impl Answered {
    /// Until the body is dropped its request counts as under way.
    pub(crate) fn new(body: Body, request: UnderWay) -> Self {
        request.activity().offer();
        Self { body, rest: Bytes::new(), request, is_offered: true, logged: None }
    }

    /// Has the request logged when its answer has been given.
    pub(crate) fn log(mut self, logged: Option<Box<Logged>>) -> Self {
        self.logged = logged;
        self
    }

    fn mark(&mut self, is_offered: bool) {
        if self.is_offered != is_offered {
            self.is_offered = is_offered;
            if is_offered { self.request.activity().offer() } else { self.request.activity().withdraw() }
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.mark(false);
    }
}

impl http_body::Body for Answered {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let this = self.get_mut();
        let mut frame = if this.rest.is_empty() {
            Pin::new(&mut this.body).poll_frame(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.rest)))))
        };
        this.mark(frame.is_ready());
        if let Poll::Ready(Some(Ok(frame))) = &mut frame {
            this.request.activity().taken();
            if let Some(piece) = frame.data_mut().filter(|piece| piece.len() > STREAM_STEP_BYTES_MAX)
                && this.request.activity().is_http2()
            {
                this.rest = piece.split_off(STREAM_STEP_BYTES_MAX);
            }
            if let (Some(logged), Some(piece)) = (&mut this.logged, frame.data_ref()) {
                logged.sent(piece.len());
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut size = SizeHint::new();
        if let Some(upper) = body.upper() {
            size.set_upper(upper + rest);
        }
        size.set_lower(body.lower() + rest);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::activity::Activity;
    use http_body::Body as _;
    use std::sync::Arc;

    /// Hyper keeps a piece once it has it: in small steps most of it stays here while a window is full.
    #[test]
    fn an_http2_stream_takes_a_large_piece_in_steps() {
        let piece: Vec<u8> = (0..5 * STREAM_STEP_BYTES_MAX / 2).map(|index| (index % 251) as u8).collect();
        for (is_http2, expected) in [(true, 3), (false, 1)] {
            let activity = Arc::new(Activity::at(None));
            activity.speaks(is_http2);
            let mut body = Answered::new(Body::whole(piece.clone()), UnderWay::begin(activity));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let (mut frames, mut taken) = (0, Vec::new());
            while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
                taken.extend(frame.into_data().expect("it has no trailers"));
                frames += 1;
                let left = (piece.len() - taken.len()) as u64;
                assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(left), left == 0));
            }
            assert_eq!((frames, taken == piece), (expected, true));
        }
    }
}
