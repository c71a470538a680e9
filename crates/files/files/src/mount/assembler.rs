//! The thread that assembles files for passthrough, one at a time.

use super::assembled::NotAssembled;
use super::handles::OpenContent;
use super::passthrough::{Job, Passthrough};
use super::views::Mounted;
use crate::error::FilesError;
use crate::view::check_length;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tree::Piece;

/// How long the thread rests at most before the next piece.
const REST_MAX: Duration = Duration::from_millis(100);

/// How long its end is waited for: a read of a bucket may take longer.
const END_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The failure of the thread.
const FAILED: &str = "a file could not be assembled for passthrough";

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Assembling {
    mounted: Arc<Mounted>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why the content of a file was not read.
#[derive(Debug)]
enum Stopped {
    /// The mount ends.
    Over,
    /// The store or the disk failed.
    Failed(FilesError),
}

/// The work of the thread.
struct Assembler<'a> {
    mounted: &'a Mounted,
    passthrough: &'a Passthrough,
    /// Whether the last file failed, so that a lasting failure is reported once.
    is_failing: bool,
}

impl Assembler<'_> {
    fn run(mut self) {
        while let Some(job) = self.passthrough.next() {
            let failure = self.assemble(&job);
            self.passthrough.done(&job.name, failure.is_some());
            match failure {
                Some(failure) if !self.is_failing => {
                    self.is_failing = true;
                    self.mounted.report(format!("{FAILED}: {failure}"));
                }
                Some(_) => {}
                None => self.is_failing = false,
            }
        }
    }

    /// Assembles a file, or returns the failure.
    fn assemble(&self, job: &Job) -> Option<String> {
        let OpenContent::Pieces(pieces) = &job.file.content else { return None };
        // Another one may have given way to newer ones, with its chunks.
        let number = job.revision().filter(|number| self.mounted.origin.begin(*number).is_some())?;
        let mut pace = Pace::new(self.mounted);
        let look = || {
            pace.keep();
            if self.passthrough.is_over() { Err(Stopped::Over) } else { Ok(()) }
        };
        let assembled = self.passthrough.assembled.assemble(&job.name, pieces, look, |piece| self.read(piece));
        let failure = match assembled {
            Ok(()) | Err(NotAssembled::NoRoom | NotAssembled::Content(Stopped::Over)) => None,
            // Newer revisions that are read may have taken the place of this one in between.
            Err(NotAssembled::Content(Stopped::Failed(error))) => {
                self.mounted.origin.visit(number).map(|_| error.to_string())
            }
            Err(NotAssembled::Disk(error)) => Some(error.to_string()),
        };
        self.mounted.origin.end(number);
        failure
    }

    /// A piece: from memory, if its reader was there first.
    fn read(&self, piece: &Piece) -> Result<Bytes, Stopped> {
        let reader = self.mounted.reader();
        if let Some(known) = reader.memory.piece(piece) {
            return Ok(known.bytes);
        }
        let read = reader.origin.content(&piece.hash);
        read.and_then(|bytes| check_length(&bytes, piece).map(|()| bytes)).map_err(Stopped::Failed)
    }
}

/// Leaves half of the time to readers: while they ask for content, a pause follows each piece that is as long as the
/// work on it.
struct Pace<'a> {
    mounted: &'a Mounted,
    reads: u64,
    begun: Instant,
}

impl<'a> Pace<'a> {
    fn new(mounted: &'a Mounted) -> Self {
        Self { mounted, reads: mounted.reads.load(Relaxed), begun: Instant::now() }
    }

    fn keep(&mut self) {
        let reads = self.mounted.reads.load(Relaxed);
        if reads != self.reads {
            thread::sleep(self.begun.elapsed().min(REST_MAX));
        }
        (self.reads, self.begun) = (reads, Instant::now());
    }
}

impl Assembling {
    /// Starts the thread, if the mount has passthrough.
    pub(super) fn start(mounted: &Arc<Mounted>) -> io::Result<Option<Self>> {
        if mounted.passthrough.is_none() {
            return Ok(None);
        }
        let of = mounted.clone();
        let run = move || {
            if let Some(passthrough) = &of.passthrough {
                Assembler { mounted: &of, passthrough, is_failing: false }.run();
            }
        };
        let thread = thread::Builder::new().name("mount-assemble".to_owned()).spawn(run)?;
        Ok(Some(Self { mounted: mounted.clone(), thread: Some(thread) }))
    }
}

impl Drop for Assembling {
    fn drop(&mut self) {
        let Some((passthrough, thread)) = self.mounted.passthrough.as_ref().zip(self.thread.take()) else { return };
        passthrough.end();
        let until = Instant::now() + END_WITHIN;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
}
