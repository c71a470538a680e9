//! The fields by which browsers, and shared caches between them and this one, keep a response.
//!
//! No update reaches them. One that they keep for the lifetime that is meant for this cache, they continue showing
//! after this cache has let go of it. So they are told to ask before each use (`no-cache`), which a validator makes
//! cheap: the answer is a 304 from here.

use crate::directives::{FieldScope, ResponseControl, directives, list_members};
use crate::policy::Policy;
use http::{HeaderMap, HeaderValue, header};

/// The directives that say for how long a response may be used, and `no-cache`, which goes in front of the others.
const REPLACED: [&str; 6] =
    ["max-age", "s-maxage", "immutable", "stale-while-revalidate", "stale-if-error", "no-cache"];

/// Turns the fields of an answer into those for clients that must not use it without asking.
///
/// A response that this cache may not store is left as it is: nobody has promised anything about it. So is one that is
/// `immutable` and names no dependencies, as its origin says that its content never changes.
pub fn for_browsers(policy: &Policy, fields: &mut HeaderMap) {
    if is_for_one(&ResponseControl::read(policy, fields)) || is_immutable(policy, fields) {
        return;
    }
    // They have been followed here. Another cache would follow them before `Cache-Control`.
    for targeted in &policy.targeted_fields {
        fields.remove(&targeted.name);
    }
    let control = ResponseControl::cache_control(fields);
    if is_for_one(&control) {
        return;
    }
    let mut line = b"no-cache".to_vec();
    for directive in fields.get_all(header::CACHE_CONTROL).iter().flat_map(|value| list_members(value.as_bytes())) {
        let name = directive.split(|&byte| byte == b'=').next().unwrap_or_default();
        if !REPLACED.iter().any(|replaced| name.eq_ignore_ascii_case(replaced.as_bytes())) {
            line.extend_from_slice(b", ");
            line.extend_from_slice(directive);
        }
    }
    // Its parts are those of valid values.
    if let Ok(line) = HeaderValue::from_bytes(&line) {
        fields.insert(header::CACHE_CONTROL, line);
        fields.remove(header::EXPIRES);
    }
}

fn is_for_one(control: &ResponseControl) -> bool {
    control.private == FieldScope::Whole || control.no_store && !control.must_understand
}

fn is_immutable(policy: &Policy, fields: &HeaderMap) -> bool {
    let names_dependencies = policy.dependency_fields.iter().any(|field| fields.contains_key(&field.name));
    !names_dependencies && directives(fields).any(|(name, _)| name.eq_ignore_ascii_case(b"immutable"))
}
