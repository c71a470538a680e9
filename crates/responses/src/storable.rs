//! May this response be stored (RFC 9111, section 3)? Each refusal has a name.

use crate::date::Time;
use crate::dependencies::Dependencies;
use crate::directives::{FieldScope, ResponseControl};
use crate::fields::Fields;
use crate::freshness::{self, Freshness, Lifetime, date_field};
use crate::hop::HopByHop;
use crate::invalidate::resolve;
use crate::key::KeyRef;
use crate::policy::{Coherence, Policy};
use crate::request::Request;
use crate::stored::{Flags, Parts, Stored};
use crate::vary::Selecting;
use http::{HeaderMap, Method, StatusCode, header};
use std::sync::Arc;

/// When a request was sent to the origin, and when the head of its response came.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// When the request was sent.
    pub requested: Time,
    /// When the response's head came.
    pub received: Time,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Its request's method is not one whose responses answer others.
    Method,
    /// Its status is of something that is no response by itself: interim, partial, not modified.
    Status,
    /// It says `must-understand`, and its status is unknown here.
    NotUnderstood,
    /// It says `no-store`.
    NoStore,
    /// Its request says `no-store`.
    RequestNoStore,
    /// It says `private`.
    Private,
    /// Its request has credentials, and it does not say that others may see it.
    Credentials,
    /// It has `Vary: *`.
    VaryStar,
    /// Its `Vary` names what is no field, or too many.
    VaryInvalid,
    /// It names what it depends on in a form that cannot be read, or names too many or too long ones.
    Dependencies,
    /// It says nothing about freshness, and its status allows no guess.
    NoFreshness,
    /// It is stale already, and there is nothing to validate it by.
    Stale,
}

impl NotStored {
    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::NotUnderstood => "must-understand",
            Self::NoStore => "no-store",
            Self::RequestNoStore => "request-no-store",
            Self::Private => "private",
            Self::Credentials => "credentials",
            Self::VaryStar => "vary-star",
            Self::VaryInvalid => "vary-invalid",
            Self::Dependencies => "dependencies",
            Self::NoFreshness => "no-freshness",
            Self::Stale => "stale",
        }
    }
}

/// Takes down a response for later requests for the target, if that is allowed and of use.
pub fn store(
    policy: &Policy,
    request: &Request<'_>,
    target: KeyRef<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    dependencies: &Dependencies,
    exchange: Exchange,
) -> Result<Stored, NotStored> {
    let (control, targeted) = ResponseControl::read(policy, headers);
    may_store(request, target, status, headers, &control)?;
    let selecting = Selecting::of(policy, headers, request.headers)?;

    let date = date_field(headers, &header::DATE, exchange.received);
    let made = date.unwrap_or(exchange.received);
    let explicit = freshness::explicit(&control, targeted, headers, date, exchange.received);
    let lifetime = match explicit {
        Some(seconds) => Lifetime { seconds, heuristic: false },
        None if request.method == Method::POST => return Err(NotStored::NoFreshness),
        None if !(freshness::is_heuristically_cacheable(status) || control.public) => {
            return Err(NotStored::NoFreshness);
        }
        None if is_personal(request, headers, &control) => Lifetime { seconds: 0, heuristic: true },
        None => Lifetime {
            seconds: freshness::heuristic(&policy.heuristic, headers, made, !dependencies.is_empty()),
            heuristic: true,
        },
    };
    let freshness = Freshness {
        received: exchange.received,
        initial_age_s: freshness::initial_age_s(headers, date, exchange.requested, exchange.received),
        lifetime_s: lifetime.seconds,
        stale_while_revalidate_s: control.stale_while_revalidate.unwrap_or(0),
        stale_if_error_s: control.stale_if_error.unwrap_or(0),
    };
    let flags = Flags {
        no_cache: control.no_cache == FieldScope::Whole,
        must_revalidate: control.must_revalidate || control.proxy_revalidate || control.s_maxage.is_some(),
        has_validator: headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED),
        heuristic: lifetime.heuristic,
    };
    let fresh = freshness.ttl_s(exchange.received) > 0 && !flags.no_cache;
    if !fresh && !flags.has_validator && policy.coherence == Coherence::Strong {
        return Err(NotStored::Stale);
    }
    let hop_by_hop = HopByHop::of(headers);
    let kept = Fields::of(headers, |name| {
        let withheld = control.no_cache.names(name.as_str()) || control.private.names(name.as_str());
        !hop_by_hop.contains(name) && !withheld && name != header::AGE
    });
    Ok(Stored(Arc::new(Parts {
        fields: kept,
        selecting,
        freshness,
        date: made,
        last_modified: date_field(headers, &header::LAST_MODIFIED, exchange.received),
        status,
        flags,
    })))
}

fn may_store(
    request: &Request<'_>,
    target: KeyRef<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    control: &ResponseControl,
) -> Result<(), NotStored> {
    if request.method != Method::GET && !answers_a_get(request, target, status, headers) {
        return Err(NotStored::Method);
    }
    if status.is_informational() || matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED) {
        return Err(NotStored::Status);
    }
    if control.must_understand && status.canonical_reason().is_none() {
        return Err(NotStored::NotUnderstood);
    }
    // A cache that understands the status ignores a `no-store` beside `must-understand` (section 5.2.2.3).
    if control.no_store && !control.must_understand {
        return Err(NotStored::NoStore);
    }
    if request.control.no_store {
        return Err(NotStored::RequestNoStore);
    }
    if control.private == FieldScope::Whole {
        return Err(NotStored::Private);
    }
    let shared = control.public || control.must_revalidate || control.s_maxage.is_some();
    if request.has_credentials() && !shared {
        return Err(NotStored::Credentials);
    }
    Ok(())
}

/// Whether the response to a POST says that it is what a GET would get (RFC 9110, section 9.3.3).
fn answers_a_get(request: &Request<'_>, target: KeyRef<'_>, status: StatusCode, headers: &HeaderMap) -> bool {
    let location = headers.get(header::CONTENT_LOCATION).and_then(|location| location.to_str().ok());
    let same = location.and_then(|location| resolve(target, location)).is_some_and(|key| target == key);
    request.method == Method::POST && status == StatusCode::OK && same
}

/// Whether the response may be for one user, as far as one can tell: no lifetime is guessed for it then.
fn is_personal(request: &Request<'_>, headers: &HeaderMap, control: &ResponseControl) -> bool {
    let cookies = request.headers.contains_key(header::COOKIE) || headers.contains_key(header::SET_COOKIE);
    cookies && !control.public
}
