//! Counts of everything that the helper has done since its start.

use crate::helper::{Declined, Look};
use crate::refusal::Refusal;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts, as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    current: AtomicU64,
    fill: AtomicU64,
    away: AtomicU64,
    stored: AtomicU64,
    changes: AtomicU64,
    declined: [AtomicU64; Declined::ALL.len()],
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// The counts at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Looks that found a version under which all holds.
    pub current: u64,
    /// Looks that found none.
    pub fill: u64,
    /// Looks without a home, or without its lease.
    pub away: u64,
    /// Responses that were stored.
    pub stored: u64,
    /// Changes that all caches have learned of.
    pub changes: u64,
    /// Responses that must not be kept, by the names of the reasons.
    pub declined: Vec<(&'static str, u64)>,
    /// Requests that were refused, by the names of the reasons.
    pub refused: Vec<(&'static str, u64)>,
}

impl Counters {
    pub(crate) fn look(&self, look: &Look) {
        let count = match look {
            Look::Current(_) => &self.current,
            Look::Fill(_) => &self.fill,
            Look::Away => &self.away,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn stored(&self) {
        self.stored.fetch_add(1, Relaxed);
    }

    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    pub(crate) fn declined(&self, why: Declined) {
        if let Some(at) = Declined::ALL.iter().position(|other| *other == why) {
            self.declined[at].fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn refused(&self, why: Refusal) {
        if let Some(at) = Refusal::ALL.iter().position(|other| *other == why) {
            self.refused[at].fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Tally {
        let load = |count: &AtomicU64| count.load(Relaxed);
        let met = |(_, count): &(&str, u64)| *count > 0;
        Tally {
            current: load(&self.current),
            fill: load(&self.fill),
            away: load(&self.away),
            stored: load(&self.stored),
            changes: load(&self.changes),
            declined: Declined::ALL
                .iter()
                .zip(&self.declined)
                .map(|(why, it)| (why.name(), load(it)))
                .filter(met)
                .collect(),
            refused: Refusal::ALL
                .iter()
                .zip(&self.refused)
                .map(|(why, it)| (why.name(), load(it)))
                .filter(met)
                .collect(),
        }
    }
}
