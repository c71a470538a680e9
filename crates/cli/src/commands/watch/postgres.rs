//! A watcher of PostgreSQL, and what its database needs.

use super::{LOOK_EVERY, look, site, stopped};
use crate::Result;
use crate::cli::{WatchArgs, WatchTask};
use crate::output::Output;
use coherence::{Site, SiteConfig, SourceName, Updates};
use net::Runtime;
use pgwatch::{Database, Map, Watch, WatchConfig, WatchState, WatchStatus, check, guard, remove, renew_slot, set_up};
use serde_json::json;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use types::limits::LEASE_DRIFT_PERMILLE;

/// Said when a commit is found that has not waited.
const UNHELD: &str = "a commit was visible before it was marked: its session does not wait (synchronous_commit), or was \
                      cancelled; see --check and --guard";

/// The names of the publication and of the slot where nobody says others.
const PUBLICATION: &str = "thorp";
const SLOT: &str = "thorp_watch";

pub(super) fn run(args: &WatchArgs, database: &Database, output: &mut Output) -> Result {
    let config = config(args, database.clone())?;
    match args.task() {
        None => watch(args, config, output),
        Some(task) => prepare(task, &config, &args.guards, output),
    }
}

fn config(args: &WatchArgs, mut database: Database) -> Result<WatchConfig> {
    let map = match &args.map {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Map::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => Map::everything(),
    };
    if let (None, Some(password)) = (database.config.get_password(), std::env::var_os("PGPASSWORD")) {
        database.config.password(password.as_encoded_bytes());
    }
    let publication = args.publication.as_deref().unwrap_or(PUBLICATION);
    Ok(WatchConfig { slot: slot(args).to_owned(), ..WatchConfig::new(database, publication, map) })
}

fn slot(args: &WatchArgs) -> &str {
    args.slot.as_deref().unwrap_or(SLOT)
}

/// Does one of the things that are done before or after watching.
fn prepare(task: WatchTask, config: &WatchConfig, guards: &[String], output: &mut Output) -> Result {
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = match task {
        WatchTask::Check => return look(&tasks.block_on(check(config))?, output),
        WatchTask::Setup => {
            let mut done = tasks.block_on(set_up(config))?;
            done.extend(tasks.block_on(guard(config, guards))?);
            done
        }
        WatchTask::Guard => tasks.block_on(guard(config, guards))?,
        WatchTask::Remove => tasks.block_on(remove(config, silence()))?,
        WatchTask::RenewSlot => {
            tasks.block_on(renew_slot(config))?;
            vec![format!("made the slot {} anew", config.slot)]
        }
    };
    done.iter().try_for_each(|line| output.line(&json!({"done": line}), line))
}

/// So long after its watcher's end a cache may answer: a hub elsewhere gives the watcher up after a lease, and a cache that
/// does not hear of it gives the hub up after another one. The clocks may drift apart.
fn silence() -> Duration {
    2 * longest_lease()
}

fn watch(args: &WatchArgs, config: WatchConfig, output: &mut Output) -> Result {
    let stopped = stopped(args)?;
    let runtime = Runtime::start()?;
    let (hub, _site) = hub(args, &runtime, output)?;
    let config = match &args.hub {
        Some(_) => config,
        // Another watcher, which had the slot before, may have had a hub of its own.
        None => WatchConfig { others_answer: longest_lease(), ..config },
    };
    let watch = Watch::start(config, hub.clone())?;
    let last = follow(&watch, &hub, &stopped, output)?;
    drop(watch);
    let text = "stopped: commits wait until somebody watches again, or `thorp watch --remove`";
    let json = json!({"stopped": "watch", "commits": last.commits, "unheld": last.unheld});
    output.line(&json, format_args!("{text} (commits: {}, found not to wait: {})", last.commits, last.unheld))
}

/// How long a home answers that has not heard of its hub, by the hub's clock.
fn longest_lease() -> Duration {
    let lease = SiteConfig::default().lease;
    lease + lease * LEASE_DRIFT_PERMILLE / 1000
}

/// The hub elsewhere, or one of this process, which homes reach.
fn hub(args: &WatchArgs, runtime: &Runtime, output: &mut Output) -> Result<(Updates, Option<Site>)> {
    if let Some(hub) = &args.hub {
        let source = match &args.source {
            Some(source) => source.clone(),
            None => SourceName::new(slot(args)).ok_or_else(|| format!("a source cannot be called '{}'", slot(args)))?,
        };
        let updates = Updates::connect_source(hub, source.clone(), runtime)?;
        let text = format!("ready: watcher of the source {source}, for the hub at {hub}");
        output.line(&json!({"hub": hub, "source": source.as_str()}), text)?;
        output.flush()?;
        return Ok((updates, None));
    }
    let site = site(args, false, runtime, output)?;
    Ok((site.updates(), Some(site)))
}

/// Tells of each change of its state, until it is to stop.
fn follow(watch: &Watch, hub: &Updates, stopped: &Receiver<()>, output: &mut Output) -> Result<WatchStatus> {
    let mut said = None;
    loop {
        let mut status = watch.status();
        if let Some(why) = hub.trouble() {
            // The database has nothing to complain of: it is the hub that is waited for.
            status.last_error = Some(format!("the hub is not reached: {why}"));
            status.state = if status.state == WatchState::Ended { WatchState::Ended } else { WatchState::Apart };
        }
        let news = (status.state, status.last_error.clone(), status.unheld > 0);
        if said.as_ref() != Some(&news) && (status.state != WatchState::Apart || status.last_error.is_some()) {
            say(&status, output)?;
            said = Some(news);
        }
        if status.state == WatchState::Ended {
            return Err(status.last_error.unwrap_or_else(|| "the watcher has ended".to_owned()).into());
        }
        match stopped.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(watch.status()),
        }
    }
}

fn say(status: &WatchStatus, output: &mut Output) -> Result {
    let (state, text) = match status.state {
        WatchState::Watching => ("watching", "watching: commits are told one by one".to_owned()),
        WatchState::CatchingUp => ("catching_up", "catching up: everything is marked".to_owned()),
        WatchState::Apart | WatchState::Ended => {
            let why = status.last_error.as_deref().unwrap_or_default();
            ("apart", format!("apart: everything is marked, and commits wait: {why}"))
        }
    };
    let json = json!({
        "state": state,
        "confirmed": status.confirmed.to_string(),
        "commits": status.commits,
        "unheld": status.unheld,
        "error": status.last_error,
    });
    output.line(&json, text)?;
    if status.unheld > 0 && !output.is_json() {
        output.raw(UNHELD)?;
    }
    output.flush()?;
    Ok(())
}
