//! The means of the paper's figures: settings that run in virtual time, and rows that several figures have.

use super::costs::Costs;
use super::model::{Model, saved};
use super::module::Built;
use super::row::{Row, Target};
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::Result;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Round trips of the curves, in milliseconds.
pub(crate) const ROUND_TRIPS: [u64; 12] = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// The share of Base's time that a group with leases is to save.
pub(crate) const LEASED: Target = Target::AtLeast(90.0);

/// The most pages that one fault prefetches as the client is shipped.
pub(crate) fn shipped_prefetch() -> u32 {
    client::Config::default().prefetch_pages_max
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The means that figures are made with.
pub(crate) struct Bench<'a> {
    pub(crate) costs: Costs,
    pub(crate) built: Built,
    pub(crate) progress: &'a dyn Fn(&str),
    /// Transactions of each client: those that warm its cache for a hot run, and the measured ones.
    pub(crate) warm_up: u32,
    pub(crate) measured: u32,
}

impl Bench<'_> {
    /// Runs settings in virtual time, as many at once as the machine has processors; gives where the clients' time went
    /// for each, in order.
    pub(crate) fn simulate(&self, settings: Vec<Setting>) -> Result<Vec<Vec<Spent>>> {
        self.simulate_on(&self.built, settings)
    }

    /// The same on another module.
    pub(crate) fn simulate_on(&self, built: &Built, settings: Vec<Setting>) -> Result<Vec<Vec<Spent>>> {
        let total = settings.len();
        let (waiting, done) = (Mutex::new(settings.into_iter().enumerate()), Mutex::new(BTreeMap::new()));
        let costs = &self.costs;
        let work = || {
            loop {
                let next = waiting.lock().map_err(|_| "another thread panicked")?.next();
                let Some((at, setting)) = next else { return Ok::<_, crate::Error>(()) };
                let spent = setting.simulate(costs, built)?;
                done.lock().map_err(|_| "another thread panicked")?.insert(at, spent);
            }
        };
        (self.progress)(&format!("simulate {total} settings"));
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a simulation panicked")?)
        })?;
        let done = done.into_inner().map_err(|_| "a thread panicked")?;
        Ok(done.into_values().collect())
    }

    pub(crate) fn model(&self, round_trip: Duration) -> Model {
        Model::new(&self.costs, round_trip)
    }
}

/// The same with something that the paper's clients have not, on both sides: our own Base is better than the paper's then.
/// Clients as they are shipped prefetch, and commit without asking where they can; those with free commits do only that.
pub(crate) fn both_with(figure: u32, who: &str, what: &str, base: &Spent, buddy: &Spent) -> [Row; 3] {
    let figure = figure.to_string();
    let bar = |name: &str, spent: &Spent| {
        let bar = spent.breakdown();
        Row::new(&figure, format!("{who}, {name}, {what}"), "ms", bar.total()).breakdown(bar).reads(spent.reads())
    };
    let ours = saved(base.breakdown().total(), buddy.breakdown().total());
    let saved = Row::new(&figure, format!("{who}, saved, {what}"), "%", ours);
    [bar("Base", base), bar("Buddy", buddy), saved]
}
