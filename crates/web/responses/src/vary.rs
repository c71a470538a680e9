//! The request fields that `Vary` names: they select one of a resource's stored responses (RFC 9111, section 4.1).
//!
//! Two requests select the same response if these fields are equal, line by line. Three fields are compared in a normal
//! form, and the origin gets them in that form: otherwise somebody could have the response to `en,`, which an
//! application may not understand, served to all who ask for `en`.

use crate::codings::Codings;
use crate::directives::list_members;
use crate::ignore::write_cookie;
use crate::policy::Policy;
use http::{HeaderMap, HeaderName, header};

/// Before the name of a cookie of the key.
const KEY_COOKIE: &str = "cookie=";

/// The most fields that a `Vary` may name.
const VARY_FIELDS_MAX: usize = 32;

/// Why no request can select a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VaryRefusal {
    /// `Vary: *`.
    Star,
    /// `Vary` is malformed, or names more than [`VARY_FIELDS_MAX`].
    Invalid,
    /// `Vary` names a field that the proxy writes.
    Rewritten,
}

/// The fields that `Vary` names, as they were in the request of a stored response: for each a line `name:value\n`, or
/// `name\n` if it was absent. A cookie of the key has a line whose name is `cookie=` and its own, which no field can
/// have. Empty without a `Vary` and such cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selecting<'a>(pub(crate) &'a [u8]);

impl Selecting<'_> {
    /// Takes the fields that the response's `Vary` names from the request, as the lines of a [`Selecting`].
    pub(crate) fn lines(policy: &Policy, response: &HeaderMap, request: &HeaderMap) -> Result<Vec<u8>, VaryRefusal> {
        let mut lines = Vec::new();
        for cookie in &policy.key_cookies {
            let name = [KEY_COOKIE, cookie.as_str()].concat();
            write_line(policy, &name, request, &mut |bytes| lines.extend_from_slice(bytes));
        }
        if !response.contains_key(header::VARY) {
            return Ok(lines);
        }
        let members = response.get_all(header::VARY).iter().flat_map(|line| list_members(line.as_bytes()));
        let mut names = Vec::new();
        for member in members {
            if member == b"*" {
                return Err(VaryRefusal::Star);
            }
            let name = HeaderName::from_bytes(member).map_err(|_| VaryRefusal::Invalid)?;
            if policy.rewritten_fields.contains(&name) {
                return Err(VaryRefusal::Rewritten);
            }
            names.push(name);
        }
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        if names.len() > VARY_FIELDS_MAX {
            return Err(VaryRefusal::Invalid);
        }
        for name in &names {
            write_line(policy, name.as_str(), request, &mut |bytes| lines.extend_from_slice(bytes));
        }
        Ok(lines)
    }

    /// A line for each field: `name:value`, or `name` if the request had none.
    pub fn as_bytes(&self) -> &[u8] {
        self.0
    }

    /// Whether a request has the same in these fields.
    pub fn matches(&self, policy: &Policy, request: &HeaderMap) -> bool {
        let mut rest = self.0;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let name = rest[..end].split(|&byte| byte == b':').next().unwrap_or_default();
            let Ok(name) = std::str::from_utf8(name) else { return false };
            let mut expected = Some(rest);
            write_line(policy, name, request, &mut |bytes| expected = expected.and_then(|e| e.strip_prefix(bytes)));
            let Some(behind) = expected else { return false };
            rest = behind;
        }
        true
    }
}

/// The fields that have a normal form.
pub(crate) fn normalised_fields() -> impl Iterator<Item = HeaderName> {
    [header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::COOKIE].into_iter()
}

fn write_line(policy: &Policy, name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    out(name.as_bytes());
    if let Some(cookie) = name.strip_prefix(KEY_COOKIE) {
        write_cookie(cookie, request, out);
    } else if request.contains_key(name) {
        out(b":");
        write_value(policy, name, request, out);
    }
    out(b"\n");
}

/// Writes a field in its normal form, or else its lines with a byte between them that no line can have.
pub(crate) fn write_value(policy: &Policy, name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    if name == header::ACCEPT_ENCODING {
        Codings::of(policy, request).write(policy, out);
    } else if name == header::ACCEPT_LANGUAGE {
        write_languages(request, out);
    } else if name == header::COOKIE {
        // HTTP/2 may have cookies on several lines, which are one elsewhere (RFC 9113, section 8.2.3).
        write_lines(name, b"; ", request, out);
    } else {
        write_lines(name, b"\r", request, out);
    }
}

fn write_lines(name: &str, separator: &[u8], request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    for (index, line) in request.get_all(name).iter().enumerate() {
        if index > 0 {
            out(separator);
        }
        out(line.as_bytes());
    }
}

/// Writes language ranges in lower case, without empty ones, and with spaces only behind commas. Their order stays:
/// applications take it for the order of preference.
fn write_languages(request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    let lines = request.get_all(header::ACCEPT_LANGUAGE).iter();
    for (index, range) in lines.flat_map(|line| list_members(line.as_bytes())).enumerate() {
        if index > 0 {
            out(b", ");
        }
        for byte in range {
            out(&[byte.to_ascii_lowercase()]);
        }
    }
}
