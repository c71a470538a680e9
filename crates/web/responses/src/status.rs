//! The cache's account of a request: its member of `Cache-Status` (RFC 9211).

use crate::policy::Policy;
use crate::reuse::RevalidateReason;
use http::{HeaderValue, StatusCode};
use std::fmt::Write;

/// Why a request went to the origin: the values of `fwd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The cache was told not to handle it.
    Bypass,
    /// Stored responses do not answer its method.
    Method,
    /// Nothing is stored under its key.
    UriMiss,
    /// The responses under its key are for requests that differ in the fields of `Vary`.
    VaryMiss,
    /// The request's own directives refuse a stored response that would do.
    Request,
    /// The stored response is stale or invalidated.
    Stale,
}

impl ForwardReason {
    /// Every reason.
    pub const ALL: [Self; 6] = [Self::Bypass, Self::Method, Self::UriMiss, Self::VaryMiss, Self::Request, Self::Stale];

    /// The value's name in RFC 9211.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
        }
    }
}

impl From<RevalidateReason> for ForwardReason {
    fn from(reason: RevalidateReason) -> Self {
        if reason.is_requests() { Self::Request } else { Self::Stale }
    }
}

/// The account of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// A stored response answered, without the origin.
    pub hit: bool,
    /// Why the origin was asked.
    pub forward: Option<ForwardReason>,
    /// The status of the origin's response, if it is not the answer's.
    pub forward_status: Option<StatusCode>,
    /// The origin's response was stored.
    pub stored: bool,
    /// The request waited with another one, and got its response.
    pub collapsed: bool,
    /// For how many seconds the response stays fresh.
    pub ttl_s: Option<i64>,
    /// The name of a reason: of a refusal to store, of a validation.
    pub detail: Option<&'static str>,
}

impl CacheStatus {
    /// The member of this cache.
    pub fn to_header(&self, policy: &Policy) -> HeaderValue {
        let mut member = String::with_capacity(64);
        member.push_str(policy.cache_name.as_str());
        if self.hit {
            member.push_str("; hit");
        }
        if let Some(reason) = self.forward {
            let _ = write!(member, "; fwd={}", reason.name());
        }
        if let Some(status) = self.forward_status {
            let _ = write!(member, "; fwd-status={}", status.as_u16());
        }
        if let Some(ttl_s) = self.ttl_s {
            let _ = write!(member, "; ttl={ttl_s}");
        }
        for (set, name) in [(self.stored, "; stored"), (self.collapsed, "; collapsed")] {
            if set {
                member.push_str(name);
            }
        }
        if let Some(detail) = self.detail {
            let _ = write!(member, "; detail={detail}");
        }
        HeaderValue::try_from(member).expect("a token and visible ASCII")
    }
}
