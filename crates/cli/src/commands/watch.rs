//! `thorp watch`: a watcher of a source, from its start to its stop, and what its source needs.

mod postgres;
mod store;

use crate::cli::{Source, WatchArgs};
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result};
use coherence::{Finding, Severity, Site, SiteConfig};
use net::Runtime;
use serde_json::json;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How often the watcher is looked at: changes are printed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(args: &WatchArgs, output: &mut Output) -> Result {
    match &args.source_at {
        Source::Postgres(database) => postgres::run(args, database, output),
        Source::Store(addresses) => store::run(args, addresses, output),
    }
}

/// Hears when the watcher is to stop.
fn stopped(args: &WatchArgs) -> Result<Receiver<()>> {
    let (stop, stopped) = mpsc::channel();
    // A watcher that has ended is no longer to be stopped.
    let stop = move || stop.send(()).unwrap_or_default();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    Ok(stopped)
}

/// A hub of this process, which homes reach.
fn site(args: &WatchArgs, within_source: bool, runtime: &Runtime, output: &mut Output) -> Result<Site> {
    let WatchArgs { listen, insecure, .. } = *args;
    // Its own home stores nothing.
    let site = SiteConfig { listen: Some(listen), insecure, within_source, responses_max: 1, ..SiteConfig::default() };
    let site = Site::start(&site, runtime)?;
    let address = site.address().ok_or_else(|| Error::from("the hub does not listen"))?;
    output.line(&json!({"listen": address}), format_args!("ready: watcher, with a hub on {address}"))?;
    output.flush()?;
    Ok(site)
}

/// Returns what a look at the source has found.
fn look(findings: &[Finding], output: &mut Output) -> Result {
    for finding in findings {
        let json = json!({
            "severity": finding.severity.name(),
            "finding": finding.text,
            "remedy": finding.remedy,
        });
        output.line(&json, finding)?;
    }
    match findings.iter().filter(|finding| finding.severity == Severity::Broken).count() {
        0 => output.line(&json!({"ready": true}), "it can be watched"),
        count => Err(format!("it cannot be watched: {count} things are broken").into()),
    }
}
