//! `thorp volume`: homes are made and looked at, and attached from their start to their stop; and volumes of a store.

mod change;
mod export;
mod file;
mod holders;
mod homes;
mod import;
mod live;
mod rebuild;
mod registry;
mod scrub;
mod store;
mod stored;

use crate::cli::{VolumeAck, VolumeAttachArgs, VolumeCacheFailure, VolumeCommand, VolumePlace, VolumeRegistryCommand};
use crate::error::usage;
use crate::operators::{Operators, and_operators};
use crate::output::{Output, Progress, checks, visible};
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Result, cli};
use attach::control::{Control, Controlled, ControlledVolume, observed};
use attach::{AttachConfig, Attached, Scrubbing, create_home, home_status};
use live::Attachment;
use nbd::{Export, Server, ServerConfig};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use stored::Begun;

/// Requests that are under way when the volume should be detached are waited for this long.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// How often to look for what has gone wrong, and for how much is not written back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn run(command: &VolumeCommand, output: &mut Output) -> Result {
    match command {
        VolumeCommand::Create(args) => match &args.store {
            Some(store) => stored::create(args, store, output),
            None => create(args, output),
        },
        VolumeCommand::Status(args) => status(args, output),
        VolumeCommand::List(args) if args.homes => homes::list(args, output),
        VolumeCommand::List(args) => stored::list(args, output),
        VolumeCommand::Holders(args) => holders::holders(args, output),
        VolumeCommand::Detach(args) => stored::detach(args, output),
        VolumeCommand::Remove(args) => stored::remove(args, output),
        VolumeCommand::Registry(VolumeRegistryCommand::Rebuild(args)) => rebuild::rebuild(args, output),
        VolumeCommand::Resize(args) => change::resize(args, output),
        VolumeCommand::Snapshot(args) => change::snapshot(args, output),
        VolumeCommand::Export(args) => export::export(args, output),
        VolumeCommand::Scrub(args) => scrub::scrub(args, output),
        VolumeCommand::Import(args) => import::import(args, output),
        VolumeCommand::Attach(args) => attach(args, output),
    }
}

fn create(args: &cli::VolumeCreateArgs, output: &mut Output) -> Result {
    let cli::VolumeCreateArgs { volume: home, size, .. } = args;
    create_home(home, *size as u64)?;
    let text = format!("{}: {size} bytes of zeros; attach it with `thorp volume attach`", home.display());
    output.line(&json!({"home": home, "size": size}), text)
}

fn status(args: &cli::VolumeStatusArgs, output: &mut Output) -> Result {
    let VolumePlace { store, beside, cache } = &args.place;
    match (&args.volume, store, cache) {
        (Some(volume), Some(store), _) => stored::status(volume, store, cache.as_deref(), output),
        (Some(home), None, _) => home_of_one(home, beside.as_deref(), cache.as_deref(), output),
        (None, _, Some(cache)) => {
            let live = live::ask(cache)?;
            if output.is_json() { output.raw(live) } else { live::people(&live, output) }
        }
        (None, _, None) => Err(usage("say which volume: its name, its home, or --cache with its cache")),
    }
}

/// The home of a volume of one host.
fn home_of_one(home: &Path, beside: Option<&Path>, cache: Option<&Path>, output: &mut Output) -> Result {
    let status = home_status(home, beside)?;
    let known = vec![
        ("home", json!(home)),
        ("size", json!(status.size)),
        ("attachments", json!(status.epoch)),
        ("not_home_at", json!(status.dirty_at.as_deref().map(visible))),
    ];
    // A process that has ended has left its writes in the cache: that is told already.
    live::print(known, Attachment::of_home(home, status.dirty_at.as_deref(), cache)?.as_ref(), output)
}

/// An attachment that was made.
enum Begin {
    /// The attachment of a volume of a store, which operators could observe since it began.
    Stored(Begun),
    /// The attachment of a volume of this host.
    Alone(Operators),
}

fn attach(args: &VolumeAttachArgs, output: &mut Output) -> Result {
    let (stop, stopped) = channel();
    let is_told = Arc::new(AtomicBool::new(false));
    // Before anything is attached: a signal that comes early is not lost.
    let tell = |stop: Sender<()>| {
        let is_told = is_told.clone();
        move || {
            is_told.store(true, SeqCst);
            // Nobody waits any more: it is being detached already.
            let _ = stop.send(());
        }
    };
    when_told(tell(stop.clone()))?;
    if args.until_stdin_closes {
        when_stdin_closes(tell(stop));
    }
    let operators = Operators::listen(&args.operators)?;
    let admin = operators.address();
    let (attached, begun, dirty) = if let Some(store) = &args.store {
        let (attached, begun, dirty) = stored::attach(args, store, operators, &is_told)?;
        (attached, Begin::Stored(begun), dirty)
    } else {
        // Why a home cannot be looked at is told by the attachment.
        let size = home_status(&args.volume, args.beside.as_deref()).map_or(u64::MAX, |it| it.size);
        let config = config(args, size);
        (Attached::attach(&config)?, Begin::Alone(operators), config.log_bytes)
    };
    let attached = Arc::new(attached);
    let export =
        Export { name: args.export.clone(), description: args.volume.display().to_string(), device: attached.clone() };
    let mut server = ServerConfig::new(args.listen[0].clone());
    (server.listen, server.insecure) = (args.listen.clone(), args.insecure);
    let server = match Server::start(&server, vec![export]) {
        Ok(server) => server,
        Err(error) => {
            // Nobody has written: the next one is not to wait for this host.
            if let Err(why) = attached.detach() {
                eprintln!("the volume stays attached here: {why}");
            }
            return Err(error.into());
        }
    };
    let every = args.scrub_every.map(|every| Scrubbing::start(attached.clone(), &args.cache, every));
    let scrubbing = every.transpose()?.map(Arc::new);
    let addresses: Vec<_> = server.addresses().iter().map(ToString::to_string).collect();
    let controlled = ControlledVolume {
        name: args.volume.display().to_string(),
        attached: attached.clone(),
        server: server.watch(),
        listen: addresses.clone(),
        dirty_bytes_max: dirty,
        since: Instant::now(),
        scrubbing: scrubbing.clone(),
    };
    let (controlled, control, _operators): (Arc<dyn Controlled>, _, _) = match begun {
        Begin::Stored(Begun { volume, control, operators }) => {
            volume.attached(controlled);
            (volume, control, operators)
        }
        Begin::Alone(operators) => {
            let controlled = Arc::new(controlled);
            (controlled.clone(), None, operators.serve(observed(controlled))?)
        }
    };
    let control = control.unwrap_or_else(|| Control::start(&args.cache, controlled));
    if let Err(error) = &control {
        eprintln!("{error}: the volume is attached, and `thorp volume` cannot ask it or change it");
    }
    let status = attached.status();
    let found = match status.dirty_writes {
        0 => String::new(),
        writes => format!("; {writes} writes of before go home now"),
    };
    output.line(
        &json!({
            "listen": addresses,
            "admin": admin,
            "size": status.size,
            "attachment": status.epoch,
            "recovered": status.dirty_writes,
        }),
        format_args!("ready: {} at {}{found}{}", args.volume.display(), addresses.join(", "), and_operators(admin)),
    )?;
    output.flush()?;
    let (mut trouble, mut store) = (Trouble::default(), StoreWords::default());
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
        let status = attached.status();
        trouble.look(&status);
        store.look(status.registry_silence);
        if let Some(why) = status.failed {
            if status.has_home_gone_back {
                return Err(why.into());
            }
            return Err(format!("{why}; {}", what_next(status.is_ended, status.copies)).into());
        }
    }
    trouble.look(&attached.status());
    if let Some(scrubbing) = &scrubbing {
        scrubbing.end();
    }
    if !server.stop(STOP_WITHIN) {
        eprintln!("clients still wait for answers after {} s: their requests fail", STOP_WITHIN.as_secs());
    }
    detach(&attached, control)?;
    let text = match args.store {
        Some(_) => format!("detached: all data of {} was written back", args.volume.display()),
        None => format!("detached: everything is in {}", args.volume.display()),
    };
    output.line(&json!({"detached": args.volume}), text)
}

/// The next step when nothing works any more. An owner that another host has followed does not know how that went.
fn what_next(is_ended: bool, copies: u8) -> &'static str {
    match copies {
        _ if !is_ended => "nothing was given up: mend it, and attach the volume again",
        0 | 1 => {
            "what was not home has no copy but this cache, and is not that host's: it is lost, unless it was home before"
        }
        _ => {
            "that host has brought home what was promised, from copies, unless its operator had it go on without some: \
             `thorp volume status` says so"
        }
    }
}

/// A trouble that lasts: it is said once, on standard error, and when it is over, as a lost cache never is.
#[derive(Default)]
struct Trouble {
    now: Option<String>,
    has_lost_cache: bool,
}

impl Trouble {
    fn look(&mut self, status: &attach::Status) {
        if let Some(why) = status.lost_cache.as_ref().filter(|_| !self.has_lost_cache) {
            eprintln!("cache: {why}; the volume continues without it: detach it, and attach it with another");
            self.has_lost_cache = true;
        }
        let full = || status.is_stuck.then(|| "the cache's disk is full: writes wait for room".to_owned());
        let home = status.home_error.as_ref().map(|why| format!("home: {why}; it is tried again"));
        let registry = || status.registry_error.as_ref().map(|why| format!("the registry: {why}"));
        let now = home.or_else(registry).or_else(full);
        if now != self.now {
            eprintln!("{}", now.as_deref().unwrap_or("it is well again"));
            self.now = now;
        }
    }
}

/// Reports on standard error that a store does not answer, and that it answers again.
#[derive(Default)]
pub(super) struct StoreWords {
    silent_at: Option<Instant>,
}

impl StoreWords {
    /// Looks at the time for which it has not answered, if it does not.
    pub(super) fn look(&mut self, silence: Option<Duration>) {
        match (silence, self.silent_at) {
            (Some(silence), None) => {
                eprintln!(
                    "the store has not answered for {} s: volumes go on within their leases, and then wait for it",
                    silence.as_secs()
                );
                self.silent_at = Some(Instant::now().checked_sub(silence).unwrap_or_else(Instant::now));
            }
            (None, Some(at)) => {
                eprintln!("the store answers again, after {} s", at.elapsed().as_secs());
                self.silent_at = None;
            }
            _ => {}
        }
    }
}

/// The room for dirty data of a volume of this size, unless the operator names another one.
fn dirty_bytes(size: u64) -> u64 {
    (size / 4).clamp(16 << 20, 1 << 30)
}

fn config(args: &VolumeAttachArgs, size: u64) -> AttachConfig {
    let made = Progress::new("creating the log", 0);
    let progress = move |done, of| {
        made.set(done, of);
        if done == of {
            made.end();
        }
    };
    AttachConfig {
        log_bytes: args.dirty.map_or_else(|| dirty_bytes(size), |dirty| dirty as u64),
        progress: attach::Progress::new(progress),
        checks: checks(),
        clean_bytes: args.clean as u64,
        ack: match args.ack {
            VolumeAck::Write => attach::Ack::Write,
            VolumeAck::Flush => attach::Ack::Flush,
        },
        age_max: Duration::from_secs(args.age_s.into()),
        beside: args.beside.clone(),
        cache_failure: match args.on_cache_failure {
            VolumeCacheFailure::WriteThrough => attach::CacheFailure::WriteThrough,
            VolumeCacheFailure::Stop => attach::CacheFailure::Stop,
        },
        is_forced: args.force,
        accepts_own_log: args.accept_own_log,
        ..AttachConfig::new(args.volume.clone(), args.cache.clone())
    }
}

/// Brings everything home, and shows how far it has come. It is asked and told something until another process may have
/// it.
fn detach(attached: &Attached, control: impl Sized) -> Result {
    let not_home = attached.status().dirty_bytes;
    let progress = Progress::new("writing back", not_home);
    let detached = thread::scope(|scope| {
        let detaching = scope.spawn(|| attached.finish());
        while !detaching.is_finished() {
            thread::sleep(LOOK_EVERY.min(Duration::from_millis(20)));
            progress.set(not_home.saturating_sub(attached.status().dirty_bytes), not_home);
        }
        detaching.join().unwrap_or_else(|_| Err("a thread panicked: please report it".to_owned()))
    });
    progress.end();
    drop(control);
    detached.and_then(|()| attached.release()).map_err(|why| {
        let is_lost = attached.status().lost_cache.is_some();
        let rest = if is_lost { "" } else { "; the cache has it: attach the volume again" };
        format!("not everything is home: {why}{rest}").into()
    })
}
