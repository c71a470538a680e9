//! One load on one set of caches.

use super::cluster::{Cluster, STOCK, Scheme};
use crate::Result;
use crate::site::{Load, LoadOptions, Tally};
use shop::{Popularity, Reads};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of readers to all proxies together. The paper does not say how many it had.
const READERS: usize = 40;

const WRITERS: usize = 4;

/// The memory of a cache that has room for everything.
pub(super) const ROOM_FOR_ALL: usize = 256 << 20;

/// The rest of a load, once all pages were asked for, before it counts.
const SETTLE: Duration = Duration::from_millis(500);

/// The requests of visitors.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) reads: Reads,
    pub(super) popularity: Popularity,
    pub(super) updates_per_s: f64,
}

impl Trace {
    /// Traces 1 to 5: all pages as often, and updates. The paper does not give its rates. They were set beforehand so that at
    /// the highest, trace 5, more pages are stored than are asked for between two updates: invalidating all then comes to
    /// nearly no cache, as in the paper's figure 8.
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
}

impl Outcome {
    pub(super) fn pages_per_s(&self) -> f64 {
        self.tally.pages as f64 / self.took.as_secs_f64()
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
    /// Loads a scheme's caches with a trace, in their steady state, for so long.
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
        load.wait_all_asked();
        thread::sleep(SETTLE);
        load.take();
        let begun = Instant::now();
        thread::sleep(length);
        let (tally, took) = (load.take(), begun.elapsed());
        load.end()?;
        if tally.failed > tally.pages / 100 {
            return Err(format!("{} of {} requests have failed", tally.failed, tally.pages).into());
        }
        Ok(Outcome { tally, took })
    }
}
