//! `site serve`: a site over HTTP. It follows a store's server and has the site's files in a directory of its own, or
//! it opens a store's directory and publishes into it.

use super::follow::{FIRST_WITHIN, log, name, report};
use super::never;
use crate::cli::SiteServeArgs;
use crate::error::usage;
use crate::operators::{Operators, and_operators};
use crate::output::Output;
use crate::stopper::{when_hung_up, when_stdin_closes, when_told};
use crate::{Error, Result, descriptors};
use files::{
    CertificateFiles, Followed, LoadedCertificates, MemberService, Publish, Published, SiteConfig, SiteServer, Sites,
    SkippedRule,
};
use ops::{Reload, Tables};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Sockets and files of one connection: its own, and a chunk that is read.
const DESCRIPTORS_PER_CONNECTION: usize = 2;

pub(super) fn serve(args: &SiteServeArgs, output: &mut Output) -> Result {
    match args.target.addresses()? {
        Some(addresses) => follow(args, addresses, output),
        None => serve_own(args, output),
    }
}

/// Follows a site of a store's server, and serves it from a directory of its own.
fn follow(args: &SiteServeArgs, addresses: String, output: &mut Output) -> Result {
    let Some(dir) = args.cache.clone() else {
        return Err(usage("name a directory for the site's files with --cache, or a store's directory with --dir"));
    };
    if args.from.is_some() {
        return Err(usage("--from publishes into a store's directory: publish to a server with `thorp publish`"));
    }
    let (config, operators) = (config(args, output.is_json())?, Operators::listen(&args.operators)?);
    let (space, site, idle_after) = (args.target.space_name(), args.site.clone(), args.idle_after);
    let content_bytes = args.cache_bytes.map(|bytes| bytes as u64);
    let followed = Followed { addresses, space, site, dir, idle_after, content_bytes };
    let member = Arc::new(MemberService::start(followed)?);
    report(&member, output.is_json())?;
    let revision = member.wait_ready(FIRST_WITHIN);
    let server = SiteServer::follow(member, config)?;
    let service = server.observed();
    let text = name(args.site.as_str(), revision);
    run(args, server, operators, service, (revision, text), output)
}

/// Serves a site from the store's directory, which this command opens.
fn serve_own(args: &SiteServeArgs, output: &mut Output) -> Result {
    if args.cache.is_some() {
        return Err(usage("--cache is for a site of a store's server: name it with --server"));
    }
    let (config, operators) = (config(args, output.is_json())?, Operators::listen(&args.operators)?);
    let sites =
        if args.from.is_some() { args.target.sites_or_create(None, never)? } else { args.target.sites(never)? };
    let publisher = Publisher { sites: Arc::new(sites), args: args.clone(), running: Mutex::new(()) };
    let published = publisher.publish()?;
    let server = SiteServer::start(publisher.sites.clone(), args.site.clone(), config)?;
    let publisher = Arc::new(publisher);
    let again = publisher.clone();
    when_hung_up(move || match again.publish() {
        Ok(published) => published.iter().for_each(|published| eprintln!("{}", line(&again.args, published))),
        Err(why) => eprintln!("thorp: the site stays as it is: {why}"),
    })?;
    let service = Arc::new(Operated { observed: server.observed(), publisher });
    let revision = published.as_ref().map(|published| published.revision.number);
    let text = published.map_or_else(|| args.site.to_string(), |published| line(args, &published));
    run(args, server, operators, service, (revision, text), output)
}

/// The settings of the server.
fn config(args: &SiteServeArgs, is_json: bool) -> Result<SiteConfig> {
    if args.tls_cert.len() != args.tls_key.len() {
        let (certificates, keys) = (args.tls_cert.len(), args.tls_key.len());
        return Err(usage(format!("each --tls-cert has a --tls-key: got {certificates} and {keys}")));
    }
    let files = args.tls_cert.iter().zip(&args.tls_key);
    let files: Vec<_> = files.map(|(chain, key)| CertificateFiles { chain: chain.clone(), key: key.clone() }).collect();
    let certificates = if files.is_empty() { None } else { Some(LoadedCertificates::read(&files)?) };
    Ok(SiteConfig {
        space: args.target.space_name(),
        listen: args.listen,
        threads: thread::available_parallelism().map_or(1, usize::from),
        connections: descriptors::connections_max(DESCRIPTORS_PER_CONNECTION)?,
        certificates,
        memory: args.memory,
        refuses_stale: args.refuse_stale,
        report: if is_json { report_in_json } else { report_in_text },
    })
}

fn report_in_json(skipped: &SkippedRule) {
    let SkippedRule { file, line, why } = skipped;
    log(true, &json!({"skipped": file, "line": line, "why": why}), "");
}

fn report_in_text(skipped: &SkippedRule) {
    log(false, &Value::Null, &skipped.to_string());
}

/// Serves until it is told to stop.
fn run(
    args: &SiteServeArgs,
    mut server: SiteServer,
    operators: Operators,
    service: Arc<dyn ops::Service>,
    (revision, text): (Option<u64>, String),
    output: &mut Output,
) -> Result {
    let stopper = server.stopper();
    let stop = move || stopper.stop();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    let admin = operators.address();
    let _operators = operators.serve(service)?;
    let address = server.address();
    let json = json!({"listen": address, "site": args.site.as_str(), "revision": revision, "admin": admin});
    output.line(&json, format_args!("ready: {text} on {address}{}", and_operators(admin)))?;
    output.flush()?;
    server.wait()?;
    let tally = server.tally();
    let json = json!({"stopped": "site", "requests": tally.requests, "refused": tally.refused});
    output.line(&json, format_args!("stopped (requests: {}, refused: {})", tally.requests, tally.refused))
}

fn line(args: &SiteServeArgs, published: &Published) -> String {
    let (site, revision) = (&args.site, &published.revision);
    let change = if published.is_new { "published" } else { "nothing has changed" };
    format!("{site}@{} ({change})", revision.number)
}

/// Publishes the directory of `--from`, one publish at a time.
struct Publisher {
    sites: Arc<Sites>,
    args: SiteServeArgs,
    running: Mutex<()>,
}

impl Publisher {
    fn publish(&self) -> Result<Option<Published>> {
        let Some(from) = &self.args.from else { return Ok(None) };
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = Publish { exclude: self.args.exclude.clone(), ..Publish::default() };
        let published = self.sites.publish(&self.args.site, from, &settings, &mut |_| ControlFlow::Continue(()));
        Ok(Some(published?))
    }

    fn reload(&self) -> std::result::Result<Value, String> {
        match self.publish().map_err(|why: Error| format!("the site stays as it is: {why}"))? {
            Some(published) => Ok(json!({"published": published.revision.number, "is_new": published.is_new})),
            None => Err("no directory to publish: start with --from".to_owned()),
        }
    }
}

/// The server as its operators see it: they can have the directory published again.
struct Operated {
    observed: Arc<dyn ops::Service>,
    publisher: Arc<Publisher>,
}

impl ops::Service for Operated {
    fn tables(&self) -> Tables {
        self.observed.tables()
    }

    fn troubles(&self) -> Vec<String> {
        self.observed.troubles()
    }

    fn reload(&self) -> Option<Reload> {
        let publisher = self.publisher.clone();
        self.publisher.args.from.as_ref().map(|_| Reload(Arc::new(move || publisher.reload())))
    }
}
