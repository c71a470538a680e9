//! Requests to the origin, over a pool of connections.

use crate::connector::Connector;
use crate::limits::{ORIGIN_FIELDS_MAX, READ_AHEAD_BYTES_MAX, RETRIES_MAX};
use crate::origin_tls_error::OriginTlsError;
use crate::paced::{Arriving, BodyError, Paced, PollFrame};
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::target::Scheme;
use crate::url::OriginUrl;
use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body::SizeHint;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// The head of a request to the origin.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
}

impl RequestHead {
    /// That of a client's request, with the fields that it is passed on with.
    pub(crate) fn of(head: &Parts, headers: HeaderMap) -> Self {
        let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Self { method: head.method.clone(), path, headers }
    }
}

/// The body of a request to the origin.
#[derive(Debug)]
pub(crate) enum Upload {
    /// None.
    Empty,
    /// A client's, as it comes.
    Client(Paced),
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Client(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Client(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Client(body) => body.size_hint(),
        }
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
            .http1_max_buf_size(READ_AHEAD_BYTES_MAX)
            .http2_max_header_list_size(READ_AHEAD_BYTES_MAX as u32)
            .http2_only(is_http2)
            // The request names the host that the client wants.
            .set_host(false);
        let version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let client = builder.build(Connector::new(shared.origin_tls.clone(), limits.connect, shared.notes.clone()));
        Self { client, url: config.origin.clone(), version, shared }
    }

    fn request(&self, head: RequestHead, upload: Upload) -> Request<Upload> {
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
        request
    }

    /// Sends a request and gives the head of the response, with its body to come.
    ///
    /// A connection of the pool may be closed by the origin at the moment it is used. A request that has no body and may
    /// be repeated is sent again, then.
    pub(crate) async fn send(&self, head: RequestHead, upload: Upload) -> Result<Response<Arriving>, Refusal> {
        let limits = &self.shared.config.limits;
        let permit = self.shared.origin_permits.acquire(limits.connect).await.ok_or(Refusal::OriginBusy)?;
        let mut again = (matches!(upload, Upload::Empty) && is_idempotent(&head.method)).then(|| head.clone());
        let mut request = self.request(head, upload);
        let mut retries = 0;
        loop {
            let error = match timeout(limits.origin, self.client.request(request)).await {
                Err(_) => return Err(Refusal::OriginTimeout),
                Ok(Err(error)) => error,
                Ok(Ok(response)) => {
                    return Ok(response.map(|incoming| Arriving::new(Paced::new(incoming, limits.origin), permit)));
                }
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
}

fn is_idempotent(method: &Method) -> bool {
    method.is_safe() || matches!(*method, Method::PUT | Method::DELETE)
}

/// The reason that a client is told for a failure.
fn refusal(shared: &Shared, error: &hyper_util::client::legacy::Error) -> Refusal {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(BodyError::Paused | BodyError::Broken(_)) = error.downcast_ref::<BodyError>() {
            return Refusal::RequestBody;
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
