//! `thorp experiment`: runs a paper's experiments, prints the rows, and puts rows and charts into a folder.

use crate::Result;
use crate::cli::{ExperimentArgs, Paper};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use bench::{
    ACTIVE_CACHE_FIGURES, COOPREPLICA_FIGURE, CoopReplica, CoopReplicaOptions, Experiment, ExperimentRow, HEAD,
    Lasting, Place, Row, Step,
};
use indicatif::ProgressBar;
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn run(args: &ExperimentArgs, output: &mut Output) -> Result {
    let chosen = Chosen::of(args)?;
    let scratch = Scratch::with_way_through(None, &args.dir, "experiment")?;
    let dir = std::fs::canonicalize(scratch.path())?;
    let place = Place { program: std::env::current_exe()?, dir, apart: None, fabric: None };
    let time = Duration::from_secs(60 * u64::from(args.minutes));
    if !output.is_json() {
        output.raw(HEAD)?;
    }
    // A database that it has started would go on without it.
    let (interrupt, waiting) = (Interrupt::watch()?, Waiting::new(output.is_json()));
    let progress = |step: &Step| {
        if interrupt.has_come() {
            return Err("it was told to stop before all was measured".into());
        }
        waiting.hear(step);
        Ok(())
    };
    let (mut rows, mut lasting): (Vec<Row>, Vec<Lasting>) = (Vec::new(), Vec::new());
    let mut print = |json: Value, row: &dyn Display| {
        output.line(&json, row)?;
        output.flush()
    };
    let mut found = |row: ExperimentRow| match row {
        ExperimentRow::Measured(row) => {
            print(row.to_json(), &row)?;
            rows.push(*row);
            Ok(())
        }
        ExperimentRow::Lasting(row) => {
            print(row.to_json(), &row)?;
            lasting.push(row);
            Ok(())
        }
    };
    match &chosen {
        Chosen::Buddycache(experiments) => {
            let found = &mut |row| found(ExperimentRow::Measured(Box::new(row)));
            bench::experiment(experiments, &place, time, &progress, found)?;
        }
        Chosen::Activecache(figures) => {
            let length = Duration::from_secs(args.case_s.into());
            let found = &mut |row| found(ExperimentRow::Measured(Box::new(row)));
            bench::active_cache(figures, &place, length, time, &progress, found)?;
        }
        Chosen::Coopreplica(experiments) => {
            let holder = args.holder_dir.as_deref().map(|dir| Scratch::new(None, dir, "experiment")).transpose()?;
            let holder_disk = holder.as_ref().map(|scratch| std::fs::canonicalize(scratch.path())).transpose()?;
            let ExperimentArgs { cycles, volume_mib, .. } = *args;
            let options = CoopReplicaOptions { cycles, volume_mib, holder_disk: holder_disk.as_deref(), time };
            bench::coopreplica(experiments, &place, &options, &progress, &mut found)?;
        }
    }
    waiting.end();
    match &args.out {
        Some(out) => chosen.write(&rows, &lasting, out),
        None => Ok(()),
    }
}

/// The person or the log that waits for an experiment: on a terminal there is a line that changes; elsewhere there is a new
/// line each time that some more time has passed, but none for a program.
struct Waiting {
    spinner: ProgressBar,
    is_program: bool,
    said: Cell<Option<Instant>>,
}

/// The time between two lines where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(15);

impl Waiting {
    fn new(is_program: bool) -> Self {
        Self { spinner: output::spinner("measuring"), is_program, said: Cell::new(None) }
    }

    fn hear(&self, step: &Step) {
        let left = step.left.map(|left| format!(", {} left", about(left))).unwrap_or_default();
        let line = format!("{} ({:.0} % done{left})", step.what, 100.0 * step.done);
        let is_due = || step.left.is_some() && self.said.get().is_none_or(|said| said.elapsed() >= SAY_EVERY);
        if !self.spinner.is_hidden() {
            self.spinner.set_message(line);
        } else if !self.is_program && is_due() {
            self.said.set(Some(Instant::now()));
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        self.spinner.finish_and_clear();
    }
}

/// A time, as a person says it who guesses.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", (seconds + 30) / 60),
    }
}

/// Writes rows into a folder, which is made if it is not there.
fn write_rows(out: &Path, name: &str, rows: impl Iterator<Item = Value>) -> Result {
    std::fs::create_dir_all(out)?;
    let mut file = BufWriter::new(File::create(out.join(name))?);
    for row in rows {
        writeln!(file, "{row}")?;
    }
    Ok(file.flush()?)
}

/// The experiments of one of the papers.
enum Chosen {
    Buddycache(Vec<Experiment>),
    Activecache(Vec<u32>),
    Coopreplica(Vec<CoopReplica>),
}

impl Chosen {
    fn of(args: &ExperimentArgs) -> Result<Self> {
        let ExperimentArgs { all, figure, table, failover, reliability, take_over, .. } = *args;
        match args.paper {
            Paper::Buddycache | Paper::Activecache if reliability || take_over => {
                Err("--reliability and --take-over are of the CoopReplica paper".into())
            }
            Paper::Activecache | Paper::Coopreplica if table.is_some() || failover => {
                Err("--table and --failover are of the BuddyCache paper".into())
            }
            Paper::Buddycache if figure.is_some_and(|figure| figure < 7) => {
                Err("of the BuddyCache paper, figures 7 to 12 are experiments".into())
            }
            Paper::Buddycache if all => Ok(Self::Buddycache(Experiment::ALL.to_vec())),
            Paper::Buddycache => {
                let failover = failover.then_some(Experiment::Failover);
                let (table, figure) = (table.map(Experiment::Table), figure.map(Experiment::Figure));
                Ok(Self::Buddycache(table.into_iter().chain(figure).chain(failover).collect()))
            }
            Paper::Activecache if figure.is_some_and(|figure| !ACTIVE_CACHE_FIGURES.contains(&figure)) => {
                Err("of the ActiveCache paper, figures 6 to 12 are experiments".into())
            }
            Paper::Activecache if all => Ok(Self::Activecache(ACTIVE_CACHE_FIGURES.collect())),
            Paper::Activecache => Ok(Self::Activecache(figure.into_iter().collect())),
            Paper::Coopreplica if figure.is_some_and(|figure| figure != COOPREPLICA_FIGURE) => {
                Err("of the CoopReplica paper, --figure 2, --reliability and --take-over are experiments".into())
            }
            Paper::Coopreplica if all => Ok(Self::Coopreplica(CoopReplica::ALL.to_vec())),
            Paper::Coopreplica => {
                let reliability = reliability.then_some(CoopReplica::Reliability);
                let (throughput, take_over) =
                    (figure.map(|_| CoopReplica::Throughput), take_over.then_some(CoopReplica::TakeOver));
                Ok(Self::Coopreplica(reliability.into_iter().chain(throughput).chain(take_over).collect()))
            }
        }
    }

    fn write(&self, rows: &[Row], lasting: &[Lasting], out: &Path) -> Result {
        let measured = |name| write_rows(out, name, rows.iter().map(Row::to_json));
        match self {
            Self::Buddycache(_) => measured("buddycache.jsonl").and_then(|()| bench::draw(rows, out)),
            Self::Activecache(_) => measured("activecache.jsonl").and_then(|()| bench::draw_active_cache(rows, out)),
            Self::Coopreplica(_) => {
                if !lasting.is_empty() {
                    write_rows(out, "coopreplica.jsonl", lasting.iter().map(Lasting::to_json))?;
                    bench::draw_reliability(lasting, out)?;
                }
                // A table says it all.
                if rows.is_empty() { Ok(()) } else { measured("coopreplica-throughput.jsonl") }
            }
        }
    }
}
