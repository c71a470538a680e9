//! `thorp proxy`: a caching reverse proxy, from its start to its stop.

mod file;

use crate::cli::{BrowserCache, LogArgs, LogFormat, PolicyArgs, ProxyArgs};
use crate::error::usage;
use crate::operators::token;
use crate::output::Output;
use crate::stopper::{when_hung_up, when_stdin_closes, when_told};
use crate::{Error, Result, descriptors};
use ops::Reload;
use proxy::{
    AccessLogConfig, AccessLogFormat, CertificateFiles, Config, DiskConfig, Limits, Note, Proxy, Scheme, Tally,
};
use responses::{Coherence, Heuristic, Policy, RequestDirectives};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use types::limits::HOMES_PER_CACHE_MAX;

/// A client's connection has one descriptor, and a request of its at the origin another.
const DESCRIPTORS_PER_CONNECTION: usize = 2;

/// An event that the command waits for while its proxy runs.
enum Event {
    /// The proxy has something to say.
    Note(Note),
    /// Files should be read again. The sender is an operator's who waits for the outcome.
    Reload(Option<Sender<Reloaded>>),
    Stop,
}

/// The names of the settings that change at the next start, or why all stay as they were.
type Reloaded = std::result::Result<Vec<&'static str>, String>;

pub(super) fn run(args: &ProxyArgs, output: &mut Output) -> Result {
    let settings = settings(args)?;
    if args.check_config {
        Proxy::check(settings)?;
        return output.line(&json!({"usable": true}), "a proxy could start with these settings");
    }
    let (send, events) = mpsc::channel();
    let (notes, noted) = mpsc::channel();
    let reload = has_files(args).then(|| asking(send.clone()));
    let mut proxy = Proxy::start(Config { notes: Some(notes), reload, ..settings })?;
    // An event that nobody receives any more comes while the proxy stops.
    let (note, stop, reload) = (send.clone(), send.clone(), send);
    std::thread::spawn(move || noted.into_iter().try_for_each(|said| note.send(Event::Note(said))));
    let stop = move || stop.send(Event::Stop).unwrap_or_default();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    if has_files(args) {
        when_hung_up(move || reload.send(Event::Reload(None)).unwrap_or_default())?;
    }
    say_ready(&proxy, output)?;
    follow(args, &proxy, &events, output);
    proxy.stop();
    proxy.wait()?;
    let _ = say_stopped(&proxy.tally(), output);
    Ok(())
}

/// Whether there are files to read again.
fn has_files(args: &ProxyArgs) -> bool {
    args.config.is_some()
        || args.log.access_log.is_some()
        || !args.tls_cert.is_empty()
        || args.origin_ca.is_some()
        || args.operators.token_file.is_some()
}

/// Has the files read again for operators, who learn the outcome.
fn asking(events: Sender<Event>) -> Reload {
    Reload(Arc::new(move || {
        let (answer, answered) = mpsc::channel();
        let stops = || "the proxy stops: its settings are read when it starts again".to_owned();
        events.send(Event::Reload(Some(answer))).map_err(|_| stops())?;
        let left = answered.recv().map_err(|_| stops())??;
        Ok(json!({"reloaded": true, "at_next_start": left}))
    }))
}

/// Does what happens asks for, until the proxy is to stop. It serves on when nobody reads its output any more, or there
/// is no room for it.
fn follow(args: &ProxyArgs, proxy: &Proxy, events: &Receiver<Event>, output: &mut Output) {
    while let Ok(event) = events.recv() {
        let said = match event {
            Event::Stop => break,
            Event::Note(note) => output.line(&json!({"note": note.name(), "text": note.to_string()}), &note),
            Event::Reload(asked) => {
                let reloaded = reload(args, proxy);
                let said = say_reloaded(&reloaded, output);
                // An operator that has hung up reads the output.
                let _ = asked.map(|asked| asked.send(reloaded));
                said
            }
        };
        let _ = said.and_then(|()| output.flush());
    }
}

/// Has the proxy take the settings that its files have now.
fn reload(args: &ProxyArgs, proxy: &Proxy) -> Reloaded {
    let reloaded = settings(args).and_then(|settings| Ok(proxy.reload(settings)?));
    reloaded.map_err(|why| format!("the settings stay as they were: {why}"))
}

fn say_reloaded(reloaded: &Reloaded, output: &mut Output) -> Result {
    let (name, text, left) = match reloaded {
        Err(why) => ("settings-refused", why.clone(), &Vec::new()),
        Ok(left) if left.is_empty() => ("settings-changed", "the settings were read again".to_owned(), left),
        Ok(left) => {
            let names = left.join(", ");
            ("settings-changed", format!("the settings were read again; these change at the next start: {names}"), left)
        }
    };
    output.line(&json!({"note": name, "text": text, "at_next_start": left}), text.replace('\n', " "))
}

/// The settings that the command line names, and its configuration file.
fn settings(args: &ProxyArgs) -> Result<Config> {
    match &args.config {
        Some(file) => config(&file::with_options_of(file, std::env::args_os())?),
        None => config(args),
    }
}

fn config(args: &ProxyArgs) -> Result<Config> {
    let origin = args.origin.clone().ok_or_else(|| {
        usage("no origin: say --origin http://HOST:PORT, or origin = \"http://HOST:PORT\" in the configuration file")
    })?;
    let is_https = origin.is_https();
    let mut config = Config::new(args.listen, origin);
    config.policy = policy(&args.policy);
    config.browser_cache = match args.policy.browser_cache {
        BrowserCache::NoCache => proxy::BrowserCache::NoCache,
        BrowserCache::AsIs => proxy::BrowserCache::AsIs,
    };
    config.access_log = access_log(&args.log);
    let descriptors = descriptors::connections_max(DESCRIPTORS_PER_CONNECTION)?;
    let (connections, upload_files) = shares(descriptors, &config.limits);
    if args.tls_cert.len() != args.tls_key.len() {
        let (certificates, keys) = (args.tls_cert.len(), args.tls_key.len());
        return Err(usage(format!("each --tls-cert has a --tls-key: got {certificates} and {keys}")));
    }
    let files = args.tls_cert.iter().zip(&args.tls_key);
    config.certificates =
        files.map(|(chain, key)| CertificateFiles { chain: chain.clone(), key: key.clone() }).collect();
    if args.origin_ca.is_some() && !is_https {
        return Err(usage("--origin-ca is for an origin over TLS: leave it out, or say --origin https://..."));
    }
    config.origin_ca.clone_from(&args.origin_ca);
    if args.behind_tls {
        config.scheme = Scheme::Https;
    }
    config.site.hub.clone_from(&args.hub);
    config.site.listen = args.hub_listen;
    config.site.sources.clone_from(&args.sources);
    config.site.insecure = args.insecure;
    config.homes.clone_from(&args.homes);
    if let Some(home) =
        args.homes.iter().enumerate().find_map(|(at, home)| args.homes[..at].contains(home).then_some(home))
    {
        return Err(usage(format!("--home {home} is said twice: each home is said once")));
    }
    if args.homes.len() > HOMES_PER_CACHE_MAX {
        let count = args.homes.len();
        return Err(usage(format!("a proxy has at most {HOMES_PER_CACHE_MAX} homes: got {count}")));
    }
    config.fabric.clone_from(&args.fabric);
    config.disk = args.disk.clone().map(|dir| DiskConfig { dir, bytes: args.disk_size as u64 });
    config.admin = Some(args.operators.of_proxy());
    config.admin_token = args.operators.token_file.as_deref().map(token).transpose()?;
    config.origin_http2 = args.origin_http2;
    config.keep_underscores = args.keep_underscores;
    config.upload_dir.clone_from(&args.upload_dir);
    config.stream_uploads.clone_from(&args.stream_uploads);
    config.threads = args.threads.map_or(config.threads, usize::from);
    config.limits = Limits {
        connections,
        upload_files,
        connections_per_address: args.connections_per_address.map(|count| count as usize),
        stored_bytes: args.cache,
        stored_response_bytes: args.largest,
        origin: Duration::from_secs(args.origin_timeout.into()),
        upload_bytes_per_s: args.upload_rate.into(),
        upload_file_bytes: args.upload_space as u64,
        long_lived: args.long_lived as usize,
        ..config.limits
    };
    Ok(config)
}

fn access_log(args: &LogArgs) -> Option<AccessLogConfig> {
    let format = match args.access_log_format {
        LogFormat::Combined => AccessLogFormat::Combined,
        LogFormat::Json => AccessLogFormat::Json,
    };
    args.access_log.clone().map(|path| AccessLogConfig { path, format })
}

/// The connections and the files for bodies that a process may have. Without files its descriptors would be enough for
/// `descriptors` connections.
fn shares(descriptors: usize, limits: &Limits) -> (usize, u64) {
    let files = limits.upload_files.min(descriptors as u64 / 4);
    let left = descriptors - (files as usize).div_ceil(DESCRIPTORS_PER_CONNECTION);
    (left.min(limits.connections), files)
}

fn policy(args: &PolicyArgs) -> Policy {
    let usual = Policy::default();
    Policy {
        coherence: if args.weak { Coherence::Weak } else { Coherence::Strong },
        dependency_fields: or_usual(&args.dependency_field, usual.dependency_fields),
        dependencies_max: args.dependencies_max.into(),
        targeted_fields: or_usual(&args.targeted_field, usual.targeted_fields),
        ignored_query: args.ignore_query.clone(),
        ignored_cookies: args.ignore_cookie.clone(),
        key_cookies: args.key_cookie.clone(),
        codings: or_usual(&args.coding, usual.codings),
        heuristic: Heuristic {
            percent: args.guess_percent.into(),
            lifetime_max_s: args.guess_max.into(),
            with_dependencies_s: args.dependent_lifetime.into(),
            default_s: args.default_lifetime.into(),
        },
        request_directives: if args.ignore_reloads {
            RequestDirectives::OnlyIfCached
        } else {
            RequestDirectives::Honour
        },
        ..usual
    }
}

fn or_usual<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}

fn say_ready(proxy: &Proxy, output: &mut Output) -> Result {
    let (listening, admin, origin) = (proxy.address(), proxy.admin_address(), proxy.origin());
    let hub = proxy.hub_address();
    let json = json!({"listen": listening, "admin": admin, "hub_listen": hub, "origin": origin.to_string()});
    let operators = admin.map_or_else(|| "nowhere".to_owned(), |admin| admin.to_string());
    output.line(&json, format_args!("ready: proxy on {listening}, for {origin}; operators on {operators}"))?;
    output.flush().map_err(|error| Error::from(format!("cannot say that the proxy is ready: {error}")))
}

fn say_stopped(tally: &Tally, output: &mut Output) -> Result {
    let Tally { connections, requests, hits, .. } = tally;
    let refusals: BTreeMap<_, _> = tally.refusals.iter().copied().collect();
    let failed_handshakes: BTreeMap<_, _> = tally.failed_handshakes.iter().copied().collect();
    let json = json!({
        "stopped": "proxy",
        "connections": connections,
        "requests": requests,
        "hits": hits,
        "failed_handshakes": failed_handshakes,
        "refused_requests": refusals,
    });
    let by_name = |(name, count): (&&str, &u64)| format!(", refused as {name}: {count}");
    let refused: String = refusals.iter().map(by_name).collect();
    output
        .line(&json, format_args!("stopped (connections: {connections}, requests: {requests}, hits: {hits}{refused})"))
}
