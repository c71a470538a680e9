//! Lookups of stored responses in their home's version table, idle and with a home that all processors work for.
//!
//! The ActiveCache paper (section 4, figure 6) compares a lookup that needs the home's processor with one that does
//! not: here a hit reads the word that its home writes, and takes no lock.

use crate::floor::Shuffle;
use crate::sample::{Sample, median, thirds};
use crate::{Line, Result};
use homes::{Dependency, Home, HomeConfig, Hub, HubConfig, Proof};
use machine::Driver;
use net::{Host, Machines, Runtime, Shared};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Stored responses.
const RESPONSES: u32 = 100_000;

/// Lookups in a row that are timed together: a clock is read for each of them anyway.
const BATCH: usize = 64;

const TURNS: usize = 21;

/// The must of issue and paper: microseconds for a lookup, and how much the tail may grow under load.
const LOOK_UP_US_MAX: f64 = 0.2;
const LOADED_OVER_IDLE_MAX: f64 = 2.0;

pub(crate) fn measure() -> Result<Line> {
    let near = Near::start()?;
    let mut proofs = near.fill()?;
    Shuffle::new().order(&mut proofs);
    near.look_all(&proofs)?;
    let (mut idle, mut loaded, mut updates) = (Turns::default(), Turns::default(), 0);
    for _ in 0..TURNS {
        idle.add(&near.look_all(&proofs)?);
        let (sample, updated) = near.under_load(|| near.look_all(&proofs));
        loaded.add(&sample?);
        updates += updated;
    }
    let look_up_us = idle.median() / 1e3;
    let loaded_over_idle = loaded.tail() / idle.tail();
    let line = Line::new("look-up")
        .count("responses", RESPONSES.into())
        .figure("look_up_us", look_up_us)
        .figure("idle_ns_p99", idle.tail())
        .figure("loaded_ns_p99", loaded.tail())
        .figure("loaded_over_idle", loaded_over_idle)
        .count("updates_meanwhile", updates)
        .met(look_up_us <= LOOK_UP_US_MAX && loaded_over_idle <= LOADED_OVER_IDLE_MAX, &thirds(&idle.tails()));
    Ok(line)
}

/// A lookup's time in each turn, in nanoseconds: the median and the 99th percentile of batches.
#[derive(Default)]
struct Turns(Vec<(f64, f64)>);

impl Turns {
    fn add(&mut self, batches: &Sample) {
        let per_look_up = |quantile| batches.nanos(quantile) / BATCH as f64;
        self.0.push((per_look_up(0.5), per_look_up(0.99)));
    }

    fn median(&self) -> f64 {
        median(self.0.iter().map(|(median, _)| *median).collect())
    }

    fn tail(&self) -> f64 {
        median(self.tails())
    }

    fn tails(&self) -> Vec<f64> {
        self.0.iter().map(|(_, tail)| *tail).collect()
    }
}

/// A hub and a home in one process, as a lone proxy has them.
struct Near {
    hub: Shared<Hub>,
    home: Shared<Home>,
    hub_driver: Arc<dyn Driver>,
    driver: Arc<dyn Driver>,
    _host: Arc<Host>,
}

impl Near {
    fn start() -> Result<Self> {
        let runtime = Runtime::start()?;
        let mut machines = Machines::new();
        let (hub_role, hub) = machines.add(Hub::new(HubConfig { succeeds: None, ..HubConfig::default() }));
        let (role, home) = machines.add(Home::new(HomeConfig::new(1)));
        machines.link(role, hub_role);
        let host = Host::start(machines, &runtime);
        Ok(Self { hub, home, hub_driver: host.driver(hub_role), driver: host.driver(role), _host: host })
    }

    /// Stores responses with a dependency each.
    fn fill(&self) -> Result<Vec<Proof>> {
        let begun = Instant::now();
        let ticket = loop {
            if let Some(ticket) = lock(&self.home)?.machine().ticket(self.driver.now()) {
                break ticket;
            }
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("the home has no lease after ten seconds".into());
            }
            thread::sleep(Duration::from_millis(1));
        };
        (0..RESPONSES)
            .map(|number| {
                let dependency = Dependency::new(format!("item:{number}")).expect("it is short");
                Ok(lock(&self.home)?.machine().store(self.driver.now(), ticket, &[dependency])?)
            })
            .collect()
    }

    /// Looks each response up; gives the times of batches.
    fn look_all(&self, proofs: &[Proof]) -> Result<Sample> {
        let table = lock(&self.home)?.look().table();
        let mut batches = Sample::default();
        let mut current = 0;
        for batch in proofs.chunks_exact(BATCH) {
            let look_up = |proof| table.is_current(black_box(proof), || self.driver.now());
            current += batches.time(|| batch.iter().filter(|proof| look_up(proof)).count());
        }
        let all = proofs.len() / BATCH * BATCH;
        if current == all { Ok(batches) } else { Err(format!("{} responses are not current", all - current).into()) }
    }

    /// Does something while a thread for each processor has the home mark updates of other responses, one after the
    /// other.
    fn under_load<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let (ends, updates) = (AtomicBool::new(false), AtomicU64::new(0));
        let update = || {
            let nothing = Dependency::new("nothing").expect("it is short");
            while !ends.load(Ordering::Relaxed) {
                let Ok(mut hub) = lock(&self.hub) else { return };
                let update = hub.machine().update(self.hub_driver.now(), vec![nothing.clone()]);
                drop(hub);
                self.hub_driver.settle();
                let Ok(mut hub) = lock(&self.hub) else { return };
                hub.machine().visible(update);
                drop(hub);
                self.hub_driver.settle();
                updates.fetch_add(1, Ordering::Relaxed);
            }
        };
        let done = thread::scope(|scope| {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            (0..processors).for_each(|_| drop(scope.spawn(update)));
            thread::sleep(Duration::from_millis(5));
            let done = work();
            ends.store(true, Ordering::Relaxed);
            done
        });
        (done, updates.into_inner())
    }
}

fn lock<M>(machine: &std::sync::Mutex<M>) -> Result<std::sync::MutexGuard<'_, M>> {
    machine.lock().map_err(|_| "the machine has panicked".into())
}
