//! The requests of servers and applications, as HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /look` with `Thorp-Key` | 204 with `Thorp-State`: `current`, `fill` or `away`; but for the last `Thorp-Version` and `Thorp-Ticket` |
//! | `POST /store` with `{"ticket": ..., "dependencies": [...]}` | `{"stored": true, "version": ...}` or `{"stored": false, "reason": ...}` |
//! | `POST /drop` with `Thorp-Key` | `{"dropped": true}`, or false if nothing was known of it |
//! | `POST /invalidate` with `{"dependencies": [...], "all": false}` | that no cache answers without the change any more |
//! | `GET /status`, `GET /metrics` | the counts, as JSON and for Prometheus |
//!
//! A refusal is `{"error": TEXT, "refused": NAME}`. Everybody who may connect may ask: the socket's file has the
//! rights, and an address is one of loopback. There a web page could ask, too, by way of a browser; it is told apart by
//! what browsers say.

use crate::counters::Counters;
use crate::helper::{Helper, Look, NotTold};
use crate::home::Home;
use crate::limits::{BODY_BYTES_MAX, BODY_WITHIN, KEY_BYTES_MAX};
use crate::refusal::Refusal;
use bytes::Bytes;
use coherence::Dependency;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::IpAddr;
use tokio::time::timeout;
use types::limits::DEPENDENCIES_PER_UPDATE_MAX;

const THORP_KEY: HeaderName = HeaderName::from_static("thorp-key");
const THORP_STATE: HeaderName = HeaderName::from_static("thorp-state");
const THORP_VERSION: HeaderName = HeaderName::from_static("thorp-version");
const THORP_TICKET: HeaderName = HeaderName::from_static("thorp-ticket");

/// Where a request has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The socket's file.
    Socket,
    /// An address of this machine.
    Loopback,
}

/// The answer to a request.
pub(crate) type Answer = Response<Full<Bytes>>;

/// The helper and its counts, which the requests of all connections share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) helper: Helper,
    pub(crate) counters: Counters,
    pub(crate) home: Home,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    ticket: String,
    dependencies: Vec<String>,
}

/// As a proxy's operators say it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Batch {
    dependencies: Vec<String>,
    urls: Vec<String>,
    all: bool,
    /// A server removes nothing, and finds no more what has changed: soft and hard are one.
    soft: bool,
}

impl Service {
    pub(crate) async fn answer(&self, door: Door, request: Request<Incoming>) -> Answer {
        let answered = if door == Door::Loopback && is_page(request.headers()) {
            Err(Refusal::WebPage)
        } else {
            self.route(request).await
        };
        answered.unwrap_or_else(|why| {
            self.counters.refused(why);
            let mut answer = json_answer(&json!({"error": why.text(), "refused": why.name()}));
            *answer.status_mut() = why.status();
            answer
        })
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        match (request.method().as_str(), request.uri().path()) {
            ("GET", "/look") => Ok(self.look(key(request.headers())?).await),
            ("POST", "/store") => self.store(request).await,
            ("POST", "/drop") => {
                let dropped = self.helper.forget(key(request.headers())?);
                Ok(json_answer(&json!({"dropped": dropped})))
            }
            ("POST", "/invalidate") => self.invalidate(request).await,
            ("GET", "/status") => Ok(json_answer(&self.status())),
            ("GET", "/metrics") => Ok(answer("text/plain; version=0.0.4", self.metrics())),
            _ => Err(Refusal::NoSuchRequest),
        }
    }

    async fn look(&self, key: &[u8]) -> Answer {
        let look = self.helper.look(key).await;
        self.counters.look(&look);
        let (state, pass) = match look {
            Look::Current(pass) => ("current", Some(pass)),
            Look::Fill(pass) => ("fill", Some(pass)),
            Look::Away => ("away", None),
        };
        let mut answer = Answer::default();
        *answer.status_mut() = StatusCode::NO_CONTENT;
        let fields = answer.headers_mut();
        fields.insert(THORP_STATE, HeaderValue::from_static(state));
        for (name, text) in
            pass.into_iter().flat_map(|pass| [(THORP_VERSION, pass.version), (THORP_TICKET, pass.ticket)])
        {
            if let Ok(value) = HeaderValue::try_from(text) {
                fields.insert(name, value);
            }
        }
        answer
    }

    async fn store(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let Made { ticket, dependencies } = body(request).await?;
        let stored = self.helper.store(&ticket, names(&dependencies)?).await;
        Ok(json_answer(&match stored {
            Ok(version) => {
                self.counters.stored();
                json!({"stored": true, "version": version})
            }
            Err(why) => {
                self.counters.declined(why);
                json!({"stored": false, "reason": why.name()})
            }
        }))
    }

    async fn invalidate(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let Batch { dependencies, urls, all, soft: _ } = body(request).await?;
        if !urls.is_empty() {
            return Err(Refusal::Urls);
        }
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
            return Err(Refusal::TooManyDependencies);
        }
        let changed = names(&dependencies)?;
        let count = changed.len();
        let changed = if all { vec![Dependency::ALL] } else { changed };
        if !changed.is_empty() {
            self.helper.changed(changed).await.map_err(|why| match why {
                NotTold::HubAway => Refusal::HubAway,
                NotTold::HubEnded => Refusal::HubEnded,
                NotTold::TooMany => Refusal::TooManyChanges,
            })?;
            self.counters.changed();
        }
        Ok(json_answer(&json!({"dependencies": count, "removed": 0, "lapsed": 0})))
    }

    fn status(&self) -> Value {
        let (tally, (keys, bytes)) = (self.counters.read(), self.helper.size());
        let by_name = |counts: &[(&str, u64)]| -> serde_json::Map<String, Value> {
            counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect()
        };
        json!({
            "trouble": self.home.trouble(),
            "keys": keys,
            "key_bytes": bytes,
            "current": tally.current,
            "fill": tally.fill,
            "away": tally.away,
            "stored": tally.stored,
            "changes": tally.changes,
            "declined": by_name(&tally.declined),
            "refused": by_name(&tally.refused),
        })
    }

    fn metrics(&self) -> String {
        let (tally, (keys, bytes)) = (self.counters.read(), self.helper.size());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE thorp_verify_looks_total counter");
        for (state, count) in [("current", tally.current), ("fill", tally.fill), ("away", tally.away)] {
            let _ = writeln!(text, "thorp_verify_looks_total{{state=\"{state}\"}} {count}");
        }
        for (name, kind, value) in [
            ("stored_total", "counter", tally.stored),
            ("changes_total", "counter", tally.changes),
            ("keys", "gauge", keys as u64),
            ("key_bytes", "gauge", bytes as u64),
        ] {
            let _ = writeln!(text, "# TYPE thorp_verify_{name} {kind}\nthorp_verify_{name} {value}");
        }
        for (name, counts) in [("declined", tally.declined), ("refused_requests", tally.refused)] {
            let _ = writeln!(text, "# TYPE thorp_verify_{name}_total counter");
            for (reason, count) in counts {
                let _ = writeln!(text, "thorp_verify_{name}_total{{reason=\"{reason}\"}} {count}");
            }
        }
        text
    }
}

/// Whether a web page may have made the request: a browser says `Origin`, or names a host that is not an address.
fn is_page(fields: &HeaderMap) -> bool {
    let host = fields.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok();
    fields.contains_key(ORIGIN) || !is_here
}

fn key(fields: &HeaderMap) -> Result<&[u8], Refusal> {
    let mut keys = fields.get_all(THORP_KEY).iter();
    match (keys.next().map(HeaderValue::as_bytes), keys.next()) {
        (Some([]) | None, _) | (_, Some(_)) => Err(Refusal::NoKey),
        (Some(key), None) if key.len() > KEY_BYTES_MAX => Err(Refusal::KeyTooLong),
        (Some(key), None) => Ok(key),
    }
}

async fn body<T: for<'a> Deserialize<'a>>(request: Request<Incoming>) -> Result<T, Refusal> {
    let body = timeout(BODY_WITHIN, Limited::new(request.into_body(), BODY_BYTES_MAX).collect()).await;
    let bytes = body.ok().and_then(Result::ok).ok_or(Refusal::NoBody)?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|_| Refusal::BadBody)
}

fn names(names: &[String]) -> Result<Vec<Dependency>, Refusal> {
    let named = names.iter().map(|name| Dependency::new(name.as_bytes().to_vec()));
    named.collect::<Option<_>>().ok_or(Refusal::NoDependency)
}

fn json_answer(value: &Value) -> Answer {
    answer("application/json", value.to_string() + "\n")
}

fn answer(kind: &'static str, text: String) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from(text)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
