//! A watcher of a Thorp store.

use super::{LOOK_EVERY, look, site, stopped};
use crate::Result;
use crate::cli::WatchArgs;
use crate::error::only_for;
use crate::output::Output;
use net::{Runtime, UplinkConfig};
use serde_json::json;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use storewatch::{Watch, WatchState, WatchStatus, check};

pub(super) fn run(args: &WatchArgs, addresses: &str, output: &mut Output) -> Result {
    refuse_what_is_for_postgres(args)?;
    if args.check {
        return look(&check(&UplinkConfig::parse(addresses)?.addresses)?, output);
    }
    let stopped = stopped(args)?;
    let runtime = Runtime::start()?;
    let site = site(args, true, &runtime, output)?;
    let watch = Watch::start(addresses, &site, &runtime)?;
    let last = follow(&watch, &stopped, output)?;
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

/// Tells of each change of its state, until it is to stop.
fn follow(watch: &Watch, stopped: &Receiver<()>, output: &mut Output) -> Result<WatchStatus> {
    let mut said = None;
    loop {
        let status = watch.status();
        let error = status.trouble.as_ref().map(ToString::to_string);
        if status.state == WatchState::Ended {
            return Err(error.unwrap_or_else(|| "the watcher has ended".to_owned()).into());
        }
        let news = (status.state, error);
        // A connection that is being made is no news.
        if said.as_ref() != Some(&news) && (status.state != WatchState::Apart || news.1.is_some()) {
            say(&status, news.1.as_deref(), output)?;
            said = Some(news);
        }
        match stopped.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(watch.status()),
        }
    }
}

fn say(status: &WatchStatus, error: Option<&str>, output: &mut Output) -> Result {
    let (state, text) = match status.state {
        WatchState::Watching => {
            let spaces: Vec<_> = status.spaces.iter().map(u32::to_string).collect();
            ("watching", format!("watching: commits are told one by one (spaces: {})", spaces.join(", ")))
        }
        WatchState::CatchingUp => ("catching_up", "catching up: everything is marked".to_owned()),
        WatchState::NotLeased => {
            let text = "not leased: everything is marked, as the store asks no watcher; start it with --leased";
            ("not_leased", text.to_owned())
        }
        WatchState::Apart | WatchState::Ended => {
            ("apart", format!("apart: everything is marked: {}", error.unwrap_or_default()))
        }
    };
    let json = json!({"state": state, "spaces": status.spaces, "changes": status.changes, "error": error});
    output.line(&json, text)?;
    output.flush()?;
    Ok(())
}
