//! Why the proxy answers a request itself, with an error: each reason has a name, which is counted and told.

use crate::request::body::Body;
use crate::request::paced::BodyError;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// A reason to answer a request with an error instead of passing it, or instead of a response of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No `Host`, several, one that is none, or one that contradicts the request's target.
    AmbiguousHost,
    /// A target that is neither a path nor a URI of the scheme that is spoken.
    WrongTarget,
    /// A path and query beyond the limit.
    TargetTooLong,
    /// `Max-Forwards` that is no number.
    BadMaxForwards,
    /// `CONNECT`: a reverse proxy opens no tunnels.
    Connect,
    /// `TRACE`: it would show a client fields that were added on the way.
    Trace,
    /// The request has been here before.
    Loop,
    /// As many requests are at the origin as may be, and none ended in time, or as many wait for that as may.
    OriginBusy,
    /// No connection to the origin.
    OriginUnreachable,
    /// None within the timeout.
    ConnectTimeout,
    /// The origin's certificate is not trusted, or is for another name.
    OriginCertificate,
    /// There is no TLS with the origin for another reason.
    OriginTls,
    /// The origin closed the connection before its response was there.
    OriginClosed,
    /// The origin's response was not there within the timeout.
    OriginTimeout,
    /// The head of the origin's response is larger than what is read of one.
    OriginHead,
    /// The origin's response was no HTTP, or one that must not be passed on.
    OriginProtocol,
    /// The origin has answered, and the hub was not reached in time: caches elsewhere may not have let go of what has
    /// changed.
    HubAway,
    /// The client did not send the body of its request, or too slowly.
    RequestBody,
    /// The body of the request is not framed as HTTP says, or broke off.
    MalformedBody,
    /// The request states several lengths, or one that is no number.
    AmbiguousLength,
    /// The body of the request has another transfer coding than `chunked`.
    TransferCoding,
    /// The body of the request is larger than what is collected of one.
    BodyTooLarge,
    /// The bodies of other requests take the room for them, or the disk fails.
    BodiesFull,
    /// As many websockets and event streams are open as may be.
    LongLivedFull,
    /// The client wants nothing but a stored response, and there is none that may answer.
    OnlyIfCached,
}

impl From<&BodyError> for Refusal {
    /// The reason that a client is told whose request has a body that ended like this.
    fn from(error: &BodyError) -> Self {
        match error {
            BodyError::Broken(_) => Self::MalformedBody,
            BodyError::Paused => Self::RequestBody,
            BodyError::Abandoned | BodyError::Unreadable | BodyError::File(_) => Self::BodiesFull,
        }
    }
}

impl Refusal {
    /// All reasons, in the order of their counts.
    pub(crate) const ALL: [Self; 25] = [
        Self::AmbiguousHost,
        Self::WrongTarget,
        Self::TargetTooLong,
        Self::BadMaxForwards,
        Self::Connect,
        Self::Trace,
        Self::Loop,
        Self::OriginBusy,
        Self::OriginUnreachable,
        Self::ConnectTimeout,
        Self::OriginCertificate,
        Self::OriginTls,
        Self::OriginClosed,
        Self::OriginTimeout,
        Self::OriginHead,
        Self::OriginProtocol,
        Self::HubAway,
        Self::RequestBody,
        Self::MalformedBody,
        Self::AmbiguousLength,
        Self::TransferCoding,
        Self::BodyTooLarge,
        Self::BodiesFull,
        Self::LongLivedFull,
        Self::OnlyIfCached,
    ];

    /// Its name in metrics and in the text of a response.
    pub(crate) fn name(self) -> &'static str {
        self.entry().0
    }

    pub(crate) fn status(self) -> StatusCode {
        self.entry().1
    }

    /// The type of error of RFC 9209, section 2.3.
    pub(crate) fn proxy_error(self) -> &'static str {
        self.entry().2
    }

    /// A sentence for a person.
    fn text(self) -> &'static str {
        self.entry().3
    }

    fn entry(self) -> (&'static str, StatusCode, &'static str, &'static str) {
        match self {
            Self::AmbiguousHost => (
                "ambiguous-host",
                StatusCode::BAD_REQUEST,
                "http_request_error",
                "a request names one host, and the same one wherever it does",
            ),
            Self::WrongTarget => (
                "wrong-target",
                StatusCode::MISDIRECTED_REQUEST,
                "http_request_error",
                "the target of this request is nothing that is served here",
            ),
            Self::TargetTooLong => (
                "target-too-long",
                StatusCode::URI_TOO_LONG,
                "http_request_error",
                "the path and query of this request are too long",
            ),
            Self::BadMaxForwards => (
                "bad-max-forwards",
                StatusCode::BAD_REQUEST,
                "http_request_error",
                "Max-Forwards is not one decimal number",
            ),
            Self::Connect => (
                "connect",
                StatusCode::NOT_IMPLEMENTED,
                "http_request_denied",
                "this is a reverse proxy: it opens no tunnels",
            ),
            Self::Trace => (
                "trace",
                StatusCode::NOT_IMPLEMENTED,
                "http_request_denied",
                "TRACE is not answered here, and not passed on",
            ),
            Self::Loop => (
                "loop",
                StatusCode::LOOP_DETECTED,
                "proxy_loop_detected",
                "this request has been here before: the origin leads back to this proxy",
            ),
            Self::OriginBusy => (
                "origin-busy",
                StatusCode::SERVICE_UNAVAILABLE,
                "connection_limit_reached",
                "too many requests wait for the origin",
            ),
            Self::OriginUnreachable => (
                "origin-unreachable",
                StatusCode::BAD_GATEWAY,
                "connection_refused",
                "no connection to the origin can be made",
            ),
            Self::ConnectTimeout => (
                "connect-timeout",
                StatusCode::GATEWAY_TIMEOUT,
                "connection_timeout",
                "no connection to the origin came about in time",
            ),
            Self::OriginCertificate => (
                "origin-certificate",
                StatusCode::BAD_GATEWAY,
                "tls_certificate_error",
                "the origin's certificate is not one that is trusted for its name",
            ),
            Self::OriginTls => (
                "origin-tls",
                StatusCode::BAD_GATEWAY,
                "tls_protocol_error",
                "no TLS connection to the origin came about",
            ),
            Self::OriginClosed => (
                "origin-closed",
                StatusCode::BAD_GATEWAY,
                "connection_terminated",
                "the origin closed the connection before it had answered",
            ),
            Self::OriginTimeout => (
                "origin-timeout",
                StatusCode::GATEWAY_TIMEOUT,
                "http_response_timeout",
                "the origin did not answer in time",
            ),
            Self::OriginHead => (
                "origin-head",
                StatusCode::BAD_GATEWAY,
                "http_response_header_section_size",
                "the head of the origin's response has more than 1024 lines, or more than 128 KiB",
            ),
            Self::OriginProtocol => (
                "origin-protocol",
                StatusCode::BAD_GATEWAY,
                "http_protocol_error",
                "the origin's response is not valid HTTP",
            ),
            Self::HubAway => (
                "hub-away",
                StatusCode::GATEWAY_TIMEOUT,
                "proxy_internal_error",
                "the request has been carried out, but not all caches are known to have let go of what it has changed",
            ),
            Self::RequestBody => (
                "request-body",
                StatusCode::REQUEST_TIMEOUT,
                "http_request_error",
                "the body of the request did not come, or too slowly",
            ),
            Self::MalformedBody => (
                "malformed-body",
                StatusCode::BAD_REQUEST,
                "http_request_error",
                "the body of the request is malformed, or broke off",
            ),
            Self::AmbiguousLength => (
                "ambiguous-length",
                StatusCode::BAD_REQUEST,
                "http_request_error",
                "a request has at most one Content-Length, which is a decimal number",
            ),
            Self::TransferCoding => (
                "transfer-coding",
                StatusCode::NOT_IMPLEMENTED,
                "http_request_error",
                "the only transfer coding that is understood here is chunked",
            ),
            Self::BodyTooLarge => (
                "body-too-large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "http_request_denied",
                "the body of the request is larger than what is accepted here",
            ),
            Self::BodiesFull => (
                "bodies-full",
                StatusCode::SERVICE_UNAVAILABLE,
                "proxy_internal_error",
                "there is no room for the body of this request now: try again later",
            ),
            Self::LongLivedFull => (
                "long-lived-full",
                StatusCode::SERVICE_UNAVAILABLE,
                "connection_limit_reached",
                "as many websockets and event streams are open as may be: try again later",
            ),
            Self::OnlyIfCached => (
                "only-if-cached",
                StatusCode::GATEWAY_TIMEOUT,
                "destination_unavailable",
                "no stored response answers this, and the request wants no other",
            ),
        }
    }

    /// The response that says so.
    pub(crate) fn response(self) -> Response<Body> {
        const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
        let mut response = Response::new(Body::whole(format!("{}: {}\n", self.name(), self.text())));
        *response.status_mut() = self.status();
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let status = format!("thorp; error={}; details=\"{}\"", self.proxy_error(), self.name());
        if let Ok(status) = HeaderValue::try_from(status) {
            fields.insert(PROXY_STATUS, status);
        }
        response
    }
}
