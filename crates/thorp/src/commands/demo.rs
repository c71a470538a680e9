//! `thorp demo`: what Thorp is for, in two minutes. A store in a process of its own, a design in it, three clients behind
//! a slow link that read and write it at the same time, SIGKILL in the middle, and then the account: is every
//! acknowledged commit there, and could a strictly serializable store have shown what was seen?

mod design;
mod parts;

use crate::Result;
use crate::cli::DemoArgs;
use crate::crew::{Crew, Job, Tally};
use crate::history::Verdict;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::{Server, ServerOptions, lasting_address};
use net::{Emulator, LinkTally};
use serde_json::json;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use thorp::{Db, Stats};

/// Engineers at work.
const CLIENTS: u64 = 3;

/// One way; a round trip takes twice as long.
const DELAY: Duration = Duration::from_millis(20);

const MIB: f64 = (1 << 20) as f64;

/// What the clients work on.
trait Subject: Job {
    /// What it is, for a person.
    fn describe(&self) -> String;

    /// The journals as they are in the store, and how many things are not as their journals say; both found by a
    /// client that has cached nothing.
    fn inspect(&self, db: &Db) -> Result<(HashMap<u64, Vec<u64>>, u64)>;
}

pub(super) fn run(args: DemoArgs, output: &mut Output) -> Result {
    let mut scratch = Scratch::new(args.dir, &std::env::temp_dir(), "demo")?;
    let mut options = ServerOptions::new(std::env::current_exe()?, scratch.path());
    options.listen = lasting_address()?;
    let mut server = Server::start(&options)?;
    // From here on there is something to look at.
    scratch.keep();
    tell(output, format_args!("A store in {}, process {}.", scratch.path().display(), server.pid()))?;
    let subject = build(args.model.as_deref(), server.address())?;
    tell(output, subject.describe())?;
    let demo = Demo { options, during: Duration::from_secs(args.seconds.into()), subject: &*subject };
    let outcome = demo.play(&mut server, output)?;
    outcome.print(output)?;
    tell(output, format_args!("The store is left in {}; `thorp doctor` checks it.", scratch.path().display()))?;
    outcome.judge()
}

/// A line for people; a program reads the table.
fn tell(output: &mut Output, text: impl std::fmt::Display) -> Result {
    if output.is_json() {
        return Ok(());
    }
    output.raw(text)?;
    output.flush()
}

fn build(model: Option<&Path>, address: SocketAddr) -> Result<Box<dyn Subject>> {
    let db = Db::connect(address)?;
    match model {
        Some(file) => Ok(Box::new(design::Design::load(&db, file)?)),
        None => Ok(Box::new(parts::Parts::build(&db)?)),
    }
}

struct Demo<'a> {
    options: ServerOptions,
    during: Duration,
    subject: &'a dyn Subject,
}

/// What came of it.
struct Outcome {
    clients: Tally,
    stats: Stats,
    link: LinkTally,
    seconds: f64,
    restart_seconds: f64,
    restart_records: u64,
    verdict: Verdict,
    torn: u64,
}

impl Demo<'_> {
    fn play(&self, server: &mut Server, output: &mut Output) -> Result<Outcome> {
        let (link, crew) = (Emulator::start(server.address(), DELAY, None)?, Crew::default());
        let dbs = (0..CLIENTS).map(|_| Ok(Db::connect(link.address())?)).collect::<Result<Vec<_>>>()?;
        tell(output, format_args!("{CLIENTS} clients behind a link of {} ms round trip.", 2 * DELAY.as_millis()))?;
        let start = Instant::now();
        let (clients, restart_seconds) = std::thread::scope(|scope| {
            let crew = &crew;
            let work = |(seed, db)| scope.spawn(move || crew.work(db, self.subject, seed));
            let workers: Vec<_> = (0..).zip(&dbs).map(work).collect();
            let restarted = self.kill_in_the_middle(server, crew, output);
            crew.stop();
            let mut total = Tally::default();
            for worker in workers {
                total.add(&worker.join().map_err(|_| "a client panicked")??);
            }
            restarted.map(|seconds| (total, seconds))
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let spinner = output::spinner("checking");
        let (journals, torn) = self.subject.inspect(&Db::connect(server.address())?)?;
        let verdict = crew.history.judge(&journals)?;
        spinner.finish_and_clear();
        let restart_records = server.ready()["recovery"]["records"].as_u64().unwrap_or(0);
        let (stats, link) = (dbs.iter().map(Db::stats).sum(), link.tally());
        Ok(Outcome { clients, stats, link, seconds, restart_seconds, restart_records, verdict, torn })
    }

    /// Lets the clients work, kills the store, starts it again, lets them work on; the seconds of the restart.
    fn kill_in_the_middle(&self, server: &mut Server, crew: &Crew, output: &mut Output) -> Result<f64> {
        self.wait("working", crew);
        server.kill()?;
        tell(output, "kill -9, in the middle of their transactions.")?;
        let start = Instant::now();
        *server = Server::start(&self.options)?;
        let seconds = start.elapsed().as_secs_f64();
        tell(output, format_args!("Restarted in {seconds:.2} s; the clients go on."))?;
        self.wait("working on", crew);
        Ok(seconds)
    }

    /// Waits as long as the clients are to work, or until one of them fails.
    fn wait(&self, what: &'static str, crew: &Crew) {
        let spinner = output::spinner(what);
        crew.wait(u64::MAX, self.during);
        spinner.finish_and_clear();
    }
}

impl Outcome {
    fn print(&self, output: &mut Output) -> Result {
        let latency = &self.clients.committed;
        let rounded = |figure: f64| json!((figure * 10.0).round() / 10.0);
        output.table(&[
            ("transactions", json!(latency.len())),
            ("per_second", rounded(latency.len() as f64 / self.seconds)),
            ("aborts", json!(self.stats.refused + self.stats.doomed)),
            ("latency_ms_p50", rounded(latency.millis(0.5))),
            ("latency_ms_p99", rounded(latency.millis(0.99))),
            ("cached_reads", json!(self.stats.hits)),
            ("fetches", json!(self.stats.fetches)),
            ("mib_over_the_link", rounded((self.link.bytes_up + self.link.bytes_down) as f64 / MIB)),
            ("restart_seconds", json!((self.restart_seconds * 1e3).round() / 1e3)),
            ("restart_records", json!(self.restart_records)),
            ("acknowledged_and_lost", json!(self.verdict.lost.len())),
            ("doubled", json!(self.verdict.doubled.len())),
            ("half_done", json!(self.torn)),
            ("strictly_serializable", json!(self.verdict.anomalies.is_empty())),
        ])
    }

    fn judge(&self) -> Result {
        match (self.verdict.is_clean(), self.torn) {
            (true, 0) => Ok(()),
            (_, torn) => Err(format!("{}; {torn} transactions half done: this is a bug in Thorp", self.verdict).into()),
        }
    }
}
