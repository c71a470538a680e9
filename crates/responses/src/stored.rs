//! A stored response, as decisions need it.

use crate::date::Time;
use crate::directives::{FieldScope, ResponseControl};
use crate::fields::Fields;
use crate::freshness::{self, Freshness, Lifetime};
use crate::hop::HopByHop;
use crate::policy::Policy;
use crate::response::Response;
use crate::vary::Selecting;
use http::{StatusCode, header};
use std::sync::Arc;

/// A stored response without its content: its fields, and beside them the answers to every question that a decision
/// asks. A clone is a reference to the same memory.
#[derive(Clone, Debug)]
pub struct Stored(pub(crate) Arc<Parts>);

#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) fields: Fields,
    pub(crate) selecting: Selecting,
    pub(crate) freshness: Freshness,
    /// When the origin made it, or when it came if it does not say.
    pub(crate) date: Time,
    /// When it last changed, if it says so.
    pub(crate) last_modified: Option<Time>,
    pub(crate) status: StatusCode,
    pub(crate) flags: Flags,
}

/// A cache holds millions of small entries: this is a part of what each takes above its bytes, which is at most 300.
const _: () = assert!(size_of::<Parts>() <= 112);

/// The directives about its use, and what validates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a directive or a field that is there or not")]
pub(crate) struct Flags {
    /// Validate before each use.
    pub(crate) no_cache: bool,
    /// Never use it stale.
    pub(crate) must_revalidate: bool,
    /// There is something to validate it by.
    pub(crate) has_validator: bool,
    /// The lifetime is the cache's own guess.
    pub(crate) heuristic: bool,
}

impl Stored {
    /// Keeps a response.
    pub(crate) fn new(
        response: &Response<'_>,
        control: &ResponseControl,
        lifetime: Lifetime,
        selecting: Selecting,
    ) -> Self {
        let Response { status, headers, received, .. } = *response;
        let flags = Flags {
            no_cache: control.no_cache == FieldScope::Whole,
            must_revalidate: control.must_revalidate || control.proxy_revalidate || control.s_maxage.is_some(),
            has_validator: headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED),
            heuristic: lifetime.heuristic,
        };
        Self(Arc::new(Parts {
            fields: kept_fields(response, control),
            selecting,
            freshness: Freshness {
                received,
                initial_age_s: freshness::initial_age_s(response),
                lifetime_s: lifetime.seconds,
                stale_while_revalidate_s: control.stale_while_revalidate.unwrap_or(0),
                stale_if_error_s: control.stale_if_error.unwrap_or(0),
            },
            date: response.date().unwrap_or(received),
            last_modified: response.time_in(&header::LAST_MODIFIED),
            status,
            flags,
        }))
    }

    /// This response with the fields and the age of another. It is for one answer, not to be stored.
    pub(crate) fn with_fields_of(&self, policy: &Policy, response: &Response<'_>) -> Self {
        let control = ResponseControl::read(policy, response.headers);
        Self::new(response, &control, Lifetime { seconds: 0, heuristic: false }, self.0.selecting.clone())
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Its fields: all of the response's that may be stored.
    pub fn fields(&self) -> &Fields {
        &self.0.fields
    }

    /// The request fields that select it among the stored responses of its resource.
    pub fn selecting(&self) -> &Selecting {
        &self.0.selecting
    }

    /// When the origin made it.
    pub fn date(&self) -> Time {
        self.0.date
    }

    /// Its lifetime and age.
    pub fn freshness(&self) -> &Freshness {
        &self.0.freshness
    }

    /// Whether the origin can be asked if it is still good.
    pub fn has_validator(&self) -> bool {
        self.0.flags.has_validator
    }

    /// Its entity tag, if that is a strong one: two contents never share it.
    pub(crate) fn strong_etag(&self) -> Option<&[u8]> {
        self.etag().filter(|tag| tag.starts_with(b"\""))
    }

    /// Its entity tag, as the field has it.
    pub fn etag(&self) -> Option<&[u8]> {
        self.0.fields.get("etag")
    }

    /// Whether the lifetime is the cache's own guess.
    pub fn is_heuristic(&self) -> bool {
        self.0.flags.heuristic
    }

    /// Whether `Last-Modified` tells two versions apart: it was at least a minute old when the response was made
    /// (RFC 9110, section 8.8.2.2).
    pub(crate) fn last_modified_is_strong(&self) -> bool {
        self.0.last_modified.is_some_and(|changed| self.0.date.since(changed) >= 60)
    }
}

/// The fields that may be stored (RFC 9111, section 3.1): not those of the connection, nor those that the directives
/// withhold. `Age` is computed anew for each answer. A response without `Date` gets one, as from any recipient with a
/// clock (RFC 9110, section 6.6.1).
fn kept_fields(response: &Response<'_>, control: &ResponseControl) -> Fields {
    let hop_by_hop = HopByHop::of(response.headers);
    let fields = Fields::of(response.headers, |name| {
        !hop_by_hop.contains(name) && !control.withholds(name.as_str()) && name != header::AGE
    });
    if response.headers.contains_key(header::DATE) {
        return fields;
    }
    fields.with(&header::DATE, &response.received.to_header())
}
