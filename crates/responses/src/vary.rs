//! The request fields that `Vary` names: they select one of a resource's stored responses (RFC 9111, section 4.1).
//!
//! Two requests select the same response if these fields are equal once they are normalised, and the normal form
//! changes as little as is safe: lines are combined, and spaces around commas are dropped. Languages are in lower case,
//! and `Accept-Encoding` is reduced to a set of codings (`codings.rs`).

use crate::codings::Codings;
use crate::directives::list_members;
use crate::policy::Policy;
use http::{HeaderMap, HeaderName, header};

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
/// `name\n` if it was absent. Empty without a `Vary`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selecting(Box<[u8]>);

impl Selecting {
    /// Takes the fields that the response's `Vary` names from the request.
    pub(crate) fn of(policy: &Policy, response: &HeaderMap, request: &HeaderMap) -> Result<Self, VaryRefusal> {
        if !response.contains_key(header::VARY) {
            return Ok(Self::default());
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
        let mut lines = Vec::new();
        for name in &names {
            write_line(policy, name.as_str(), request, &mut |bytes| lines.extend_from_slice(bytes));
        }
        Ok(Self(lines.into()))
    }

    /// Whether a request has the same in these fields.
    pub fn matches(&self, policy: &Policy, request: &HeaderMap) -> bool {
        let mut rest: &[u8] = &self.0;
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

fn write_line(policy: &Policy, name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    out(name.as_bytes());
    if request.contains_key(name) {
        out(b":");
        if name == header::ACCEPT_ENCODING {
            Codings::of(policy, request).write(policy, out);
        } else if name == header::COOKIE {
            write_lines(name, b"; ", request, out);
        } else if name == header::AUTHORIZATION {
            write_lines(name, b", ", request, out);
        } else {
            write_members(name, request, out);
        }
    }
    out(b"\n");
}

/// Writes the lines as they are: in these fields a comma is a byte like any other. Cookies may come on several lines
/// over HTTP/2 (RFC 9113, section 8.2.3).
fn write_lines(name: &str, separator: &[u8], request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    for (index, line) in request.get_all(name).iter().enumerate() {
        if index > 0 {
            out(separator);
        }
        out(line.as_bytes());
    }
}

fn write_members(name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    let members = request.get_all(name).iter().flat_map(|line| list_members(line.as_bytes()));
    for (index, member) in members.enumerate() {
        if index > 0 {
            out(b",");
        }
        if name == header::ACCEPT_LANGUAGE {
            for byte in member {
                out(&[byte.to_ascii_lowercase()]);
            }
        } else {
            out(member);
        }
    }
}
