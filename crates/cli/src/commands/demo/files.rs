//! `thorp demo files`: what published files are for. A store, and behind each of two slow lines a group with two
//! servers of a site. The site is published again and again while visitors go from server to server; a server, a
//! redirector and the store are killed in between. Beside it, rsync copies the same versions into a directory that a
//! reader reads.
//!
//! ```text
//!   thorp publish --> store ~~~ 40 ms, both ways ~~~ redirector --- server, server <--- visitors
//!                       |
//!                       +~~~~~~ 40 ms, both ways ~~~ redirector --- server, server <--- visitors
//! ```
//! All of these are processes, except for the visitors and the lines, which are threads of this one.

mod account;
mod client;
mod content;
mod farm;
mod readers;
mod rsync;
mod visitor;

use super::{DELAY, pause, tell};
use crate::Result;
use crate::cli::DemoFilesArgs;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, LOOK_EVERY};
use account::{Account, End};
use content::{Content, FILES, PAGES, PARTS_CHANGED};
use farm::{Farm, Fault};
use fixtures::end_processes;
use readers::{Readers, Step};
use rsync::Rsync;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use visitor::Visitor;

const VISITORS: usize = 4;

/// The pause between two publishes, in which visitors read on.
const BETWEEN: Duration = Duration::from_millis(600);

/// How long a killed process is away: longer than the lease of the servers, so that they have to say that they may be
/// behind.
const AWAY: Duration = Duration::from_millis(1500);

pub(super) fn run(args: &DemoFilesArgs, output: &mut Output) -> Result {
    // A second Ctrl-C would leave the folder: the first is enough.
    let interrupt = Interrupt::watch_patiently()?;
    end_processes_on(interrupt.clone());
    let scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "demo")?;
    // Every process ends before its folder does.
    match play(args, scratch.path(), &interrupt, output) {
        Err(_) if interrupt.has_come() => Err("interrupted: everything that ran is gone".into()),
        Err(error) => Err(error),
        Ok(account) => {
            account.print(output)?;
            account.judge()
        }
    }
}

/// Ends all processes when the interrupt has come: calls that wait for one of them fail then, instead of waiting on.
fn end_processes_on(interrupt: Interrupt) {
    thread::spawn(move || {
        while !interrupt.has_come() {
            thread::sleep(LOOK_EVERY);
        }
        end_processes();
    });
}

fn play(args: &DemoFilesArgs, dir: &Path, interrupt: &Interrupt, output: &mut Output) -> Result<Account> {
    let spinner = output::spinner("starting a store, two groups and four servers");
    let mut content = Content::create(&dir.join("www"))?;
    let mut farm = Farm::start(dir, content.dir())?;
    farm.await_version(content.version(), interrupt)?;
    let mut rsync = if args.alone { None } else { Rsync::start(content.dir(), &dir.join("copy"))? };
    spinner.finish_and_clear();
    tell(output, describe(&farm))?;
    tell(output, beside(args, rsync.as_ref()))?;

    let mut account = Account::new(farm.line_bytes());
    let visitors = Readers::start((0..VISITORS).map(|it| -> Step { Visitor::new(it, farm.addresses()).into_step() }))?;
    for publish in 1..=args.publishes {
        account.changed_bytes += content.change()?;
        if let Some(fault) = Fault::at(publish, args.publishes) {
            kill(fault, &mut farm, content.version(), &mut account, interrupt, output)?;
        } else {
            let published = farm.publish()?;
            farm.await_version(content.version(), interrupt)?;
            account.quiet.push(published.elapsed());
        }
        if let Some(rsync) = &mut rsync {
            rsync.copy()?;
        }
        pause(BETWEEN, interrupt);
        if interrupt.has_come() {
            return Err("interrupted".into());
        }
    }
    account.publishes = args.publishes;
    account.visitors = visitors.end()?;
    account.line_bytes_until(farm.line_bytes());
    account.rsync = rsync.map(Rsync::end).transpose()?;
    let spinner = output::spinner("comparing every file at every server");
    account.end = Some(End { revision: farm.revision()?, damage: farm.damage(&content), verified: farm.verify() });
    spinner.finish_and_clear();
    Ok(account)
}

fn describe(farm: &Farm) -> String {
    let trip = 2 * DELAY.as_millis();
    format!(
        "A store (process {}), and two groups that are {trip} ms from it, there and back. Each has a redirector\n\
         (processes {}) and two servers (processes {}) of a site of {FILES} files,\n\
         {PAGES} of them pages. {VISITORS} visitors follow links from server to server. Each page names the versions\n\
         of its parts, and every answer is checked. Each publish changes all pages and {PARTS_CHANGED} parts.",
        farm.store_id(),
        farm.redirector_ids(),
        farm.server_ids(),
    )
}

fn beside(args: &DemoFilesArgs, rsync: Option<&Rsync>) -> &'static str {
    match rsync {
        Some(_) => {
            "Beside it, rsync copies each version into a directory of this machine, where a reader follows its pages.\n"
        }
        None if args.alone => "",
        None => "rsync is not installed, and left out.\n",
    }
}

/// Kills a process, publishes a version, and starts the process again.
fn kill(
    fault: Fault,
    farm: &mut Farm,
    version: u64,
    account: &mut Account,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result {
    let (name, id) = (fault.name(), farm.process(fault).id());
    farm.process(fault).kill()?;
    let killed = Instant::now();
    let meanwhile = match fault {
        Fault::Store => "visitors read on".to_owned(),
        Fault::Server | Fault::Redirector => format!("version {version} is published without it"),
    };
    tell(output, format_args!("{name} (process {id}) is killed with kill -9, and {meanwhile}."))?;
    // Without the store there is no publish.
    let early = if fault == Fault::Store { None } else { Some(farm.publish()?) };
    pause(AWAY.saturating_sub(killed.elapsed()), interrupt);
    farm.process(fault).start_again()?;
    let again = Instant::now();
    let published = early.map_or_else(|| farm.publish(), Ok)?;
    farm.await_version(version, interrupt)?;
    account.killed.push(published.elapsed());
    let (away, after) = ((again - killed).as_secs_f64(), again.elapsed().as_millis());
    tell(
        output,
        format_args!(
            "  It was there again after {away:.1} s, and {after} ms later every server had version {version}."
        ),
    )
}
