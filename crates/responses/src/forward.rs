//! The fields that are passed on: of a request to the origin, and of a response to a client.

use crate::codings::Codings;
use crate::hop::HopByHop;
use crate::policy::{Policy, TargetedSyntax};

use http::{HeaderMap, HeaderValue, header};

/// The fields of a request as the origin gets them, for a response that may be stored: without those of the connection,
/// and with `Accept-Encoding` in the form that variants are told apart by. An origin that knows of surrogates is told
/// that there is one.
pub fn forward_request(policy: &Policy, headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = end_to_end(headers);
    if policy.targeted_fields.iter().any(|field| field.syntax == TargetedSyntax::Surrogate) {
        let capability = format!("{}=\"Surrogate/1.0\"", policy.cache_name.as_str());
        let capability = HeaderValue::try_from(capability).expect("a token and visible ASCII");
        forwarded.append("surrogate-capability", capability);
    }
    if forwarded.contains_key(header::ACCEPT_ENCODING) {
        let mut value = Vec::new();
        Codings::of(policy, headers).write(policy, &mut |bytes| value.extend_from_slice(bytes));
        let value = HeaderValue::try_from(value).expect("tokens and visible ASCII");
        forwarded.insert(header::ACCEPT_ENCODING, value);
    }
    forwarded
}

/// The fields of a response as a client gets it from the origin: without those of the connection.
pub fn forward_response(headers: &HeaderMap) -> HeaderMap {
    end_to_end(headers)
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let hop_by_hop = HopByHop::of(headers);
    let mut forwarded = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !hop_by_hop.contains(name)) {
        forwarded.append(name.clone(), value.clone());
    }
    forwarded
}
