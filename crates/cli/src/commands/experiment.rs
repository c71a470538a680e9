//! `thorp experiment`: runs a paper's experiments, prints the rows, and puts rows and charts into a folder.

use super::bench::apart;
use crate::Result;
use crate::cli::{ExperimentArgs, Paper};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, LOOK_EVERY, when_stdin_closes};
use bench::{
    ACTIVE_CACHE_FIGURES, COOPREPLICA_FIGURE, CoopReplica, CoopReplicaOptions, Experiment, ExperimentRow, HEAD,
    Lasting, MULTICOMPUTER_FIGURES, PUBLISH_FIGURES, Place, PublishExperiment, Row, Step,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the work may take to end by itself once it was interrupted, and everything that it talks to is gone.
const END_WITHIN: Duration = Duration::from_millis(300);

/// The stack of the thread that measures: as much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// A process that is busy until its standard input ends.
pub(super) fn strain(output: &mut Output) -> Result {
    when_stdin_closes(|| std::process::exit(0));
    output.line(&json!({"busy": true}), "busy")?;
    output.flush()?;
    bench::strain()
}

pub(super) fn run(args: &ExperimentArgs, output: &mut Output) -> Result {
    let chosen = Chosen::of(args)?;
    if let Some(lab) = args.lab.as_deref().filter(|_| !args.at_site) {
        return go_to_site(lab);
    }
    let scratch = Scratch::with_way_through(None, &args.dir, "experiment")?;
    let holder = args.holder_dir.as_deref().filter(|_| matches!(chosen, Chosen::Coopreplica(_)));
    let holder = holder.map(|dir| Scratch::new(None, dir, "experiment")).transpose()?;
    // A database that it has started would continue without it.
    let interrupt = Interrupt::watch_patiently()?;
    let program = std::env::current_exe()?;
    let asked = Asked {
        chosen: chosen.clone(),
        place: Place {
            dir: std::fs::canonicalize(scratch.path())?,
            apart: args.lab.as_deref().map(|lab| apart(lab, &program)).transpose()?,
            program,
            fabric: None,
        },
        time: Duration::from_secs_f64(60.0 * args.minutes),
        case_length: Duration::from_secs(args.case_s.into()),
        cycles: args.cycles,
        volume_mib: args.volume_mib,
        holder_disk: holder.as_ref().map(|scratch| std::fs::canonicalize(scratch.path())).transpose()?,
        interrupt: interrupt.clone(),
    };
    if !output.is_json() {
        output.raw(HEAD)?;
    }
    let (mut waiting, mut rows) = (Waiting::new(output.is_json()), Rows::default());
    let (says, said) = channel();
    let work = std::thread::Builder::new().stack_size(STACK_BYTES);
    let work = work.spawn(move || asked.measure(&says))?;
    let heard = hear(&said, &interrupt, &mut waiting, |row| rows.take(row, output));
    waiting.end();
    let is_interrupted = interrupt.has_come();
    if is_interrupted || heard.is_err() {
        end(&said);
    } else {
        work.join().map_err(|_| "a thread panicked: please report it")??;
    }
    heard?;
    // The rows that an earlier run has left there are worth more than none.
    if let Some(out) = args.out.as_ref().filter(|_| rows.count() > 0) {
        chosen.write(&rows, out)?;
    }
    if is_interrupted {
        return Err(format!("interrupted before all was measured; rows that were finished: {}", rows.count()).into());
    }
    Ok(())
}

/// Becomes the same command at a lab's site: the clients and redirectors of an experiment are threads of its process.
/// Returns only if that fails.
fn go_to_site(lab: &Path) -> Result {
    let apart = apart(lab, &std::env::current_exe()?)?;
    let mut command = apart.client.command();
    command.args(std::env::args_os().skip(1)).arg("--at-site");
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Err(command.exec().into())
}

/// A word of the thread that measures.
enum Said {
    Step(Step),
    Row(ExperimentRow),
}

/// Hears what is measured, until all is, or somebody has enough of it.
fn hear(
    said: &Receiver<Said>,
    interrupt: &Interrupt,
    waiting: &mut Waiting,
    mut found: impl FnMut(ExperimentRow) -> Result,
) -> Result {
    loop {
        match said.recv_timeout(LOOK_EVERY) {
            Ok(Said::Step(step)) => waiting.hear(&step),
            Ok(Said::Row(row)) => found(row)?,
            Err(RecvTimeoutError::Timeout) if !interrupt.has_come() => {}
            // It may have lost a process to the same Ctrl-C, which comes to all of a terminal.
            Err(_) => return Ok(()),
        }
    }
}

/// Ends the work that is under way. Of its thread nobody hears more, whatever becomes of it: it has lost everything
/// that it talks to.
fn end(said: &Receiver<Said>) {
    std::panic::set_hook(Box::new(|_| {}));
    fixtures::end_processes();
    let begun = Instant::now();
    while let Some(left) = END_WITHIN.checked_sub(begun.elapsed()) {
        if matches!(said.recv_timeout(left), Err(RecvTimeoutError::Disconnected)) {
            break;
        }
    }
}

/// The experiments that are asked for, and their settings.
struct Asked {
    chosen: Chosen,
    place: Place,
    time: Duration,
    case_length: Duration,
    cycles: u32,
    volume_mib: u32,
    holder_disk: Option<PathBuf>,
    interrupt: Interrupt,
}

impl Asked {
    /// Measures, and says what comes of it.
    fn measure(&self, says: &Sender<Said>) -> Result {
        let Self { place, time, .. } = self;
        let say = |word| says.send(word).map_err(|_| "nobody listens".into());
        let progress = |step: &Step| {
            if self.interrupt.has_come() { Err("interrupted".into()) } else { say(Said::Step(step.clone())) }
        };
        let mut found = |row| say(Said::Row(row));
        let mut measured = |row| say(Said::Row(ExperimentRow::Measured(Box::new(row))));
        match &self.chosen {
            Chosen::Buddycache(experiments) => bench::experiment(experiments, place, *time, &progress, &mut measured),
            Chosen::Activecache(figures) => {
                bench::active_cache(figures, place, self.case_length, *time, &progress, &mut measured)
            }
            Chosen::Coopreplica(experiments) => {
                let (holder_disk, cycles, volume_mib) = (self.holder_disk.as_deref(), self.cycles, self.volume_mib);
                let options = CoopReplicaOptions { cycles, volume_mib, holder_disk, time: *time };
                bench::coopreplica(experiments, place, &options, &progress, &mut found)
            }
            Chosen::Multicomputer(figures) => bench::multicomputer(figures, *time, &progress, &mut measured),
            Chosen::Publish(experiments) => bench::publish(experiments, place, *time, &progress, &mut measured),
        }
    }
}

/// The rows that are finished.
#[derive(Default)]
struct Rows {
    measured: Vec<Row>,
    lasting: Vec<Lasting>,
}

impl Rows {
    /// Prints a row, and keeps it.
    fn take(&mut self, row: ExperimentRow, output: &mut Output) -> Result {
        match row {
            ExperimentRow::Measured(row) => {
                output.line(&row.to_json(), &row)?;
                self.measured.push(*row);
            }
            ExperimentRow::Lasting(row) => {
                output.line(&row.to_json(), &row)?;
                self.lasting.push(row);
            }
        }
        output.flush()
    }

    fn count(&self) -> usize {
        self.measured.len() + self.lasting.len()
    }
}

/// The person or the log that waits for an experiment: on a terminal there is a line that changes; elsewhere there is a
/// new line each time that some more time has passed, but none for a program.
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
#[derive(Clone)]
enum Chosen {
    Buddycache(Vec<Experiment>),
    Activecache(Vec<u32>),
    Coopreplica(Vec<CoopReplica>),
    Multicomputer(Vec<u32>),
    Publish(Vec<PublishExperiment>),
}

impl Chosen {
    fn of(args: &ExperimentArgs) -> Result<Self> {
        let ExperimentArgs { all, figure, table, failover, reliability, take_over, processes, .. } = *args;
        match args.paper {
            Paper::Buddycache | Paper::Activecache | Paper::Coopreplica | Paper::Multicomputer if processes => {
                Err("--processes belongs to the Publish paper".into())
            }
            Paper::Buddycache | Paper::Activecache | Paper::Publish | Paper::Multicomputer
                if reliability || take_over =>
            {
                Err("--reliability and --takeover are of the CoopReplica paper".into())
            }
            Paper::Activecache | Paper::Coopreplica | Paper::Publish | Paper::Multicomputer
                if table.is_some() || failover =>
            {
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
            Paper::Multicomputer if figure.is_some_and(|figure| !MULTICOMPUTER_FIGURES.contains(&figure)) => {
                Err("of the Multicomputer paper, figures 4 to 7 are experiments".into())
            }
            Paper::Multicomputer if all => Ok(Self::Multicomputer(MULTICOMPUTER_FIGURES.collect())),
            Paper::Multicomputer => Ok(Self::Multicomputer(figure.into_iter().collect())),
            Paper::Publish if figure.is_some_and(|figure| !PUBLISH_FIGURES.contains(&figure)) => {
                Err("of the Publish paper, figures 3 to 6 are experiments".into())
            }
            Paper::Publish if all => Ok(Self::Publish(PublishExperiment::all())),
            Paper::Publish => {
                let processes = processes.then_some(PublishExperiment::Processes);
                Ok(Self::Publish(figure.map(PublishExperiment::Figure).into_iter().chain(processes).collect()))
            }
            Paper::Coopreplica if figure.is_some_and(|figure| figure != COOPREPLICA_FIGURE) => {
                Err("of the CoopReplica paper, --figure 2, --reliability and --takeover are experiments".into())
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

    fn write(&self, Rows { measured: rows, lasting }: &Rows, out: &Path) -> Result {
        let measured = |name| write_rows(out, name, rows.iter().map(Row::to_json));
        match self {
            Self::Buddycache(_) => measured("buddycache.jsonl").and_then(|()| bench::draw(rows, out)),
            Self::Activecache(_) => measured("activecache.jsonl").and_then(|()| bench::draw_active_cache(rows, out)),
            Self::Multicomputer(_) => {
                measured("multicomputer.jsonl").and_then(|()| bench::draw_multicomputer(rows, out))
            }
            Self::Publish(_) => measured("publish.jsonl").and_then(|()| bench::draw_publish(rows, out)),
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
