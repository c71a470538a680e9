//! Hop-by-hop fields. They are about one connection, and are never passed on, stored or updated (RFC 9110, section
//! 7.6.1; RFC 9111, section 3.1).

use crate::directives::list_members;
use http::{HeaderMap, HeaderName, header};

const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field is hop-by-hop even if `Connection` does not name it.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
}

/// The hop-by-hop fields of a message: with those that its `Connection` names.
#[derive(Clone, Copy)]
pub(crate) struct HopByHop<'a>(&'a HeaderMap);

impl<'a> HopByHop<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        Self(headers)
    }

    pub(crate) fn contains(self, name: &HeaderName) -> bool {
        is_hop_by_hop(name) || self.named().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    }

    /// Whether `Connection` names a field of the message that is end-to-end otherwise.
    pub(crate) fn hides_a_field(self) -> bool {
        self.named().any(|named| {
            let known = HOP_BY_HOP.iter().any(|name| named.eq_ignore_ascii_case(name.as_bytes()));
            !known && std::str::from_utf8(named).is_ok_and(|name| self.0.contains_key(name))
        })
    }

    fn named(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.get_all(header::CONNECTION).iter().flat_map(|line| list_members(line.as_bytes()))
    }
}
