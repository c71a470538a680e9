//! `thorp demo files`: what published files are for. A store, and behind each of two slow lines a group with two
//! servers of a site and a mount of it. The site is published again and again while visitors go from server to server
//! and programs read the mounts; processes are killed or stopped in between. Beside it, rsync copies the same versions
//! into a directory that a reader reads.
//!
//! ```text
//!   thorp publish --> store ~~~ 40 ms, both ways ~~~ redirector --- server, server, mount <--- visitors
//!                       |
//!                       +~~~~~~ 40 ms, both ways ~~~ redirector --- server, server, mount <--- visitors
//! ```
//! All of these are processes, except for the visitors and the lines, which are threads of this one.

mod account;
mod acknowledged;
mod client;
mod content;
mod farm;
mod fault;
mod mounts;
mod readers;
mod rsync;
mod visitor;

use super::{DELAY, pause, tell};
use crate::Result;
use crate::cli::DemoFilesArgs;
use crate::error::usage;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, end_processes_on};
use account::{Account, End};
use content::{Content, FILES, PAGES, PARTS_CHANGED};
use farm::Farm;
use fault::{Fault, Target, Way};
use fixtures::Signal;
use mounts::MountReader;
use readers::{Readers, Step};
use rsync::Rsync;
use std::path::Path;
use std::time::{Duration, Instant};
use visitor::Visitor;

const VISITORS: usize = 4;

/// The pause between two publishes, in which visitors read on.
const BETWEEN: Duration = Duration::from_millis(600);

/// How long a process is away: longer than the lease, so that those behind it have to say that they may be old.
const AWAY: Duration = Duration::from_millis(1500);

pub(super) fn run(args: &DemoFilesArgs, output: &mut Output) -> Result {
    if args.faults.is_some_and(|faults| faults >= args.publishes) {
        return Err(usage(
            "each fault needs a publish of its own and one after it: --faults must be less than --publishes",
        ));
    }
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

fn play(args: &DemoFilesArgs, dir: &Path, interrupt: &Interrupt, output: &mut Output) -> Result<Account> {
    let spinner = output::spinner("starting a store, two groups, four servers and two mounts");
    let mut content = Content::create(&dir.join("www"))?;
    let mut farm = Farm::start(dir, content.dir())?;
    farm.await_version(content.version(), interrupt)?;
    let mut rsync = if args.alone { None } else { Rsync::start(content.dir(), &dir.join("copy"))? };
    spinner.finish_and_clear();
    tell(output, describe(&farm))?;
    tell(output, beside(args, rsync.as_ref()))?;

    let mut account = Account::new(farm.line_bytes());
    let visitors = (0..VISITORS).map(|it| Visitor::new(it, farm.addresses(), farm.acknowledged()).into_step());
    let programs = farm.mounted().enumerate().map(|(it, at)| MountReader::new(it, at, farm.acknowledged()).into_step());
    let readers = Readers::start(visitors.chain(programs).collect::<Vec<Step>>())?;
    let faults = args.faults.unwrap_or(farm.targets().kinds());
    for publish in 1..=args.publishes {
        account.changed_bytes += content.change()?;
        let fault = farm.targets().fault(publish, args.publishes, faults);
        if let Some(fault) = fault {
            account.broken.push(break_one(fault, &mut farm, content.version(), interrupt, output)?);
        } else {
            let published = farm.publish(content.version())?;
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
    (account.publishes, account.faults) = (args.publishes, faults);
    account.visitors = readers.end()?;
    account.line_bytes_until(farm.line_bytes());
    account.rsync = rsync.map(Rsync::end).transpose()?;
    let spinner = output::spinner("comparing every file at every server");
    account.end = Some(End { revision: farm.revision()?, damage: farm.damage(&content), verified: farm.verify() });
    spinner.finish_and_clear();
    Ok(account)
}

fn describe(farm: &Farm) -> String {
    let trip = 2 * DELAY.as_millis();
    let mounts = match farm.mount_ids() {
        ids if ids.is_empty() => "No file system can be mounted here, so there are no mounts.".to_owned(),
        ids => format!("Each also has a mount of it (processes {ids}), which a program reads."),
    };
    format!(
        "A store (process {}), and two groups that are {trip} ms from it, there and back. Each has a redirector\n\
         (processes {}) and two servers (processes {}) of a site of {FILES} files,\n\
         {PAGES} of them pages. {mounts}\n\
         {VISITORS} visitors follow links from server to server. Each page names the versions of its parts, and every\n\
         answer is checked. Each publish changes all pages and {PARTS_CHANGED} parts.",
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

/// Kills or stops a process while a version is published, and starts or continues it. Returns the time from then until
/// every server and mount had the version.
fn break_one(
    Fault { target, way }: Fault,
    farm: &mut Farm,
    version: u64,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<Duration> {
    let id = farm.process(target).id();
    // Without the store there is no publish. While a mount is stopped, no process can be started: it would close the
    // files that readers have opened there, and wait for the mount.
    let early = if target == Target::Store { None } else { Some(farm.begin_publish(version)?) };
    match way {
        Way::Kill => farm.process(target).kill()?,
        Way::Stop => farm.process(target).signal(Signal::STOP)?,
    }
    let broken = Instant::now();
    let meanwhile = match early {
        Some(_) => format!("version {version} is published without it"),
        None => "visitors read on".to_owned(),
    };
    tell(output, format_args!("{}: {target} (process {id}), and {meanwhile}.", way.command()))?;
    pause(AWAY, interrupt);
    match way {
        Way::Kill => farm.process(target).start_again()?,
        Way::Stop => farm.process(target).signal(Signal::CONT)?,
    }
    let again = Instant::now();
    match early {
        Some(publishing) => farm.end_publish(publishing)?,
        None => farm.publish(version)?,
    };
    farm.await_version(version, interrupt)?;
    let (away, after) = ((again - broken).as_secs_f64(), again.elapsed());
    let (millis, place) = (after.as_millis(), "every server and mount");
    tell(
        output,
        format_args!("  It was back after {away:.1} s, and {millis} ms later {place} had version {version}."),
    )?;
    Ok(after)
}
