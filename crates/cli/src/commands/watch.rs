//! `thorp watch`: a watcher of a source, from its start to its stop, and what its source needs.

mod postgres;
mod store;

use crate::cli::{Source, WatchArgs};
use crate::operators::and_operators;
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result};
use coherence::{Finding, Severity, Site, SiteConfig};
use machine::{Table, metrics::Described};
use net::{LINKS, Runtime};
use ops::{Observed, Service};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError, Weak};
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

/// A watcher at its last look, for its operators.
#[derive(Clone, Debug)]
struct Seen(Arc<Mutex<(Vec<Table>, Vec<String>)>>);

impl Seen {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), vec!["the watcher is starting".to_owned()]))))
    }

    fn set(&self, table: Table, trouble: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (vec![table], trouble.into_iter().collect());
    }

    fn get(&self) -> (Vec<Table>, Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the watcher as its operators see it, with its hub, if that is in this process.
    fn service(&self, described: Described<'static>, site: Option<&Site>) -> Arc<dyn Service> {
        let (seen, other) = (self.clone(), self.clone());
        let host = site.map(|site| Arc::downgrade(site.host()));
        let tables = move || {
            let status = host.as_ref().and_then(Weak::upgrade).map(|host| host.recent_status()).unwrap_or_default();
            let described = [&[described, LINKS.described()][..], homes::tables::TABLES].concat();
            (described, seen.get().0.into_iter().chain(status.tables).collect())
        };
        Arc::new(Observed { tables, troubles: move || other.get().1 })
    }
}

/// A hub of this process, which homes reach.
fn site(args: &WatchArgs, admin: Option<SocketAddr>, runtime: &Runtime, output: &mut Output) -> Result<Site> {
    let WatchArgs { listen, insecure, .. } = *args;
    // Its own home stores nothing.
    let site =
        SiteConfig { listen: Some(listen), insecure, within_source: true, responses_max: 1, ..SiteConfig::default() };
    let site = Site::start(&site, runtime)?;
    let address = site.address().ok_or_else(|| Error::from("the hub does not listen"))?;
    let text = format!("ready: watcher, with a hub on {address}{}", and_operators(admin));
    output.line(&json!({"listen": address, "admin": admin}), text)?;
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
