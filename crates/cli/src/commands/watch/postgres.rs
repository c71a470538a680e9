//! A watcher of PostgreSQL, and what its database needs.

use super::{LOOK_EVERY, Seen, look, site, stopped};
use crate::Result;
use crate::cli::{WatchArgs, WatchTask};
use crate::operators::{Operators, and_operators};
use crate::output::Output;
use crate::stopper::when_told;
use coherence::{Site, SiteConfig, SourceName, Updates};
use net::Runtime;
use pgwatch::{
    Database, Map, Patience, Running, WATCH_DATABASE, Watch, WatchConfig, WatchError, WatchState, WatchStatus, check,
    guard, missing_tables, remove, renew_slot, running, set_up,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime as Tasks;
use tokio::sync::oneshot;
use tokio::time::timeout;
use types::limits::LEASE_DRIFT_PERMILLE;

/// Said when a commit is found that has not waited.
const UNHELD: &str = "a commit was visible before it was marked: its session does not wait (synchronous_commit), or was \
                      cancelled; see --check and --guard";

/// The names of the publication and of the slot where nobody says others.
const PUBLICATION: &str = "thorp";
const SLOT: &str = "thorp_watch";

/// Transactions that are waited for and are shown to a person.
const AWAITED_SHOWN_MAX: usize = 5;

/// A watcher that catches up for longer than this says what it waits for, as often as this when it has changed.
const AWAITED_AFTER: Duration = Duration::from_secs(2);

/// How long the database may take to answer a question that is not the watcher's.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

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
    let stopped = matches!(task, WatchTask::Setup | WatchTask::RenewSlot).then(signalled).transpose()?;
    let (mut said, is_json) = (None, output.is_json());
    let mut patience = match stopped {
        Some(stopped) => {
            Patience::new(|awaited| say_awaited(awaited, &mut said, is_json), async { drop(stopped.await) })
        }
        None => Patience::endless(),
    };
    let done = match task {
        WatchTask::Check => return look(&tasks.block_on(check(config))?, output),
        WatchTask::Setup => {
            let mut done = tasks.block_on(set_up(config, &mut patience))?;
            done.extend(tasks.block_on(guard(config, guards))?);
            done
        }
        WatchTask::Guard => tasks.block_on(guard(config, guards))?,
        WatchTask::Remove => tasks.block_on(remove(config, silence()))?,
        WatchTask::RenewSlot => {
            tasks.block_on(renew_slot(config, silence(), &mut patience))?;
            vec![format!("waited until no cache answers, and made the slot {} again", config.slot)]
        }
    };
    done.iter().try_for_each(|line| output.line(&json!({"done": line}), line))
}

/// Hears when the command is to undo what it has made.
fn signalled() -> Result<oneshot::Receiver<()>> {
    let (stop, stopped) = oneshot::channel();
    // A command that has ended is no longer to be stopped.
    when_told(move || {
        let _ = stop.send(());
    })?;
    Ok(stopped)
}

/// Returns which transactions are waited for, when they are others than before.
fn say_awaited(awaited: &[Running], said: &mut Option<Vec<Option<i32>>>, is_json: bool) {
    let processes: Vec<_> = awaited.iter().map(|running| running.process).collect();
    if said.replace(processes.clone()).as_ref() == Some(&processes) {
        return;
    }
    // The outcome is what the output is for; and nobody reads along who has hung up.
    let mut output = Output::new(is_json);
    let _ = output.line(&json!({"awaited": list(awaited)}), awaited_text(awaited)).and_then(|()| output.flush());
}

fn list(awaited: &[Running]) -> Vec<Value> {
    let one = |running: &Running| {
        let Running { process, user, database, state, since, query } = running;
        json!({
            "process": process,
            "role": user,
            "database": database,
            "state": state,
            "since": since,
            "query": query,
        })
    };
    awaited.iter().map(one).collect()
}

fn awaited_text(awaited: &[Running]) -> String {
    if awaited.is_empty() {
        return "no transaction is waited for any more".to_owned();
    }
    let lines = awaited.iter().take(AWAITED_SHOWN_MAX).map(|running| format!("\n  {running}"));
    let more = awaited.len().saturating_sub(AWAITED_SHOWN_MAX);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    format!("waits until these transactions have ended:{}{more}", lines.collect::<String>())
}

/// So long after its watcher's end a cache may answer: a hub elsewhere gives the watcher up after a lease, and a cache
/// that does not learn of it gives the hub up after another one. The clocks may drift apart.
fn silence() -> Duration {
    2 * longest_lease()
}

fn watch(args: &WatchArgs, config: WatchConfig, output: &mut Output) -> Result {
    let stopped = stopped(args)?;
    let runtime = Runtime::start()?;
    let (operators, seen) = (Operators::listen(&args.operators)?, Seen::new());
    let (hub, site) = hub(args, operators.address(), &runtime, output)?;
    let _operators = operators.serve(seen.service(WATCH_DATABASE.described(), site.as_ref()))?;
    // Another watcher, which had the slot before, may have had a hub of its own, too.
    let others_lease = if site.is_some() { SiteConfig::default().lease } else { Duration::ZERO };
    let config = WatchConfig { others_lease, ..config };
    let mut watch = Watch::start(config.clone(), hub.clone(), site.as_ref().and_then(Site::source_lease))?;
    let last = Followed::new(&config, seen, output.is_json())?.follow(&mut watch, &hub, &stopped, output)?;
    drop(watch);
    let text = "stopped: commits wait until somebody watches again, or `thorp watch --remove`";
    let json = json!({"stopped": "watch", "commits": last.commits, "unheld": last.unheld});
    output.line(&json, format_args!("{text} (commits: {}, found not to wait: {})", last.commits, last.unheld))
}

/// How long a home answers that has not learned of its hub, by the hub's clock.
fn longest_lease() -> Duration {
    let lease = SiteConfig::default().lease;
    lease + lease * LEASE_DRIFT_PERMILLE / 1000
}

/// The hub elsewhere, or one of this process, which homes reach.
fn hub(
    args: &WatchArgs,
    admin: Option<SocketAddr>,
    runtime: &Runtime,
    output: &mut Output,
) -> Result<(Updates, Option<Site>)> {
    if let Some(hub) = &args.hub {
        let source = match &args.source {
            Some(source) => source.clone(),
            None => SourceName::new(slot(args)).ok_or_else(|| format!("a source cannot be called '{}'", slot(args)))?,
        };
        let updates = Updates::connect_source(hub, source.clone(), runtime)?;
        let text = format!("ready: watcher of the source {source}, for the hub at {hub}{}", and_operators(admin));
        output.line(&json!({"hub": hub, "source": source.as_str(), "admin": admin}), text)?;
        output.flush()?;
        return Ok((updates, None));
    }
    let site = site(args, admin, runtime, output)?;
    Ok((site.updates(), Some(site)))
}

/// A watcher, as an operator follows it.
struct Followed<'a> {
    config: &'a WatchConfig,
    /// For questions beside the watcher's own.
    tasks: Tasks,
    said: Option<(WatchState, Option<String>, bool)>,
    /// When it began to catch up, or when it was last looked what it waits for.
    catching_up: Option<Instant>,
    awaited: Option<Vec<Option<i32>>>,
    is_json: bool,
    /// The tables of the map were looked for.
    is_looked_at: bool,
    seen: Seen,
}

impl<'a> Followed<'a> {
    fn new(config: &'a WatchConfig, seen: Seen, is_json: bool) -> Result<Self> {
        let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { config, tasks, said: None, catching_up: None, awaited: None, is_json, is_looked_at: false, seen })
    }

    /// Reports each change of its state, until it has left, as it is told to when it is to stop.
    fn follow(
        mut self,
        watch: &mut Watch,
        hub: &Updates,
        stopped: &Receiver<()>,
        output: &mut Output,
    ) -> Result<WatchStatus> {
        let mut leaving: Option<Instant> = None;
        loop {
            let mut status = watch.status();
            if leaving.is_some_and(|since| status.state == WatchState::Ended || since.elapsed() > silence()) {
                return Ok(status);
            }
            if let Some(why) = hub.trouble() {
                // The database has nothing to complain of: it is the hub that is waited for.
                status.last_error = Some(format!("the hub is not reached: {why}"));
                status.state = if status.state == WatchState::Ended { WatchState::Ended } else { WatchState::Apart };
            }
            show(&status, &self.seen);
            let news = (status.state, status.last_error.clone(), status.unheld > 0);
            if self.said.as_ref() != Some(&news) && (status.state != WatchState::Apart || status.last_error.is_some()) {
                say(&status, output)?;
                self.said = Some(news);
            }
            if status.state == WatchState::Ended {
                return Err(status.last_error.unwrap_or_else(|| "the watcher has ended".to_owned()).into());
            }
            self.look_at_the_map(&status, output)?;
            self.look_for_awaited(&status);
            if leaving.is_some() {
                watch.wait_for(WatchState::Ended, LOOK_EVERY);
            } else if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                watch.leave();
                leaving = Some(Instant::now());
            }
        }
    }

    /// Says once which tables of the map the database does not have. They may be made later, so this is no error.
    fn look_at_the_map(&mut self, status: &WatchStatus, output: &mut Output) -> Result {
        if self.is_looked_at || !matches!(status.state, WatchState::CatchingUp | WatchState::Watching) {
            return Ok(());
        }
        self.is_looked_at = true;
        // A database that does not answer is the watcher's to complain of.
        let missing = self.ask(missing_tables(self.config)).unwrap_or_default();
        if missing.is_empty() {
            return Ok(());
        }
        let text = format!("the map has rules for tables that the database does not have: {}", missing.join(", "));
        output.line(&json!({"warning": text, "tables": missing}), format_args!("warning: {text}"))?;
        output.flush()
    }

    /// Returns what a watcher waits for that catches up for long.
    fn look_for_awaited(&mut self, status: &WatchStatus) {
        let Some(before) = status.awaits_before.filter(|_| status.state == WatchState::CatchingUp) else {
            (self.catching_up, self.awaited) = (None, None);
            return;
        };
        if self.catching_up.get_or_insert_with(Instant::now).elapsed() < AWAITED_AFTER {
            return;
        }
        self.catching_up = Some(Instant::now());
        let awaited = self.ask(running(self.config, Some(before))).unwrap_or_default();
        if !awaited.is_empty() {
            say_awaited(&awaited, &mut self.awaited, self.is_json);
        }
    }

    /// An answer of the database, if there is one soon.
    fn ask<T>(&self, question: impl Future<Output = std::result::Result<T, WatchError>>) -> Option<T> {
        self.tasks.block_on(async { timeout(ANSWER_WITHIN, question).await.ok()?.ok() })
    }
}

/// The state by its name, and in words.
fn describe(status: &WatchStatus) -> (&'static str, String) {
    match status.state {
        WatchState::Watching => ("watching", "watching: commits are told one by one".to_owned()),
        WatchState::NotAwaited => {
            let why = status.last_error.as_deref().unwrap_or_default();
            ("not_awaited", format!("not awaited: everything is marked, and commits do not wait: {why}; see --check"))
        }
        WatchState::CatchingUp => ("catching_up", "catching up: everything is marked".to_owned()),
        WatchState::Leaving => (
            "leaving",
            "leaving: caches get no leases any more, and commits go on until the last one is over".to_owned(),
        ),
        WatchState::Apart | WatchState::Ended => {
            let why = status.last_error.as_deref().unwrap_or_default();
            ("apart", format!("apart: everything is marked, and commits wait: {why}"))
        }
    }
}

/// For operators.
fn show(status: &WatchStatus, seen: &Seen) {
    let (state, text) = describe(status);
    let facts = [
        ("state", state.into()),
        ("confirmed", status.confirmed.to_string().into()),
        ("commits", status.commits.into()),
        ("unheld", status.unheld.into()),
        ("unconfirmed", status.unconfirmed.into()),
        ("unseen", status.unseen.into()),
        ("connections", status.connections.into()),
    ];
    seen.set(WATCH_DATABASE.one(facts), Some(text).filter(|_| status.state != WatchState::Watching));
}

fn say(status: &WatchStatus, output: &mut Output) -> Result {
    let (state, text) = describe(status);
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
