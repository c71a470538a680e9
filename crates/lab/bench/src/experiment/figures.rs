//! The means of the paper's figures: settings that run in virtual time, and rows that several figures have.

use super::cold;
use super::costs::{Baseline, Costs};
use super::hot;
use super::model::{Model, saved};
use super::module::Built;
use super::row::{Row, Target};
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::Result;
use crate::machine::{DIFFERS_PERCENT_MAX, differs_percent};
use crate::pace::Pace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
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

/// The fewest transactions that are measured of each client, however little time there is.
const MEASURED_MIN: f64 = 100.0;

/// The means that figures are made with.
pub(crate) struct Bench<'a> {
    pub(crate) costs: Costs,
    /// The measurements behind `costs`.
    pub(crate) baseline: Baseline,
    pub(crate) built: Built,
    pub(crate) pace: &'a Pace<'a>,
    /// The share of the paper's transactions that there is time for.
    share: Cell<f64>,
    /// The runs on the module so far: figures have points in common.
    known: RefCell<Vec<(Setting, Vec<Spent>)>>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(baseline: Baseline, built: Built, pace: &'a Pace<'a>) -> Self {
        Self { costs: baseline.costs, baseline, built, pace, share: Cell::new(1.0), known: RefCell::default() }
    }

    /// Has figures be of so large a share of the paper's transactions.
    pub(crate) fn set_share(&self, share: f64) {
        self.share.set(share.clamp(MEASURED_MIN / f64::from(cold::TRANSACTIONS), 1.0));
    }

    /// Transactions of each client that are measured.
    pub(crate) fn measured(&self) -> u32 {
        (f64::from(cold::TRANSACTIONS) * self.share.get()).round() as u32
    }

    /// Those that warm its cache for a hot run.
    pub(crate) fn warm_up(&self) -> u32 {
        (f64::from(hot::WARM_UP) * self.share.get()).round() as u32
    }

    /// Runs settings in virtual time, as many at once as the machine has processors; gives where the clients' time went
    /// for each, in order. Those that have run before are known.
    pub(crate) fn simulate(&self, settings: &[Setting]) -> Result<Vec<Vec<Spent>>> {
        let known = |setting: &Setting| {
            let known = self.known.borrow();
            known.iter().find(|(known, _)| known == setting).map(|(_, spent)| spent.clone())
        };
        let new: Vec<Setting> = settings.iter().filter(|setting| known(setting).is_none()).cloned().collect();
        let spent = self.simulate_on(&self.built, new.clone())?;
        self.known.borrow_mut().extend(new.into_iter().zip(spent));
        Ok(settings.iter().filter_map(known).collect())
    }

    /// The same on another module, of which nothing is kept.
    pub(crate) fn simulate_on(&self, built: &Built, settings: Vec<Setting>) -> Result<Vec<Vec<Spent>>> {
        let (total, costs) = (settings.len(), &self.costs);
        let waiting = Mutex::new(settings.into_iter().enumerate());
        let (out, done) = channel();
        let work = &|out: Sender<_>| {
            loop {
                let next = waiting.lock().map_err(|_| "another thread panicked")?.next();
                let Some((at, setting)) = next else { return Ok::<_, crate::Error>(()) };
                let spent = setting.simulate(costs, built)?;
                // Nobody listens any more if all should end.
                if out.send((at, setting.seconds(), spent)).is_err() {
                    return Ok(());
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let mut found = BTreeMap::new();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let out = out.clone();
                    scope.spawn(move || work(out))
                })
                .collect();
            drop(out);
            let mut hear = |done: Receiver<(usize, f64, Vec<Spent>)>| {
                self.pace.say(format!("simulate {total} settings"))?;
                for (at, seconds, spent) in done {
                    found.insert(at, spent);
                    self.pace.worked(seconds / threads as f64);
                    self.pace.say(format!("simulate {total} settings, {} done", found.len()))?;
                }
                Ok::<_, crate::Error>(())
            };
            let heard = hear(done);
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a simulation panicked")?)?;
            heard
        })?;
        Ok(found.into_values().collect())
    }

    /// Returns how much the time of some clients in virtual time differs between the thirds of the costs, in percent.
    /// Near the store the costs are all of that time. Far from it the distance is, which is always the same. If the
    /// costs themselves are steady, no point differs by more than they do.
    pub(crate) fn differs_percent(&self, setting: &Setting, of: impl Fn(&[Spent]) -> Spent) -> Result<f64> {
        let most = self.baseline.differs_percent;
        if most <= DIFFERS_PERCENT_MAX {
            return Ok(most);
        }
        let total = |costs| Ok::<_, crate::Error>(of(&setting.simulate(costs, &self.built)?).breakdown().total());
        let totals: Vec<f64> = self.baseline.thirds.iter().map(total).collect::<Result<_>>()?;
        Ok(differs_percent(&totals).unwrap_or(most))
    }

    pub(crate) fn model(&self, round_trip: Duration) -> Model {
        Model::new(&self.costs, round_trip)
    }
}

/// The same with something that the paper's clients have not, on both sides: our own Base is better than the paper's
/// then. Clients as they are shipped prefetch, and commit without asking where they can; those with free commits do
/// only that.
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
