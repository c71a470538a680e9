//! The body of an answer on its client's connection, where it leaves its marks.

use crate::activity::UnderWay;
use crate::limits::STREAM_STEP_BYTES_MAX;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of an answer, as its front end makes it.
pub trait AnswerBody: Body<Data = Bytes> + Unpin {
    /// So many bytes of it were given to the connection.
    fn taken(&mut self, _bytes: usize) {}
}

/// The body of an answer on its connection. Until it is dropped, its request counts as under way.
#[derive(Debug)]
pub struct Answered<B> {
    body: B,
    /// The rest of a piece of which a part was taken.
    rest: Bytes,
    request: UnderWay,
    /// Whether it waits for the client, not for its source.
    is_offered: bool,
}

impl<B> Answered<B> {
    /// The body of the answer to a request.
    pub fn new(body: B, request: UnderWay) -> Self {
        request.activity().offer();
        Self { body, rest: Bytes::new(), request, is_offered: true }
    }

    fn mark(&mut self, is_offered: bool) {
        if self.is_offered != is_offered {
            self.is_offered = is_offered;
            if is_offered { self.request.activity().offer() } else { self.request.activity().withdraw() }
        }
    }
}

impl<B> Drop for Answered<B> {
    fn drop(&mut self) {
        self.mark(false);
    }
}

impl<B: AnswerBody> Body for Answered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
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
            if let Some(piece) = frame.data_ref() {
                this.body.taken(piece.len());
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
    use crate::activity::Activity;
    use http_body_util::Full;
    use std::sync::Arc;

    impl AnswerBody for Full<Bytes> {}

    /// Hyper keeps a piece once it has it: in small steps most of it stays here while a window is full.
    #[test]
    fn an_http2_stream_takes_a_large_piece_in_steps() {
        let piece: Vec<u8> = (0..5 * STREAM_STEP_BYTES_MAX / 2).map(|index| (index % 251) as u8).collect();
        for (is_http2, expected) in [(true, 3), (false, 1)] {
            let activity = Arc::new(Activity::at(None));
            activity.speaks(is_http2);
            let mut body = Answered::new(Full::from(piece.clone()), UnderWay::begin(activity));
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
