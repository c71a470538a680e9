//! The settings and the state that the threads of a proxy share.
//!
//! New settings take effect all at once, as a new snapshot: a request goes by one snapshot from beginning to end. All
//! snapshots share one state.

use crate::config::{BrowserCache, Config};
use crate::fill::fills::Fills;
use crate::operate::access_log::AccessLog;
use crate::operate::counters::Counters;
use crate::operate::decisions::{Decision, Decisions};
use crate::operate::notes::Notes;
use crate::origin::connector::OriginTls;
use crate::origin::origin_permits::OriginPermits;
use crate::request::forward::clean_trailers;
use crate::request::upload_room::Usage;
use crate::settings::Settings;
use crate::stored::coherence::Coherence;
use crate::stored::entries::Entries;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use responses::{CacheStatus, ForwardReason, Time, for_browsers};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The settings of a proxy, and its state.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number of these settings.
    pub(crate) snapshot: u64,
    pub(crate) config: Config,
    pub(crate) counters: Arc<Counters>,
    pub(crate) coherence: Arc<Coherence>,
    pub(crate) entries: Arc<Entries>,
    pub(crate) fills: Arc<Fills>,
    pub(crate) decisions: Arc<Decisions>,
    /// The bytes of bodies that are being stored.
    pub(crate) collected_bytes: Arc<AtomicUsize>,
    /// The room that bodies of requests take.
    pub(crate) uploads: Arc<Usage>,
    /// Those for requests at the origin.
    pub(crate) origin_permits: Arc<OriginPermits>,
    /// TLS towards the origin, if its URL says so.
    pub(crate) origin_tls: Option<OriginTls>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// How often what is stored has lapsed for new settings, by now and when these came.
    lapses: Arc<AtomicU64>,
    lapses_before: u64,
    /// `Via` of an answer from here.
    pub(crate) via: HeaderValue,
}

impl Shared {
    /// The first snapshot.
    pub(crate) fn new(settings: Settings, coherence: Coherence, entries: Entries) -> io::Result<Self> {
        let Settings { config, via, origin_tls } = settings;
        let notes = Arc::new(Notes::to(config.notes.clone()));
        let access_log = config.access_log.as_ref().map(|log| AccessLog::open(log, notes.clone())).transpose()?;
        Ok(Self {
            snapshot: 0,
            counters: Arc::default(),
            coherence: Arc::new(coherence),
            entries: Arc::new(entries),
            fills: Arc::new(Fills::new()),
            decisions: Arc::new(Decisions::new()),
            collected_bytes: Arc::default(),
            uploads: Arc::default(),
            origin_permits: Arc::new(OriginPermits::new(&config.limits)),
            notes,
            access_log,
            lapses: Arc::default(),
            lapses_before: 0,
            config,
            via,
            origin_tls,
        })
    }

    /// The next snapshot: other settings, the same state.
    fn next(&self, settings: Settings) -> Self {
        let Settings { config, via, origin_tls } = settings;
        Self {
            snapshot: self.snapshot + 1,
            counters: self.counters.clone(),
            coherence: self.coherence.clone(),
            entries: self.entries.clone(),
            fills: self.fills.clone(),
            decisions: self.decisions.clone(),
            collected_bytes: self.collected_bytes.clone(),
            uploads: self.uploads.clone(),
            origin_permits: self.origin_permits.clone(),
            notes: self.notes.clone(),
            access_log: self.access_log.clone(),
            lapses: self.lapses.clone(),
            lapses_before: self.lapses(),
            config,
            via,
            origin_tls,
        }
    }

    /// The trailers of a request as they are passed on.
    pub(crate) fn clean_trailers(&self, trailers: HeaderMap) -> HeaderMap {
        let dropped = |name: &HeaderName| self.counters.dropped_fields.count(name, &self.notes);
        clean_trailers(trailers, self.config.keep_underscores, dropped)
    }

    /// Remembers a decision on a key, for those who ask why.
    pub(crate) fn decided(&self, hash: u64, status: CacheStatus, response: Option<StatusCode>) {
        if let (Some(reason), Some(_), false) = (status.detail, response, status.stored || is_passed(&status)) {
            self.counters.not_stored(reason);
        }
        self.decisions.record(hash, Decision { at: now(), status, response });
    }

    /// A response of which its client was told that it is stored is not, for a reason that came later.
    pub(crate) fn corrected(&self, hash: u64, reason: &'static str) {
        self.counters.not_stored(reason);
        self.decisions.correct(hash, reason);
    }

    /// The fields of an answer as clients get them: by the settings they may not use it without asking.
    pub(crate) fn for_clients(&self, fields: &mut HeaderMap) {
        if self.config.browser_cache == BrowserCache::NoCache {
            for_browsers(&self.config.policy, fields);
        }
    }

    /// How often what is stored has lapsed for new settings.
    pub(crate) fn lapses(&self) -> u64 {
        self.lapses.load(SeqCst)
    }

    /// The same when these settings came.
    pub(crate) fn lapses_before(&self) -> u64 {
        self.lapses_before
    }

    /// Whether a response that was asked for under these settings must no longer be stored. To be asked when it has its
    /// claim: if it is stored after this has said no, the claim lapses with those of all others.
    pub(crate) fn is_over(&self) -> bool {
        self.lapses() != self.lapses_before
    }
}

/// The current snapshot of a proxy's settings.
#[derive(Debug)]
pub(crate) struct Snapshots {
    now: RwLock<Arc<Shared>>,
    number: AtomicU64,
}

impl Snapshots {
    pub(crate) fn new(first: Shared) -> Self {
        Self { now: RwLock::new(Arc::new(first)), number: AtomicU64::new(0) }
    }

    /// The number of the current snapshot, which every request checks.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Acquire)
    }

    pub(crate) fn now(&self) -> Arc<Shared> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests that come after this go by these settings. Where they may store something else, everything that is
    /// stored is validated before it is used again; where it is from elsewhere, it is removed: what validates it there
    /// says nothing here.
    pub(crate) fn advance(&self, settings: Settings) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let is_elsewhere = settings.config.origin != now.config.origin;
        let is_asked_alike = settings.config.keep_underscores == now.config.keep_underscores;
        if is_elsewhere || !is_asked_alike || settings.config.policy != now.config.policy {
            // First: responses that were asked for under earlier snapshots are no longer stored.
            now.lapses.fetch_add(1, SeqCst);
            now.coherence.lapse_all();
        }
        if is_elsewhere {
            now.entries.remove_all(&settings.config.origin.to_string());
        }
        *now = Arc::new(now.next(settings));
        self.number.store(now.snapshot, Release);
    }
}

/// Whether a request was not one for the cache.
fn is_passed(status: &CacheStatus) -> bool {
    matches!(status.forward, Some(ForwardReason::Bypass | ForwardReason::Method))
}

/// The time by the clock that dates in fields are of.
pub(crate) fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_s(since_epoch.as_secs())
}
