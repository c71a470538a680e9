//! Content on its way to a client: bytes that are here, or chunks that are read one behind the other.

use crate::error::FilesError;
use crate::sites::Sites;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serving::AnswerBody;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};
use tree::Piece;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum FileBody {
    /// Bytes that are here; none when they were taken.
    Whole(Bytes),
    /// Chunks on disk.
    Chunks(Chunks),
}

/// Chunks that are read while the client takes them: one at a time is in memory.
#[derive(Debug)]
pub(crate) struct Chunks {
    sites: Arc<Sites>,
    /// The pieces that are left, and the bytes of each that are wanted.
    left: VecDeque<(Piece, Range<usize>)>,
    bytes_left: u64,
    reading: Option<JoinHandle<Result<Bytes, FilesError>>>,
}

impl FileBody {
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// The bytes of a range of a file that has these pieces.
    pub(crate) fn chunks(sites: Arc<Sites>, pieces: Vec<Piece>, range: Range<u64>) -> Self {
        let mut at = 0;
        let wanted = pieces.into_iter().filter_map(|piece| {
            let begin = at;
            at += u64::from(piece.bytes);
            let within = |place: u64| place.saturating_sub(begin).min(u64::from(piece.bytes)) as usize;
            let wanted = within(range.start)..within(range.end);
            (!wanted.is_empty()).then_some((piece, wanted))
        });
        let left = wanted.collect();
        Self::Chunks(Chunks { sites, left, bytes_left: range.end - range.start, reading: None })
    }
}

impl Chunks {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, FilesError>>> {
        let Some((piece, wanted)) = self.left.front().cloned() else { return Poll::Ready(None) };
        let reading = self.reading.get_or_insert_with(|| {
            let sites = self.sites.clone();
            spawn_blocking(move || sites.chunk(&piece))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        self.left.pop_front();
        let bytes = read.unwrap_or(Err(FilesError::Interrupted)).map(|bytes| bytes.slice(wanted));
        if let Ok(bytes) = &bytes {
            self.bytes_left -= bytes.len() as u64;
        }
        Poll::Ready(Some(bytes))
    }
}

impl AnswerBody for FileBody {}

impl Body for FileBody {
    type Data = Bytes;
    type Error = FilesError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, FilesError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Chunks(chunks) => chunks.poll_next(cx).map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Chunks(chunks) => chunks.bytes_left,
        })
    }
}
