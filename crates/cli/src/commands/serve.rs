//! `thorp serve`: a store, from its directory's recovery to its close; or a node of one, in `node`.

mod homes;
mod node;
mod sites;

use crate::cli::{ServeArgs, StoreArgs};
use crate::operators::{Operators, and_operators, of_host};
use crate::output::{self, Output};
use crate::stopper::{close_on_signal, close_with_stdin};
use crate::{Error, Result, descriptors};
use attach::VOLUME_HOMES;
use client::tables::CLIENT;
use database::{LocalStore, Recovered, client_beside};
use disk::Progress;
use files::tables::FILE_SERVER;
use files::{FileService, keep_chunks_in_bucket};
use homes::{Homes, Room};
use net::{Host, HostEnd, ListenConfig, Listener, Runtime};
use ops::Service;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::Stats;
use types::PageId;
use vfs::make_directory;

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The memory for the records of published sites, and how long a transaction on them is tried.
const RECORDS_CACHE_BYTES: usize = 8 << 20;
const RECORDS_PATIENCE: Duration = Duration::from_secs(30);

const SALVAGE: &str =
    "stop the store and copy out what is whole with 'thorp doctor --salvage', or restore the directory from a copy";

pub(super) fn run(args: &ServeArgs, output: &mut Output) -> Result {
    if let Some((url, node)) = args.cluster.as_ref().zip(args.node.as_deref()) {
        return node::run(args, url, node, output);
    }
    let disk_config = disk_config(&args.store);
    let room = Room::of(args)?;
    let sessions_max = descriptors::sessions_max(disk_config.segments_max + room.files())?;
    // The address first: where it cannot be had, no store is made. A client that connects already is let in after the
    // recovery.
    let listen =
        ListenConfig { insecure: args.insecure, sessions_max, ..ListenConfig::new(messages::SERVER, args.listen) };
    let listener = Listener::bind(listen)?;
    let (listening, operators) = (listener.address(), Operators::listen(&args.operators)?);
    make_directory(&args.dir)?;
    let (recovered, seconds) = recover(&args.dir, &disk_config, store_config(&args.store))?;
    let (runtime, progress) = (Runtime::start()?, recovered.progress);
    let homes = Homes::start(args, room, &runtime)?;
    let store = recovered.start_beside(client_beside(RECORDS_CACHE_BYTES), &runtime);
    let host = store.host().clone();
    let files = sites(&store, args, &runtime)?;
    host.listen_with(store.role(), listener, homes.beside().chain([files.beside(sessions_max)]).collect())?;
    close_on_signal(&host)?;
    let (admin, damaged) = (operators.address(), Arc::new(AtomicU64::new(0)));
    let operators = operators.serve(service(&host, damaged.clone(), files.bucket_trouble()))?;
    if args.until_stdin_closes {
        close_with_stdin(&host);
    }
    say_ready(&args.dir, (listening, admin), &progress, seconds, output)?;
    if let HostEnd::Failed(why) = watch(&host, &store, &damaged, output) {
        return Err(format!("{why}; what was acknowledged is safe: start it again").into());
    }
    drop((operators, files));
    let counted = Counted::of(&host, &store);
    store.close()?;
    counted.say(&args.dir, output)
}

/// Waits for the end, and prints what an operator would otherwise find in the status only.
fn watch(host: &Host, store: &LocalStore, damaged: &AtomicU64, output: &mut Output) -> HostEnd {
    let mut told = Told::default();
    loop {
        if let Some(end) = host.wait_end_within(LOOK_EVERY) {
            return end;
        }
        // A store whose output is not read any longer serves all the same.
        let _ = told.look(store, output);
        damaged.store(told.damaged.len() as u64, Relaxed);
    }
}

/// The events that were printed.
#[derive(Default)]
struct Told {
    damaged: BTreeSet<PageId>,
    gone: u64,
}

impl Told {
    fn look(&mut self, store: &LocalStore, output: &mut Output) -> Result {
        let Stats { pages_damaged, commits_gone, .. } = store.look(store::Store::stats);
        if commits_gone > self.gone {
            self.gone = commits_gone;
            let json = json!({"restored": true, "commits_gone": commits_gone});
            let text = format!(
                "this store was restored to an older state: a client has seen {commits_gone} commits after it, which are gone"
            );
            output.line(&json, text)?;
            output.flush()?;
        }
        if pages_damaged == self.damaged.len() as u64 {
            return Ok(());
        }
        for (page, why) in store.look(|store| store.status().damaged) {
            if self.damaged.insert(page) {
                let json = json!({"damaged_page": page.to_string(), "why": why, "advice": SALVAGE});
                output.line(&json, format_args!("page {page} is damaged and cannot be read: {why}; {SALVAGE}"))?;
            }
        }
        output.flush()
    }
}

/// The store, as its operators see it.
fn service(
    host: &Arc<Host>,
    damaged: Arc<AtomicU64>,
    bucket: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> Arc<dyn Service> {
    let host_end = Arc::downgrade(host);
    let troubles = move || {
        let failed = match host_end.upgrade().and_then(|host| host.end()) {
            Some(HostEnd::Failed(why)) => Some(format!("the store has failed: {why}")),
            _ => None,
        };
        let damaged = Some(damaged.load(Relaxed)).filter(|count| *count > 0);
        let damaged = damaged.map(|count| format!("damaged pages that cannot be read: {count}; {SALVAGE}"));
        failed.into_iter().chain(damaged).chain(bucket()).collect()
    };
    let beside = &[CLIENT.described(), VOLUME_HOMES.described(), FILE_SERVER.described()];
    of_host(host, &[store::tables::TABLES, beside], troubles)
}

/// The file server of published sites, whose records are objects of the store.
fn sites(store: &LocalStore, args: &ServeArgs, runtime: &Runtime) -> Result<FileService> {
    if let Some(url) = &args.chunks {
        keep_chunks_in_bucket(&args.dir, url)?;
    }
    let (client, driver) = store.client().ok_or("the store has no client beside it")?;
    let db = objects::over(client, driver, RECORDS_PATIENCE);
    let lease = Duration::from_millis(args.site_lease_ms.into());
    Ok(FileService::start(db, &args.dir, lease, runtime)?)
}

/// The counts of a store from its start to its close.
struct Counted {
    sessions: u64,
    commits: u64,
    refused_commits: BTreeMap<&'static str, u64>,
    refused_sessions: BTreeMap<&'static str, u64>,
}

impl Counted {
    fn of(host: &Host, store: &LocalStore) -> Self {
        let tally = host.tally();
        store.look(|store| Self {
            sessions: tally.sessions,
            commits: store.stats().commits,
            refused_commits: store.refusals().clone(),
            refused_sessions: tally.refusals,
        })
    }

    fn say(&self, dir: &Path, output: &mut Output) -> Result {
        let Self { sessions, commits, refused_commits, refused_sessions } = self;
        let json = json!({
            "closed": dir,
            "sessions": sessions,
            "commits": commits,
            "refused_commits": refused_commits,
            "refused_sessions": refused_sessions,
        });
        let by_name = |(name, count): (&&str, &u64)| format!(", refused as {name}: {count}");
        let refused: String = refused_commits.iter().chain(refused_sessions).map(by_name).collect();
        let text = format!("closed {} (sessions: {sessions}, commits: {commits}{refused})", dir.display());
        output.line(&json, text)
    }
}

/// The content of the directory, and how many seconds it took to read.
fn recover(dir: &Path, disk: &disk::Config, store: store::Config) -> Result<(Recovered, f64)> {
    let start = Instant::now();
    let mut bar = None;
    let recovered = Recovered::read(dir, disk, store, |progress| {
        let bar = bar.get_or_insert_with(|| output::bar("recover (bytes)", progress.bytes_total));
        bar.set_position(progress.bytes);
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok((recovered, start.elapsed().as_secs_f64()))
}

fn disk_config(args: &StoreArgs) -> disk::Config {
    let defaults = disk::Config::default();
    let segments = ((args.mob_mib as usize * disk::LOG_OVER_MOB) << 20).div_ceil(defaults.segment_bytes);
    disk::Config { segments_max: segments.max(defaults.segments_max), ..defaults }
}

fn store_config(args: &StoreArgs) -> store::Config {
    store::Config {
        mob_bytes_limit: (args.mob_mib as usize) << 20,
        cache_bytes_limit: (args.cache_mib as usize) << 20,
        leased_spaces: args.leased.clone(),
        lease: Duration::from_millis(u64::from(args.lease_ms)),
        references: objects::references,
        ..store::Config::default()
    }
}

fn say_ready(
    dir: &Path,
    (listening, admin): (SocketAddr, Option<SocketAddr>),
    progress: &Progress,
    seconds: f64,
    output: &mut Output,
) -> Result {
    let Progress { bytes, records, .. } = progress;
    let json = json!({
        "listen": listening,
        "admin": admin,
        "dir": dir,
        "recovery": {"bytes": bytes, "records": records, "seconds": seconds},
    });
    let (dir, and) = (dir.display(), and_operators(admin));
    let text = format!("ready: {dir} on {listening} ({records} records recovered in {seconds:.2} s){and}");
    output.line(&json, text)?;
    output.flush().map_err(|error| Error::from(format!("cannot say that the store is ready: {error}")))
}
