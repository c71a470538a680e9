//! Threads that read pages while the site is published, and what they have seen.

use crate::Result;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The pause of a reader between two pages: the machine has much else to do.
const PAUSE: Duration = Duration::from_millis(5);

/// Reads one page with its parts.
pub(super) type Step = Box<dyn FnMut(&mut Tally) + Send>;

/// Counts of what readers have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Pages that were read with all their parts.
    pub(super) pages: u64,
    /// Pages of these with a part of another version, or whose own text mixes two.
    pub(super) mixed: u64,
    /// Pages that were older than one that the reader had seen before.
    pub(super) gone_back: u64,
    /// Answers with pages that said that they may not be the newest.
    pub(super) stale: u64,
    /// Pages that were older than a lease allows, and did not say so.
    pub(super) concealed: u64,
    /// Answers that refused, because the server is behind the visitor, say.
    pub(super) refused: u64,
    /// Answers that no server should give.
    pub(super) wrong: u64,
    /// Requests that were not answered: of killed servers.
    pub(super) unanswered: u64,
    /// Pages with a part that no server gave out.
    pub(super) incomplete: u64,
    /// The first of everything that must not be.
    pub(super) finding: Option<String>,
}

impl Tally {
    /// Counts a page that mixes versions.
    pub(super) fn mix(&mut self, finding: String) {
        self.mixed += 1;
        self.finding.get_or_insert(finding);
    }

    /// Counts a page that is older than one before it.
    pub(super) fn go_back(&mut self, finding: String) {
        self.gone_back += 1;
        self.finding.get_or_insert(finding);
    }

    /// Counts a page that is old and does not say so.
    pub(super) fn conceal(&mut self, finding: String) {
        self.concealed += 1;
        self.finding.get_or_insert(finding);
    }

    /// Counts an answer that no server should give.
    pub(super) fn err(&mut self, finding: String) {
        self.wrong += 1;
        self.finding.get_or_insert(finding);
    }

    fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.mixed += other.mixed;
        self.gone_back += other.gone_back;
        self.stale += other.stale;
        self.concealed += other.concealed;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.unanswered += other.unanswered;
        self.incomplete += other.incomplete;
        self.finding = self.finding.take().or(other.finding);
    }
}

/// Threads that read until they are told to end. Dropping this ends them.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

impl Readers {
    /// Starts a thread for each reader.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start(steps: impl IntoIterator<Item = Step>) -> Result<Self> {
        let mut readers = Self { shared: Arc::default(), threads: Vec::new() };
        for mut step in steps {
            let shared = readers.shared.clone();
            let reads = move || {
                while !shared.is_over.load(Relaxed) {
                    let mut tally = Tally::default();
                    step(&mut tally);
                    shared.tally.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
                    thread::sleep(PAUSE);
                }
            };
            readers.threads.push(thread::Builder::new().spawn(reads)?);
        }
        Ok(readers)
    }

    /// Ends the threads, and returns what they have seen.
    ///
    /// # Errors
    /// A thread has panicked.
    pub(super) fn end(mut self) -> Result<Tally> {
        self.join()?;
        Ok(self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn join(&mut self) -> Result {
        self.shared.is_over.store(true, Relaxed);
        // All of them are waited for, whatever one of them did.
        let panicked = self.threads.drain(..).filter_map(|thread| thread.join().err()).count();
        if panicked == 0 { Ok(()) } else { Err("a reader has panicked: please report it".into()) }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // A thread that has panicked has said so.
        let _ = self.join();
    }
}
