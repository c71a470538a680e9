//! The listener for operators: status, metrics, invalidation. It is apart from that for clients, on loopback as a rule.
//!
//! | request | does |
//! |---|---|
//! | `GET /status` | counts and sizes, as JSON |
//! | `GET /health` | 200, or 503 with the reasons while the hub, a home or a watcher is away |
//! | `GET /metrics` | the same for Prometheus |
//! | `POST /invalidate` | a batch: `{"dependencies": [...], "urls": [...], "all": false, "soft": false}` |
//! | `POST /why` | `{"url": URL}`: what is stored for it, and what was decided last |
//! | `POST /who` | `{"dependency": NAME}`: the stored responses that depend on it |
//! | `PURGE /path` with `Host`, or `PURGE http://host/path` | one URL; with `Cache-Tag`, `Surrogate-Key`, `xkey` or `Cache-Groups` the responses that depend on these instead; with `Soft-Purge: 1` what is stored is kept, and validated before it is used again |
//!
//! When an invalidation is answered, no later request is answered with what it was about.
//!
//! With a token each request has to bring it. Without one the listener is on loopback, and whoever may connect may ask,
//! but for web pages: a browser says `Origin`, or names a host that is not an address.

use crate::limits::{ADMIN_BODY_BYTES_MAX, ADMIN_CONNECTIONS_MAX, ADMIN_NAMES_MAX};
use crate::operate::answers::AnsweredBy;
use crate::operate::explain;
use crate::request::body::Body;
use crate::request::ignored::without_ignored;
use crate::request::target::{Head, Target};
use crate::shared::{Editions, Shared};
use crate::stored::coherence::HubAway;
use ::coherence::{Dependency, HomeAddress, Matches};
use bytes::Bytes;
use diskcache::Size;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use responses::{Dependencies, Key, KeyRef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// How long an operator's connection may last.
const CONNECTION_MAX: Duration = Duration::from_secs(60);

/// A batch of what has changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Batch {
    /// Names that responses depend on.
    dependencies: Vec<String>,
    urls: Vec<String>,
    /// Everything.
    all: bool,
    /// Responses under the URLs are kept, and validated before they are used again.
    soft: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    url: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskWho {
    dependency: String,
}

/// The fields by which a `PURGE` is a soft one, with the value 1.
const SOFT_PURGE: [&str; 2] = ["soft-purge", "fastly-soft-purge"];

/// Why a request is refused.
type Refused = (StatusCode, String);

/// Serves operators until the proxy stops.
pub(crate) fn run(
    editions: &Arc<Editions>,
    listener: std::net::TcpListener,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        tokio::select! {
            () = accept(editions, &listener) => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
        Ok(())
    })
}

async fn accept(editions: &Arc<Editions>, listener: &TcpListener) {
    let permits = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
    // Nobody closes the semaphore.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let editions = editions.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let shared = editions.now();
                async move { Ok::<_, Infallible>(answer(&shared, request).await) }
            });
            let mut server = http1::Builder::new();
            let connection = server.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            // An operator that is slow, or gone, asks again.
            let _ = timeout(CONNECTION_MAX, connection).await;
            drop(permit);
        });
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    let answered = match check(shared.config.admin_token.as_deref(), request.headers()) {
        Ok(()) => route(shared, request).await,
        Err(refused) => Err(refused),
    };
    answered.unwrap_or_else(|(status, error)| {
        with_status(status, response("application/json", json!({"error": error}).to_string()))
    })
}

/// Whether somebody may ask at all.
fn check(token: Option<&str>, fields: &HeaderMap) -> Result<(), Refused> {
    if let Some(token) = token {
        let said = fields.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let is_it = said.is_some_and(|said| is_same(said, token.as_bytes()));
        return is_it.then_some(()).ok_or((StatusCode::UNAUTHORIZED, "the token is missing, or is another".to_owned()));
    }
    let host = fields.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok();
    let is_page = fields.contains_key(ORIGIN) || !is_here;
    let text = "web pages are not answered here: ask by address, or set a token";
    (!is_page).then_some(()).ok_or((StatusCode::FORBIDDEN, text.to_owned()))
}

/// Compares in a time that tells nothing of where the two differ.
fn is_same(said: &[u8], token: &[u8]) -> bool {
    let differences = said.iter().zip(token).fold(0, |sum, (one, other)| sum | (one ^ other));
    said.len() == token.len() && differences == 0
}

async fn route(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/status") => Ok(response("application/json", status(shared).to_string())),
        ("GET", "/health") => Ok(health(shared)),
        ("GET", "/metrics") => Ok(response("text/plain; version=0.0.4", metrics(shared))),
        ("POST", "/invalidate") => invalidate(shared, &body(request).await?).await,
        ("POST", "/why") => why(shared, &body(request).await?).await,
        ("POST", "/who") => who(shared, &body(request).await?),
        ("PURGE", _) => purge(shared, request).await,
        (method, path) => {
            let text = format!(
                "'{method} {path}' is nothing here: expected GET /status, GET /health, GET /metrics, POST /invalidate, \
                 POST /why, POST /who or PURGE"
            );
            Err((StatusCode::NOT_FOUND, text))
        }
    }
}

async fn body(request: Request<Incoming>) -> Result<Bytes, Refused> {
    let body = Limited::new(request.into_body(), ADMIN_BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| wrong(format!("the body did not come: {error}")))?;
    Ok(body.to_bytes())
}

fn wrong(text: String) -> Refused {
    (StatusCode::BAD_REQUEST, text)
}

/// A URL, which names the key of stored responses.
fn parse_url(shared: &Shared, url: &str) -> Result<Uri, Refused> {
    let uri: Option<Uri> = url.parse().ok();
    let uri = uri.map(|uri| without_ignored(&shared.config.policy, &uri).unwrap_or(uri));
    let uri = uri.filter(|uri| KeyRef::of_uri(uri).is_ok());
    uri.ok_or_else(|| wrong(format!("'{url}' is no URL: expected http://HOST/PATH or https://HOST/PATH")))
}

fn parse_dependency(name: &str) -> Result<Dependency, Refused> {
    let dependency = Dependency::new(name.as_bytes().to_vec());
    dependency.ok_or_else(|| wrong(format!("'{name}' is no dependency: one has 1 to 256 bytes")))
}

async fn why(shared: &Shared, body: &Bytes) -> Result<Response<Body>, Refused> {
    let expected = r#"expected {"url": URL}"#;
    let Ask { url } = serde_json::from_slice(body).map_err(|error| wrong(format!("{error}; {expected}")))?;
    let uri = parse_url(shared, &url)?;
    let key = KeyRef::of_uri(&uri).map_err(|refusal| wrong(refusal.name().to_owned()))?;
    Ok(response("application/json", explain::why(shared, key).await.to_string()))
}

fn who(shared: &Shared, body: &Bytes) -> Result<Response<Body>, Refused> {
    let expected = r#"expected {"dependency": NAME}"#;
    let named: AskWho = serde_json::from_slice(body).map_err(|error| wrong(format!("{error}; {expected}")))?;
    let dependency = parse_dependency(&named.dependency)?;
    Ok(response("application/json", explain::who(shared, &dependency).to_string()))
}

async fn invalidate(shared: &Shared, body: &Bytes) -> Result<Response<Body>, Refused> {
    let expected = r#"expected {"dependencies": [NAME...], "urls": [URL...], "all": false, "soft": false}"#;
    let batch: Batch = serde_json::from_slice(body).map_err(|error| wrong(format!("{error}; {expected}")))?;
    if batch.dependencies.len() + batch.urls.len() > ADMIN_NAMES_MAX {
        return Err(wrong(format!("a batch has at most {ADMIN_NAMES_MAX} names")));
    }
    // All of it is understood before any of it is done.
    let mut changed = batch.dependencies.iter().map(|name| parse_dependency(name)).collect::<Result<Vec<_>, _>>()?;
    if batch.all {
        changed = vec![Dependency::ALL];
    }
    let urls = batch.urls.iter().map(|url| parse_url(shared, url)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<Key> = urls.iter().filter_map(|url| KeyRef::of_uri(url).ok()).map(KeyRef::to_key).collect();
    let how = if batch.soft { How::Soft } else { How::Hard };
    // Before they are let go of.
    let dependents = shared.coherence.dependents(&changed).await.filter(|_| !changed.contains(&Dependency::ALL));
    let gone: Vec<usize> = keys.iter().map(|key| how.purge(shared, key)).collect();
    how.forbid(shared, &keys)?;
    let mut said = how.purged(changed.len(), gone.iter().sum());
    said["dependents"] = json!(dependents.as_ref().map(|counts| counts.iter().sum::<usize>()));
    said["without_dependents"] = json!(without(&batch.dependencies, dependents.as_deref().unwrap_or_default()));
    said["urls_without_responses"] = json!(without(&batch.urls, &gone));
    said["has_others"] = json!(shared.coherence.has_others());
    changed.extend(keys.iter().filter_map(|key| shared.coherence.of_key(key)));
    announce(shared, changed).await?;
    Ok(response("application/json", said.to_string()))
}

/// The names that have a count of zero.
fn without<'a>(names: &'a [String], counts: &[usize]) -> Vec<&'a str> {
    names.iter().zip(counts).filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str()).collect()
}

/// The way in which responses are purged by their URLs. Those that depend on a name are always purged softly.
#[derive(Clone, Copy)]
enum How {
    /// They are removed.
    Hard,
    /// They are kept, and answer again when the origin has said that they are still good.
    Soft,
}

impl How {
    /// As the fields of a `PURGE` say it.
    fn of(fields: &HeaderMap) -> Self {
        let is_soft = |name: &&str| fields.get(*name).is_some_and(|value| value.as_bytes() == b"1");
        if SOFT_PURGE.iter().any(is_soft) { Self::Soft } else { Self::Hard }
    }

    /// Purges a key; gives how many responses that were.
    fn purge(self, shared: &Shared, key: &Key) -> usize {
        match self {
            Self::Hard => shared.entries.remove(key),
            Self::Soft => shared.entries.lapse(key),
        }
    }

    /// Has responses that were removed not come back from disk when the proxy is started again. This thread may wait
    /// for it.
    fn forbid(self, shared: &Shared, keys: &[Key]) -> Result<(), Refused> {
        let (Self::Hard, Some(disk)) = (self, shared.entries.disk()) else { return Ok(()) };
        disk.forbid(keys.iter().map(Key::as_bytes)).map_err(|error| {
            let text = format!("removed for now, but it may come back when the proxy is started again: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    fn purged(self, dependencies: usize, count: usize) -> Value {
        let (removed, lapsed) = match self {
            Self::Hard => (count, 0),
            Self::Soft => (0, count),
        };
        json!({"dependencies": dependencies, "removed": removed, "lapsed": lapsed})
    }
}

async fn announce(shared: &Shared, changed: Vec<Dependency>) -> Result<(), Refused> {
    shared.coherence.announce(changed, shared.config.limits.hub).await.map_err(|HubAway| {
        let why = shared.coherence.trouble().unwrap_or_default();
        let text = format!("caches elsewhere may not have let go of it: the hub is told when it is reached. {why}");
        (StatusCode::GATEWAY_TIMEOUT, text.trim_end().to_owned())
    })
}

async fn purge(shared: &Shared, mut request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    if let Some(uri) = without_ignored(&shared.config.policy, request.uri()) {
        *request.uri_mut() = uri;
    }
    let request = &request;
    if let Some(named) = Dependencies::read_purge(&shared.config.policy, request.headers()) {
        let expected =
            r#"expected names as in `Cache-Groups: "item:1", "list:bikes"` or `Surrogate-Key: item:1 list:bikes`"#;
        let named = named.map_err(|refusal| wrong(format!("{}: {expected}", refusal.name())))?;
        let changed: Vec<_> = named.iter().filter_map(|name| Dependency::new(name.to_vec())).collect();
        let count = changed.len();
        announce(shared, changed).await?;
        return Ok(response("application/json", How::Soft.purged(count, 0).to_string()));
    }
    let target = Target::of(&Head::from(request), shared.config.client_scheme(), &shared.config.origin.authority);
    let key = target.and_then(|target| target.key().map(KeyRef::to_key));
    let key = key.map_err(|refusal| (refusal.status(), refusal.name().to_owned()))?;
    let how = How::of(request.headers());
    let count = how.purge(shared, &key);
    how.forbid(shared, std::slice::from_ref(&key))?;
    announce(shared, shared.coherence.of_key(&key).into_iter().collect()).await?;
    Ok(response("application/json", how.purged(0, count).to_string()))
}

/// Whether stored responses can answer. Otherwise requests go to the application.
fn health(shared: &Shared) -> Response<Body> {
    let troubles = shared.coherence.troubles();
    let status = if troubles.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let said = json!({"stored_responses_answer": troubles.is_empty(), "troubles": troubles});
    with_status(status, response("application/json", said.to_string()))
}

fn status(shared: &Shared) -> Value {
    let (tally, (entries, bytes)) = (shared.counters.read(), shared.entries.size());
    let uploads = shared.uploads.read();
    let by_name = |counts: &[(&str, u64)]| -> serde_json::Map<String, Value> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect()
    };
    let home =
        |(address, trouble): (&HomeAddress, Option<String>)| json!({"home": address.to_string(), "trouble": trouble});
    let answers = &shared.counters.answers;
    let statuses = answers.by_status().into_iter().map(|(status, count)| (status.to_string(), Value::from(count)));
    let seconds = |from| {
        let quantile = |percent| answers.quantile_s(from, percent);
        json!({"p50": quantile(50), "p90": quantile(90), "p99": quantile(99)})
    };
    let homes: Vec<Value> = shared.coherence.homes().map(home).collect();
    json!({
        "origin": shared.config.origin.to_string(),
        "hub_trouble": shared.coherence.trouble(),
        "homes": homes,
        "troubles": shared.coherence.troubles(),
        "connections": tally.connections,
        "requests": tally.requests,
        "hits": tally.hits,
        "waited": tally.waited,
        "statuses": statuses.collect::<serde_json::Map<String, Value>>(),
        "seconds": {"cache": seconds(AnsweredBy::Cache), "other": seconds(AnsweredBy::Other)},
        "forwarded": by_name(&tally.forwarded),
        "origin_errors": by_name(&tally.origin_errors),
        "not_stored": by_name(&tally.not_stored),
        "changes_misread": tally.changes_misread,
        "stored_responses": entries,
        "stored_bytes": bytes,
        "upload_memory_bytes": uploads.0,
        "upload_file_bytes": uploads.1,
        "disk": shared.entries.disk().map(|disk| disk_status(disk.size(), tally.from_disk)),
        "ended_idle": tally.ended_idle,
        "ended_in_head": tally.ended_in_head,
        "ended_stalled": tally.ended_stalled,
        "ended_displaced": tally.ended_displaced,
        "refused_connections": tally.refused_connections,
        "failed_handshakes": by_name(&tally.failed_handshakes),
        "dropped_fields": tally.dropped_fields.iter().cloned().collect::<BTreeMap<_, _>>(),
        "refused_requests": by_name(&tally.refusals),
    })
}

fn disk_status(size: Size, from_disk: u64) -> Value {
    let Size { records, bytes, written, not_written, unreadable } = size;
    json!({
        "stored_responses": records,
        "stored_bytes": bytes,
        "read": from_disk,
        "written": written,
        "not_written": not_written,
        "unreadable": unreadable,
    })
}

fn metrics(shared: &Shared) -> String {
    let (tally, (entries, bytes)) = (shared.counters.read(), shared.entries.size());
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, value: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE thorp_proxy_{name} {kind}\nthorp_proxy_{name} {value}");
    };
    add("connections_total", "counter", tally.connections);
    add("requests_total", "counter", tally.requests);
    add("hits_total", "counter", tally.hits);
    add("waited_total", "counter", tally.waited);
    add("changes_misread_total", "counter", tally.changes_misread);
    if let Some((Matches { updates, matched, .. }, _)) = shared.coherence.matches() {
        add("updates_named_total", "counter", updates);
        add("updates_matched_total", "counter", matched);
    }
    add("ended_idle_total", "counter", tally.ended_idle);
    add("ended_in_head_total", "counter", tally.ended_in_head);
    add("ended_stalled_total", "counter", tally.ended_stalled);
    add("ended_displaced_total", "counter", tally.ended_displaced);
    add("refused_connections_total", "counter", tally.refused_connections);
    let homes = shared.coherence.homes();
    let (homes, away) = homes.fold((0, 0), |(homes, away), (_, why)| (homes + 1, away + u64::from(why.is_some())));
    add("homes", "gauge", homes);
    add("homes_away", "gauge", away);
    if let Some(log) = &shared.access_log {
        add("access_log_lost_total", "counter", log.lost());
    }
    add("coherence_away", "gauge", u64::from(!shared.coherence.troubles().is_empty()));
    add("sources_away", "gauge", shared.coherence.sources_away().len() as u64);
    add("stored_responses", "gauge", entries as u64);
    add("stored_bytes", "gauge", bytes as u64);
    let (memory, files) = shared.uploads.read();
    add("upload_memory_bytes", "gauge", memory);
    add("upload_file_bytes", "gauge", files);
    if let Some(Size { records, bytes, written, not_written, unreadable }) =
        shared.entries.disk().map(|disk| disk.size())
    {
        add("disk_stored_responses", "gauge", records as u64);
        add("disk_stored_bytes", "gauge", bytes);
        add("disk_read_total", "counter", tally.from_disk);
        add("disk_written_total", "counter", written);
        add("disk_not_written_total", "counter", not_written);
        add("disk_unreadable_total", "counter", unreadable);
    }
    shared.counters.answers.write_metrics(&mut text);
    let by_reason = [
        ("forwarded", tally.forwarded),
        ("origin_errors", tally.origin_errors),
        ("not_stored", tally.not_stored),
        ("failed_handshakes", tally.failed_handshakes),
        ("refused_requests", tally.refusals),
    ];
    for (name, counts) in by_reason {
        let _ = writeln!(text, "# TYPE thorp_proxy_{name}_total counter");
        for (reason, count) in counts {
            let _ = writeln!(text, "thorp_proxy_{name}_total{{reason=\"{reason}\"}} {count}");
        }
    }
    let _ = writeln!(text, "# TYPE thorp_proxy_dropped_fields_total counter");
    for (name, count) in tally.dropped_fields {
        let _ = writeln!(text, "thorp_proxy_dropped_fields_total{{name=\"{name}\"}} {count}");
    }
    text
}

fn response(kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(text + "\n"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn with_status(status: StatusCode, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn check_with(token: Option<&str>, fields: &[(&'static str, &'static str)]) -> Option<StatusCode> {
        let fields =
            fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        check(token, &fields.collect()).err().map(|(status, _)| status)
    }

    #[test]
    fn web_pages_and_those_without_the_token_are_refused() {
        for host in ["127.0.0.1:8081", "[::1]:8081", "localhost:8081", "localhost"] {
            assert_eq!(check_with(None, &[("host", host)]), None, "{host}");
        }
        assert_eq!(check_with(None, &[("host", "rebound.example:8081")]), Some(StatusCode::FORBIDDEN));
        let page = [("host", "127.0.0.1:8081"), ("origin", "http://evil.example")];
        assert_eq!(check_with(None, &page), Some(StatusCode::FORBIDDEN));
        assert_eq!(check_with(Some("s3cret"), &[("host", "x")]), Some(StatusCode::UNAUTHORIZED));
        for wrong in ["Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"] {
            assert_eq!(check_with(Some("s3cret"), &[("authorization", wrong)]), Some(StatusCode::UNAUTHORIZED));
        }
        assert_eq!(check_with(Some("s3cret"), &[("authorization", "Bearer s3cret")]), None);
    }
}
