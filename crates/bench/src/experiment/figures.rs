//! The figures of the paper in virtual time: whole curves, and bars with where the time goes.

use super::cold;
use super::costs::Costs;
use super::hot::{self, Groups};
use super::model::{Model, saved};
use super::real::Store;
use super::row::{Row, Target};
use super::virtual_time::{Built, Setting};
use super::worker::Spent;
use crate::Result;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Round trips of the curves, in milliseconds.
const ROUND_TRIPS: [u64; 12] = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// Of the points that also run on sockets: transactions of each client; for hot ones, with caches that so many have
/// warmed, of a part of the module that they can have visited by then.
const SAMPLE_TRANSACTIONS: u32 = 100;
const SAMPLE_PARTS: usize = 50;

/// The same with leases: a transaction takes less than a hundredth of the time, so that this many are measured for about
/// as long as Base's. Of fewer, what the caches have yet to fetch would be most of the time.
///
/// Such readers never wait. In virtual time each computes on a processor of its own: where they are more than the machine
/// has, they take longer on sockets by what they take from each other.
const LEASED_TRANSACTIONS: u32 = 40_000;

/// How far a point on sockets may be from the same point in virtual time.
const AGREEMENT: Target = Target::Within { of: 1.0, by: 0.15 };

/// What a group with leases is to save of Base's time.
const LEASED: Target = Target::AtLeast(90.0);

/// What groups of [`cold::CLIENTS`] are to save of Base's time with cold caches, whatever their commits cost.
const COLD: [Target; 3] = [Target::AtLeast(45.0), Target::AtLeast(58.0), Target::AtLeast(68.0)];

/// The most pages that one fault prefetches as the client is shipped.
fn shipped_prefetch() -> u32 {
    client::Config::default().prefetch_pages_max
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What figures are made with.
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
    fn simulate(&self, settings: Vec<Setting>) -> Result<Vec<Vec<Spent>>> {
        self.simulate_on(&self.built, settings)
    }

    fn simulate_on(&self, built: &Built, settings: Vec<Setting>) -> Result<Vec<Vec<Spent>>> {
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

    /// Points of figure 7 on sockets, and the same in virtual time.
    pub(crate) fn cold_sample(&self, store: &Store) -> Result<Vec<Row>> {
        let setting = |is_group| cold::setting(3, is_group, ms(40), SAMPLE_TRANSACTIONS);
        let mut rows = Vec::new();
        for (case, is_group) in [("3 clients, Base", false), ("3 clients, Buddy", true)] {
            (self.progress)(&format!("{case}, on sockets"));
            let real = cold::all(&store.run(&setting(is_group))?);
            let simulated = cold::all(&self.simulate(vec![setting(is_group)])?[0]);
            rows.extend(agreement("7", case, SAMPLE_TRANSACTIONS, &real, &simulated));
        }
        Ok(rows)
    }

    /// Points of figure 10 on sockets, and the same in virtual time.
    pub(crate) fn hot_sample(&self, store: &Store, leased: &Store) -> Result<Vec<Row>> {
        let setting = |groups, measured| {
            let setting = hot::setting(groups, ms(40), SAMPLE_TRANSACTIONS, measured);
            Setting { parts_max: SAMPLE_PARTS, ..setting }
        };
        let (mut rows, mut base_ms) = (Vec::new(), 0.0);
        let cases = [("Base", Groups::Base), ("readers' group", Groups::Reader), ("writer's group", Groups::Writer)];
        for (case, groups) in cases {
            (self.progress)(&format!("{case}, on sockets"));
            let setting = setting(groups, SAMPLE_TRANSACTIONS);
            let real = groups.readers(&store.run(&setting)?);
            let simulated = groups.readers(&self.simulate(vec![setting])?[0]);
            if groups == Groups::Base {
                base_ms = real.breakdown().total();
            }
            rows.extend(agreement("10", case, SAMPLE_TRANSACTIONS, &real, &simulated));
        }
        let cases = [("readers' group, leased", Groups::Reader), ("writer's group, leased", Groups::Writer)];
        for (case, groups) in cases {
            (self.progress)(&format!("{case}, on sockets"));
            let setting = setting(groups, LEASED_TRANSACTIONS).with_leases();
            let real = groups.readers(&leased.run(&setting)?);
            let ours = saved(base_ms, real.breakdown().total());
            let lone = hot::with_one_reader(setting);
            let (alone, simulated) = (leased.run(&lone)?[1], self.simulate(vec![lone])?[0][1]);
            rows.extend(agreement("10", &format!("{case}, one"), LEASED_TRANSACTIONS, &alone, &simulated));
            let case = format!("{case}, {LEASED_TRANSACTIONS} transactions, sockets, saved");
            rows.push(Row::new("10", case, "%", ours).target(LEASED));
        }
        Ok(rows)
    }

    fn model(&self, round_trip: Duration) -> Model {
        Model::new(&self.costs, round_trip)
    }

    /// Figures 7 and 8: where the time of a cold transaction goes.
    pub(crate) fn cold_bars(&self, figure: u32, round_trip_ms: u64) -> Result<Vec<Row>> {
        let round_trip = ms(round_trip_ms);
        let mut settings = Vec::new();
        for prefetch_pages_max in [0, shipped_prefetch()] {
            for clients in cold::CLIENTS {
                for is_group in [false, true] {
                    let setting = cold::setting(clients, is_group, round_trip, self.measured);
                    // The paper's protocol on demand; as shipped our own.
                    let commits_fresh = prefetch_pages_max > 0;
                    settings.push(Setting { prefetch_pages_max, commits_fresh, ..setting });
                }
            }
        }
        let leased = |clients| cold::setting(clients, true, round_trip, self.measured).with_leases();
        let fresh = |(clients, is_group)| {
            let setting = cold::setting(clients, is_group, round_trip, self.measured);
            Setting { commits_fresh: true, ..setting }
        };
        let bare = settings.len();
        if figure == 7 {
            settings.extend(cold::CLIENTS.map(leased));
            settings
                .extend(cold::CLIENTS.into_iter().flat_map(|clients| [(clients, false), (clients, true)]).map(fresh));
        }
        let spent = self.simulate(settings)?;
        let (spent, more) = spent.split_at(bare);
        let (leased, fresh) = more.split_at(more.len().min(cold::CLIENTS.len()));
        let pairs: Vec<_> = spent.chunks(2).map(|pair| (cold::all(&pair[0]), cold::all(&pair[1]))).collect();
        let (on_demand, shipped) = pairs.split_at(cold::CLIENTS.len());
        let mut rows = vec![module_row(figure, "the module as it is stored here", &self.built)];
        for (clients, (base, buddy)) in cold::CLIENTS.into_iter().zip(on_demand) {
            rows.extend(self.cold_rows(figure, round_trip_ms, clients, base, buddy));
        }
        for (((clients, target), (base, _)), leased) in cold::CLIENTS.into_iter().zip(COLD).zip(on_demand).zip(leased) {
            rows.extend(cold_leased(figure, clients, target, base, &cold::all(leased)));
        }
        for (clients, pair) in cold::CLIENTS.into_iter().zip(fresh.chunks(2)) {
            let (base, buddy) = (cold::all(&pair[0]), cold::all(&pair[1]));
            rows.extend(both_with(figure, &format!("{clients} clients"), "free commits", &base, &buddy));
        }
        for (clients, (base, buddy)) in cold::CLIENTS.into_iter().zip(shipped) {
            rows.extend(both_with(figure, &format!("{clients} clients"), "as shipped", base, buddy));
        }
        Ok(rows)
    }

    /// What is saved of cold transactions on a module that is as large as the paper's: ours is stored more densely, so
    /// that a part is fewer pages, and a transaction's commit weighs more.
    pub(crate) fn cold_at_paper_size(&self, figure: u32, round_trip_ms: u64, built: &Built) -> Result<Vec<Row>> {
        let pair = |clients| [false, true].map(|group| cold::setting(clients, group, ms(round_trip_ms), self.measured));
        let spent = self.simulate_on(built, cold::CLIENTS.into_iter().flat_map(pair).collect())?;
        let mut rows = vec![module_row(figure, "the module with larger objects", built)];
        for (clients, pair) in cold::CLIENTS.into_iter().zip(spent.chunks(2)) {
            let (base, buddy) = (cold::all(&pair[0]), cold::all(&pair[1]));
            rows.extend(self.cold_rows(figure, round_trip_ms, clients, &base, &buddy).map(|row| row.noted("38 MB")));
        }
        Ok(rows)
    }

    fn cold_rows(&self, figure: u32, round_trip_ms: u64, clients: usize, base: &Spent, buddy: &Spent) -> [Row; 4] {
        let (model, pages) = (self.model(ms(round_trip_ms)), base.pages_each());
        let (model_base, model_buddy) = (model.cold_base(pages), model.cold_buddy(pages, clients));
        let figure = figure.to_string();
        let bar = |name: &str, spent: &Spent, model: f64| {
            let bar = spent.breakdown();
            let case = format!("{clients} clients, {name}");
            Row::new(&figure, case, "ms", bar.total()).model(model).breakdown(bar)
        };
        let at = cold::CLIENTS.iter().position(|&size| size == clients).unwrap_or_default();
        let is_stated = round_trip_ms == 40;
        let (base_total, total) = (base.breakdown().total(), buddy.breakdown().total());
        // What the way to the store leaves: the first fetch of each page, and every commit.
        let with_free_help = saved(base_total, total - buddy.breakdown().peer_fetch);
        let ours = saved(base_total, total);
        [
            bar("Base", base, model_base),
            bar("Buddy", buddy, model_buddy),
            Row::new(&figure, format!("{clients} clients, saved"), "%", ours)
                .paper(is_stated.then_some([39.0, 46.0, 56.0][at]))
                .model(saved(model_base, model_buddy))
                .target(is_stated.then_some(COLD[at])),
            Row::new(&figure, format!("{clients} clients, saved if help took no time"), "%", with_free_help),
        ]
    }

    /// Figure 9: what is saved of cold transactions, over the round trip.
    pub(crate) fn cold_curves(&self) -> Result<Vec<Row>> {
        let points = cold::CLIENTS.into_iter().flat_map(|clients| ROUND_TRIPS.map(|trip| (clients, trip)));
        let points: Vec<_> = points.collect();
        let pair = |&(clients, trip): &(usize, u64)| {
            [false, true].map(|is_group| cold::setting(clients, is_group, ms(trip), self.measured))
        };
        let spent = self.simulate(points.iter().flat_map(pair).collect())?;
        let rows = points.iter().zip(spent.chunks(2)).map(|(&(clients, trip), pair)| {
            let (base, buddy) = (cold::all(&pair[0]), cold::all(&pair[1]));
            let (model, pages) = (self.model(ms(trip)), base.pages_each());
            let ours = saved(base.breakdown().total(), buddy.breakdown().total());
            let paper = match (clients, trip) {
                (3, 40) => Some(39.0),
                (5, 40) => Some(46.0),
                (10, 40) => Some(56.0),
                (10, 60) => Some(62.0),
                _ => None,
            };
            let curve = format!("{clients} clients");
            Row::new("9", format!("{curve}, {trip} ms"), "%", ours)
                .curve_at(&curve, trip)
                .paper(paper)
                .model(saved(model.cold_base(pages), model.cold_buddy(pages, clients)))
        });
        Ok(rows.collect())
    }

    fn hot_setting(&self, groups: Groups, trip: u64) -> Setting {
        hot::setting(groups, ms(trip), self.warm_up, self.measured)
    }

    /// Figures 10 and 11: where the time of a hot transaction of a reader goes.
    pub(crate) fn hot_bars(&self, figure: u32, round_trip_ms: u64) -> Result<Vec<Row>> {
        let systems = [Groups::Base, Groups::Reader, Groups::Writer];
        let on_demand = systems.map(|groups| self.hot_setting(groups, round_trip_ms));
        let shipped = |own| Setting { prefetch_pages_max: shipped_prefetch(), commits_fresh: true, ..own };
        let shipped = on_demand.clone().map(shipped);
        let leased = on_demand[1..].iter().map(|own| own.clone().with_leases());
        let spent = self.simulate(on_demand.iter().chain(&shipped).cloned().chain(leased).collect())?;
        let (hot, is_stated) = (Hot::new(&spent[..3]), round_trip_ms == 40);
        let mut rows = hot.rows(figure, &self.model(ms(round_trip_ms)), is_stated);
        let leased = Hot { base: hot.base, ..Hot::new(&[&spent[..1], &spent[6..]].concat()) };
        rows.extend(leased.leased_rows(figure, is_stated));
        let shipped = Hot::new(&spent[3..6]);
        for (group, spent) in [("readers' group", &shipped.reader), ("writer's group", &shipped.writer)] {
            rows.extend(both_with(figure, group, "as shipped", &shipped.base, spent));
        }
        Ok(rows)
    }

    /// Figure 12: what is saved of hot transactions, over the round trip.
    pub(crate) fn hot_curves(&self) -> Result<Vec<Row>> {
        let trio = |trip| [Groups::Base, Groups::Reader, Groups::Writer].map(|groups| self.hot_setting(groups, trip));
        let spent = self.simulate(ROUND_TRIPS.into_iter().flat_map(trio).collect())?;
        let (mut readers, mut writers) = (Vec::new(), Vec::new());
        for (trip, trio) in ROUND_TRIPS.into_iter().zip(spent.chunks(3)) {
            let (hot, model) = (Hot::new(trio), self.model(ms(trip)));
            let paper = |figure: f64| (trip == 40).then_some(figure);
            let [reader, writer] = hot.saved();
            let [model_reader, model_writer] = hot.model_saved(&model);
            let row = |group: &str, ours| {
                let curve = format!("{group} group");
                Row::new("12", format!("{curve}, {trip} ms"), "%", ours).curve_at(&curve, trip)
            };
            readers.push(row("readers'", reader).paper(paper(30.0)).model(model_reader));
            writers.push(row("writer's", writer).paper(paper(62.0)).model(model_writer));
        }
        readers.extend(writers);
        Ok(readers)
    }
}

/// How large a module is: what a part is made of decides how many pages a transaction fetches.
fn module_row(figure: u32, case: &str, built: &Built) -> Row {
    Row::new(&figure.to_string(), case, "MB", built.stored.bytes() as f64 / 1e6).paper(38.0)
}

/// The readers of the three systems.
struct Hot {
    base: Spent,
    reader: Spent,
    writer: Spent,
}

impl Hot {
    fn new(spent: &[Vec<Spent>]) -> Self {
        Self {
            base: Groups::Base.readers(&spent[0]),
            reader: Groups::Reader.readers(&spent[1]),
            writer: Groups::Writer.readers(&spent[2]),
        }
    }

    /// What the readers' and the writer's group save.
    fn saved(&self) -> [f64; 2] {
        let base = self.base.breakdown().total();
        [&self.reader, &self.writer].map(|spent| saved(base, spent.breakdown().total()))
    }

    /// Milliseconds of a transaction as the model has them: Base, the readers' and the writer's group.
    fn model(&self, model: &Model) -> [f64; 3] {
        // Faster readers meet fewer changes between two visits of a part: each system misses what it misses.
        let (in_base, in_group) = (self.base.pages_each(), self.reader.pages_each());
        let from_store = self.reader.pages - self.reader.pages_from_peers;
        let fetches = self.reader.pages as f64 / from_store.max(1) as f64;
        [model.hot_base(in_base), model.hot_readers(in_group, fetches), model.hot_writers()]
    }

    fn model_saved(&self, model: &Model) -> [f64; 2] {
        let [base, readers, writers] = self.model(model);
        [saved(base, readers), saved(base, writers)]
    }

    fn rows(&self, figure: u32, model: &Model, is_stated: bool) -> Vec<Row> {
        let figure = figure.to_string();
        let modelled = self.model(model);
        let bars = [("Base", &self.base), ("readers' group", &self.reader), ("writer's group", &self.writer)];
        let bars = bars.into_iter().zip(modelled).map(|((case, spent), model)| {
            let bar = spent.breakdown();
            Row::new(&figure, case, "ms", bar.total()).model(model).breakdown(bar)
        });
        let stated = [("readers' group, saved", 30.0), ("writer's group, saved", 62.0)];
        let savings = stated.into_iter().zip(self.saved()).zip(self.model_saved(model));
        let savings = savings.map(|(((case, paper), ours), model)| {
            Row::new(&figure, case, "%", ours)
                .paper(is_stated.then_some(paper))
                .model(model)
                .target(is_stated.then_some(Target::AtLeast(paper)))
        });
        bars.chain(savings).collect()
    }
}

impl Hot {
    /// The same groups with leases.
    fn leased_rows(&self, figure: u32, is_stated: bool) -> Vec<Row> {
        let figure = figure.to_string();
        let groups = [("readers' group, leased", &self.reader), ("writer's group, leased", &self.writer)];
        let bars = groups.map(|(case, spent)| {
            let bar = spent.breakdown();
            Row::new(&figure, case, "ms", bar.total()).breakdown(bar)
        });
        let savings = groups.into_iter().zip(self.saved()).map(|((case, _), ours)| {
            let target = is_stated.then_some(LEASED);
            Row::new(&figure, format!("{case}, saved"), "%", ours).target(target)
        });
        bars.into_iter().chain(savings).collect()
    }
}

/// A point on sockets, the same in virtual time, and how far they are from each other.
fn agreement(figure: &str, case: &str, transactions: u32, real: &Spent, simulated: &Spent) -> [Row; 3] {
    let (real, simulated) = (real.breakdown(), simulated.breakdown());
    let case = format!("{case}, {transactions} transactions");
    [
        Row::new(figure, format!("{case}, sockets"), "ms", real.total()).breakdown(real).aside(),
        Row::new(figure, format!("{case}, virtual"), "ms", simulated.total()).breakdown(simulated).aside(),
        Row::new(figure, format!("{case}, sockets / virtual"), "x", real.total() / simulated.total()).target(AGREEMENT),
    ]
}

/// The same group with leases: the commit of a transaction that has only read needs no round trip.
fn cold_leased(figure: u32, clients: usize, target: Target, base: &Spent, leased: &Spent) -> [Row; 2] {
    let (figure, bar) = (figure.to_string(), leased.breakdown());
    let ours = saved(base.breakdown().total(), bar.total());
    [
        Row::new(&figure, format!("{clients} clients, Buddy, leased"), "ms", bar.total()).breakdown(bar),
        Row::new(&figure, format!("{clients} clients, saved, leased"), "%", ours).target(target),
    ]
}

/// The same with something that the paper's clients have not, on both sides: our own Base is better than the paper's then.
/// Clients as they are shipped prefetch, and commit without asking where they can; those with free commits do only that.
fn both_with(figure: u32, who: &str, what: &str, base: &Spent, buddy: &Spent) -> [Row; 3] {
    let figure = figure.to_string();
    let bar = |name: &str, spent: &Spent| {
        let bar = spent.breakdown();
        Row::new(&figure, format!("{who}, {name}, {what}"), "ms", bar.total()).breakdown(bar)
    };
    let ours = saved(base.breakdown().total(), buddy.breakdown().total());
    let saved = Row::new(&figure, format!("{who}, saved, {what}"), "%", ours);
    [bar("Base", base), bar("Buddy", buddy), saved]
}
