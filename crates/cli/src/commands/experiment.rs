//! `thorp experiment`: runs a paper's experiments, prints the rows, and puts rows and charts into a folder.

use crate::Result;
use crate::cli::{ExperimentArgs, Paper};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use bench::{ACTIVE_CACHE_FIGURES, COOPREPLICA_FIGURE, Experiment, HEAD, Lasting, Place, Row};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

pub(super) fn run(args: &ExperimentArgs, output: &mut Output) -> Result {
    let chosen = Chosen::of(args)?;
    if let Chosen::Coopreplica(studies) = &chosen
        && studies.contains(&Study::Reliability)
    {
        reliability(args, output)?;
        if studies == &[Study::Reliability] {
            return Ok(());
        }
    }
    let scratch = Scratch::with_way_through(None, &args.dir, "experiment")?;
    let dir = std::fs::canonicalize(scratch.path())?;
    let place = Place { program: std::env::current_exe()?, dir, apart: None, fabric: None };
    let spinner = output::spinner("measuring");
    let mut rows: Vec<Row> = Vec::new();
    if !output.is_json() {
        output.raw(HEAD)?;
    }
    let progress = |what: &str| spinner.set_message(what.to_owned());
    let mut found = |row: Row| {
        output.line(&row.to_json(), &row)?;
        rows.push(row);
        output.flush()
    };
    match &chosen {
        Chosen::Buddycache(experiments) => bench::experiment(experiments, &place, &progress, &mut found)?,
        Chosen::Activecache(figures) => {
            let length = Duration::from_secs(args.case_s.into());
            // Its database is a process that would go on without it.
            let interrupt = Interrupt::watch()?;
            let progress = |what: &str| {
                if interrupt.has_come() {
                    return Err("it was told to stop before all was measured".into());
                }
                progress(what);
                Ok(())
            };
            bench::active_cache(figures, &place, length, &progress, &mut found)?;
        }
        Chosen::Coopreplica(studies) => {
            for study in studies {
                match study {
                    // Its rows are others.
                    Study::Reliability => {}
                    Study::Throughput => throughput(args, &place, &progress, &mut found)?,
                    Study::TakeOver => bench::take_overs(&place, &progress, &mut found)?,
                }
            }
        }
    }
    spinner.finish_and_clear();
    match &args.out {
        Some(out) => chosen.write(&rows, out),
        None => Ok(()),
    }
}

/// Figure 2 of the CoopReplica paper.
fn throughput(
    args: &ExperimentArgs,
    place: &Place,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Row) -> bench::Result<()>,
) -> Result {
    let Some(dir) = &args.holder_dir else { return bench::coopreplica(place, None, progress, found) };
    let scratch = Scratch::new(None, dir, "experiment")?;
    let disk = std::fs::canonicalize(scratch.path())?;
    bench::coopreplica(place, Some(&disk), progress, found)
}

/// The study of the CoopReplica paper.
fn reliability(args: &ExperimentArgs, output: &mut Output) -> Result {
    let spinner = output::spinner("counting failures");
    let progress = |what: &str| spinner.set_message(what.to_owned());
    let mut rows = Vec::new();
    bench::reliability(args.cycles, &progress, |row| {
        output.line(&row.to_json(), &row)?;
        rows.push(row);
        output.flush()
    })?;
    spinner.finish_and_clear();
    if let Some(out) = &args.out {
        write_rows(out, "coopreplica.jsonl", rows.iter().map(Lasting::to_json))?;
        bench::draw_reliability(&rows, out)?;
    }
    Ok(())
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
    Coopreplica(Vec<Study>),
}

/// An experiment of the CoopReplica paper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Study {
    Reliability,
    /// Its figure 2.
    Throughput,
    TakeOver,
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
            Paper::Coopreplica => {
                let studies = [
                    (reliability, Study::Reliability),
                    (figure.is_some(), Study::Throughput),
                    (take_over, Study::TakeOver),
                ];
                let is_chosen = |(is_it, study): (bool, Study)| (all || is_it).then_some(study);
                Ok(Self::Coopreplica(studies.into_iter().filter_map(is_chosen).collect()))
            }
        }
    }

    fn write(&self, rows: &[Row], out: &Path) -> Result {
        let name = match self {
            Self::Buddycache(_) => "buddycache.jsonl",
            Self::Activecache(_) => "activecache.jsonl",
            Self::Coopreplica(_) => "coopreplica-throughput.jsonl",
        };
        write_rows(out, name, rows.iter().map(Row::to_json))?;
        match self {
            Self::Buddycache(_) => bench::draw(rows, out),
            Self::Activecache(_) => bench::draw_active_cache(rows, out),
            // A table says it all.
            Self::Coopreplica(_) => Ok(()),
        }
    }
}
