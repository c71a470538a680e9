//! `Accept-Encoding` with its weights (RFC 9110, section 12.5.3): the coding that a client prefers, out of those that a
//! content is stored in.

use crate::directives::list_members;
use http::{HeaderMap, header};

/// A weight in thousandths.
type Weight = u16;

const WEIGHT_MAX: Weight = 1000;

/// The index of the coding that a request prefers, or `None` for the content without a coding.
///
/// The first of several codings with the same weight is chosen. A request without the field gets no coding, though the
/// RFC allows any: such clients are mostly scripts that decode nothing. `identity;q=0` cannot be honored without an
/// acceptable coding, and is then ignored, as the RFC allows.
///
/// ```
/// # use http::HeaderMap;
/// let mut request = HeaderMap::new();
/// request.insert("accept-encoding", "gzip;q=0.5, br".parse().unwrap());
/// assert_eq!(responses::preferred_coding(&request, ["gzip", "br"]), Some(1));
/// assert_eq!(responses::preferred_coding(&request, ["zstd"]), None);
/// ```
pub fn preferred_coding<'a>(request: &HeaderMap, available: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    if !request.contains_key(header::ACCEPT_ENCODING) {
        return None;
    }
    let (others, identity) = (weight(request, "*"), weight(request, "identity"));
    let mut best: Option<(usize, Weight)> = None;
    for (index, coding) in available.into_iter().enumerate() {
        let weight = weight(request, coding).or(others).unwrap_or(0);
        if weight > best.map_or(0, |(_, best)| best) {
            best = Some((index, weight));
        }
    }
    best.filter(|(_, weight)| *weight >= identity.unwrap_or(0)).map(|(index, _)| index)
}

/// The weight of a coding that the field names.
fn weight(request: &HeaderMap, coding: &str) -> Option<Weight> {
    let members = request.get_all(header::ACCEPT_ENCODING).iter().flat_map(|line| list_members(line.as_bytes()));
    members.into_iter().find_map(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next()?;
        // RFC 9110, section 8.4.1.3: x-gzip is gzip.
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip".as_slice() } else { name };
        name.eq_ignore_ascii_case(coding.as_bytes()).then(|| parts.find_map(read_weight).unwrap_or(WEIGHT_MAX))
    })
}

/// `q=0.75` in thousandths; a malformed weight is 0, so the client gets what every client understands.
fn read_weight(parameter: &[u8]) -> Option<Weight> {
    let text = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return Some(0),
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Some(0);
    }
    let digits = fraction.iter().chain([b'0'; 3].iter()).take(3);
    let thousandths = digits.fold(0, |sum, digit| 10 * sum + Weight::from(digit - b'0'));
    Some((WEIGHT_MAX * Weight::from(whole - b'0') + thousandths).min(WEIGHT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, expected: Option<&str>) {
        const STORED: [&str; 3] = ["br", "zstd", "gzip"];
        let mut request = HeaderMap::new();
        request.insert(header::ACCEPT_ENCODING, field.parse().unwrap());
        assert_eq!(preferred_coding(&request, STORED).map(|index| STORED[index]), expected, "{field}");
    }

    #[test]
    fn the_highest_weight_wins() {
        check("gzip, deflate, br, zstd", Some("br"));
        check("gzip, zstd;q=0.9", Some("gzip"));
        check("gzip;q=0.001, br;q=0", Some("gzip"));
        check("X-GZIP", Some("gzip"));
        check("br;q=0.2, gzip ; q=0.80", Some("gzip"));
        check("*", Some("br"));
        check("*;q=0.1, br;q=0", Some("zstd"));
        check("gzip, *;q=0", Some("gzip"));
    }

    #[test]
    fn without_an_acceptable_coding_there_is_none() {
        for field in
            ["", "deflate", "identity", "gzip;q=0", "*;q=0", "gzip;q=0.000", "identity;q=0", "gzip;q=x, br;q=2"]
        {
            check(field, None);
        }
        assert_eq!(preferred_coding(&HeaderMap::new(), ["br"]), None);
    }

    #[test]
    fn the_content_without_a_coding_may_be_preferred() {
        check("identity, br;q=0.5", None);
        check("identity;q=0.5, br", Some("br"));
        check("identity, br", Some("br"));
        check("identity;q=0, *", Some("br"));
    }
}
