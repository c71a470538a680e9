//! The requests of servers and applications, as HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /look` with `Thorp-Key` | 204 with `Thorp-State`: `current`, `fill` or `away`; but for the last `Thorp-Version` and `Thorp-Ticket` |
//! | `POST /store` with `{"ticket": ..., "dependencies": [...]}` | `{"stored": true, "version": ...}` or `{"stored": false, "reason": ...}` |
//! | `POST /drop` with `Thorp-Key` | `{"dropped": true}`, or false if nothing was known of it |
//! | `POST /invalidate` with `{"dependencies": [...], "all": false}` | that no cache answers without the change any more |
//! | `GET /status`, `GET /health`, `GET /metrics` | those of every program (crate `ops`) |
//!
//! A refusal is `{"error": TEXT, "refused": NAME}`. Everybody who may connect may ask: the socket's file has the
//! rights, and an address is one of loopback. There a web page could ask, too, by way of a browser; it is told apart by
//! what browsers say.

use crate::counters::Counters;
use crate::helper::{Helper, Look, NotTold};
use crate::home::Home;
use crate::limits::{BODY_BYTES_MAX, BODY_WITHIN, KEY_BYTES_MAX};
use crate::refusal::Refusal;
use crate::tables::{DECLINED, LOOKS, REFUSED, TABLES, VERIFY};
use coherence::Dependency;
use http::{HeaderMap, HeaderName, HeaderValue};
use machine::Cell;
use ops::{Answer, Answering, Incoming, Refused, Request, StatusCode, Tables, json_answer};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use types::limits::DEPENDENCIES_PER_UPDATE_MAX;

const THORP_KEY: HeaderName = HeaderName::from_static("thorp-key");
const THORP_STATE: HeaderName = HeaderName::from_static("thorp-state");
const THORP_VERSION: HeaderName = HeaderName::from_static("thorp-version");
const THORP_TICKET: HeaderName = HeaderName::from_static("thorp-ticket");

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
    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        match (request.method().as_str(), request.uri().path()) {
            ("GET", "/look") => Ok(self.look(key(request.headers())?).await),
            ("POST", "/store") => self.store(request).await,
            ("POST", "/drop") => {
                let dropped = self.helper.forget(key(request.headers())?);
                Ok(json_answer(&json!({"dropped": dropped})))
            }
            ("POST", "/invalidate") => self.invalidate(request).await,
            _ => Err(Refusal::NoSuchRequest.into()),
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

    async fn store(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
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

    async fn invalidate(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        let Batch { dependencies, urls, all, soft: _ } = body(request).await?;
        if !urls.is_empty() {
            return Err(Refusal::Urls.into());
        }
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
            return Err(Refusal::TooManyDependencies.into());
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
}

impl ops::Service for Service {
    fn tables(&self) -> Tables {
        let (tally, (keys, bytes)) = (self.counters.read(), self.helper.size());
        let verify = [
            ("keys", keys.into()),
            ("key_bytes", bytes.into()),
            ("stored", tally.stored.into()),
            ("changes", tally.changes.into()),
        ];
        let looks = [("current", tally.current), ("fill", tally.fill), ("away", tally.away)];
        let rows = |counts: &[(&'static str, u64)]| -> Vec<[Cell; 2]> {
            counts.iter().map(|&(name, count)| [name.into(), count.into()]).collect()
        };
        let tables = vec![
            VERIFY.one(verify),
            LOOKS.table(rows(&looks).into_iter()),
            DECLINED.table(rows(&tally.declined).into_iter()),
            REFUSED.table(rows(&tally.refused).into_iter()),
        ];
        (TABLES.to_vec(), tables)
    }

    fn troubles(&self) -> Vec<String> {
        self.home.troubles()
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        Box::pin(async move { self.route(request).await })
    }

    /// Counts it, and says it in the helper's words.
    fn refusing(&self, refused: Refused) -> Refused {
        let Some(why) = Refusal::ALL.into_iter().find(|why| why.name() == refused.name) else { return refused };
        self.counters.refused(why);
        why.into()
    }
}

fn key(fields: &HeaderMap) -> Result<&[u8], Refusal> {
    let mut keys = fields.get_all(THORP_KEY).iter();
    match (keys.next().map(HeaderValue::as_bytes), keys.next()) {
        (Some([]) | None, _) | (_, Some(_)) => Err(Refusal::NoKey),
        (Some(key), None) if key.len() > KEY_BYTES_MAX => Err(Refusal::KeyTooLong),
        (Some(key), None) => Ok(key),
    }
}

async fn body<T: for<'a> Deserialize<'a>>(request: Request<Incoming>) -> Result<T, Refused> {
    let bytes = ops::body(request, BODY_BYTES_MAX, BODY_WITHIN).await?;
    serde_json::from_slice(&bytes).map_err(|_| Refusal::BadBody.into())
}

fn names(names: &[String]) -> Result<Vec<Dependency>, Refusal> {
    let named = names.iter().map(|name| Dependency::new(name.as_bytes().to_vec()));
    named.collect::<Option<_>>().ok_or(Refusal::NoDependency)
}
