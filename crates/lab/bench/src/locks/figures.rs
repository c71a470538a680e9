//! The rows of each figure.

use super::arrivals::Between;
use super::closed_forms;
use super::scene::{Outcome, Scene};
use crate::experiment::Target;
use crate::pace::Pace;
use crate::{Result, Row};
use spread::messages::Consistency;
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// How often a case is run, each time with other readers.
const REPLICATIONS: usize = 10;

/// The paper's names of the models.
pub(super) const MODELS: [(&str, Consistency); 3] =
    [("PC", Consistency::Publish), ("AFS", Consistency::Callback), ("SC", Consistency::Sequential)];

/// The cases of a figure, which share its time.
pub(super) struct Cases<'a> {
    pace: &'a Pace<'a>,
    all: usize,
    done: Cell<usize>,
}

impl<'a> Cases<'a> {
    pub(super) fn new(pace: &'a Pace<'a>, all: usize) -> Self {
        Self { pace, all, done: Cell::new(0) }
    }

    /// Runs a case as often as there is time, at least twice, on all processors.
    fn run(&self, scene: &Scene, what: &str) -> Result<Outcomes> {
        let (at_once, left) =
            (thread::available_parallelism().map_or(1, usize::from), self.all.saturating_sub(self.done.get()));
        let (begun, share) = (Instant::now(), self.pace.part_left() / left.max(1) as u32);
        let mut all: Vec<Outcome> = Vec::new();
        while all.len() < 2 || all.len() < REPLICATIONS && begun.elapsed() < share {
            self.pace.say(what)?;
            let next = all.len() as u64 + 1;
            let some = next..(next + at_once as u64).min(REPLICATIONS as u64 + 1);
            thread::scope(|scope| {
                let runs: Vec<_> = some.map(|nth| scope.spawn(move || scene.run(nth))).collect();
                runs.into_iter().try_for_each(|run| {
                    all.push(run.join().map_err(|_| format!("{what}: a run has failed"))?);
                    Ok::<(), crate::Error>(())
                })
            })?;
        }
        self.done.set(self.done.get() + 1);
        self.pace.advance(self.done.get() as f64 / self.all as f64);
        Ok(Outcomes(all))
    }
}

/// The outcomes of a case.
struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// A row of the mean of a figure, with its 95 % interval.
    fn row(&self, figure: &str, case: impl Into<String>, unit: &'static str, of: impl Fn(&Outcome) -> f64) -> Row {
        let all: Vec<f64> = self.0.iter().map(of).collect();
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let variance = all.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let half = STUDENT.get(all.len().wrapping_sub(2)).map(|student| student * (variance / count).sqrt());
        Row::new(figure, case, unit, mean).interval(half)
    }
}

/// Student's t of 95 %, by the repetitions from 2 on.
const STUDENT: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093,
];

type Found<'a> = &'a mut dyn FnMut(Row) -> Result<()>;

/// The cases of figures 3 to 6.
pub(super) const CASES: [usize; 4] = [9, 27, 21, 28];

/// Figure 3: the messages of each protocol for an update and a server, and unfinished files that readers see.
pub(super) fn messages(cases: &Cases<'_>, found: Found<'_>) -> Result<()> {
    for (model, consistency) in MODELS {
        let of = |servers| Scene { servers, between: Between::Poisson, ..Scene::ticker(consistency) };
        // The writer's own messages do not grow with the servers.
        let [few, many] = [50, 150].map(|servers| cases.run(&of(servers), &format!("{model}: messages")));
        let (few, many) = (few?, many?);
        let mean =
            |outcomes: &Outcomes| outcomes.0.iter().map(Outcome::messages).sum::<f64>() / outcomes.0.len() as f64;
        let each = (mean(&many) - mean(&few)) / 100.0;
        let paper = closed_forms::messages(consistency);
        let row = Row::new("3", format!("{model}: messages for an update and server"), "count", each);
        found(row.paper(paper).target(Target::Within { of: paper, by: 0.005 }))?;
    }
    for (model, consistency) in MODELS {
        let camera = Scene { servers: 50, open_for: Duration::from_secs(45), ..Scene::camera(consistency) };
        let outcomes = cases.run(&camera, &format!("{model}: a file that is open for long"))?;
        let case = format!("{model}: reads of a file not closed, open 45 s a minute");
        let target = (consistency != Consistency::Callback).then_some(Target::AtMost(0.0));
        found(outcomes.row("3", case, "%", Outcome::unfinished_percent).target(target))?;
    }
    Ok(())
}

/// Figure 4: the latency of reads of a camera's pictures.
pub(super) fn cameras(cases: &Cases<'_>, found: Found<'_>) -> Result<()> {
    for (model, consistency) in MODELS {
        for servers in [100, 200, 300, 400, 500] {
            let camera = Scene { servers, ..Scene::camera(consistency) };
            let is_paper_s = servers == 500;
            latency(cases, found, ("4", model, ""), &camera, is_paper_s)?;
        }
        let camera = Scene::camera(consistency);
        latency(cases, found, ("4", model, ", Poisson"), &Scene { between: Between::Poisson, ..camera }, true)?;
        latency(cases, found, ("4", model, ", 1 Gb/s"), &Scene { megabits: 1000, ..camera }, true)?;
        if consistency == Consistency::Publish {
            continue;
        }
        for shape in [1.2, 1.9] {
            let varied = Scene { between: Between::Pareto(shape), ..camera };
            latency(cases, found, ("4", model, &format!(", Pareto {shape}")), &varied, false)?;
        }
        latency(cases, found, ("4", model, ", with disks"), &Scene { has_disks: true, ..camera }, false)?;
    }
    Ok(())
}

/// The rows of a camera's latency.
fn latency(
    cases: &Cases<'_>,
    found: Found<'_>,
    (figure, model, note): (&str, &str, &str),
    scene: &Scene,
    is_paper_s: bool,
) -> Result<()> {
    let servers = scene.servers;
    let outcomes = cases.run(scene, &format!("camera, {model}, {servers} servers{note}"))?;
    let (all, waiting) = closed_forms::latency_ms(scene);
    let is_pushed = scene.consistency == Consistency::Publish;
    let is_fast = scene.megabits > 100;
    // The paper's text; a factor of two is what its unknown constants are allowed.
    let (paper_all, paper_waiting) = match () {
        () if is_pushed => (Some(0.0), Some(0.0)),
        () if is_paper_s && is_fast => (None, Some(50.0)),
        () if is_paper_s => (Some(20.0), Some(1000.0)),
        () => (None, None),
    };
    let target = |paper: Option<f64>| match paper {
        _ if is_pushed => Some(Target::AtMost(0.0)),
        Some(paper) => Some(Target::Between(paper / 2.0, paper * 2.0)),
        None => None,
    };
    let rate = if is_fast { "1 Gb/s" } else { "100 Mb/s" };
    let is_point = note.is_empty();
    let case = format!("{model}, {servers} servers{note}: mean");
    let row = outcomes.row(figure, case, "ms", Outcome::latency_ms);
    let row = row.paper(paper_all).model(all).target(target(paper_all));
    found(if is_point { row.curve_at(&format!("{model}, {rate}"), servers as u64) } else { row })?;
    let case = format!("{model}, {servers} servers{note}: reads that wait");
    let row = outcomes.row(figure, case, "ms", Outcome::wait_ms);
    found(row.paper(paper_waiting).model(waiting).target(target(paper_waiting)))
}

/// Figure 5: the line that a ticker takes, and the latency of its reads.
pub(super) fn tickers(cases: &Cases<'_>, found: Found<'_>) -> Result<()> {
    for (model, consistency) in MODELS {
        for servers in [50, 100, 150, 200] {
            let ticker = Scene { servers, ..Scene::ticker(consistency) };
            ticker_rows(cases, found, (model, ""), &ticker)?;
        }
        let ticker = Scene::ticker(consistency);
        ticker_rows(cases, found, (model, ", Poisson"), &Scene { between: Between::Poisson, ..ticker })?;
        ticker_rows(cases, found, (model, ", 1 Gb/s"), &Scene { megabits: 1000, ..ticker })?;
        ticker_rows(cases, found, (model, ", own sizes"), &Scene { least_bytes: 0, ..ticker })?;
    }
    Ok(())
}

fn ticker_rows(cases: &Cases<'_>, found: Found<'_>, (model, note): (&str, &str), scene: &Scene) -> Result<()> {
    let Scene { servers, consistency, .. } = *scene;
    let is_pushed = consistency == Consistency::Publish;
    let outcomes = cases.run(scene, &format!("ticker, {model}, {servers} servers{note}"))?;
    let case = |what: &str| format!("{model}, {servers} servers{note}: {what}");
    let share = outcomes.row("5", case("use of the line"), "%", |outcome| outcome.use_percent(scene));
    let share = if scene.least_bytes > 0 { share.model(closed_forms::use_percent(scene)) } else { share };
    let is_point = note.is_empty();
    found(if is_point { share.curve_at(model, servers as u64) } else { share })?;
    if servers == 200 && scene.least_bytes > 0 {
        let files = outcomes.row("5", case("files in a full line"), "files", |it| 100.0 / it.use_percent(scene));
        let model_files = 100.0 / closed_forms::use_percent(scene);
        let paper = (if is_pushed { 300.0 } else { 70.0 }) * scene.megabits as f64 / 100.0;
        let target = Target::Within { of: model_files.round(), by: (model_files / 10.0).round() };
        found(files.paper(paper).model(model_files).target(target))?;
    }
    if servers == 200 {
        let (mean_us, wait_ms) = if is_pushed { (0.0, 0.0) } else { (40.0, 3.0) };
        let is_bound = is_pushed || scene.megabits == 100 && scene.least_bytes > 0;
        let bound = |most| is_bound.then_some(Target::AtMost(most));
        let mean = outcomes.row("5", case("mean"), "us", |outcome| 1e3 * outcome.latency_ms());
        found(mean.paper(is_bound.then_some(mean_us)).target(bound(mean_us)))?;
        let wait = outcomes.row("5", case("reads that wait"), "ms", Outcome::wait_ms);
        found(wait.paper(is_bound.then_some(wait_ms)).target(bound(wait_ms)))?;
    }
    Ok(())
}

/// The number of unread revisions after which idle servers of figure 6 are sent no more of them.
const IDLE_AFTER: u32 = 4;

/// Reads a second at each server of figure 6.
const READS: [f64; 7] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Figure 6: the line that a ticker takes, by how often it is read. Push takes the same without any reads.
pub(super) fn over_publishing(cases: &Cases<'_>, found: Found<'_>) -> Result<()> {
    let idle = ("PC, idle servers ask", Consistency::Publish);
    let mut callbacks = Vec::new();
    for (model, consistency) in MODELS.into_iter().chain([idle]) {
        let mut least_most = (f64::MAX, 0.0_f64);
        let idle_after = (model == idle.0).then_some(IDLE_AFTER);
        for (at, reads) in READS.into_iter().enumerate() {
            // Long enough for some reads of each server.
            let writes = (10.0 / reads).clamp(60.0, 300.0) as u32;
            let scene = Scene { servers: 100, reads, writes, idle_after, ..Scene::ticker(consistency) };
            let outcomes = cases.run(&scene, &format!("over-publishing, {model}, {reads} reads/s"))?;
            let row = outcomes.row("6", format!("{model}, {reads} reads/s: use of the line"), "%", |outcome| {
                outcome.use_percent(&scene)
            });
            let ours = row.ours().unwrap_or_default();
            least_most = (least_most.0.min(ours), least_most.1.max(ours));
            if consistency == Consistency::Callback {
                callbacks.push(ours);
            }
            found(row.curve_at(model, (reads * 100.0).round() as u64))?;
            if idle_after.is_some() {
                let over = Row::new("6", format!("{model}, {reads} reads/s: over AFS"), "times", ours / callbacks[at]);
                found(over.target(Target::AtMost(1.1)))?;
                let case = format!("{model}, {reads} reads/s: mean of a read");
                found(outcomes.row("6", case, "us", |outcome| 1e3 * outcome.latency_ms()))?;
            }
        }
        if model == "PC" {
            let row = Row::new("6", "PC: the most over the least", "times", least_most.1 / least_most.0);
            found(row.paper(1.0).target(Target::AtMost(1.02)))?;
        }
    }
    Ok(())
}
