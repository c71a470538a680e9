//! Requests to the origin, over a pool of connections.

pub(crate) mod connector;
pub(crate) mod origin_permits;
pub(crate) mod origin_tls_error;
pub(crate) mod tunnel;
pub(crate) mod url;

use crate::limits::{ORIGIN_FIELDS_MAX, ORIGIN_HEAD_BYTES_MAX, RETRIES_MAX};
use crate::origin::connector::Connector;
use crate::origin::origin_tls_error::OriginTlsError;
use crate::origin::url::OriginUrl;
use crate::request::framing::{check_response, frame_request};
use crate::request::paced::{Arriving, BodyError, Paced};
use crate::request::refusal::Refusal;
use crate::request::target::Scheme;
use crate::request::upload::{Progress, Upload};
use crate::shared::Shared;
use http::header::{CONTENT_TYPE, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use responses::forward_response;
use serving::HintsTo;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// The head of a request to the origin.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
    hints: Option<HintsTo>,
}

impl RequestHead {
    /// Whether it asks for another protocol.
    fn is_switch(&self) -> bool {
        self.headers.contains_key(UPGRADE)
    }

    /// That of a client's request, with the fields that it is passed on with.
    pub(crate) fn of(head: &Parts, headers: HeaderMap) -> Self {
        let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Self { method: head.method.clone(), path, headers, hints: None }
    }

    /// Sets where the hints go that come before the response.
    pub(crate) fn with_hints(self, hints: Option<HintsTo>) -> Self {
        Self { hints, ..self }
    }
}

/// The origin, as one thread reaches it: connections belong to the thread that opened them.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    client: Client<Connector, Upload>,
    url: OriginUrl,
    version: Version,
    shared: Arc<Shared>,
}

impl Origin {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let config = &shared.config;
        let (limits, is_http2) = (&config.limits, config.origin_http2);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(limits.origin_idle_connections)
            .pool_idle_timeout(limits.origin_idle)
            .http1_max_headers(ORIGIN_FIELDS_MAX)
            .http1_max_buf_size(ORIGIN_HEAD_BYTES_MAX)
            .http2_max_header_list_size(ORIGIN_HEAD_BYTES_MAX as u32)
            .http2_only(is_http2)
            // The request names the host that the client wants.
            .set_host(false);
        let version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let client = builder.build(Connector::new(shared.origin_tls.clone(), limits.connect, shared.notes.clone()));
        Self { client, url: config.origin.clone(), version, shared }
    }

    fn request(&self, mut head: RequestHead, upload: Upload) -> Request<Upload> {
        frame_request(&mut head.headers, &head.method, &upload, self.version);
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(match self.url.scheme {
            Scheme::Http => http::uri::Scheme::HTTP,
            Scheme::Https => http::uri::Scheme::HTTPS,
        });
        uri.authority = Some(self.url.authority.clone());
        uri.path_and_query = Some(head.path);
        let mut request = Request::new(upload);
        *request.method_mut() = head.method;
        *request.uri_mut() = Uri::from_parts(uri).expect("scheme, authority and path make a URI");
        *request.version_mut() = self.version;
        *request.headers_mut() = head.headers;
        if let Some(hints) = head.hints {
            hyper::ext::on_informational(&mut request, move |response| {
                hints.pass(response.status(), &forward_response(response.headers()));
            });
        }
        request
    }

    /// Waits for leave to send a request. A request that waits for its client should not hold it.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.shared.origin_permits.acquire(self.shared.config.limits.connect).await.ok_or(Refusal::OriginBusy)
    }

    /// Sends a request without a body, as [`Self::send_with`] does, when there is leave to.
    pub(crate) async fn send(&self, head: RequestHead) -> Result<Response<Arriving>, Refusal> {
        self.send_with(self.permit().await?, head, Upload::Empty).await
    }

    /// Sends a request and gives the head of the response, with its body to come.
    ///
    /// A connection of the pool may be closed by the origin at the moment it is used. A request that has no body and
    /// may be repeated is sent again, then.
    pub(crate) async fn send_with(
        &self,
        permit: OwnedSemaphorePermit,
        head: RequestHead,
        upload: Upload,
    ) -> Result<Response<Arriving>, Refusal> {
        let limits = &self.shared.config.limits;
        let (is_switch, progress) = (head.is_switch(), upload.progress());
        let mut again = (matches!(upload, Upload::Empty) && is_idempotent(&head.method)).then(|| head.clone());
        let mut request = self.request(head, upload);
        let mut retries = 0;
        loop {
            let error = match within(limits.origin, progress.as_deref(), self.client.request(request)).await {
                None => return Err(Refusal::OriginTimeout),
                Some(Err(error)) => error,
                Some(Ok(response)) => return self.received(response, permit, is_switch),
            };
            let refusal = refusal(&self.shared, &error);
            match again.take() {
                Some(head) if refusal == Refusal::OriginClosed && retries < RETRIES_MAX => {
                    retries += 1;
                    again = (retries < RETRIES_MAX).then(|| head.clone());
                    request = self.request(head, Upload::Empty);
                }
                _ => return Err(refusal),
            }
        }
    }

    /// The head of a response is here.
    fn received(
        &self,
        response: Response<Incoming>,
        permit: OwnedSemaphorePermit,
        is_switch: bool,
    ) -> Result<Response<Arriving>, Refusal> {
        let (mut head, body) = response.into_parts();
        check_response(&mut head.headers)?;
        let is_switched = head.status == StatusCode::SWITCHING_PROTOCOLS;
        if is_switched && !is_switch {
            return Err(Refusal::OriginProtocol);
        }
        let permit = if is_switched || is_event_stream(&head.headers) {
            // Its place among the requests is for others now.
            self.shared.origin_permits.long_lived().ok_or(Refusal::LongLivedFull)?
        } else {
            permit
        };
        let body = Paced::new(body, self.shared.config.limits.origin);
        Ok(Response::from_parts(head, Arriving::new(body, permit)))
    }
}

/// Whether a response is a stream of events, which has no end of its own.
fn is_event_stream(fields: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    let kind = fields.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    kind.get(..EVENT_STREAM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

/// The output of a future, if it comes within a time: since it was called, or since a body on its way has moved.
async fn within<F: Future>(limit: Duration, progress: Option<&Progress>, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), limit);
    loop {
        if let Ok(output) = timeout(left, future.as_mut()).await {
            return Some(output);
        }
        left = limit.checked_sub(progress?.silence()).filter(|left| !left.is_zero())?;
    }
}

fn is_idempotent(method: &Method) -> bool {
    method.is_safe() || matches!(*method, Method::PUT | Method::DELETE)
}

/// The reason that a client is told for a failure.
fn refusal(shared: &Shared, error: &hyper_util::client::legacy::Error) -> Refusal {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<BodyError>() {
            return error.into();
        }
        if let Some(error) = error.downcast_ref::<OriginTlsError>() {
            shared.notes.origin_tls(error);
            return if error.is_certificate() { Refusal::OriginCertificate } else { Refusal::OriginTls };
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::TimedOut => return Refusal::ConnectTimeout,
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                    return Refusal::OriginClosed;
                }
                _ => {}
            }
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
                return Refusal::OriginClosed;
            }
            if error.is_parse_too_large() {
                return Refusal::OriginHead;
            }
            if error.is_parse() {
                return Refusal::OriginProtocol;
            }
        }
        cause = error.source();
    }
    if error.is_connect() { Refusal::OriginUnreachable } else { Refusal::OriginProtocol }
}
