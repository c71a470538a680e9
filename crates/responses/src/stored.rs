//! What is kept of a stored response for later decisions.

use crate::date::Time;
use crate::fields::Fields;
use crate::freshness::Freshness;
use crate::vary::Selecting;
use http::StatusCode;
use std::sync::Arc;

/// A stored response, without its content: its fields, and what decisions ask of them, precomputed. A clone is a count.
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

/// What its directives say about its use.
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
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Its fields: all of the response's that may be stored.
    pub fn fields(&self) -> &Fields {
        &self.0.fields
    }

    /// What selects it among the stored responses of its resource.
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

    /// Its entity tag, as the field has it.
    pub fn etag(&self) -> Option<&[u8]> {
        self.0.fields.get("etag")
    }
}

impl Stored {
    /// Whether `Last-Modified` tells two versions apart: it was at least a minute old when the response was made
    /// (RFC 9110, section 8.8.2.2).
    pub(crate) fn last_modified_is_strong(&self) -> bool {
        self.0.last_modified.is_some_and(|changed| self.0.date.since(changed) >= 60)
    }
}
