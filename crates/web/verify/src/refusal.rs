//! Why a request of a server is refused: each reason has a name, which is told and counted.

use crate::limits::{BODY_BYTES_MAX, CHANGES_MAX, KEY_BYTES_MAX};
use ops::{Refused, StatusCode};
use types::limits::{DEPENDENCIES_PER_UPDATE_MAX, DEPENDENCY_BYTES_MAX};

/// A reason to do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A look or a drop without `Thorp-Key`, with several, or with one that is empty.
    NoKey,
    /// A key beyond the limit.
    KeyTooLong,
    /// A path and method that mean nothing.
    NoSuchRequest,
    /// A body that is not what is expected.
    BadBody,
    /// A body that did not come, or not to its end, or that is larger than any that is expected.
    NoBody,
    /// A name that no dependency has.
    NoDependency,
    /// More names than an update has.
    TooManyDependencies,
    /// URLs, which only a proxy knows.
    Urls,
    /// A web page asks.
    WebPage,
    /// The hub is not reached: caches elsewhere may answer without the change.
    HubAway,
    /// The hub of this process has ended.
    HubEnded,
    /// As many changes are on their way as may be.
    TooManyChanges,
}

impl Refusal {
    /// All reasons, in the order of their counts.
    pub(crate) const ALL: [Self; 12] = [
        Self::NoKey,
        Self::KeyTooLong,
        Self::NoSuchRequest,
        Self::BadBody,
        Self::NoBody,
        Self::NoDependency,
        Self::TooManyDependencies,
        Self::Urls,
        Self::WebPage,
        Self::HubAway,
        Self::HubEnded,
        Self::TooManyChanges,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoKey => "no-key",
            Self::KeyTooLong => "key-too-long",
            Self::NoSuchRequest => "no-such-request",
            Self::BadBody => "bad-body",
            Self::NoBody => "no-body",
            Self::NoDependency => "no-dependency",
            Self::TooManyDependencies => "too-many-dependencies",
            Self::Urls => "urls",
            Self::WebPage => "web-page",
            Self::HubAway => "hub-away",
            Self::HubEnded => "hub-ended",
            Self::TooManyChanges => "too-many-changes",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NoKey | Self::BadBody | Self::NoBody | Self::NoDependency | Self::Urls => StatusCode::BAD_REQUEST,
            Self::KeyTooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TooManyDependencies => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoSuchRequest => StatusCode::NOT_FOUND,
            // A server that asks for its clients passes on a 403; this says that it asks in the wrong way.
            Self::WebPage => StatusCode::MISDIRECTED_REQUEST,
            Self::HubAway => StatusCode::GATEWAY_TIMEOUT,
            Self::HubEnded | Self::TooManyChanges => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Tells what was expected, and what to do.
    pub(crate) fn text(self) -> String {
        match self {
            Self::NoKey => "expected one field `Thorp-Key`, with the key under which the server keeps the response".into(),
            Self::KeyTooLong => format!("a key has at most {KEY_BYTES_MAX} bytes: pass the request on without a cache"),
            Self::NoSuchRequest => {
                "expected GET /look, POST /store, POST /drop, POST /invalidate, GET /status, GET /health or \
                 GET /metrics"
                    .into()
            }
            Self::BadBody => {
                "expected {\"ticket\": TICKET, \"dependencies\": [NAME...]} for /store, and {\"dependencies\": [NAME...], \
                 \"all\": false} for /invalidate"
                    .into()
            }
            Self::NoBody => format!("the body did not come, or has more than {BODY_BYTES_MAX} bytes"),
            Self::NoDependency => format!("the name of a dependency has 1 to {DEPENDENCY_BYTES_MAX} bytes"),
            Self::TooManyDependencies => {
                format!("an update has at most {DEPENDENCIES_PER_UPDATE_MAX} names: say \"all\": true, or tell of several")
            }
            Self::Urls => "URLs are a proxy's: name dependencies here, or POST /drop with the key".into(),
            Self::WebPage => {
                "web pages are not answered here: ask at the socket, or say an address or `localhost` as `Host`".into()
            }
            Self::HubAway => "caches elsewhere may not have let go of it: the hub is told when it is reached".into(),
            Self::HubEnded => "the hub of this process has ended: start it again".into(),
            Self::TooManyChanges => {
                format!("{CHANGES_MAX} changes are on their way to the hub, and this one is not: tell of it again")
            }
        }
    }
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self::new(why.status(), why.name(), why.text())
    }
}
