//! Figures 10 to 12: what a group saves of readers' transactions with hot caches, while somebody writes.
//!
//! How much that is depends on how many pages a transaction misses because they were changed, so each row says that.
//! The paper's readers miss about two pages in Base (docs/experiments.md). Ours, whose part is nine pages, miss as many
//! where fewer of the writer's transactions write: how many is computed from the model, before anything runs.

use super::figures::{Bench, LEASED, ROUND_TRIPS, both_with, ms, shipped_prefetch};
use super::hot::{self, Groups};
use super::model::{Load, Missing, Model, saved};
use super::row::{Row, Target};
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::Result;

/// The pages that a reader of the paper misses by invalidation in Base, 40 ms from the store.
const PAPERS_MISSES: f64 = 2.0;

/// The share that the paper's readers saved, 40 ms from the store: those in a group of their own, and those in the
/// writer's.
const SAVED_BY_PAPER: [f64; 2] = [30.0, 62.0];

/// The three systems.
const SYSTEMS: [(Groups, &str); 3] =
    [(Groups::Base, "Base"), (Groups::Reader, "readers' group"), (Groups::Writer, "writer's group")];

/// One of the three systems, run.
#[derive(Clone, Copy)]
struct System {
    readers: Spent,
    writer: Spent,
}

impl System {
    fn new(groups: Groups, spent: &[Spent]) -> Self {
        Self { readers: groups.readers(spent), writer: spent[0] }
    }

    fn three(spent: &[Vec<Spent>]) -> [Self; 3] {
        std::array::from_fn(|at| Self::new(SYSTEMS[at].0, &spent[at]))
    }

    fn ms(&self) -> f64 {
        self.readers.breakdown().total()
    }

    /// The time that the readers take and the pages that they miss, and the writer's time in the meantime.
    fn rows(&self, figure: u32, name: &str) -> [Row; 2] {
        let (figure, bar) = (figure.to_string(), self.readers.breakdown());
        let readers = Row::new(&figure, name, "ms", bar.total()).breakdown(bar).reads(self.readers.reads());
        let bar = self.writer.breakdown();
        let case = format!("{name}, the writer");
        [readers, Row::new(&figure, case, "ms", bar.total()).breakdown(bar).reads(self.writer.reads()).aside()]
    }
}

impl Bench<'_> {
    fn hot_setting(&self, groups: Groups, trip: u64, writes: f64) -> Setting {
        hot::setting(groups, ms(trip), self.warm_up(), self.measured(), writes)
    }

    fn load(&self, writes: f64) -> Load {
        Load { pages: self.built.shape.written_pages, writes }
    }

    /// Figures 10 and 11: where the time of a hot transaction of a reader goes.
    pub(crate) fn hot_bars(&self, figure: u32, trip: u64) -> Result<Vec<Row>> {
        // The same load at each distance: it is the workload's, and the paper's misses are stated at this one.
        let few = self.model(ms(40)).writes_for(PAPERS_MISSES, self.built.shape.written_pages);
        let three = |writes| SYSTEMS.map(|(groups, _)| self.hot_setting(groups, trip, writes));
        let shipped = |own| Setting { prefetch_pages_max: shipped_prefetch(), commits_fresh: true, ..own };
        let mut settings = [three(hot::WRITES), three(few), three(hot::WRITES).map(shipped)].concat();
        settings.extend(three(hot::WRITES)[1..].iter().map(|own| own.clone().with_leases()));
        let spent = self.simulate(&settings)?;
        let mut rows = self.hot_rows(figure, trip, hot::WRITES, &System::three(&spent[..3]));
        let at_papers_misses = self.hot_rows(figure, trip, few, &System::three(&spent[3..6]));
        rows.push(Row::new(&figure.to_string(), "transactions that write, at the paper's misses", "%", 100.0 * few));
        rows.extend(at_papers_misses.into_iter().map(|row| row.noted("at the paper's misses")));
        let base = System::new(Groups::Base, &spent[0]);
        for ((groups, name), spent) in SYSTEMS[1..].iter().zip(&spent[9..]) {
            let (leased, name) = (System::new(*groups, spent), format!("{name}, leased"));
            rows.extend(leased.rows(figure, &name));
            let ours = saved(base.ms(), leased.ms());
            let target = (trip == 40).then_some(LEASED);
            rows.push(Row::new(&figure.to_string(), format!("{name}, saved"), "%", ours).target(target));
        }
        let shipped = System::three(&spent[6..9]);
        for ((_, name), system) in SYSTEMS[1..].iter().zip(&shipped[1..]) {
            rows.extend(both_with(figure, name, "as shipped", &shipped[0].readers, &system.readers));
        }
        Ok(rows)
    }

    fn hot_rows(&self, figure: u32, trip: u64, writes: f64, systems: &[System; 3]) -> Vec<Row> {
        let modelled = modelled(&self.model(ms(trip)), self.load(writes));
        let (name, mut rows) = (figure.to_string(), Vec::new());
        for (((_, case), system), model) in SYSTEMS.into_iter().zip(systems).zip(modelled) {
            let [readers, writer] = system.rows(figure, case);
            let misses = system.readers.reads().renewed;
            let misses = Row::new(&name, format!("{case}, misses by invalidation"), "pages", misses);
            let papers = (case == "Base" && trip == 40).then_some(PAPERS_MISSES);
            rows.extend([readers.model(model.ms), misses.model(model.pages).paper(papers), writer]);
        }
        for ((at, (_, case)), paper) in (1..).zip(&SYSTEMS[1..]).zip(SAVED_BY_PAPER) {
            let paper = (trip == 40).then_some(paper);
            let ours = saved(systems[0].ms(), systems[at].ms());
            let row = Row::new(&name, format!("{case}, saved"), "%", ours);
            let model = saved(modelled[0].ms, modelled[at].ms);
            rows.push(row.paper(paper).model(model).target(paper.map(Target::AtLeast)));
        }
        rows
    }

    /// Figure 12: what is saved of hot transactions, over the round trip.
    pub(crate) fn hot_curves(&self) -> Result<Vec<Row>> {
        let three = |trip| SYSTEMS.map(|(groups, _)| self.hot_setting(groups, trip, hot::WRITES));
        let spent = self.simulate(&ROUND_TRIPS.into_iter().flat_map(three).collect::<Vec<_>>())?;
        let runs: Vec<_> = ROUND_TRIPS.into_iter().zip(spent.chunks(3).map(System::three)).collect();
        let mut rows = Vec::new();
        for ((at, (_, name)), paper) in (1..).zip(&SYSTEMS[1..]).zip(SAVED_BY_PAPER) {
            for &(trip, systems) in &runs {
                let modelled = modelled(&self.model(ms(trip)), self.load(hot::WRITES));
                let ours = saved(systems[0].ms(), systems[at].ms());
                let row = Row::new("12", format!("{name}, {trip} ms"), "%", ours).curve_at(name, trip);
                let model = saved(modelled[0].ms, modelled[at].ms);
                rows.push(row.paper((trip == 40).then_some(paper)).model(model));
            }
        }
        Ok(rows)
    }
}

/// The three systems as the model has them.
fn modelled(model: &Model, load: Load) -> [Missing; 3] {
    [model.hot_base(load), model.hot_readers(load, hot::READERS as f64), model.hot_writers()]
}
