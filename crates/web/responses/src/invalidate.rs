//! Invalidation by unsafe requests (RFC 9111, section 4.4): of the target, and of the resources that the response
//! names, if they are of the same origin: no response makes the URIs of another origin invalid.
//!
//! A response that is an error makes no URI invalid, by that section. `Cache-Group-Invalidation` counts in every
//! response to an unsafe request, as section 3 of RFC 9875 tells responses apart by the method of their request alone:
//! an application that sends it with an error has changed something before it failed.

use crate::dependencies::{Dependencies, DependencyRefusal};
use crate::key::{Key, KeyRef};
use crate::policy::Policy;
use http::{HeaderMap, Method, StatusCode, header};

/// The responses that become invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The responses under these keys.
    pub keys: Vec<Key>,
    /// Those that `Cache-Group-Invalidation` names.
    pub groups: InvalidGroups,
}

/// The responses that `Cache-Group-Invalidation` names (RFC 9875, section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidGroups {
    /// The responses that depend on these.
    Named(Dependencies),
    /// All responses of the origin, since the field is malformed or too long. A malformed field is ignored by the RFC;
    /// but an application that sends one has changed something.
    All(DependencyRefusal),
}

impl InvalidGroups {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Named(names) if names.is_empty())
    }
}

/// Decides what a request and its response make invalid; `None` if the method is safe, or the response is an error that
/// names no groups.
pub fn invalidation(
    policy: &Policy,
    method: &Method,
    target: KeyRef<'_>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Invalidation> {
    if method.is_safe() {
        return None;
    }
    let groups = Dependencies::read_invalidation(policy, headers);
    let groups = groups.map_or_else(InvalidGroups::All, InvalidGroups::Named);
    if !(status.is_success() || status.is_redirection()) {
        return (!groups.is_empty()).then(|| Invalidation { keys: Vec::new(), groups });
    }
    let mut keys = vec![target.to_key()];
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let reference = headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        keys.extend(reference.and_then(|reference| resolve(target, reference)));
    }
    keys.sort_unstable();
    keys.dedup();
    Some(Invalidation { keys, groups })
}

/// The key that a reference in a response resolves to, if it is of the same origin (RFC 3986, section 5.2).
fn resolve(target: KeyRef<'_>, reference: &str) -> Option<Key> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (base_path, _) = split_query(target.path_and_query());
    let of_origin = match reference.split_once("//") {
        Some(("", rest)) => Some((target.scheme(), rest)),
        Some((scheme, rest)) if scheme.ends_with(':') && !scheme.contains('/') => {
            Some((&scheme[..scheme.len() - 1], rest))
        }
        _ => None,
    };
    let reference = match of_origin {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            if !target.is_of_origin(scheme, authority) {
                return None;
            }
            if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
        }
        None if reference.is_empty() => target.path_and_query().to_owned(),
        None if reference.starts_with('?') => format!("{base_path}{reference}"),
        None if reference.starts_with('/') => reference.to_owned(),
        None => format!("{}/{reference}", &base_path[..base_path.rfind('/').unwrap_or(0)]),
    };
    let (path, query) = split_query(&reference);
    Some(target.with_path(&format!("{}{query}", without_dots(path))).ok()?.to_key())
}

/// A path, and its query with the question mark.
fn split_query(path_and_query: &str) -> (&str, &str) {
    path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()))
}

/// The path without its `.` and `..` segments (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}
