//! May this response be stored (RFC 9111, section 3)? Each refusal has a name.

use crate::dependencies::Dependencies;
use crate::directives::{FieldScope, ResponseControl};
use crate::freshness::{self, Lifetime};
use crate::hop::HopByHop;
use crate::policy::{Coherence, Policy};
use crate::request::Request;
use crate::response::Response;
use crate::stored::Stored;
use crate::vary::{Selecting, VaryRefusal};
use http::{HeaderMap, HeaderName, Method, header};

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Its request is no GET.
    Method,
    /// Its status is of an interim response, or of one to a range or a precondition: it says nothing to other requests.
    Status,
    /// It says `must-understand`, and this cache does not know its status.
    NotUnderstood,
    /// It says `no-store`.
    NoStore,
    /// Its request says `no-store`.
    RequestNoStore,
    /// It says `private`.
    Private,
    /// Its request has credentials, and no directive of its own lets others see it.
    Credentials,
    /// It sets a cookie, and no `public`, `s-maxage` or targeted field says that it is for everybody; or its request
    /// has cookies, and it has neither a lifetime nor `public`. One user could be shown what was made for another.
    Cookies,
    /// It has `Vary: *`.
    VaryStar,
    /// Its `Vary` is malformed, or names too many fields.
    VaryInvalid,
    /// Its `Vary` names a field that the proxy writes in requests to the origin.
    VaryRewritten,
    /// A part of its `Cache-Control`, or of a targeted field, is not a directive.
    ControlInvalid,
    /// Its dependencies are refused: malformed, too many or too long.
    Dependencies,
    /// Its `Connection`, or a directive, keeps a field from being stored that later decisions need.
    Withheld,
    /// It states no lifetime, and its status allows no guess.
    NoFreshness,
    /// The response states no lifetime, and none can be guessed: it has neither dependencies nor `Last-Modified`.
    NoLifetime,
    /// It is stale already, and there is nothing to validate it by.
    Stale,
}

impl From<VaryRefusal> for NotStored {
    fn from(refusal: VaryRefusal) -> Self {
        match refusal {
            VaryRefusal::Star => Self::VaryStar,
            VaryRefusal::Invalid => Self::VaryInvalid,
            VaryRefusal::Rewritten => Self::VaryRewritten,
        }
    }
}

impl NotStored {
    /// Every reason.
    pub const ALL: [Self; 17] = [
        Self::Method,
        Self::Status,
        Self::NotUnderstood,
        Self::NoStore,
        Self::RequestNoStore,
        Self::Private,
        Self::Credentials,
        Self::Cookies,
        Self::VaryStar,
        Self::VaryInvalid,
        Self::VaryRewritten,
        Self::ControlInvalid,
        Self::Dependencies,
        Self::Withheld,
        Self::NoFreshness,
        Self::NoLifetime,
        Self::Stale,
    ];

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
            Self::VaryRewritten => "vary-rewritten",
            Self::ControlInvalid => "control-invalid",
            Self::Dependencies => "dependencies",
            Self::Withheld => "withheld",
            Self::NoFreshness => "no-freshness",
            Self::NoLifetime => "no-lifetime",
            Self::Stale => "stale",
        }
    }
}

/// Decides whether a response is stored for later requests for the same target, and returns what is kept of it. It must
/// be allowed, and the stored response must be of use.
pub fn store(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    dependencies: &Dependencies,
) -> Result<Stored, NotStored> {
    let control = ResponseControl::read(policy, response.headers);
    may_store(request, response, &control)?;
    if control.malformed {
        return Err(NotStored::ControlInvalid);
    }
    if withholds_a_deciding_field(policy, response.headers, &control) {
        return Err(NotStored::Withheld);
    }
    let lifetime = if let Some(seconds) = freshness::explicit(&control, response) {
        Lifetime { seconds, heuristic: false }
    } else {
        may_guess(policy, request, response, &control)?;
        let seconds = freshness::heuristic(&policy.heuristic, response, !dependencies.is_empty());
        Lifetime { seconds, heuristic: true }
    };
    let selecting = Selecting::lines(policy, response.headers, request.headers)?;
    let stored = Stored::new(response, &control, lifetime, &selecting);
    let fresh = stored.freshness().ttl_s(response.received) > 0 && !stored.flags.no_cache;
    if !fresh && !stored.has_validator() && policy.coherence == Coherence::Strong {
        let is_unstated = lifetime.heuristic && lifetime.seconds == 0 && !stored.flags.no_cache;
        return Err(if is_unstated { NotStored::NoLifetime } else { NotStored::Stale });
    }
    Ok(stored)
}

fn may_store(request: &Request<'_>, response: &Response<'_>, control: &ResponseControl) -> Result<(), NotStored> {
    let status = response.status;
    // A POST that says what a GET would get is no exception (RFC 9110, section 9.3.3, allows one). It changes what it
    // tells, and so would void its own response.
    if request.method != Method::GET {
        return Err(NotStored::Method);
    }
    if status.is_informational() || matches!(status.as_u16(), 206 | 304 | 412 | 416) {
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
    let for_shared_caches = control.public || control.s_maxage.is_some() || control.targeted;
    if response.headers.contains_key(header::SET_COOKIE) && !for_shared_caches {
        return Err(NotStored::Cookies);
    }
    Ok(())
}

/// Whether `Connection`, or a directive about some of the fields, keeps a field out of the stored response that later
/// decisions need, and a 304 relies on.
fn withholds_a_deciding_field(policy: &Policy, headers: &HeaderMap, control: &ResponseControl) -> bool {
    const DECIDING: [HeaderName; 6] =
        [header::CACHE_CONTROL, header::DATE, header::ETAG, header::EXPIRES, header::LAST_MODIFIED, header::VARY];
    let hop_by_hop = HopByHop::of(headers);
    let dependencies = policy.dependency_fields.iter().map(|field| &field.name);
    let deciding = DECIDING.iter().chain(policy.targeted_fields.iter().map(|field| &field.name)).chain(dependencies);
    let mut present = deciding.filter(|name| headers.contains_key(*name));
    present.any(|name| hop_by_hop.contains(name) || control.withholds(name.as_str()))
}

/// May a lifetime be guessed for a response that states none?
fn may_guess(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    control: &ResponseControl,
) -> Result<(), NotStored> {
    if control.public {
        return Ok(());
    }
    if !freshness::is_heuristically_cacheable(response.status) {
        return Err(NotStored::NoFreshness);
    }
    if policy.has_other_cookies(request.headers) {
        return Err(NotStored::Cookies);
    }
    Ok(())
}
