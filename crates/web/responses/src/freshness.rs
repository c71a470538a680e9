//! How long a response is fresh, and how old it is (RFC 9111, section 4.2).

use crate::date::Time;
use crate::directives::{ResponseControl, SECONDS_MAX, seconds};
use crate::policy::Heuristic;
use crate::response::Response;
use http::{HeaderMap, StatusCode, header};

/// The two clocks of a stored response: for how long it is fresh, and how old it was when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When the response came.
    pub(crate) received: Time,
    /// How old it was then, in seconds.
    pub(crate) initial_age_s: u32,
    /// The age at which it is stale, in seconds.
    pub(crate) lifetime_s: u32,
    /// For how many seconds after that it may be served while it is validated.
    pub(crate) stale_while_revalidate_s: u32,
    /// For how many seconds after that it may be served when the origin fails.
    pub(crate) stale_if_error_s: u32,
}

impl Freshness {
    /// Its age, in seconds: the value of `Age`.
    pub fn age_s(&self, now: Time) -> u64 {
        u64::from(self.initial_age_s) + now.since(self.received)
    }

    /// For how many seconds it stays fresh; zero or less for a stale one.
    pub fn ttl_s(&self, now: Time) -> i64 {
        i64::from(self.lifetime_s) - i64::try_from(self.age_s(now)).unwrap_or(i64::MAX)
    }

    /// The age at which it is stale, in seconds.
    pub fn lifetime_s(&self) -> u32 {
        self.lifetime_s
    }
}

/// A response's age when it came (section 4.2.3): the age that it states, with the time that the exchange took, or the
/// age by its date, whichever is larger.
pub(crate) fn initial_age_s(response: &Response<'_>) -> u32 {
    let apparent = response.date().map_or(0, |date| response.received.since(date));
    let corrected = u64::from(age_value(response.headers)) + response.received.since(response.requested);
    capped(apparent.max(corrected))
}

/// The value of `Age`. Anything but a single number counts as the largest age. Section 5.1 recommends to take the first
/// member of a list and to ignore a malformed value, which would make a response younger than a cache on its way has
/// said it is.
fn age_value(headers: &HeaderMap) -> u32 {
    let mut lines = headers.get_all(header::AGE).iter();
    match (lines.next(), lines.next()) {
        (None, _) => 0,
        (Some(line), None) => seconds(line.as_bytes().trim_ascii()).unwrap_or(SECONDS_MAX),
        _ => SECONDS_MAX,
    }
}

/// A lifetime, and whether it is a guess.
#[derive(Clone, Copy)]
pub(crate) struct Lifetime {
    pub(crate) seconds: u32,
    pub(crate) heuristic: bool,
}

/// The lifetime that the response states for a shared cache (section 4.2.1); `None` if it states none.
pub(crate) fn explicit(control: &ResponseControl, response: &Response<'_>) -> Option<u32> {
    let directive = control.s_maxage.or(control.max_age);
    if directive.is_some() || control.targeted {
        return directive;
    }
    let mut lines = response.headers.get_all(header::EXPIRES).iter();
    let first = lines.next()?;
    // A malformed date is one of the past, and so are two that differ.
    let expires = Time::parse(first.as_bytes(), response.received).filter(|_| lines.all(|line| line == first));
    let made = response.date().unwrap_or(response.received);
    Some(expires.map_or(0, |expires| capped(expires.since(made))))
}

/// The guessed lifetime of a response that states none.
pub(crate) fn heuristic(heuristic: &Heuristic, response: &Response<'_>, has_dependencies: bool) -> u32 {
    let by_dependencies = if has_dependencies { heuristic.with_dependencies_s } else { 0 };
    let made = response.date().unwrap_or(response.received);
    let changed = response.time_in(&header::LAST_MODIFIED);
    let unchanged_s = changed.map_or(0, |changed| made.since(changed));
    let by_age = (unchanged_s.saturating_mul(heuristic.percent) / 100).min(heuristic.lifetime_max_s);
    capped(by_dependencies.max(by_age).max(heuristic.default_s))
}

/// A number of seconds that stops at the largest.
fn capped(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(SECONDS_MAX).min(SECONDS_MAX)
}

/// The statuses for which a cache may guess (RFC 9110, section 15.1).
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
