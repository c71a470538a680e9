//! Content on its way to a client: bytes that are here, or chunks that are read one behind the other.

use crate::error::FilesError;
use crate::http::served::Served;
use crate::view::read_piece;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serving::AnswerBody;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
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

/// The bytes of chunks that all bodies together hold. Beyond, a body keeps a step of its chunk at a time, and reads the
/// chunk again for the next one: a client that takes its time costs reads, and no other client's memory.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of that step.
const STEP_BYTES: usize = 64 * 1024;

/// Chunks that are read while the client takes them: one at a time is in memory.
#[derive(Debug)]
pub(crate) struct Chunks {
    served: Arc<Served>,
    /// The pieces that are left, and the bytes of each that are wanted.
    left: VecDeque<(Piece, Range<usize>)>,
    bytes_left: u64,
    /// The first of them, if it was kept when it was verified.
    ready: Option<Bytes>,
    reading: Option<JoinHandle<Result<Bytes, FilesError>>>,
}

/// The bytes of a chunk, counted until the last part of them has left.
struct Held {
    bytes: Bytes,
    served: Arc<Served>,
}

impl Held {
    /// None if too many are held already.
    fn new(bytes: Bytes, served: &Arc<Served>) -> Option<Self> {
        let held = served.held_bytes.fetch_add(bytes.len(), Relaxed) + bytes.len();
        // Dropped, it is counted no longer.
        let this = Self { bytes, served: served.clone() };
        (held <= HELD_BYTES_MAX).then_some(this)
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.served.held_bytes.fetch_sub(self.bytes.len(), Relaxed);
    }
}

impl FileBody {
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// The bytes of a range of a file that has these pieces.
    pub(crate) fn chunks(served: Arc<Served>, pieces: Vec<Piece>, range: Range<u64>, first: Option<Bytes>) -> Self {
        let mut at = 0;
        let wanted = pieces.into_iter().filter_map(|piece| {
            let begin = at;
            at += u64::from(piece.bytes);
            let within = |place: u64| place.saturating_sub(begin).min(u64::from(piece.bytes)) as usize;
            let wanted = within(range.start)..within(range.end);
            (!wanted.is_empty()).then_some((piece, wanted))
        });
        let left = wanted.collect();
        Self::Chunks(Chunks { served, left, bytes_left: range.end - range.start, ready: first, reading: None })
    }
}

/// Reads the first chunk of a range, so that a damaged one is an error and no answer that breaks off. The chunk is
/// returned unless too many bytes are held.
///
/// # Errors
/// A chunk that cannot be read.
pub(crate) fn read_first(
    served: &Arc<Served>,
    pieces: &[Piece],
    range: &Range<u64>,
) -> Result<Option<Bytes>, FilesError> {
    let mut end = 0;
    let is_first = |piece: &&Piece| {
        end += u64::from(piece.bytes);
        end > range.start
    };
    let Some(piece) = pieces.iter().find(is_first) else { return Ok(None) };
    let held = Held::new(read_piece(&served.origin.source(), piece)?, served);
    Ok(held.map(Bytes::from_owner))
}

impl Chunks {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, FilesError>>> {
        let Some((piece, wanted)) = self.left.front().cloned() else { return Poll::Ready(None) };
        if let Some(bytes) = self.ready.take() {
            self.left.pop_front();
            self.bytes_left -= wanted.len() as u64;
            return Poll::Ready(Some(Ok(bytes.slice(wanted))));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let served = self.served.clone();
            spawn_blocking(move || read_piece(&served.origin.source(), &piece))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let bytes = match read.unwrap_or_else(|error| Err(error.into())) {
            Ok(bytes) => self.take(&bytes, wanted),
            Err(error) => {
                self.left.clear();
                self.served.failed(&error);
                return Poll::Ready(Some(Err(error)));
            }
        };
        self.bytes_left -= bytes.len() as u64;
        Poll::Ready(Some(Ok(bytes)))
    }

    /// Takes the wanted bytes of the first piece, or a step of them where too many are held.
    fn take(&mut self, bytes: &Bytes, wanted: Range<usize>) -> Bytes {
        if wanted.len() <= STEP_BYTES {
            self.left.pop_front();
            return Bytes::copy_from_slice(&bytes[wanted]);
        }
        if let Some(held) = Held::new(bytes.clone(), &self.served) {
            self.left.pop_front();
            return Bytes::from_owner(held).slice(wanted);
        }
        let end = wanted.start + STEP_BYTES;
        if let Some((_, wanted)) = self.left.front_mut() {
            wanted.start = end;
        }
        Bytes::copy_from_slice(&bytes[wanted.start..end])
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
