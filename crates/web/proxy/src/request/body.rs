//! The body of an answer to a client: bytes that are here, or that come from the origin.

use crate::fill::collect::{self, Next};
use crate::operate::access_log::Logged;
use crate::request::paced::{Arriving, BodyError, PollFrame};
use crate::stored::content::{self, Content};
use crate::stored::disk_content::{DiskReader, Unreadable};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use responses::Slice;
use serving::AnswerBody;
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

/// The body of an answer, and the request's line in the access log, which is written when this is dropped.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Body,
    logged: Option<Box<Logged>>,
}

impl Answer {
    pub(crate) fn new(body: Body, logged: Option<Box<Logged>>) -> Self {
        Self { body, logged }
    }
}

impl AnswerBody for Answer {
    fn taken(&mut self, bytes: usize) {
        if let Some(logged) = &mut self.logged {
            logged.sent(bytes);
        }
    }
}

impl http_body::Body for Answer {
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
