//! One load on one set of caches.

use super::cluster::{Cluster, STOCK, Scheme};
use crate::Result;
use crate::machine::Watch;
use crate::shop::{Popularity, Reads};
use crate::site::{Load, LoadOptions, Tally};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of readers to all proxies together. The paper does not say how many it had.
const READERS: usize = 40;

const WRITERS: usize = 4;

/// The memory of a cache that has room for everything.
pub(super) const ROOM_FOR_ALL: usize = 256 << 20;

/// The rest of a load, once all pages were asked for, before it counts.
const SETTLE: Duration = Duration::from_millis(500);

/// All pages are asked for within this time, or are not: a back end with other work to do may take minutes for the last
/// ones.
const ALL_ASKED_WITHIN: Duration = Duration::from_secs(10);

/// A case continues until it has seen so many pages, but for no longer than this.
const PAGES_MIN: u64 = 100;
const LENGTH_MAX: Duration = Duration::from_secs(10);

/// The requests of visitors.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) reads: Reads,
    pub(super) popularity: Popularity,
    pub(super) updates_per_s: f64,
}

impl Trace {
    /// Traces 1 to 5: all pages as often, and updates. The paper does not give its rates. They were set beforehand so
    /// that at the highest, trace 5, more pages are stored than are asked for between two updates: invalidating all
    /// then comes to nearly no cache, as in the paper's figure 8.
    pub(super) fn number(number: u32) -> Self {
        let updates_per_s = [0.0, 1.0, 2.0, 5.0, 10.0][number.clamp(1, 5) as usize - 1];
        Self { reads: Reads::default(), popularity: Popularity::Uniform, updates_per_s }
    }

    /// Trace 6: Zipf, with a medium rate of updates.
    pub(super) fn zipf() -> Self {
        Self { popularity: Popularity::zipf(1.0, STOCK.items), ..Self::number(4) }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    /// The share of the machine's processors that others took in the meantime, in percent.
    pub(super) others: Option<f64>,
}

impl Outcome {
    pub(super) fn pages_per_s(&self) -> f64 {
        self.tally.pages as f64 / self.took.as_secs_f64()
    }

    /// Why it is no measurement: too many requests have failed, or nothing was answered.
    pub(super) fn failure(&self) -> Option<String> {
        let Tally { pages, failed, last_failure, .. } = &self.tally;
        if *pages == 0 && *failed == 0 {
            return Some(format!("nothing was answered for {} s", self.took.as_secs()));
        }
        let why = last_failure.as_deref().unwrap_or_default();
        (*failed > pages / 100).then(|| format!("{failed} of {} requests have failed, the last: {why}", failed + pages))
    }

    /// Pages that no cache had, of a thousand.
    pub(super) fn misses_per_mille(&self) -> f64 {
        1000.0 * (self.tally.pages - self.tally.hits) as f64 / (self.tally.pages as f64).max(1.0)
    }

    /// The median of a response's time.
    pub(super) fn response_ms(&self) -> f64 {
        self.tally.took.millis(0.5)
    }
}

impl Cluster {
    /// Loads a scheme's caches with a trace, in their steady state, for this long.
    pub(super) fn run(&self, scheme: Scheme, trace: &Trace, cache_bytes: usize, length: Duration) -> Result<Outcome> {
        let doors = self.doors(scheme, cache_bytes)?;
        let options = LoadOptions {
            caches: doors.caches,
            readers: READERS,
            pause: Duration::ZERO,
            forms: doors.shops,
            writers: if trace.updates_per_s > 0.0 { WRITERS } else { 0 },
            updates_per_s: trace.updates_per_s,
            stock: STOCK,
            reads: trace.reads,
            popularity: trace.popularity.clone(),
            checked: false,
            all_first: scheme != Scheme::NoCache,
            seed: 1,
        };
        let load = self.cores.run_with_clients(|| Load::start(options, 1))?;
        load.wait_all_asked(ALL_ASKED_WITHIN);
        thread::sleep(SETTLE);
        load.take();
        let (begun, watch, mut tally) = (Instant::now(), Watch::begin(), Tally::default());
        loop {
            thread::sleep(length);
            tally.add(load.take());
            if tally.pages >= PAGES_MIN || begun.elapsed() >= LENGTH_MAX {
                break;
            }
        }
        let (took, others) = (begun.elapsed(), watch.others_percent());
        load.abandon()?;
        Ok(Outcome { tally, took, others })
    }
}
