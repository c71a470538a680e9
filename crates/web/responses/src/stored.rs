//! A stored response, as decisions need it.

use crate::date::Time;
use crate::directives::{FieldScope, ResponseControl};
use crate::fields::{Fields, write_fields, write_line};
use crate::freshness::{self, Freshness, Lifetime};
use crate::hop::HopByHop;
use crate::policy::Policy;
use crate::response::Response;
use crate::vary::Selecting;
use http::{HeaderName, StatusCode, header};

/// A stored response without its content: its fields, and beside them the answers to every question that a decision
/// asks. A cache may keep bytes of its own in the same piece of memory, behind the fields.
///
/// ```text
///   text: what selects it | fields | the cache's own
/// ```
#[derive(Clone, Debug)]
pub struct Stored {
    pub(crate) text: Box<[u8]>,
    /// Where the fields begin, and where they end.
    pub(crate) fields: (u32, u32),
    pub(crate) freshness: Freshness,
    /// When the origin made it, or when it came if it does not say.
    pub(crate) date: Time,
    pub(crate) status: StatusCode,
    pub(crate) flags: Flags,
}

/// A cache holds millions of small entries: this is a part of what each takes above its bytes, which is at most 300.
const _: () = assert!(size_of::<Stored>() <= 64);

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
        selecting: &[u8],
    ) -> Self {
        let Response { status, headers, received, .. } = *response;
        let flags = Flags {
            no_cache: control.no_cache == FieldScope::Whole,
            must_revalidate: control.must_revalidate || control.proxy_revalidate || control.s_maxage.is_some(),
            has_validator: headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED),
            heuristic: lifetime.heuristic,
        };
        let mut text = selecting.to_vec();
        write_kept(response, control, &mut text);
        Self {
            fields: (selecting.len() as u32, text.len() as u32),
            text: text.into(),
            freshness: Freshness {
                received,
                initial_age_s: freshness::initial_age_s(response),
                lifetime_s: lifetime.seconds,
                stale_while_revalidate_s: control.stale_while_revalidate.unwrap_or(0),
                stale_if_error_s: control.stale_if_error.unwrap_or(0),
            },
            date: response.date().unwrap_or(received),
            status,
            flags,
        }
    }

    /// The same with bytes of the cache's own, in place of those that it had.
    #[must_use]
    pub fn with_own(self, own: &[&[u8]]) -> Self {
        let text = &self.text[..self.fields.1 as usize];
        let mut with_own = Vec::with_capacity(text.len() + own.iter().map(|bytes| bytes.len()).sum::<usize>());
        with_own.extend_from_slice(text);
        for bytes in own {
            with_own.extend_from_slice(bytes);
        }
        Self { text: with_own.into(), ..self }
    }

    /// The bytes of all of it but for this structure: of what selects it, of its fields, and the cache's own.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// The cache's own bytes.
    pub fn own(&self) -> &[u8] {
        &self.text[self.fields.1 as usize..]
    }

    /// This response with the fields and the age of another. It is for one answer, not to be stored.
    pub(crate) fn with_fields_of(&self, policy: &Policy, response: &Response<'_>) -> Self {
        let control = ResponseControl::read(policy, response.headers);
        Self::new(response, &control, Lifetime { seconds: 0, heuristic: false }, self.selecting().0)
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its fields: all of the response's that may be stored.
    pub fn fields(&self) -> Fields<'_> {
        let (begin, end) = self.fields;
        Fields(&self.text[begin as usize..end as usize])
    }

    /// The request fields that select it among the stored responses of its resource.
    pub fn selecting(&self) -> Selecting<'_> {
        Selecting(&self.text[..self.fields.0 as usize])
    }

    /// When the origin made it.
    pub fn date(&self) -> Time {
        self.date
    }

    /// Its lifetime and age.
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// Whether the origin can be asked if it is still good.
    pub fn has_validator(&self) -> bool {
        self.flags.has_validator
    }

    /// Whether the origin can be asked if it is still good when nothing else is known of it: by a validator that two
    /// contents never share.
    pub fn has_strong_validator(&self) -> bool {
        self.strong_etag().is_some() || self.last_modified_is_strong()
    }

    /// Its entity tag, if that is a strong one: two contents never share it.
    pub(crate) fn strong_etag(&self) -> Option<&[u8]> {
        self.etag().filter(|tag| tag.starts_with(b"\""))
    }

    /// Its entity tag, as the field has it.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields().get("etag")
    }

    /// Whether the lifetime is the cache's own guess.
    pub fn is_heuristic(&self) -> bool {
        self.flags.heuristic
    }

    /// When it last changed, if it says so.
    pub(crate) fn last_modified(&self) -> Option<Time> {
        self.fields().get("last-modified").and_then(|value| Time::parse(value, self.freshness.received))
    }

    /// Whether `Last-Modified` tells two versions apart: it was at least a minute old when the response was made
    /// (RFC 9110, section 8.8.2.2).
    pub(crate) fn last_modified_is_strong(&self) -> bool {
        self.last_modified().is_some_and(|changed| self.date.since(changed) >= 60)
    }
}

/// Writes the fields that may be stored (RFC 9111, section 3.1): not those of the connection, nor those that the
/// directives withhold. `Age` is computed again for each answer. A response without `Date` gets one, as from any
/// recipient with a clock (RFC 9110, section 6.6.1).
fn write_kept(response: &Response<'_>, control: &ResponseControl, out: &mut Vec<u8>) {
    let hop_by_hop = HopByHop::of(response.headers);
    let is_kept =
        |name: &HeaderName| !hop_by_hop.contains(name) && !control.withholds(name.as_str()) && name != header::AGE;
    write_fields(response.headers, is_kept, out);
    if !response.headers.contains_key(header::DATE) {
        write_line(out, &header::DATE, &response.received.to_header());
    }
}
