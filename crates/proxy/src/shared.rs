//! The state that the threads of a proxy share.

use crate::coherence::Coherence;
use crate::config::Config;
use crate::connector::OriginTls;
use crate::counters::Counters;
use crate::entries::Entries;
use crate::fills::Fills;
use crate::notes::Notes;
use http::HeaderValue;
use responses::Time;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// The state of a proxy.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) coherence: Coherence,
    pub(crate) entries: Entries,
    pub(crate) fills: Arc<Fills>,
    /// The bytes of bodies that are being stored.
    pub(crate) collected_bytes: AtomicUsize,
    /// Those for requests at the origin.
    pub(crate) origin_permits: Arc<Semaphore>,
    /// TLS towards the origin, if its URL says so.
    pub(crate) origin_tls: Option<OriginTls>,
    pub(crate) notes: Notes,
    /// `Via` of an answer from here.
    pub(crate) via: HeaderValue,
}

impl Shared {
    /// The name in the configuration must be a token.
    pub(crate) fn new(config: Config, via: HeaderValue, origin_tls: Option<OriginTls>, coherence: Coherence) -> Self {
        Self {
            counters: Counters::default(),
            coherence,
            entries: Entries::new(config.limits.stored_bytes),
            fills: Arc::new(Fills::new()),
            collected_bytes: AtomicUsize::new(0),
            origin_permits: Arc::new(Semaphore::new(config.limits.origin_requests)),
            notes: Notes::to(config.notes.clone()),
            origin_tls,
            config,
            via,
        }
    }
}

/// The time by the clock that dates in fields are of.
pub(crate) fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_s(since_epoch.as_secs())
}
