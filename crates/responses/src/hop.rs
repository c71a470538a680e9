//! Hop-by-hop fields. They are about one connection, and are never passed on, stored or updated (RFC 9110, section 7.6.1;
//! RFC 9111, section 3.1).

use crate::directives::list_members;
use http::{HeaderMap, HeaderName, header};

/// Whether a field is hop-by-hop even if `Connection` does not name it.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
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
    HOP_BY_HOP.contains(&name.as_str())
}

/// The hop-by-hop fields of a message: with those that its `Connection` names.
pub(crate) struct HopByHop<'a>(Vec<&'a [u8]>);

impl<'a> HopByHop<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let lines = headers.get_all(header::CONNECTION).iter();
        Self(lines.flat_map(|line| list_members(line.as_bytes())).collect())
    }

    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        is_hop_by_hop(name) || self.0.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    }
}
