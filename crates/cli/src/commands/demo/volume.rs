//! `thorp demo volume`: what the block front end is for. A volume with two copies, a file system on it, a workload with
//! fsyncs; then its host is killed, and its disk is gone. Attached on another host, the file system is whole, and
//! everything that was acknowledged is there. In the end, what copies cost.
//!
//! ```text
//!   ext4 - loop - nbdfuse --NBD--> host-1 (thorp volume attach) --copies--> holder-1, holder-2
//!                                    x  killed, cache removed                  |
//!   ext4 - loop - nbdfuse --NBD--> host-2 (thorp volume attach) <--------------+
//!                                    |
//!                                  thorp serve --volumes     home, registry
//! ```
//! Hosts are processes, each with folders and a failure domain of its own.

mod account;
mod blocks;
mod files;
mod site;

use super::tell;
use crate::Result;
use crate::cli::DemoVolumeArgs;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use account::{Account, Verdict};
use bench::{Place, copies_cost};
use fixtures::installed::run as run_program;
use fixtures::mounts::{self, Fuse, Mounted};
use site::{Host, Site};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A workload that was told to end, or whose volume is gone, ends within this.
const END_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn run(args: &DemoVolumeArgs, output: &mut Output) -> Result {
    // A second Ctrl-C would leave what is mounted: the first is enough.
    let interrupt = Interrupt::watch_patiently()?;
    let scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "demo")?;
    // Everything that runs or is mounted ends before its folder does.
    match play(args, scratch.path(), &interrupt, output) {
        Err(_) if interrupt.has_come() => Err("interrupted: everything that ran or was mounted is gone".into()),
        Err(error) => Err(error),
        Ok(account) => {
            account.print(output)?;
            account.judge()
        }
    }
}

fn play(args: &DemoVolumeArgs, dir: &Path, interrupt: &Interrupt, output: &mut Output) -> Result<Account> {
    let site = Site::start(dir)?;
    tell(output, site.describe())?;
    let host = site.attach("host-1")?;
    host.await_copies(interrupt)?;
    let obstacle = if args.raw { Some("--raw says so".to_owned()) } else { mounts::obstacle() };
    let mut account = match obstacle.map_or_else(|| first_mount(dir, &host), |why| Err(why.into())) {
        Ok(disk) => {
            let device = &disk.0.device;
            tell(output, format_args!("ext4 on it, by nbdfuse and {device}; programs write files, and fsync them."))?;
            on_files(args, &site, host, disk, interrupt, output)?
        }
        Err(why) => {
            tell(
                output,
                format_args!("No file system is mounted here ({why}): programs write raw blocks, and flush them."),
            )?;
            let mut account = on_blocks(args, &site, host, interrupt, output)?;
            account.no_file_system = Some(why.to_string());
            account
        }
    };
    drop(site);
    if args.table_mib > 0 {
        tell(
            output,
            "\nNow the cost of copies: the same writes without, with asynchronous and with synchronous ones.",
        )?;
        let spinner = output::spinner("measuring");
        let place = Place { program: std::env::current_exe()?, dir: dir.join("cost"), apart: None, fabric: None };
        std::fs::create_dir_all(&place.dir)?;
        account.costs = copies_cost(&place, args.table_mib, &|what| {
            spinner.set_message(format!("measuring: {what}"));
        })?;
        spinner.finish_and_clear();
    }
    Ok(account)
}

/// Makes a file system, and mounts it. That this cannot be done here is no fault of the volume's.
fn first_mount(dir: &Path, host: &Host) -> Result<(Mounted, Fuse)> {
    let fuse = Fuse::new(&dir.join("disk-1"), host.socket())?;
    run_program("mkfs.ext4", ["-q", "-F", &fuse.file])?;
    Ok((Mounted::new(dir.join("mounted-1"), &fuse.file)?, fuse))
}

/// The story on a file system.
fn on_files(
    args: &DemoVolumeArgs,
    site: &Site,
    mut host: Host,
    disk: (Mounted, Fuse),
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<Account> {
    let is_dead = Arc::new(AtomicBool::new(false));
    let work = files::Work::start(&disk.0.path, is_dead.clone())?;
    work_for(args, interrupt, || work.trouble())?;
    let at_kill = kill(&mut host, &is_dead, output)?;
    let written = work.end(END_WITHIN)?;
    // Its disk is gone: so is all of it.
    drop((disk, host));
    tell(output, format_args!("{} fsyncs were acknowledged before.", written.fsyncs()))?;
    let (other, took) = take_over(site, interrupt, output)?;
    let fuse = Fuse::new(&site.dir().join("disk-2"), other.socket())?;
    // Mounting it replays its journal, as after any crash.
    let mounted = Mounted::new(site.dir().join("mounted-2"), &fuse.file)?;
    let spinner = output::spinner("reading every file");
    let mut checked = written.check(&mounted.path);
    spinner.finish_and_clear();
    mounted.unmount()?;
    checked.file_system = Some(Verdict::on(&fuse.file)?);
    drop(fuse);
    other.detach()?;
    Ok(Account::new(at_kill, took, checked))
}

/// The story on raw blocks.
fn on_blocks(
    args: &DemoVolumeArgs,
    site: &Site,
    mut host: Host,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<Account> {
    let is_dead = Arc::new(AtomicBool::new(false));
    let work = blocks::Work::start(host.socket(), is_dead.clone())?;
    work_for(args, interrupt, || work.trouble())?;
    let at_kill = kill(&mut host, &is_dead, output)?;
    let written = work.end(END_WITHIN)?;
    drop(host);
    tell(output, format_args!("{} flushes were acknowledged before.", written.flushes()))?;
    let (other, took) = take_over(site, interrupt, output)?;
    let checked = written.check(other.socket())?;
    other.detach()?;
    Ok(Account::new(at_kill, took, checked))
}

/// Lets a workload run for a while.
fn work_for(args: &DemoVolumeArgs, interrupt: &Interrupt, trouble: impl Fn() -> Option<String>) -> Result {
    let spinner = output::spinner("programs write and fsync");
    let until = Instant::now() + Duration::from_secs(args.work_s.into());
    while Instant::now() < until {
        if interrupt.has_come() {
            return Err("interrupted".into());
        }
        if let Some(why) = trouble() {
            return Err(
                format!("the workload has failed before anything was killed: {why}: this is a bug in Thorp").into()
            );
        }
        thread::sleep(Duration::from_millis(20));
    }
    spinner.finish_and_clear();
    Ok(())
}

/// Kills the host while it writes, and removes its disk. Returns the bytes that were not home.
fn kill(host: &mut Host, is_dead: &AtomicBool, output: &mut Output) -> Result<u64> {
    let dirty = host.dirty_bytes()?;
    is_dead.store(true, SeqCst);
    host.kill()?;
    host.remove_cache()?;
    let text = format!(
        "\nhost-1 (process {}) is killed with kill -9 while they write, and its cache is removed; {dirty} bytes in it were not home.",
        host.pid()
    );
    tell(output, text)?;
    Ok(dirty)
}

fn take_over(site: &Site, interrupt: &Interrupt, output: &mut Output) -> Result<(Host, Duration)> {
    let spinner = output::spinner("host-2 attaches the volume");
    let begun = Instant::now();
    let other = site.attach("host-2")?;
    let took = begun.elapsed();
    spinner.finish_and_clear();
    if interrupt.has_come() {
        return Err("interrupted".into());
    }
    let text = format!(
        "host-2 has it {:.1} s later; a lease of {} s was waited for, and the copies brought home from the holders.",
        took.as_secs_f64(),
        site::LEASE.as_secs()
    );
    tell(output, text)?;
    Ok((other, took))
}
