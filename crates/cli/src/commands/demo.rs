//! `thorp demo`: what Thorp is for, in a minute. A store, a design in it, and clients behind a slow link; the same work
//! without groups and with groups; then a member is stopped, a redirector and the store are killed, while the others
//! work on. In the end the account: is every acknowledged commit there, and could a strictly serializable store have
//! shown what was seen?
//!
//! ```text
//!            Base                                 Buddy
//!            store                                store
//!     ~~~~~~~~|~~~~~~~~~  40 ms, both ways  ~~~~~~~~|~~~~~~~~~~~~~~
//!      r   r   r   w                    redirector     redirector
//!                                        r   r   w      r   r   r
//! ```
//! Clients, redirectors and the store are processes of their own; the link is emulated.

mod account;
mod base;
mod buddy;
mod cluster;
mod faults;
mod files;
mod volume;
mod web;

use crate::Result;
use crate::cli::{DemoArgs, DemoScene};
use crate::crew::{Crew, Eligible, MemberOptions, now};
use crate::history::judge;
use crate::job::{Design, Job, JobName, Parts, Work, inspect};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use account::{Account, Checked};
use fixtures::{Emulator, Process, Program, lasting_address};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use thorp::Db;

/// One way; a round trip takes twice as long.
const DELAY: Duration = Duration::from_millis(20);

/// Things that are visited. A client visits each of them twice, in the mean, as in the paper; there are fewer here.
const THINGS: u64 = 30;

/// The share of the writer's visits that write, and of everybody's while things break.
const WRITERS_WRITES: f64 = 0.5;
const EVERYBODYS_WRITES: f64 = 0.25;

/// How long anything may take that is going to happen, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn run(args: &DemoArgs, output: &mut Output) -> Result {
    match &args.scene {
        Some(DemoScene::Web(args)) => return web::run(args, output),
        Some(DemoScene::Volume(args)) => return volume::run(args, output),
        Some(DemoScene::Files(args)) => return files::run(args, output),
        Some(DemoScene::Cluster(args)) => return cluster::run(args, output),
        None => {}
    }
    let mut scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "demo")?;
    scratch.remove_on_signal()?;
    let shown = show(args, scratch.path(), output);
    let left = format!("the store is left in {}; `thorp doctor` checks it", scratch.path().display());
    match shown {
        Ok(()) if args.dir.is_some() => tell(output, left),
        Ok(()) => Ok(()),
        Err(why) => {
            // There is something to look at.
            scratch.keep();
            Err(format!("{why}; {left}").into())
        }
    }
}

/// Shows all of it. Every process has ended when this returns.
fn show(args: &DemoArgs, dir: &Path, output: &mut Output) -> Result {
    let program = Program::this()?;
    let server = program.serve(dir, &["--listen", &lasting_address()?.to_string()])?;
    tell(output, format_args!("A store in {}, process {}.", dir.display(), server.id()))?;
    let subject = Subject::prepare(args.model.as_deref(), &server)?;
    tell(output, &subject.description)?;
    let link = Emulator::start(server.address(), DELAY, None)?;
    let mut stage = Stage { program, server, link, subject, visits: args.visits.into(), crew: Crew::default() };
    let account = stage.play(output)?;
    account.print(output)?;
    account.checked.judge()
}

/// A line for people; a program reads the account.
fn tell(output: &mut Output, text: impl std::fmt::Display) -> Result {
    if output.is_json() {
        return Ok(());
    }
    output.raw(text)?;
    output.flush()
}

/// Waits, unless somebody wants to leave.
fn pause(time: Duration, interrupt: &Interrupt) {
    let begun = Instant::now();
    while begun.elapsed() < time && !interrupt.has_come() {
        thread::sleep(time.saturating_sub(begun.elapsed()).min(Duration::from_millis(50)));
    }
}

/// The data that the clients work on.
struct Subject {
    job: Box<dyn Job>,
    name: JobName,
    description: String,
    things: u64,
}

impl Subject {
    fn prepare(model: Option<&Path>, server: &Process) -> Result<Self> {
        let db = Db::connect(server.address())?;
        Ok(if let Some(file) = model {
            let design = Design::load(&db, file)?;
            let (description, things) = (design.describe(), design.len());
            Self { job: Box::new(design), name: JobName::Design, description, things }
        } else {
            let parts = Parts::build(&db)?;
            let (description, things) = (parts.describe(), parts.len());
            Self { job: Box::new(parts), name: JobName::Parts, description, things }
        })
    }
}

/// Where it is played.
struct Stage {
    program: Program,
    server: Process,
    link: Emulator,
    subject: Subject,
    /// Of each client in each part of the comparison.
    visits: u64,
    crew: Crew,
}

impl Stage {
    fn play(&mut self, output: &mut Output) -> Result<Account> {
        let trip = 2 * DELAY.as_millis();
        tell(output, format_args!("\nBase: every client on its own, {trip} ms from the store."))?;
        let base = base::play(self, output)?;
        tell(output, format_args!("\nBuddy: the same in two groups, each with a redirector nearby."))?;
        let mut groups = buddy::Groups::gather(self)?;
        let buddy = groups.play(self, output)?;
        tell(output, "\nAll of them read and write now, and things break.")?;
        let faults = faults::play(self, &mut groups, output)?;
        let spinner = output::spinner("checking");
        let db = Db::connect(self.server.address())?;
        let (journals, half_done) = inspect(&*self.subject.job, self.crew.visited(), &db)?;
        let verdict = judge(self.crew.events(), &journals, None)?;
        spinner.finish_and_clear();
        let all: Vec<_> = (0..self.crew.len()).collect();
        let (half_done, acknowledged) = (half_done + self.crew.half_done(), self.crew.latencies(&all, 0).len());
        Ok(Account { base, buddy, faults, checked: Checked { acknowledged, half_done, verdict } })
    }

    /// The clients fetch single pages when they need them, as the paper's do: prefetch would help those most who are
    /// alone.
    fn member(&self, server: String, eligible: Option<Eligible>) -> MemberOptions {
        MemberOptions {
            program: self.program.clone(),
            job: self.subject.name,
            server,
            eligible,
            arguments: vec!["--on-demand".into()],
        }
    }

    fn link(&self) -> SocketAddr {
        self.link.address()
    }

    fn work(&self, transactions: Option<u64>, writes: f64, seed: u64) -> Work {
        Work { transactions, ..Work::new(0..THINGS.min(self.subject.things), writes, seed) }
    }

    /// Groups of readers visit as often as they are to, each reader what it draws; gives how long a visit took each of
    /// these groups, in the mean.
    fn measure(&mut self, what: &'static str, readers: &[&[usize]], seed: u64) -> Result<Vec<Duration>> {
        let spinner = output::spinner(what);
        let since = now();
        for (seed, &reader) in readers.iter().flat_map(|readers| (seed..).zip(*readers)) {
            self.crew.work(reader, &self.work(Some(self.visits), 0.0, seed))?;
        }
        readers.iter().try_for_each(|readers| self.crew.wait_rest(readers, PATIENCE))?;
        spinner.finish_and_clear();
        Ok(readers.iter().map(|readers| self.crew.mean(readers, since)).collect())
    }
}
