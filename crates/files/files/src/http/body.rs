//! Content on its way to a client: bytes that are here, or chunks that are read one behind the other.

use crate::error::FilesError;
use crate::http::served::Served;
use crate::member::fetching::Here;
use crate::memory::Content;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serving::AnswerBody;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::spawn_blocking;
use tree::Piece;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum FileBody {
    /// Bytes that are here; none when they were taken.
    Whole(Bytes),
    /// Chunks on disk.
    Chunks(Chunks),
}

/// The bytes of a chunk that a body keeps at a time, where the memory for content is full. It reads the chunk again for
/// the next step: a client that takes its time costs reads, and no other client's memory.
const STEP_BYTES: usize = 64 * 1024;

/// A piece that is read from the disk, or fetched if it is not here.
struct PieceRead(Pin<Box<dyn Future<Output = Result<Content, FilesError>> + Send>>);

/// Chunks that are read while the client takes them: one at a time is in memory.
#[derive(Debug)]
pub(crate) struct Chunks {
    served: Arc<Served>,
    /// The pieces that are left, and the bytes of each that are wanted.
    left: VecDeque<(Piece, Range<usize>)>,
    bytes_left: u64,
    /// The first of them, if it is in memory.
    ready: Option<Bytes>,
    reading: Option<PieceRead>,
}

impl fmt::Debug for PieceRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceRead").finish_non_exhaustive()
    }
}

/// Reads a piece on a thread that may wait for the disk. No thread waits while it is fetched.
async fn read(served: Arc<Served>, piece: Piece) -> Result<Content, FilesError> {
    let mut here = Here::default();
    loop {
        let (of, piece) = (served.clone(), piece);
        let read = spawn_blocking(move || of.memory.read_piece(&*of.origin, &piece)).await?;
        let Err(FilesError::Elsewhere(hash)) = read else { return read };
        here.add(served.origin.fetch(here.lack(hash)).await?);
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

/// The first piece of a range. It is read before the response head is sent: a damaged chunk is then an error status,
/// and not a truncated body.
pub(crate) fn first_piece<'a>(pieces: &'a [Piece], range: &Range<u64>) -> Option<&'a Piece> {
    let mut end = 0;
    pieces.iter().find(|piece| {
        end += u64::from(piece.bytes);
        end > range.start
    })
}

impl Chunks {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, FilesError>>> {
        let Some((piece, wanted)) = self.left.front().cloned() else { return Poll::Ready(None) };
        let here = self.ready.take().map(|bytes| Content { bytes, is_held: true });
        // A piece that is being read comes from there, though it may be in memory by now.
        let in_memory = || if self.reading.is_none() { self.served.memory.piece(&piece) } else { None };
        let content = match here.or_else(in_memory) {
            Some(content) => Ok(content),
            None => ready!(self.poll_read(cx, piece)),
        };
        let bytes = match content {
            Ok(content) => self.take(&content, wanted),
            Err(error) => {
                self.left.clear();
                self.served.failed(&error);
                return Poll::Ready(Some(Err(error)));
            }
        };
        self.bytes_left -= bytes.len() as u64;
        Poll::Ready(Some(Ok(bytes)))
    }

    /// Reads a piece on a thread that may wait for the disk.
    fn poll_read(&mut self, cx: &mut Context<'_>, piece: Piece) -> Poll<Result<Content, FilesError>> {
        let reading = self.reading.get_or_insert_with(|| PieceRead(Box::pin(read(self.served.clone(), piece))));
        let read = ready!(reading.0.as_mut().poll(cx));
        self.reading = None;
        Poll::Ready(read)
    }

    /// Takes the wanted bytes of the first piece, or a step of them where the memory for content is full.
    fn take(&mut self, content: &Content, wanted: Range<usize>) -> Bytes {
        let end = if content.is_held { wanted.end } else { wanted.end.min(wanted.start + STEP_BYTES) };
        if end == wanted.end {
            self.left.pop_front();
        } else if let Some((_, wanted)) = self.left.front_mut() {
            wanted.start = end;
        }
        let taken = content.bytes.slice(wanted.start..end);
        if content.is_held { taken } else { Bytes::copy_from_slice(&taken) }
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
