//! The fields that are passed on: of a request to the origin, and of a response to a client.

use crate::hop::HopByHop;
use crate::policy::{Policy, TargetedSyntax};
use crate::vary::{normalised_fields, write_value};

use http::{HeaderMap, HeaderValue};

/// The fields of a request as the origin gets them, for a response that may be stored: without those of the connection,
/// and where variants are told apart by a normal form of a field, in that form. An origin that knows of surrogates is
/// told of this one, and of none that a client makes up.
pub fn forward_request(policy: &Policy, headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = end_to_end(headers);
    if policy.targeted_fields.iter().any(|field| field.syntax == TargetedSyntax::Surrogate) {
        let capability = format!("{}=\"Surrogate/1.0\"", policy.cache_name.as_str());
        let capability = HeaderValue::try_from(capability).expect("a token and visible ASCII");
        forwarded.insert("surrogate-capability", capability);
    }
    for name in normalised_fields().filter(|name| headers.contains_key(name)) {
        let mut value = Vec::new();
        write_value(policy, name.as_str(), headers, &mut |bytes| value.extend_from_slice(bytes));
        // A part of a valid value, or of several with a separator between them, is valid.
        if let Ok(value) = HeaderValue::try_from(value) {
            forwarded.insert(name, value);
        }
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
