//! The operators' requests that only a proxy has. The crate `ops` has those of every program.
//!
//! | request | does |
//! |---|---|
//! | `POST /invalidate` | a batch: `{"dependencies": [...], "urls": [...], "all": false, "soft": false}` |
//! | `POST /why` | `{"url": URL}`: what is stored for it, and what was decided last |
//! | `POST /who` | `{"dependency": NAME}`: the stored responses that depend on it |
//! | `PURGE /path` with `Host`, or `PURGE http://host/path` | one URL; with `Cache-Tag`, `Surrogate-Key`, `xkey` or `Cache-Groups` the responses that depend on these instead; with `Soft-Purge: 1` what is stored is kept, and validated before it is used again |
//!
//! When an invalidation is answered, no later request is answered with what it was about.

use crate::limits::{ADMIN_BODY_BYTES_MAX, ADMIN_NAMES_MAX};
use crate::operate::explain;
use crate::operate::tables::{TABLES, tables};
use crate::request::ignored::without_ignored;
use crate::request::target::{Head, Target};
use crate::shared::{Shared, Snapshots};
use crate::stored::coherence::HubAway;
use ::coherence::Dependency;
use bytes::Bytes;
use http::{HeaderMap, Uri};
use ops::{Answer, Answering, Incoming, Refused, Reload, Request, Service, StatusCode, Tables, json_answer, not_found};
use responses::{Dependencies, Key, KeyRef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a body may take.
const BODY_WITHIN: Duration = Duration::from_secs(10);

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

/// A proxy, as its operators see it.
#[derive(Debug)]
pub(crate) struct Operated {
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) reload: Option<Reload>,
}

impl Service for Operated {
    fn tables(&self) -> Tables {
        (TABLES.to_vec(), tables(&self.snapshots.now()))
    }

    /// Why stored responses cannot answer: requests go to the application.
    fn troubles(&self) -> Vec<String> {
        self.snapshots.now().coherence.troubles()
    }

    fn reload(&self) -> Option<Reload> {
        self.reload.clone()
    }

    fn requests(&self) -> &'static str {
        "POST /invalidate, POST /why, POST /who or PURGE"
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        Box::pin(async move { self.route(request).await })
    }
}

impl Operated {
    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        let shared = &*self.snapshots.now();
        match (request.method().as_str(), request.uri().path()) {
            ("POST", "/invalidate") => invalidate(shared, &body(request).await?).await,
            ("POST", "/why") => why(shared, &body(request).await?).await,
            ("POST", "/who") => who(shared, &body(request).await?),
            ("PURGE", _) => purge(shared, request).await,
            _ => Err(not_found(&request, self)),
        }
    }
}

async fn body(request: Request<Incoming>) -> Result<Bytes, Refused> {
    ops::body(request, ADMIN_BODY_BYTES_MAX, BODY_WITHIN).await
}

fn wrong(text: String) -> Refused {
    Refused::wrong(text)
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

async fn why(shared: &Shared, body: &Bytes) -> Result<Answer, Refused> {
    let expected = r#"expected {"url": URL}"#;
    let Ask { url } = serde_json::from_slice(body).map_err(|error| wrong(format!("{error}; {expected}")))?;
    let uri = parse_url(shared, &url)?;
    let key = KeyRef::of_uri(&uri).map_err(|refusal| wrong(refusal.name().to_owned()))?;
    Ok(json_answer(&explain::why(shared, key).await))
}

fn who(shared: &Shared, body: &Bytes) -> Result<Answer, Refused> {
    let expected = r#"expected {"dependency": NAME}"#;
    let named: AskWho = serde_json::from_slice(body).map_err(|error| wrong(format!("{error}; {expected}")))?;
    let dependency = parse_dependency(&named.dependency)?;
    Ok(json_answer(&explain::who(shared, &dependency)))
}

async fn invalidate(shared: &Shared, body: &Bytes) -> Result<Answer, Refused> {
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
    Ok(json_answer(&said))
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
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "disk", text)
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
        Refused::new(StatusCode::GATEWAY_TIMEOUT, "hub-away", text.trim_end())
    })
}

async fn purge(shared: &Shared, mut request: Request<Incoming>) -> Result<Answer, Refused> {
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
        return Ok(json_answer(&How::Soft.purged(count, 0)));
    }
    let target = Target::of(&Head::from(request), shared.config.client_scheme(), &shared.config.origin.authority);
    let key = target.and_then(|target| target.key().map(KeyRef::to_key));
    let key = key.map_err(|refusal| Refused::new(refusal.status(), refusal.name(), refusal.name()))?;
    let how = How::of(request.headers());
    let count = how.purge(shared, &key);
    how.forbid(shared, std::slice::from_ref(&key))?;
    announce(shared, shared.coherence.of_key(&key).into_iter().collect()).await?;
    Ok(json_answer(&how.purged(0, count)))
}
