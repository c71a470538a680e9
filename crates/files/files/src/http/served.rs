//! The state that the threads of a site's server share, and its figures.

use crate::error::FilesError;
use crate::http::pages::Pages;
use crate::http::refusal::Refusal;
use crate::http::rules::KnownRules;
use crate::http::visitor::Visitors;
use crate::memory::Memory;
use crate::origin::{LocalChunks, Origin};
use crate::reader::Reader;
use crate::tables::SITE;
use machine::{Cell, Table};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a failure of the store makes the server unhealthy.
const RECENT: Duration = Duration::from_secs(300);

/// The counts of a site's server since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections of clients.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// The bytes of content in memory, for clients that wait and for those to come.
    pub held_bytes: u64,
    /// The last error of the store, if there was one in the last minutes.
    pub last_error: Option<String>,
}

/// The state that the threads of a server share.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) visitors: Visitors,
    /// Whether this server refuses to serve a revision that may be stale.
    refuses_stale: bool,
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    refused: AtomicU64,
    /// Directories and content that were read lately.
    pub(crate) memory: Memory,
    /// Paths that were resolved lately.
    pub(crate) pages: Pages,
    /// The redirects and fields of the site's revisions.
    pub(crate) rules: KnownRules,
    /// When the store last failed, and how.
    last_error: Mutex<Option<(Instant, String)>>,
}

impl Served {
    /// The state of a server that has this much memory for directories and content.
    pub(crate) fn new(
        origin: Arc<dyn Origin>,
        visitors: Visitors,
        memory: usize,
        rules: KnownRules,
        refuses_stale: bool,
    ) -> Self {
        Self {
            origin,
            visitors,
            refuses_stale,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            memory: Memory::new(memory),
            pages: Pages::new(memory),
            rules,
            last_error: Mutex::default(),
        }
    }

    /// Whether a revision that may be stale is refused, at this server or of this site.
    pub(crate) fn refuses_stale(&self) -> bool {
        self.refuses_stale || self.origin.refuses_stale()
    }

    /// A reader for one request, and whether it may wait for the disk.
    pub(crate) fn reader(&self, waits: bool) -> Reader<'_> {
        Reader { origin: &*self.origin, memory: &self.memory, waits }
    }

    /// A request was answered by the page that the site has for missing files.
    pub(crate) fn missing(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.refused.fetch_add(1, Relaxed);
        if let Refusal::Failed(error) | Refusal::NotFetched(error) = refusal {
            self.failed(error);
        }
    }

    /// The store failed under a request.
    pub(crate) fn failed(&self, error: &FilesError) {
        self.trouble(format!("a file could not be served: {error}"));
    }

    /// Something that operators should know.
    pub(crate) fn trouble(&self, text: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), text));
    }
}

impl Served {
    pub(crate) fn tally(&self) -> Tally {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        Tally {
            connections: count(&self.connections),
            requests: count(&self.requests),
            refused: count(&self.refused),
            held_bytes: self.memory.held_bytes() as u64,
            last_error: self.recent_error(),
        }
    }

    fn recent_error(&self) -> Option<String> {
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < RECENT).map(|(_, error)| error.clone())
    }

    pub(crate) fn tables(&self) -> Vec<Table> {
        let head = self.origin.head().unwrap_or_default();
        let (tally, LocalChunks { chunks, bytes }) = (self.tally(), self.origin.chunks());
        let own = SITE.one([
            ("site", Cell::Text(self.origin.site().to_string())),
            ("revision", Cell::Count(head)),
            ("connections", Cell::Count(tally.connections)),
            ("requests", Cell::Count(tally.requests)),
            ("refused", Cell::Count(tally.refused)),
            ("skipped_rules", Cell::Count(self.rules.skipped())),
            ("chunks", Cell::Count(chunks)),
            ("chunk_bytes", Cell::Count(bytes)),
        ]);
        [own].into_iter().chain(self.origin.tables()).collect()
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.origin.troubles().into_iter().chain(self.recent_error()).collect()
    }
}
