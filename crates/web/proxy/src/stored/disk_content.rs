//! The content of a stored response that stays on disk: read in steps, on threads that may wait for it.

use bytes::Bytes;
use coherence::Claim;
use diskcache::{DiskCache, Extent, Held, READ_BYTES_MAX};
use responses::Slice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// The stored responses on disk.
pub(crate) type Disk = DiskCache<Claim>;

/// A response on disk takes this, with the counts of its [`Arc`], and what the index has of it beside.
const _: () = assert!(size_of::<Held<Claim>>() + 2 * size_of::<usize>() <= 80);

/// A content on disk, which stays where it is while this is there.
#[derive(Debug)]
pub(crate) struct DiskContent {
    pub(crate) extent: Arc<Extent>,
    held: Arc<Held<Claim>>,
    disk: Arc<Disk>,
}

impl DiskContent {
    pub(crate) fn new(extent: Arc<Extent>, held: Arc<Held<Claim>>, disk: Arc<Disk>) -> Self {
        Self { extent, held, disk }
    }

    /// The next bytes of a part. A response whose bytes do not come back is no longer stored.
    fn read(&self, from: u64, to: u64) -> Option<Bytes> {
        self.extent.read(from, to).map_err(|error| self.disk.lose(&self.held, error)).ok()
    }
}

/// Returns a part of a content on disk, step by step. Two steps are in memory at most: one that is sent, and the next.
#[derive(Debug)]
pub(crate) struct DiskReader {
    content: Arc<DiskContent>,
    at: u64,
    end: u64,
    step: Option<JoinHandle<Option<Bytes>>>,
}

/// The disk has not given the bytes back.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl DiskReader {
    pub(crate) fn new(content: Arc<DiskContent>, slice: Slice) -> Self {
        let end = slice.end.min(content.extent.bytes());
        Self { content, at: slice.start, end, step: None }
    }

    /// The bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn begin_step(&self) -> Option<JoinHandle<Option<Bytes>>> {
        let (content, from, to) = (self.content.clone(), self.at, self.end.min(self.at + READ_BYTES_MAX));
        (from < to).then(|| spawn_blocking(move || content.read(from, to)))
    }

    /// The next bytes; none at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Unreadable>>> {
        if self.step.is_none() {
            self.step = self.begin_step();
        }
        let Some(step) = &mut self.step else { return Poll::Ready(None) };
        // One that has ended without bytes has panicked, or its runtime ends.
        let read = ready!(Pin::new(step).poll(cx)).ok().flatten().filter(|read| !read.is_empty());
        self.step = None;
        let Some(read) = read else {
            self.end = self.at;
            return Poll::Ready(Some(Err(Unreadable)));
        };
        self.at += read.len() as u64;
        self.step = self.begin_step();
        Poll::Ready(Some(Ok(read)))
    }
}
