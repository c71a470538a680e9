//! Which stored response answers a request, and may it do so now (RFC 9111, section 4)?

use crate::date::Time;
use crate::policy::{Coherence, Policy};
use crate::request::Request;
use crate::stored::Stored;

/// The version table's word on a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// None of its dependencies has changed since it was stored.
    Current,
    /// One of them may have.
    Invalidated,
}

/// The decision on a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It answers.
    Fresh {
        /// Its age, for `Age`.
        age_s: u64,
        /// For how long it stays fresh.
        ttl_s: i64,
    },
    /// It answers though it is stale.
    Stale {
        /// Its age, for `Age`.
        age_s: u64,
        /// Zero or less: for how long it has been stale.
        ttl_s: i64,
        /// The permission.
        allowed: StaleAllowed,
    },
    /// It answers only if the origin says that it is still good.
    Revalidate(RevalidateReason),
}

/// The permission to serve a stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleAllowed {
    /// The origin allows it while the response is being validated, which the proxy has to begin.
    WhileRevalidate,
    /// The origin allows it while it fails.
    IfError,
    /// The client allows it.
    MaxStale,
}

impl StaleAllowed {
    /// Every permission.
    pub const ALL: [Self; 3] = [Self::WhileRevalidate, Self::IfError, Self::MaxStale];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WhileRevalidate => "stale-while-revalidate",
            Self::IfError => "stale-if-error",
            Self::MaxStale => "max-stale",
        }
    }
}

/// Why a stored response has to be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevalidateReason {
    /// One of its dependencies may have changed.
    Invalidated,
    /// It says `no-cache`.
    NoCache,
    /// Its lifetime is over.
    Stale,
    /// The request says `no-cache`.
    RequestNoCache,
    /// It is older than the request's `max-age`.
    RequestMaxAge,
    /// It would be stale sooner than the request's `min-fresh` allows.
    RequestMinFresh,
}

impl RevalidateReason {
    /// Every reason.
    pub const ALL: [Self; 6] = [
        Self::Invalidated,
        Self::NoCache,
        Self::Stale,
        Self::RequestNoCache,
        Self::RequestMaxAge,
        Self::RequestMinFresh,
    ];

    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalidated => "invalidated",
            Self::NoCache => "no-cache",
            Self::Stale => "stale",
            Self::RequestNoCache => "request-no-cache",
            Self::RequestMaxAge => "request-max-age",
            Self::RequestMinFresh => "request-min-fresh",
        }
    }

    /// Whether it is the request that asks for it.
    pub const fn is_requests(self) -> bool {
        matches!(self, Self::RequestNoCache | Self::RequestMaxAge | Self::RequestMinFresh)
    }
}

/// The newest of a resource's stored responses that the request selects; its index among them.
pub fn select<'a>(
    policy: &Policy,
    request: &Request<'_>,
    variants: impl IntoIterator<Item = &'a Stored>,
) -> Option<usize> {
    let matching = variants.into_iter().enumerate();
    let matching = matching.filter(|(_, stored)| stored.selecting().matches(policy, request.headers));
    matching.max_by_key(|(_, stored)| stored.date()).map(|(index, _)| index)
}

/// Decides on a stored response that the request selects.
pub fn reuse(policy: &Policy, request: &Request<'_>, stored: &Stored, validity: Validity, now: Time) -> Reuse {
    if validity == Validity::Invalidated {
        return Reuse::Revalidate(RevalidateReason::Invalidated);
    }
    let (freshness, flags) = (&stored.freshness, stored.flags);
    if flags.no_cache {
        return Reuse::Revalidate(RevalidateReason::NoCache);
    }
    if request.control.no_cache {
        return Reuse::Revalidate(RevalidateReason::RequestNoCache);
    }
    let (age_s, ttl_s) = (freshness.age_s(now), freshness.ttl_s(now));
    // An age of whole seconds may be up to one second more: `max-age=0` asks for validation.
    if request.control.max_age.is_some_and(|max| max == 0 || age_s > u64::from(max)) {
        return Reuse::Revalidate(RevalidateReason::RequestMaxAge);
    }
    if request.control.min_fresh.is_some_and(|min| ttl_s < i64::from(min)) {
        return Reuse::Revalidate(RevalidateReason::RequestMinFresh);
    }
    if ttl_s > 0 {
        return Reuse::Fresh { age_s, ttl_s };
    }
    if policy.coherence == Coherence::Weak && !flags.must_revalidate {
        if request.control.max_stale.is_some_and(|max| -ttl_s <= i64::from(max)) {
            return Reuse::Stale { age_s, ttl_s, allowed: StaleAllowed::MaxStale };
        }
        if -ttl_s < i64::from(freshness.stale_while_revalidate_s) {
            return Reuse::Stale { age_s, ttl_s, allowed: StaleAllowed::WhileRevalidate };
        }
    }
    Reuse::Revalidate(RevalidateReason::Stale)
}

/// Whether a stored response answers after all, when its validation has come to an error: no connection, no answer in
/// time, or status 500, 502, 503 or 504. `None` if it does not; the error is the answer then.
pub fn after_error(policy: &Policy, stored: &Stored, validity: Validity, now: Time) -> Option<Reuse> {
    let (freshness, flags) = (&stored.freshness, stored.flags);
    let (age_s, ttl_s) = (freshness.age_s(now), freshness.ttl_s(now));
    let allowed = policy.coherence == Coherence::Weak
        && validity == Validity::Current
        && !flags.must_revalidate
        && !flags.no_cache
        && -ttl_s < i64::from(freshness.stale_if_error_s);
    allowed.then_some(Reuse::Stale { age_s, ttl_s, allowed: StaleAllowed::IfError })
}
