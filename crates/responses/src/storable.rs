//! May this response be stored (RFC 9111, section 3)? Each refusal has a name.

use crate::date::Time;
use crate::dependencies::Dependencies;
use crate::directives::{FieldScope, ResponseControl};
use crate::freshness::{self, Lifetime};
use crate::invalidate::resolve;
use crate::policy::{Coherence, Policy};
use crate::request::Request;
use crate::stored::Stored;
use crate::vary::Selecting;
use http::{HeaderMap, Method, StatusCode, header};

/// A response of the origin, as far as its head.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// When the request was sent to the origin.
    pub requested: Time,
    /// When the head came.
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
    /// Cookies came with it or with its request, and it does not say for how long it is fresh, or that it is for
    /// everybody. A guess could show one user what was made for another.
    Cookies,
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
            Self::Cookies => "cookies",
            Self::VaryStar => "vary-star",
            Self::VaryInvalid => "vary-invalid",
            Self::Dependencies => "dependencies",
            Self::NoFreshness => "no-freshness",
            Self::Stale => "stale",
        }
    }
}

/// Takes down a response for later requests for the same target, if that is allowed and of use.
pub fn store(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    dependencies: &Dependencies,
) -> Result<Stored, NotStored> {
    let (control, targeted) = ResponseControl::read(policy, response.headers);
    may_store(request, response, &control)?;
    let lifetime = lifetime(policy, request, response, dependencies, &control, targeted)?;
    let selecting = Selecting::of(policy, response.headers, request.headers)?;
    let stored = Stored::new(response, &control, lifetime, selecting);
    let fresh = stored.freshness().ttl_s(response.received) > 0 && !stored.0.flags.no_cache;
    if !fresh && !stored.has_validator() && policy.coherence == Coherence::Strong {
        return Err(NotStored::Stale);
    }
    Ok(stored)
}

fn may_store(request: &Request<'_>, response: &Response<'_>, control: &ResponseControl) -> Result<(), NotStored> {
    let status = response.status;
    if request.method != Method::GET && !answers_a_get(request, response) {
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
    let for_others = control.public || control.must_revalidate || control.s_maxage.is_some();
    if request.headers.contains_key(header::AUTHORIZATION) && !for_others {
        return Err(NotStored::Credentials);
    }
    Ok(())
}

/// For how long the response is fresh: what it says, or else a guess where one is allowed.
fn lifetime(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    dependencies: &Dependencies,
    control: &ResponseControl,
    targeted: bool,
) -> Result<Lifetime, NotStored> {
    if let Some(seconds) = freshness::explicit(control, targeted, response) {
        return Ok(Lifetime { seconds, heuristic: false });
    }
    let guessable = freshness::is_heuristically_cacheable(response.status) || control.public;
    if request.method != Method::GET || !guessable {
        return Err(NotStored::NoFreshness);
    }
    let cookies = request.headers.contains_key(header::COOKIE) || response.headers.contains_key(header::SET_COOKIE);
    if cookies && !control.public {
        return Err(NotStored::Cookies);
    }
    let seconds = freshness::heuristic(&policy.heuristic, response, !dependencies.is_empty());
    Ok(Lifetime { seconds, heuristic: true })
}

/// Whether the response to a POST says that it is what a GET would get (RFC 9110, section 9.3.3).
fn answers_a_get(request: &Request<'_>, response: &Response<'_>) -> bool {
    let location = response.headers.get(header::CONTENT_LOCATION).and_then(|location| location.to_str().ok());
    let same =
        || location.and_then(|location| resolve(request.target, location)).is_some_and(|key| request.target == key);
    request.method == Method::POST && response.status == StatusCode::OK && same()
}
