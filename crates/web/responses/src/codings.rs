//! `Accept-Encoding` in a normal form: the set of codings that a request accepts, out of those that the operator has
//! variants for.
//!
//! Variants are told apart by the normal form, and the origin gets the request with it. So the response suits every
//! client with the same set, however it has written it, and the number of variants does not grow with the number of
//! clients.

use crate::directives::list_members;
use crate::policy::Policy;
use http::{HeaderMap, header};

/// The most codings that are told apart: they are bits of a word.
const CODINGS_MAX: usize = 32;

/// The codings that a request accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codings {
    /// A bit for each of the policy's.
    accepted: u32,
    /// The content may also come without any.
    identity: bool,
}

impl Codings {
    /// Reads `Accept-Encoding`.
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

    /// Writes the normal form.
    pub(crate) fn write(self, policy: &Policy, out: &mut impl FnMut(&[u8])) {
        let accepted = policy.codings.iter().enumerate().take(CODINGS_MAX);
        let accepted =
            accepted.filter(|(index, _)| self.accepted & (1 << index) != 0).map(|(_, coding)| coding.as_str());
        let identity = if self.identity { "identity" } else { "identity;q=0" };
        for (index, member) in accepted.chain([identity]).enumerate() {
            if index > 0 {
                out(b", ");
            }
            out(member.as_bytes());
        }
    }
}

/// The bit of a coding that the policy has.
fn known(policy: &Policy, coding: &[u8]) -> Option<u32> {
    // RFC 9110, section 8.4.1.3: x-gzip is gzip.
    let coding = if coding.eq_ignore_ascii_case(b"x-gzip") { b"gzip".as_slice() } else { coding };
    let index = policy
        .codings
        .iter()
        .take(CODINGS_MAX)
        .position(|known| coding.eq_ignore_ascii_case(known.as_str().as_bytes()))?;
    Some(1 << index)
}

/// `q=0`, `q=0.0` and the like.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| weight.starts_with(b"0") && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}
