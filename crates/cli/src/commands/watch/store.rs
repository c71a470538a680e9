//! A watcher of a Thorp store.

use super::{LOOK_EVERY, Seen, look, site, stopped};
use crate::Result;
use crate::cli::WatchArgs;
use crate::error::only_for;
use crate::operators::Operators;
use crate::output::Output;
use net::{Runtime, parse_addresses};
use serde_json::json;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use storewatch::{WATCH_STORE, Watch, WatchState, WatchStatus, check};

pub(super) fn run(args: &WatchArgs, addresses: &str, output: &mut Output) -> Result {
    refuse_what_is_for_postgres(args)?;
    if args.check {
        return look(&check(&parse_addresses(addresses)?)?, output);
    }
    let stopped = stopped(args)?;
    let runtime = Runtime::start()?;
    let operators = Operators::listen(&args.operators)?;
    let site = site(args, operators.address(), &runtime, output)?;
    let seen = Seen::new();
    let _operators = operators.serve(seen.service(WATCH_STORE.described(), Some(&site)))?;
    let watch = Watch::start(addresses, &site, &runtime)?;
    let last = Said::new(addresses, seen).follow(&watch, &stopped, output)?;
    // Everything stays marked.
    drop(watch);
    let text = "stopped: commits wait until the watcher's lease at the store is over, and then for nobody";
    let json = json!({"stopped": "watch", "changes": last.changes});
    output.line(&json, format_args!("{text} (changes: {})", last.changes))
}

fn refuse_what_is_for_postgres(args: &WatchArgs) -> Result {
    let given = [
        ("--publication", args.publication.is_some()),
        ("--map", args.map.is_some()),
        ("--slot", args.slot.is_some()),
        ("--hub", args.hub.is_some()),
        ("--setup", args.setup),
        ("--guard", !args.guards.is_empty()),
        ("--remove", args.remove),
        ("--renew-slot", args.renew_slot),
    ];
    given.into_iter().try_for_each(|(option, is_given)| only_for(option, is_given, "PostgreSQL"))
}

/// How long there may be no lease, with nothing wrong, before that is said: a connection that is being made is no news.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// The state that was said, and how a store stands that says nothing.
struct Said<'a> {
    store: &'a str,
    last: Option<(WatchState, Option<String>)>,
    silent_since: Option<Instant>,
    seen: Seen,
}

impl<'a> Said<'a> {
    fn new(store: &'a str, seen: Seen) -> Self {
        Self { store, last: None, silent_since: None, seen }
    }

    /// Reports each change of the watcher's state, until it is to stop.
    fn follow(mut self, watch: &Watch, stopped: &Receiver<()>, output: &mut Output) -> Result<WatchStatus> {
        loop {
            let status = watch.status();
            let error = status.trouble.as_ref().map(ToString::to_string);
            self.show(&status, error.as_deref());
            if status.state == WatchState::Ended {
                return Err(error.unwrap_or_else(|| "the watcher has ended".to_owned()).into());
            }
            self.look(&status, error, output)?;
            match stopped.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(watch.status()),
            }
        }
    }

    fn look(&mut self, status: &WatchStatus, error: Option<String>, output: &mut Output) -> Result {
        let is_silent = status.state == WatchState::Apart && error.is_none();
        self.silent_since = is_silent.then(|| self.silent_since.unwrap_or_else(Instant::now));
        let news = Some((status.state, error));
        // One that was said not to be reached, and is tried again, is waited for still.
        let is_waited_for = matches!(self.last, Some((WatchState::Apart, _)));
        let is_known = self.silent_since.is_some_and(|since| is_waited_for || since.elapsed() < SILENT_AFTER);
        if self.last == news || is_known {
            return Ok(());
        }
        self.last = news;
        self.say(status, output)
    }

    /// The state by its name, and in words.
    fn describe(&self, status: &WatchStatus, error: Option<&str>) -> (&'static str, String) {
        match status.state {
            WatchState::Watching => {
                let spaces: Vec<_> = status.spaces.iter().map(u32::to_string).collect();
                ("watching", format!("watching: commits are told one by one (spaces: {})", spaces.join(", ")))
            }
            WatchState::CatchingUp => ("catching_up", "catching up: everything is marked".to_owned()),
            WatchState::NotLeased => {
                let text = "not leased: everything is marked, as the store asks no watcher; start it with --leased";
                ("not_leased", text.to_owned())
            }
            WatchState::Apart | WatchState::Ended => match error {
                Some(error) => ("apart", format!("apart: everything is marked: {error}")),
                None => ("waiting", format!("waiting for the store at {}: everything is marked", self.store)),
            },
        }
    }

    /// For operators.
    fn show(&self, status: &WatchStatus, error: Option<&str>) {
        let (state, text) = self.describe(status, error);
        let facts =
            [("state", state.into()), ("spaces", status.spaces.len().into()), ("changes", status.changes.into())];
        self.seen.set(WATCH_STORE.one(facts), Some(text).filter(|_| status.state != WatchState::Watching));
    }

    fn say(&self, status: &WatchStatus, output: &mut Output) -> Result {
        let error = self.last.as_ref().and_then(|(_, error)| error.as_deref());
        let (state, text) = self.describe(status, error);
        let json = json!({
            "state": state,
            "store": self.store,
            "spaces": status.spaces,
            "changes": status.changes,
            "error": error,
        });
        output.line(&json, text)?;
        output.flush()?;
        Ok(())
    }
}
