//! `thorp holder`: room for copies of others' dirty writes, from its start to its stop.

use super::volume::StoreWords;
use crate::Result;
use crate::cli::HolderArgs;
use crate::operators::{Operators, and_operators};
use crate::output::{Output, visible};
use crate::stopper::{when_stdin_closes, when_told};
use attach::control::{Control, ControlledHolder, observed};
use attach::{
    Dropped, HolderNames, HolderServer, HolderSettings, HolderStatus, Lives, RescueSettings, RescueWord, TakeOverWord,
};
use net::Runtime;
use registry::{StoreRegistry, host_name};
use serde_json::json;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often to look whether it has failed, or is empty.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(args: &HolderArgs, output: &mut Output) -> Result {
    let (stop, stopped) = channel();
    // Before anything is opened: a signal that comes early is not lost.
    let tell = |stop: Sender<()>| {
        move || {
            // Nobody waits any more: it is stopping already.
            let _ = stop.send(());
        }
    };
    when_told(tell(stop.clone()))?;
    if args.until_stdin_closes {
        when_stdin_closes(tell(stop));
    }
    let HolderArgs { dir, room, listen, insecure, .. } = args;
    let settings = HolderSettings { dir: dir.clone(), room: *room as u64, listen: *listen, insecure: *insecure };
    HolderServer::check(&settings)?;
    let (runtime, operators) = (Runtime::start()?, Operators::listen(&args.operators)?);
    let admin = operators.address();
    if args.as_new {
        HolderServer::make_anew(&settings, &mut |dropped| say(&said_of(&dropped)))?;
    }
    let registry = registry(args)?;
    let mut waits = |within: Duration| {
        say(&format!(
            "another process may be this holder: waiting {} s for a heartbeat of it in the registry",
            within.as_secs()
        ));
    };
    let holder = HolderServer::start_known(&settings, Lives::new(&*registry, &mut waits), &runtime)?;
    let holder = Arc::new(holder);
    let (address, status) = (holder.address(), holder.status());
    holder.register(registry, names(args, address)?)?;
    if args.bring_home_after_s > 0 {
        rescue(args, &holder, runtime)?;
    }
    let control = Control::start(dir, Arc::new(ControlledHolder(holder.clone())));
    if let Err(error) = &control {
        eprintln!("{error}: `thorp volume holders --dir` cannot ask this holder");
    }
    let _operators = operators.serve(observed(Arc::new(ControlledHolder(holder.clone()))))?;
    let partition = format!("{:016x}", holder.partition().0);
    let found = match status.volumes {
        0 => String::new(),
        volumes => format!(", with {} bytes of {volumes} volumes", status.used),
    };
    output.line(
        &json!({"listen": address, "admin": admin, "partition": partition, "used": status.used, "free": status.free}),
        format_args!("ready: holder {partition} on {address}{found}{}", and_operators(admin)),
    )?;
    output.flush()?;
    let mut store = StoreWords::default();
    let mut disk = DiskWords { dir, room: *room as u64, is_full: false, is_nearly_full: false };
    disk.begin(&status);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
        look(&holder, Duration::ZERO)?;
        disk.look(&holder.status());
        store.look(holder.registry_silence());
    }
    if args.leave {
        holder.leave();
        while holder.status().used > 0 {
            look(&holder, LOOK_EVERY)?;
        }
    }
    holder.stop();
    let used = holder.status().used;
    output.line(&json!({"stopped": partition, "used": used}), format_args!("stopped: it keeps {used} bytes"))
}

/// Words on standard error about a disk that has less room than the holder was told to take.
struct DiskWords<'a> {
    dir: &'a Path,
    room: u64,
    /// It was said that it is full.
    is_full: bool,
    /// It was said that this holder is nearly full.
    is_nearly_full: bool,
}

impl DiskWords<'_> {
    fn begin(&self, status: &HolderStatus) {
        let (Some(lacks), Some(free)) = (status.lacks(), status.disk_free) else { return };
        say(&format!(
            "the disk of {} has {free} bytes free, which are {lacks} fewer than --room {} may yet take: when it is full this \
             holder takes no more copies than its files have room for",
            self.dir.display(),
            self.room
        ));
    }

    /// Says once that the disk is full, and that it has room again.
    fn look(&mut self, status: &HolderStatus) {
        self.look_at_copies(status);
        if status.is_disk_full == self.is_full {
            return;
        }
        self.is_full = status.is_disk_full;
        let dir = self.dir.display();
        if !self.is_full {
            let free =
                status.disk_free.map_or(String::new(), |free| format!(": the disk of {dir} has {free} bytes free"));
            return say(&format!("this holder has room again{free}"));
        }
        say(&format!(
            "the disk of {dir} is full: this holder has {} of the {} bytes of --room, and takes no more copies than fit in them; \
             owners bring home what does not. Make room there, or start it with less --room",
            status.file_bytes, self.room
        ));
    }

    /// Says once that volumes should go to other holders, and that they may come again.
    fn look_at_copies(&mut self, status: &HolderStatus) {
        if status.is_nearly_full == self.is_nearly_full {
            return;
        }
        self.is_nearly_full = status.is_nearly_full;
        let HolderStatus { used, keeps, .. } = status;
        say(&if self.is_nearly_full {
            format!(
                "this holder is nearly full: copies take {used} of the {keeps} bytes that it can keep. Owners go to other \
                 holders that have room, and stay here if there are none: give it more --room, make room on its disk, or start \
                 another holder"
            )
        } else {
            format!("this holder has room for volumes again: copies take {used} of the {keeps} bytes that it can keep")
        });
    }
}

/// The copies that a directory had which was made again.
fn said_of(dropped: &Dropped) -> String {
    let partition = dropped.partition.0;
    match dropped.copies {
        Some((bytes, volumes)) => {
            format!("--as-new drops holder {partition:016x}: {bytes} bytes of copies, of {volumes} volumes")
        }
        None => format!("--as-new drops holder {partition:016x}, with copies that cannot be read"),
    }
}

/// A word on standard error.
fn say(text: &str) {
    // Nobody may listen there any more.
    let _ = writeln!(io::stderr(), "{}", visible(text));
}

fn registry(args: &HolderArgs) -> Result<Arc<StoreRegistry>> {
    let place = format!("{}:{}", host_name(), args.dir.display());
    Ok(Arc::new(StoreRegistry::connect(&args.store, &place)?))
}

/// Has the holder bring home what silent hosts have left, and say so on standard error.
fn rescue(args: &HolderArgs, holder: &HolderServer, runtime: Runtime) -> Result {
    let registry = registry(args)?;
    let settings = RescueSettings {
        registry: registry.clone(),
        runtime,
        after: Duration::from_secs(args.bring_home_after_s.into()),
    };
    holder.rescue(settings, move |volume, word| {
        let found = registry.list().ok().and_then(|all| all.into_iter().find(|it| it.id == volume));
        let name = found.map_or_else(|| format!("{:016x}", volume.0), |it| it.name);
        let text = match word {
            RescueWord::On(TakeOverWord::Claimed(_)) => {
                format!("the host that has '{name}' is silent: what is not home is brought there")
            }
            RescueWord::On(TakeOverWord::Missing { lists, .. }) if lists.is_empty() => {
                format!("a copy of '{name}' is damaged, and nobody else has it")
            }
            RescueWord::On(TakeOverWord::Missing { older, .. }) if !older.is_empty() => {
                let older = older.join(", ");
                format!(
                    "{older} lacks writes of '{name}' that it had acknowledged: its directory was restored from an \
                     older copy. Attach the volume at the host that had it, with the same cache, or with --force"
                )
            }
            RescueWord::On(TakeOverWord::Missing { lists, .. }) => {
                format!("no answer of {}, and they may have what of '{name}' nobody else has", lists.join(", "))
            }
            RescueWord::On(TakeOverWord::HomeWentBack(back)) => {
                format!("the home of '{name}' is older than this holder was told: {back}")
            }
            RescueWord::On(TakeOverWord::Home(why)) => format!("the home of '{name}': {why}; it is tried again"),
            RescueWord::On(TakeOverWord::GoesOn) => format!("'{name}' goes home again"),
            RescueWord::On(_) => return,
            RescueWord::Home => format!("all of '{name}' is home"),
            RescueWord::GivenUp(why) => format!("'{name}' was not brought home: {why}; it is tried again later"),
        };
        say(&text);
    })?;
    Ok(())
}

fn names(args: &HolderArgs, address: SocketAddr) -> Result<HolderNames> {
    if args.address.is_none() && address.ip().is_unspecified() {
        let text = format!("owners cannot reach {address}: say with --address where they reach this host");
        return Err(text.into());
    }
    let name = host_name();
    let domain = args.domain.clone().unwrap_or_else(|| name.clone());
    Ok(HolderNames { name, domain, address: args.address.clone().unwrap_or_else(|| address.to_string()) })
}

/// Waits a while, and says why it has failed if it has.
fn look(holder: &HolderServer, within: Duration) -> Result {
    match holder.wait_failed_within(within) {
        Some(why) => Err(format!("{why}; what it has counted is in its folder: mend that, and start it again").into()),
        None => Ok(()),
    }
}
