//! The bytes of the log from a place on, a window at a time and in order.
//!
//! ```text
//!   device --- thread: reads a window ---> at most AHEAD of them ---> the scan: checks, decodes, hands on
//!                 ^                                                     |
//!                 +------ memory of windows that nobody looks at -------+
//! ```
//! Reading and looking at what was read take about the same time, so behind files that wait for a device a thread of
//! its own reads. Behind other files each window is read when it is asked for. The log is read once, so it goes past
//! the page cache where that can be had: the device writes into a window's memory, and no processor copies it there.
//! Fresh memory costs as much as the reading itself, so a window's is used again as soon as the last slice of it is
//! gone.

use crate::segment::Segment;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use vfs::{Aligned, BLOCK, Doing, FileError, Files};

/// The bytes of a window. A record that continues in the next one is copied to be whole, so not too few.
const WINDOW_BYTES: usize = 4 << 20;

/// Windows that are read before they are asked for, beside the one that is being read.
const AHEAD: usize = 2;

/// A place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The segment, by its place among those of the scan.
    pub(crate) segment: usize,
    /// The offset in it.
    pub(crate) offset: usize,
}

/// A piece of a segment.
#[derive(Debug)]
pub(crate) struct Window {
    place: Place,
    bytes: Bytes,
}

impl Window {
    /// A window with nothing in it.
    pub(crate) fn empty(place: Place) -> Self {
        Self { place, bytes: Bytes::new() }
    }

    /// Whether the byte at a place is in it.
    pub(crate) fn holds(&self, place: Place) -> bool {
        let range = self.place.offset..self.place.offset + self.bytes.len();
        place.segment == self.place.segment && range.contains(&place.offset)
    }

    /// The window's bytes from a place on, which is in it.
    pub(crate) fn from(&self, place: Place) -> Bytes {
        self.bytes.slice(place.offset - self.place.offset..)
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The windows that follow one another.
#[derive(Debug)]
pub(crate) struct Windows(Source);

#[derive(Debug)]
enum Source {
    Here(Reader),
    Thread(Option<Receiver<Result<Window, FileError>>>, Option<JoinHandle<()>>),
}

impl Windows {
    /// From the block that holds `place` to the end of the last of the segments.
    pub(crate) fn begin(files: &Arc<dyn Files>, segments: &[Segment], place: Place) -> Result<Self, FileError> {
        let (home, spare) = channel();
        let place = Place { offset: place.offset / BLOCK * BLOCK, ..place };
        let mut reader = Reader { files: files.clone(), segments: segments.to_vec(), place, home, spare };
        if !segments.iter().any(|segment| segment.file.waits_for_device()) {
            return Ok(Self(Source::Here(reader)));
        }
        let (out, windows) = sync_channel(AHEAD);
        let read = move || {
            // A receiver that does not take a window wants none any more.
            let _ = reader.try_for_each(|window| out.send(window));
        };
        let thread = std::thread::Builder::new().name("log-ahead".to_owned()).spawn(read);
        let thread = thread.doing("start a thread for", || files.path(""))?;
        Ok(Self(Source::Thread(Some(windows), Some(thread))))
    }
}

impl Iterator for Windows {
    type Item = Result<Window, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Here(reader) => reader.next(),
            Source::Thread(windows, _) => windows.as_ref().and_then(|windows| windows.recv().ok()),
        }
    }
}

impl Drop for Windows {
    /// Nothing is read any more afterwards: the next write may go past the system's page cache.
    fn drop(&mut self) {
        if let Source::Thread(windows, thread) = &mut self.0 {
            drop(windows.take());
            // A thread that panicked has said so, and reads no more.
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

/// Reads one window after another.
#[derive(Debug)]
struct Reader {
    files: Arc<dyn Files>,
    segments: Vec<Segment>,
    place: Place,
    home: Sender<Aligned>,
    spare: Receiver<Aligned>,
}

impl Reader {
    fn read(&self, segment: &Segment, len: usize) -> Result<Window, FileError> {
        let mut memory = self.spare.try_recv().unwrap_or_default();
        if memory.len() < len {
            memory = Aligned::zeroed(len);
        }
        let into = &mut memory.bytes_mut()[..len];
        segment.file.read_at(self.place.offset as u64, into).doing("read", || self.files.path(&segment.name))?;
        let bytes = Bytes::from_owner(Lent { memory, home: self.home.clone() }).slice(..len);
        Ok(Window { place: self.place, bytes })
    }
}

impl Iterator for Reader {
    type Item = Result<Window, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let segment = self.segments.get(self.place.segment)?;
        let len = WINDOW_BYTES.min(segment.bytes.saturating_sub(self.place.offset));
        let window = self.read(segment, len);
        self.place.offset += len;
        if self.place.offset >= segment.bytes {
            self.place = Place { segment: self.place.segment + 1, offset: 0 };
        }
        Some(window)
    }
}

/// A window's memory, which goes back to the reader behind the last slice of it.
struct Lent {
    memory: Aligned,
    home: Sender<Aligned>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.memory.bytes()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A reader that has ended needs no memory.
        let _ = self.home.send(std::mem::take(&mut self.memory));
    }
}
