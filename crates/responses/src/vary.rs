//! Which of a resource's stored responses answers a request: the fields that `Vary` names (RFC 9111, section 4.1).
//!
//! Two requests select the same response if these fields say the same. What saying the same means is the least that is
//! safe: lines are combined and the space around commas is no matter. `Accept-Encoding` goes further. It is reduced to
//! the codings that the operator has variants for, and the request that goes to the origin has it in that form; so what
//! comes back suits everybody who says the same, in whichever words.

use crate::directives::list_members;
use crate::policy::Policy;
use crate::request::Request;
use crate::storable::NotStored;
use crate::stored::Stored;
use http::{HeaderMap, HeaderName, header};

/// The most fields that a `Vary` may name.
const VARY_FIELDS_MAX: usize = 32;

/// What the request said, that a stored response answered, in the fields that its `Vary` names: for each a line
/// `name:value\n`, or `name\n` if it was not there. Empty without a `Vary`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selecting(Box<[u8]>);

impl Selecting {
    /// What selects the response with these fields, that a request with those fields got.
    pub(crate) fn of(policy: &Policy, response: &HeaderMap, request: &HeaderMap) -> Result<Self, NotStored> {
        if !response.contains_key(header::VARY) {
            return Ok(Self::default());
        }
        let members = response.get_all(header::VARY).iter().flat_map(|line| list_members(line.as_bytes()));
        let mut names = Vec::new();
        for member in members {
            if member == b"*" {
                return Err(NotStored::VaryStar);
            }
            names.push(HeaderName::from_bytes(member).map_err(|_| NotStored::VaryInvalid)?);
        }
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        if names.len() > VARY_FIELDS_MAX {
            return Err(NotStored::VaryInvalid);
        }
        let mut lines = Vec::new();
        for name in &names {
            write_line(policy, name.as_str(), request, &mut |bytes| lines.extend_from_slice(bytes));
        }
        Ok(Self(lines.into()))
    }

    /// Whether a request with these fields says the same.
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

/// The newest of a resource's stored responses that the request selects; its index among them.
pub fn select<'a>(
    policy: &Policy,
    request: &Request<'_>,
    variants: impl IntoIterator<Item = &'a Stored>,
) -> Option<usize> {
    let matching = variants.into_iter().enumerate();
    let matching = matching.filter(|(_, stored)| stored.selecting().matches(policy, request.headers));
    matching.max_by_key(|(_, stored)| stored.date()).map(|(index, _)| index)
}

fn write_line(policy: &Policy, name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    out(name.as_bytes());
    if request.contains_key(name) {
        out(b":");
        if name == header::ACCEPT_ENCODING {
            Codings::of(policy, request).write(policy, out);
        } else if name == header::COOKIE || name == header::AUTHORIZATION {
            write_lines(name, request, out);
        } else {
            write_members(name, request, out);
        }
    }
    out(b"\n");
}

/// The lines as they are: in these fields a comma is a byte like any other.
fn write_lines(name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    for (index, line) in request.get_all(name).iter().enumerate() {
        if index > 0 {
            out(b", ");
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
            out(&member.to_ascii_lowercase());
        } else {
            out(member);
        }
    }
}

/// Which of the policy's codings a request accepts, and whether it accepts none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codings {
    accepted: u32,
    identity: bool,
}

impl Codings {
    pub(crate) fn of(policy: &Policy, request: &HeaderMap) -> Self {
        let (mut accepted, mut named) = (0u32, 0u32);
        let (mut identity, mut others) = (None, None);
        for member in request.get_all(header::ACCEPT_ENCODING).iter().flat_map(|line| list_members(line.as_bytes())) {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let coding = parts.next().unwrap_or_default();
            let accepts = !parts.any(is_zero_weight);
            if coding == b"*" {
                others = Some(accepts);
            } else if coding.eq_ignore_ascii_case(b"identity") {
                identity = Some(accepts);
            } else if let Some(bit) = known(policy, coding) {
                named |= bit;
                accepted |= if accepts { bit } else { 0 };
            }
        }
        if others == Some(true) {
            accepted |= !named;
        }
        // No coding at all is accepted unless it is refused, by its name or with all others (RFC 9110, 12.5.3).
        Self { accepted, identity: identity.or(others).unwrap_or(true) }
    }

    /// The field's value in its one form.
    pub(crate) fn write(self, policy: &Policy, out: &mut impl FnMut(&[u8])) {
        let accepted = policy.codings.iter().enumerate().take(CODINGS_MAX);
        let accepted = accepted.filter(|(index, _)| self.accepted & (1 << index) != 0).map(|(_, coding)| *coding);
        let identity = if self.identity { "identity" } else { "identity;q=0" };
        for (index, member) in accepted.chain([identity]).enumerate() {
            if index > 0 {
                out(b", ");
            }
            out(member.as_bytes());
        }
    }
}

/// The most codings that are told apart: they are bits of a word.
const CODINGS_MAX: usize = 32;

fn known(policy: &Policy, coding: &[u8]) -> Option<u32> {
    // RFC 9110, section 8.4.1.3: x-gzip is gzip.
    let coding = if coding.eq_ignore_ascii_case(b"x-gzip") { b"gzip".as_slice() } else { coding };
    let index =
        policy.codings.iter().take(CODINGS_MAX).position(|known| coding.eq_ignore_ascii_case(known.as_bytes()))?;
    Some(1 << index)
}

/// `q=0`, `q=0.0` and the like.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| weight.starts_with(b"0") && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}
