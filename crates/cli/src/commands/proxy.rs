//! `thorp proxy`: a caching reverse proxy, from its start to its stop.

use super::invalidate::token;
use crate::cli::ProxyArgs;
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result, descriptors};
use proxy::{Config, Limits, Proxy, Scheme, Tally};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// A client's connection has one descriptor, and a request of its at the origin another.
const DESCRIPTORS_PER_CONNECTION: usize = 2;

pub(super) fn run(args: &ProxyArgs, output: &mut Output) -> Result {
    let mut proxy = Proxy::start(config(args)?)?;
    let stopper = proxy.stopper();
    when_told({
        let stopper = stopper.clone();
        move || stopper.stop()
    })?;
    if args.until_stdin_closes {
        when_stdin_closes(move || stopper.stop());
    }
    say_ready(args, &proxy, output)?;
    proxy.wait()?;
    say_stopped(&proxy.tally(), output)
}

fn config(args: &ProxyArgs) -> Result<Config> {
    let mut config = Config::new(args.listen, args.origin.clone());
    let Limits { connections, .. } = config.limits;
    if args.behind_tls {
        config.scheme = Scheme::Https;
    }
    config.site.hub.clone_from(&args.hub);
    config.site.listen = args.hub_listen;
    config.site.insecure = args.insecure;
    config.admin = Some(args.admin);
    config.admin_token = args.token_file.as_deref().map(token).transpose()?;
    config.origin_http2 = args.origin_http2;
    config.threads = args.threads.map_or(config.threads, usize::from);
    config.limits = Limits {
        connections: descriptors::connections_max(DESCRIPTORS_PER_CONNECTION)?.min(connections),
        stored_bytes: args.cache,
        stored_response_bytes: args.largest.min(args.cache),
        origin: Duration::from_secs(args.origin_timeout.into()),
        ..config.limits
    };
    Ok(config)
}

fn say_ready(args: &ProxyArgs, proxy: &Proxy, output: &mut Output) -> Result {
    let (listening, admin, origin) = (proxy.address(), proxy.admin_address().unwrap_or(args.admin), &args.origin);
    let hub = proxy.hub_address();
    let json = json!({"listen": listening, "admin": admin, "hub_listen": hub, "origin": origin.to_string()});
    output.line(&json, format_args!("ready: proxy on {listening}, for {origin}; operators on {admin}"))?;
    output.flush().map_err(|error| Error::from(format!("cannot say that the proxy is ready: {error}")))
}

fn say_stopped(tally: &Tally, output: &mut Output) -> Result {
    let Tally { connections, requests, hits, .. } = tally;
    let refusals: BTreeMap<_, _> = tally.refusals.iter().copied().collect();
    let json = json!({
        "stopped": "proxy",
        "connections": connections,
        "requests": requests,
        "hits": hits,
        "refused_requests": refusals,
    });
    let by_name = |(name, count): (&&str, &u64)| format!(", refused as {name}: {count}");
    let refused: String = refusals.iter().map(by_name).collect();
    output
        .line(&json, format_args!("stopped (connections: {connections}, requests: {requests}, hits: {hits}{refused})"))
}
