//! Calls over HTTP, at one endpoint after another.

use crate::EtcdError;
use crate::wire::{self, Compare, Lease, LeaseId, Operation, Snapshot};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// An answer is no longer than this, in bytes: the keys of a store with a thousand shards, several times.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A client of one etcd, for threads that may wait. Each call has a connection of its own: calls are rare.
#[derive(Debug)]
pub struct Etcd {
    endpoints: Vec<String>,
    within: Duration,
    runtime: Runtime,
    /// The endpoint that answered last.
    last: AtomicUsize,
}

impl Etcd {
    /// A client of the etcd at these endpoints, each of which has this time for an answer.
    ///
    /// # Errors
    /// The system gives no event loop.
    pub fn new(endpoints: &[String], within: Duration) -> Result<Self, EtcdError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(EtcdError::System)?;
        Ok(Self { endpoints: endpoints.to_vec(), within, runtime, last: AtomicUsize::new(0) })
    }

    /// Reads all keys below a prefix.
    pub fn read(&self, prefix: &str) -> Result<Snapshot, EtcdError> {
        self.call("/v3/kv/range", &Snapshot::request(prefix), Snapshot::parse)
    }

    /// The revision of all of etcd, which is the same as long as nothing has changed there.
    pub fn revision(&self, prefix: &str) -> Result<i64, EtcdError> {
        self.call("/v3/kv/range", &wire::revision_request(prefix), wire::revision)
    }

    /// Changes keys, all at once, if all conditions are met. Returns whether they were; but see the second rule of the
    /// crate.
    pub fn commit(&self, compares: &[Compare], operations: &[Operation]) -> Result<bool, EtcdError> {
        self.call("/v3/kv/txn", &wire::transaction(compares, operations), wire::has_succeeded)
    }

    /// Grants a lease. If the answer is lost, the lease expires unused.
    pub fn grant(&self, length: Duration) -> Result<Lease, EtcdError> {
        self.call("/v3/lease/grant", &Lease::request(length), Lease::parse)
    }

    /// Keeps a lease alive. Returns how long it lasts, counted from some moment in the call; `None` if it has expired.
    pub fn keep_alive(&self, lease: LeaseId) -> Result<Option<Duration>, EtcdError> {
        self.call("/v3/lease/keepalive", &wire::of_lease(lease), wire::kept_alive)
    }

    /// Ends a lease, and with it its keys.
    pub fn revoke(&self, lease: LeaseId) -> Result<(), EtcdError> {
        self.call("/v3/lease/revoke", &wire::of_lease(lease), |answer| wire::revision(answer).map(drop))
    }

    /// Calls one endpoint after another, beginning with the last that answered, until one answers. If none does, the
    /// error is the first one's.
    fn call<T>(
        &self,
        path: &str,
        request: &Value,
        parse: impl Fn(&Value) -> Result<T, &'static str>,
    ) -> Result<T, EtcdError> {
        let (count, first) = (self.endpoints.len(), self.last.load(Relaxed));
        let mut error = None;
        for at in (first..first + count).map(|at| at % count) {
            match self.call_at(&self.endpoints[at], path, request, &parse) {
                Ok(answer) => {
                    self.last.store(at, Relaxed);
                    return Ok(answer);
                }
                Err(why) if why.is_of_endpoint() => error = error.or(Some(why)),
                Err(why) => return Err(why),
            }
        }
        Err(error.unwrap_or_else(|| EtcdError::System(std::io::Error::other("no endpoint is named"))))
    }

    fn call_at<T>(
        &self,
        endpoint: &str,
        path: &str,
        request: &Value,
        parse: impl Fn(&Value) -> Result<T, &'static str>,
    ) -> Result<T, EtcdError> {
        let exchange = async { timeout(self.within, exchange(endpoint, path, request.to_string().into())).await };
        let named = |why: String| EtcdError::NotEtcd { endpoint: endpoint.into(), why };
        let (status, body) = match self.runtime.block_on(exchange) {
            Err(_) => return Err(EtcdError::Silent { endpoint: endpoint.into(), within: self.within }),
            Ok(Err(Failed::Connection(why))) => {
                return Err(EtcdError::Unreachable { endpoint: endpoint.into(), why });
            }
            Ok(Err(Failed::Answer(why))) => return Err(named(why)),
            Ok(Ok(answer)) => answer,
        };
        let answer = serde_json::from_slice::<Value>(&body);
        // The answers of a stream have the error inside.
        let refused = answer.as_ref().ok().and_then(|answer| {
            [&answer["error"]["message"], &answer["error"], &answer["message"]].into_iter().find_map(Value::as_str)
        });
        match (answer.as_ref(), refused) {
            (_, Some(why)) => {
                let why = why.chars().filter(|c| !c.is_control()).take(200).collect();
                Err(EtcdError::Refused { endpoint: endpoint.into(), why })
            }
            (Ok(answer), None) if status == StatusCode::OK => {
                parse(answer).map_err(|expected| named(format!("expected {expected}")))
            }
            _ => Err(named(format!("expected JSON, got the status {status}"))),
        }
    }
}

/// Why an exchange has no answer.
enum Failed {
    Connection(String),
    Answer(String),
}

async fn exchange(endpoint: &str, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Failed> {
    let lost = |error: hyper::Error| Failed::Connection(error.to_string());
    let stream = TcpStream::connect(endpoint).await.map_err(|error| Failed::Connection(error.to_string()))?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // It ends with the sender, at the latest.
    tokio::spawn(connection);
    let request = Request::post(path).header(HOST, endpoint).header(CONTENT_TYPE, "application/json");
    let request = request.body(Full::new(body)).map_err(|error| Failed::Connection(error.to_string()))?;
    let answered = sender
        .send_request(request)
        .await
        .map_err(|error| if error.is_parse() { Failed::Answer("expected HTTP".into()) } else { lost(error) })?;
    let (head, body) = answered.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Failed::Answer(format!("expected at most {ANSWER_BYTES_MAX} bytes: {error}")))?;
    Ok((head.status, body.to_bytes()))
}
