//! Figures 7 to 9: what a group saves of transactions that begin with nothing cached.
//!
//! The possible saving is bounded by the requests that the paper's protocol still sends to the store: the first fetch
//! of each page that anybody in the group reads, and every commit. So with r pages a transaction no group saves more
//! than (1 - f_k / f_1) r / (1 + r), where f_1 is the share of the module that one client reads, and f_k a k-th of what
//! the group reads.

use super::cold;
use super::figures::{Bench, ROUND_TRIPS, both_with, ms, shipped_prefetch};
use super::model::saved;
use super::module::{Built, Fetched};
use super::row::{Row, Target};
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::Result;

/// The share of Base's time with cold caches that groups of [`cold::CLIENTS`] are to save.
const SAVED: [Target; 3] = [Target::AtLeast(45.0), Target::AtLeast(58.0), Target::AtLeast(68.0)];

/// The share that the paper's groups saved, 40 ms from the store.
const SAVED_BY_PAPER: [f64; 3] = [39.0, 46.0, 56.0];

/// How much of what can be saved should be.
const OF_ATTAINABLE: Target = Target::AtLeast(0.95);

/// A group and as many clients without one.
struct Pair {
    clients: usize,
    base: Spent,
    buddy: Spent,
}

impl Pair {
    fn new(clients: usize, spent: &[Vec<Spent>]) -> Self {
        Self { clients, base: cold::all(&spent[0]), buddy: cold::all(&spent[1]) }
    }

    fn saved(&self) -> f64 {
        saved(self.base.breakdown().total(), self.buddy.breakdown().total())
    }

    fn row(&self, figure: u32, case: &str, unit: &'static str, ours: f64) -> Row {
        Row::new(&figure.to_string(), format!("{} clients, {case}", self.clients), unit, ours)
    }

    fn bar(&self, figure: u32, name: &str, spent: &Spent) -> Row {
        let bar = spent.breakdown();
        self.row(figure, name, "ms", bar.total()).breakdown(bar).reads(spent.reads())
    }

    /// The attainable saving, and how much of it is attained.
    fn bounded(&self, figure: u32, [base, group]: [Fetched; 2], are_commits_free: bool) -> [Row; 2] {
        let attainable = saved(base.round_trips(are_commits_free), group.round_trips(are_commits_free));
        [
            self.row(figure, "attainable", "%", attainable),
            self.row(figure, "saved / attainable", "x", self.saved() / attainable).target(OF_ATTAINABLE),
        ]
    }
}

impl Bench<'_> {
    /// Figures 7 and 8: where the time of a cold transaction goes.
    pub(crate) fn cold_bars(&self, figure: u32, round_trip_ms: u64) -> Result<Vec<Row>> {
        let own = |clients, is_group| cold::setting(clients, is_group, ms(round_trip_ms), self.measured());
        let free = |clients, is_group| Setting { commits_fresh: true, ..own(clients, is_group) };
        let shipped = |clients, is_group| {
            let free = free(clients, is_group);
            Setting { prefetch_pages_max: shipped_prefetch(), ..free }
        };
        let pairs = |setting: &dyn Fn(usize, bool) -> Setting| {
            let settings =
                cold::CLIENTS.into_iter().flat_map(|clients| [setting(clients, false), setting(clients, true)]);
            let spent = self.simulate(&settings.collect::<Vec<_>>())?;
            let pairs = cold::CLIENTS.into_iter().zip(spent.chunks(2)).map(|(clients, pair)| Pair::new(clients, pair));
            Ok::<Vec<Pair>, crate::Error>(pairs.collect())
        };
        let (on_demand, free, shipped) = (pairs(&own)?, pairs(&free)?, pairs(&shipped)?);
        let mut rows = module_rows(figure, "the module", &self.built, self.measured());
        for (pair, target) in on_demand.iter().zip(SAVED) {
            rows.extend(self.cold_rows(figure, round_trip_ms, pair, &self.built, Some(target)));
        }
        for pair in &free {
            let who = format!("{} clients", pair.clients);
            rows.extend(both_with(figure, &who, "free commits", &pair.base, &pair.buddy));
            let bounded = pair.bounded(figure, self.fetched(&self.built, pair.clients), true);
            rows.extend(bounded.map(|row| row.noted("free commits")));
        }
        if figure == 7 {
            let leased = |clients| own(clients, true).with_leases();
            let leased = self.simulate(&cold::CLIENTS.map(leased))?;
            for ((pair, target), leased) in on_demand.into_iter().zip(SAVED).zip(leased) {
                // The commit of a transaction that has only read needs no round trip.
                let pair = Pair { buddy: cold::all(&leased), ..pair };
                rows.push(pair.bar(figure, "Buddy, leased", &pair.buddy));
                rows.push(pair.row(figure, "saved, leased", "%", pair.saved()).target(target));
            }
        }
        for pair in shipped {
            rows.extend(both_with(figure, &format!("{} clients", pair.clients), "as shipped", &pair.base, &pair.buddy));
        }
        Ok(rows)
    }

    /// The same where a part fills fewer pages, and the commit, which no group saves, weighs more: `what` they are.
    pub(crate) fn cold_of_other_parts(
        &self,
        what: &str,
        figure: u32,
        round_trip_ms: u64,
        built: &Built,
    ) -> Result<Vec<Row>> {
        let pair =
            |clients| [false, true].map(|group| cold::setting(clients, group, ms(round_trip_ms), self.measured()));
        let spent = self.simulate_on(built, cold::CLIENTS.into_iter().flat_map(pair).collect())?;
        let mut rows = module_rows(figure, "the module", built, self.measured());
        for (clients, pair) in cold::CLIENTS.into_iter().zip(spent.chunks(2)) {
            rows.extend(self.cold_rows(figure, round_trip_ms, &Pair::new(clients, pair), built, None));
        }
        Ok(rows.into_iter().map(|row| row.noted(what).aside()).collect())
    }

    /// The fetches of a client, alone and in a group.
    fn fetched(&self, built: &Built, clients: usize) -> [Fetched; 2] {
        [1, clients].map(|members| built.shape.cold(members, self.measured()))
    }

    fn cold_rows(&self, figure: u32, trip_ms: u64, pair: &Pair, built: &Built, target: Option<Target>) -> Vec<Row> {
        let fetched = self.fetched(built, pair.clients);
        let model = self.model(ms(trip_ms));
        let (model_base, model_buddy) = (model.cold_base(fetched[0]), model.cold_buddy(fetched[1]));
        let is_stated = trip_ms == 40;
        let at = cold::CLIENTS.iter().position(|&size| size == pair.clients).unwrap_or_default();
        let saving = pair
            .row(figure, "saved", "%", pair.saved())
            .paper(is_stated.then_some(SAVED_BY_PAPER[at]))
            .model(saved(model_base, model_buddy))
            .target(target.filter(|_| is_stated));
        let bars = [
            pair.bar(figure, "Base", &pair.base).model(model_base),
            pair.bar(figure, "Buddy", &pair.buddy).model(model_buddy),
            saving,
        ];
        bars.into_iter().chain(pair.bounded(figure, fetched, false)).collect()
    }

    /// Figure 9: what is saved of cold transactions, over the round trip.
    pub(crate) fn cold_curves(&self) -> Result<Vec<Row>> {
        let points = cold::CLIENTS.into_iter().flat_map(|clients| ROUND_TRIPS.map(|trip| (clients, trip)));
        let points: Vec<_> = points.collect();
        let pair = |&(clients, trip): &(usize, u64)| {
            [false, true].map(|is_group| cold::setting(clients, is_group, ms(trip), self.measured()))
        };
        let spent = self.simulate(&points.iter().flat_map(pair).collect::<Vec<_>>())?;
        let rows = points.iter().zip(spent.chunks(2)).map(|(&(clients, trip), spent)| {
            let (pair, model) = (Pair::new(clients, spent), self.model(ms(trip)));
            let [base, group] = self.fetched(&self.built, clients);
            let paper = match (clients, trip) {
                (3, 40) => Some(39.0),
                (5, 40) => Some(46.0),
                (10, 40) => Some(56.0),
                (10, 60) => Some(62.0),
                _ => None,
            };
            let curve = format!("{clients} clients");
            Row::new("9", format!("{curve}, {trip} ms"), "%", pair.saved())
                .curve_at(&curve, trip)
                .paper(paper)
                .model(saved(model.cold_base(base), model.cold_buddy(group)))
        });
        Ok(rows.collect())
    }
}

/// The size of a module, and the share of it that a transaction reads: they decide how much a group can save.
fn module_rows(figure: u32, case: &str, built: &Built, transactions: u32) -> Vec<Row> {
    let row = |what: &str, unit, ours| Row::new(&figure.to_string(), format!("{case}, {what}"), unit, ours);
    vec![
        row("stored", "MB", built.stored.bytes() as f64 / 1e6).paper(38.0),
        row("read by a transaction", "pages", built.shape.read_pages),
        row("fetched by a cold transaction, counted", "pages", built.shape.cold(1, transactions).pages),
    ]
}
