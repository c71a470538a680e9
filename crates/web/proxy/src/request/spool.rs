//! Bodies of requests that are collected before the origin is asked: in memory first, then in a file.
//!
//! A request takes its place at the origin when its body is here, so a client that sends slowly holds nothing that
//! others wait for. The room of all bodies together is bounded, in memory and in files. Bytes count when they have
//! arrived, not when they were announced. A file has no name: nothing of it is left when the proxy ends, in whatever
//! way.

use crate::limits::BODY_MEMORY_BYTES_MAX;
use crate::request::client_body::ClientBody;
use crate::request::paced::{BodyError, PollFrame};
use crate::request::refusal::Refusal;
use crate::request::upload_room::{Room, unnamed_file};
use crate::shared::Shared;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// The bytes of a refused body that are read on.
const DISCARDED_BYTES_MAX: usize = 1 << 20;

/// How long they are read.
const DISCARD_FOR: Duration = Duration::from_secs(1);

/// A body that is being collected.
#[derive(Debug)]
struct Spool<'a> {
    shared: &'a Shared,
    /// The last bytes, which are not in the file yet, and their room.
    held: Vec<u8>,
    memory: Room,
    file: Option<Arc<File>>,
    /// The bytes in the file.
    written: u64,
    files: Room,
    open: Room,
    trailers: Option<HeaderMap>,
}

/// Collects a client's body; none if it is empty.
pub(crate) async fn collect(shared: &Shared, mut body: ClientBody) -> Result<Option<Collected>, Refusal> {
    let limits = &shared.config.limits;
    if body.size_hint().lower() > limits.upload_bytes_max() {
        return Err(Refusal::BodyTooLarge);
    }
    let mut spool = Spool {
        shared,
        held: Vec::new(),
        memory: Room::new(&shared.uploads.memory, limits.upload_memory_bytes),
        file: None,
        written: 0,
        files: Room::new(&shared.uploads.files, limits.upload_file_bytes),
        open: Room::new(&shared.uploads.open, limits.upload_files),
        trailers: None,
    };
    while let Some(frame) = next(&mut body).await {
        match frame.map_err(|error| Refusal::from(&error))?.into_data() {
            // As most bodies are: one piece, which is passed on as it is.
            Ok(piece) if body.is_end_stream() && spool.is_empty() && spool.memory.cover(piece.len() as u64) => {
                return Ok(Some(Collected { next: Some(piece), file: None, _memory: spool.memory, trailers: None }));
            }
            Ok(piece) => {
                if let Err(refusal) = spool.take(piece).await {
                    drop(spool);
                    discard(&mut body).await;
                    return Err(refusal);
                }
            }
            Err(frame) => spool.trailers = frame.into_trailers().ok().map(|trailers| shared.clean_trailers(trailers)),
        }
    }
    spool.finish().await
}

async fn next(body: &mut ClientBody) -> Option<Result<Frame<Bytes>, BodyError>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads on for a moment after a refusal: a connection that is closed with bytes unread is reset, and its client may
/// not see the answer.
async fn discard(body: &mut ClientBody) {
    let mut left = DISCARDED_BYTES_MAX;
    let discarded = async {
        while let (Some(Ok(frame)), true) = (next(body).await, left > 0) {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    // A client that is slow is not waited for.
    let _ = timeout(DISCARD_FOR, discarded).await;
}

impl Spool<'_> {
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.file.is_none()
    }

    /// Takes in a piece.
    async fn take(&mut self, piece: Bytes) -> Result<(), Refusal> {
        let held = self.held.len() + piece.len();
        if self.written + held as u64 > self.shared.config.limits.upload_bytes_max() {
            return Err(Refusal::BodyTooLarge);
        }
        if held <= BODY_MEMORY_BYTES_MAX && self.memory.cover(held as u64) {
            self.held.extend_from_slice(&piece);
            return Ok(());
        }
        self.write(piece).await
    }

    /// Writes what is held to the file, and a piece behind it.
    async fn write(&mut self, piece: Bytes) -> Result<(), Refusal> {
        let (held, at) = (std::mem::take(&mut self.held), self.written);
        let end = at + (held.len() + piece.len()) as u64;
        if !self.files.cover(end) || !self.open.cover(1) {
            return Err(Refusal::BodiesFull);
        }
        let (file, dir) = (self.file.clone(), self.shared.config.upload_dir());
        let written = spawn_blocking(move || {
            let file = file.map_or_else(|| unnamed_file(&dir).map(Arc::new), Ok)?;
            file.write_all_at(&held, at)?;
            file.write_all_at(&piece, at + held.len() as u64)?;
            Ok::<_, io::Error>(file)
        });
        // A panic counts as a failure of the disk.
        let written = written.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        self.shared.uploads.written(written.as_ref().err(), &self.shared.notes);
        let file = written.map_err(|_| Refusal::BodiesFull)?;
        self.memory.release();
        (self.file, self.written) = (Some(file), end);
        Ok(())
    }

    async fn finish(mut self) -> Result<Option<Collected>, Refusal> {
        if self.file.is_some() && !self.held.is_empty() {
            self.write(Bytes::new()).await?;
        }
        let Self { held, memory, file, written, files, open, trailers, .. } = self;
        if held.is_empty() && file.is_none() && trailers.is_none() {
            return Ok(None);
        }
        let next = (!held.is_empty()).then(|| held.into());
        let file = file.map(|file| FileReader { file, at: 0, end: written, step: None, _room: [files, open] });
        Ok(Some(Collected { next, file, _memory: memory, trailers }))
    }
}

/// A body that is here as a whole.
#[derive(Debug)]
pub(crate) struct Collected {
    /// The whole of one in memory.
    next: Option<Bytes>,
    file: Option<FileReader>,
    trailers: Option<HeaderMap>,
    _memory: Room,
}

impl http_body::Body for Collected {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let this = self.get_mut();
        if let Some(piece) = this.next.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(file) = &mut this.file
            && let Some(piece) = ready!(file.poll_next(cx))
        {
            return Poll::Ready(Some(piece.map(Frame::data).map_err(BodyError::File)));
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none() && self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        // Only a body of unknown length has a place for trailers.
        if self.trailers.is_some() { SizeHint::default() } else { SizeHint::with_exact(self.left()) }
    }
}

impl Collected {
    fn left(&self) -> u64 {
        let in_file = self.file.as_ref().map_or(0, |file| file.end - file.at);
        self.next.as_ref().map_or(0, |piece| piece.len() as u64) + in_file
    }
}

/// Reads a file step by step, on threads that may wait for the disk.
#[derive(Debug)]
struct FileReader {
    file: Arc<File>,
    at: u64,
    end: u64,
    step: Option<JoinHandle<io::Result<Bytes>>>,
    _room: [Room; 2],
}

impl FileReader {
    /// The next bytes; none at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.at == self.end {
            return Poll::Ready(None);
        }
        let (file, at) = (&self.file, self.at);
        let bytes = (self.end - at).min(BODY_MEMORY_BYTES_MAX as u64) as usize;
        let step = self.step.get_or_insert_with(|| {
            let file = file.clone();
            spawn_blocking(move || {
                let mut piece = vec![0; bytes];
                file.read_exact_at(&mut piece, at)?;
                Ok(piece.into())
            })
        });
        // A panic counts as a failure of the disk.
        let read = ready!(Pin::new(step).poll(cx)).unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        (self.step, self.at) = (None, self.at + bytes as u64);
        Poll::Ready(Some(read))
    }
}
