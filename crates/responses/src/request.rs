//! What a request asks of a cache.

use crate::directives::RequestControl;
use crate::key::KeyRef;
use crate::policy::{Policy, RequestDirectives};
use crate::range::RangeRequest;
use http::{HeaderMap, Method, header};

/// A request as a cache sees it: read once, asked by every later decision.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// What it is for.
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
    /// Its method is not one that stored responses answer.
    Method,
    /// A GET with content: what it means is not in the key.
    Content,
    /// A precondition that only the origin can judge.
    Precondition,
}

impl PassReason {
    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Content => "request-content",
            Self::Precondition => "precondition",
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
        Lookup::Cache
    }

    /// Whether nothing but a stored response is wanted: without one the answer is 504 (Gateway Timeout).
    pub fn only_if_cached(&self) -> bool {
        self.control.only_if_cached
    }

    /// The range that it asks for, if that is a GET for a single range of bytes.
    pub fn range(&self) -> Option<RangeRequest> {
        if self.method == Method::GET { RangeRequest::read(self.headers) } else { None }
    }
}
