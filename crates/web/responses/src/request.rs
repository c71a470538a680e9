//! A request, as decisions see it.

use crate::directives::RequestControl;
use crate::hop::HopByHop;
use crate::key::KeyRef;
use crate::policy::{Policy, RequestDirectives};
use crate::range::RangeRequest;
use http::{HeaderMap, Method, header};

/// The head of a request, read once for all decisions.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The key of its target.
    pub target: KeyRef<'a>,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// The directives of its `Cache-Control`, as far as the operator lets clients have a say.
    pub control: RequestControl,
}

/// Whether a stored response may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Look for one.
    Cache,
    /// The request goes to the origin, and its response is for nobody else.
    Pass(PassReason),
}

/// Why a request is passed on without a look at the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// Stored responses do not answer its method.
    Method,
    /// It is a GET with content, which is no part of the key.
    Content,
    /// It has a precondition that only the origin can evaluate.
    Precondition,
    /// Its `Connection` names a field that responses may depend on. The origin gets the request without that field, so
    /// its response is for another request than this one.
    Connection,
}

impl PassReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Method, Self::Content, Self::Precondition, Self::Connection];

    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Content => "request-content",
            Self::Precondition => "precondition",
            Self::Connection => "connection",
        }
    }
}

impl<'a> Request<'a> {
    /// Reads a request.
    pub fn new(policy: &Policy, method: &'a Method, target: KeyRef<'a>, headers: &'a HeaderMap) -> Self {
        let mut control = RequestControl::read(headers);
        if policy.request_directives == RequestDirectives::OnlyIfCached {
            control = RequestControl { only_if_cached: control.only_if_cached, ..RequestControl::default() };
        }
        Self { method, target, headers, control }
    }

    /// Whether a stored response may answer it.
    pub fn lookup(&self) -> Lookup {
        if !matches!(*self.method, Method::GET | Method::HEAD) {
            return Lookup::Pass(PassReason::Method);
        }
        let empty = self.headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
        if !empty || self.headers.contains_key(header::TRANSFER_ENCODING) {
            return Lookup::Pass(PassReason::Content);
        }
        if self.headers.contains_key(header::IF_MATCH) || self.headers.contains_key(header::IF_UNMODIFIED_SINCE) {
            return Lookup::Pass(PassReason::Precondition);
        }
        if HopByHop::of(self.headers).hides_a_field() {
            return Lookup::Pass(PassReason::Connection);
        }
        Lookup::Cache
    }

    /// Whether it wants a stored response or none: the answer is then 504 (Gateway Timeout).
    pub fn only_if_cached(&self) -> bool {
        self.control.only_if_cached
    }

    /// The range that it asks for, if that is a GET for a single range of bytes.
    pub fn range(&self) -> Option<RangeRequest> {
        if self.method == Method::GET { RangeRequest::read(self.headers) } else { None }
    }
}
