//! A home in a process of its own, and whether it is used.

use crate::config::Config;
use coherence::{AttachedHome, Cache, HomeAddress, SiteError, Ticket};
use net::Runtime;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long it takes until a home is probed again that was refused.
const PROBE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Stands for no life of a home.
pub(crate) const NOBODY: u64 = 0;

/// Whether a home is used.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// The life of the home that is.
    life: AtomicU64,
    refused: Mutex<Option<Refused>>,
}

#[derive(Debug)]
struct Refused {
    why: String,
    life: u64,
    at: Instant,
}

impl Admission {
    /// Whether the home that gave a ticket is used.
    pub(crate) fn admits(&self, ticket: &Ticket) -> bool {
        self.is_life(ticket.life)
    }

    /// Why the home is not used, if it was refused.
    pub(crate) fn refused(&self) -> Option<String> {
        self.lock().as_ref().map(|refused| refused.why.clone())
    }

    pub(crate) fn is_life(&self, life: u64) -> bool {
        self.life.load(Acquire) == life
    }

    pub(crate) fn set(&self, life: u64) {
        self.life.store(life, Release);
        *self.lock() = None;
    }

    pub(crate) fn was_refused_lately(&self, life: u64) -> bool {
        self.lock().as_ref().is_some_and(|refused| refused.life == life && refused.at.elapsed() < PROBE_AGAIN_AFTER)
    }

    /// Refuses a life; returns whether that is news.
    pub(crate) fn refuse(&self, life: u64, why: String) -> bool {
        let before = self.lock().replace(Refused { why, life, at: Instant::now() });
        before.is_none_or(|before| before.life != life)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A home in a process of its own, which has some of the responses: each has one home, by its key.
#[derive(Debug)]
pub(crate) struct SharedHome {
    pub(crate) address: HomeAddress,
    /// The number by which keys are shared out.
    pub(crate) number: u64,
    pub(crate) home: AttachedHome,
    pub(crate) cache: Cache,
    /// Whether it is used. A single home always is.
    pub(crate) admission: Admission,
}

impl SharedHome {
    /// The home at an address, which need not be there yet.
    pub(crate) fn attach(address: &HomeAddress, config: &Config, runtime: &Runtime) -> Result<Self, SiteError> {
        let home = match &config.fabric {
            Some(provider) => AttachedHome::attach_by_fabric(address, provider, runtime)?,
            None => AttachedHome::attach(address, runtime)?,
        };
        let number = fnv1a(address.to_string().as_bytes());
        Ok(Self { address: address.clone(), number, cache: home.cache(), home, admission: Admission::default() })
    }

    /// Why it is not reached, or not used.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.home.trouble().map(|why| why.to_string()).or_else(|| self.admission.refused())
    }
}

/// FNV-1a.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
