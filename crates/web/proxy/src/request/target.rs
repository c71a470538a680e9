//! The target of a request: scheme, authority, path and query, as one unambiguous name.
//!
//! The target is what a stored response is found by, so nothing of it may be understood differently here and at the
//! origin. A request that names its host twice, or in two ways, is refused rather than interpreted. Path and query are
//! taken byte for byte: two spellings of one resource are two targets, which costs a miss; taking two resources for one
//! would show a client somebody else's response. A port that is the scheme's own is left out, in what is stored and in
//! what the origin is asked: it sees one spelling, and cannot answer differently for the other.

use crate::limits::{AUTHORITY_BYTES_MAX, PATH_BYTES_MAX};
use crate::request::refusal::Refusal;
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, Request, Uri, Version};
use responses::{KeyRef, without_default_port};

/// How a client reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Its name in a URI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The parts of a request's head that name its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
}

impl<'a> From<&'a Parts> for Head<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self { method: &parts.method, uri: &parts.uri, version: parts.version, headers: &parts.headers }
    }
}

impl<'a, B> From<&'a Request<B>> for Head<'a> {
    fn from(request: &'a Request<B>) -> Self {
        let (version, headers) = (request.version(), request.headers());
        Self { method: request.method(), uri: request.uri(), version, headers }
    }
}

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) scheme: Scheme,
    /// The host, and its port if it was named and is not the scheme's own.
    pub(crate) authority: &'a str,
    /// Path and query, or `*`.
    pub(crate) path: &'a str,
}

impl<'a> Target<'a> {
    /// The target of a request that came over a connection of this scheme. One of HTTP/1.0 need not name its host: that
    /// is the origin's, then.
    pub(crate) fn of(head: &Head<'a>, scheme: Scheme, origin: &'a Authority) -> Result<Self, Refusal> {
        if *head.method == Method::CONNECT {
            return Err(Refusal::Connect);
        }
        let bare = |authority| without_default_port(scheme.name(), authority);
        let host = host(head.headers)?;
        let named = head.uri.authority().map(Authority::as_str);
        let authority = match (named, host) {
            (Some(named), Some(host)) if !bare(named).eq_ignore_ascii_case(bare(host)) => {
                return Err(Refusal::AmbiguousHost);
            }
            (Some(named), _) => check_authority(named)?,
            (None, Some(host)) => check_authority(host)?,
            (None, None) if head.version == Version::HTTP_10 => origin.as_str(),
            (None, None) => return Err(Refusal::AmbiguousHost),
        };
        check_scheme(head.uri, scheme)?;
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if path.len() > PATH_BYTES_MAX {
            return Err(Refusal::TargetTooLong);
        }
        let is_all = path == "*" && *head.method == Method::OPTIONS;
        if !path.starts_with('/') && !is_all {
            return Err(Refusal::WrongTarget);
        }
        Ok(Self { scheme, authority: bare(authority), path })
    }

    /// It in absolute form.
    pub(crate) fn uri(&self) -> Result<Uri, Refusal> {
        let uri = format!("{}://{}{}", self.scheme.name(), self.authority, self.path);
        uri.parse().map_err(|_| Refusal::WrongTarget)
    }

    /// The key of what is stored for it.
    pub(crate) fn key(&self) -> Result<KeyRef<'a>, Refusal> {
        KeyRef::new(self.scheme.name(), self.authority, self.path).map_err(|_| Refusal::WrongTarget)
    }
}

/// The only value of `Host`.
fn host(fields: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = fields.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Refusal::AmbiguousHost),
        (Some(_), Some(_)) => Err(Refusal::AmbiguousHost),
    }
}

/// Refuses everything that is not a host with an optional port: a user's name in front of it, or something behind it,
/// another parser might not count as part of it.
fn check_authority(authority: &str) -> Result<&str, Refusal> {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    let is_address_byte = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.bytes().all(is_address_byte) => (address, port),
        Some(_) => return Err(Refusal::AmbiguousHost),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_address = authority.starts_with('[');
    let is_host = !host.is_empty() && (is_address || host.bytes().all(is_host_byte));
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()));
    let fits = authority.len() <= AUTHORITY_BYTES_MAX;
    // Brackets and percent signs have rules of their own.
    let is_plain = !is_address && !host.contains('%');
    let is_one = is_plain || authority.parse::<Authority>().is_ok();
    (is_host && is_port && fits && is_one).then_some(authority).ok_or(Refusal::AmbiguousHost)
}

fn check_scheme(uri: &Uri, scheme: Scheme) -> Result<(), Refusal> {
    let is_ours = uri.scheme_str().is_none_or(|named| named.eq_ignore_ascii_case(scheme.name()));
    is_ours.then_some(()).ok_or(Refusal::WrongTarget)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authority and path of a request to a proxy that is reached without TLS.
    fn target(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<(String, String), Refusal> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let origin = Authority::from_static("origin:8000");
        Target::of(&Head::from(&request), Scheme::Http, &origin)
            .map(|target| (target.authority.to_owned(), target.path.to_owned()))
    }

    #[test]
    fn a_request_names_one_host() {
        let named = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(target("GET", "/a?b", &[("host", "one:8080")]), named("one:8080", "/a?b"));
        assert_eq!(target("GET", "/", &[("host", "one:80")]), named("one", "/"), "as it is without the port");
        assert_eq!(target("GET", "http://one:80/", &[("host", "One")]), named("one", "/"));
        assert_eq!(target("GET", "/", &[("host", "one:443")]), named("one:443", "/"), "another scheme's");
        assert_eq!(target("GET", "http://one/a", &[("host", "ONE")]), named("one", "/a"));
        assert_eq!(target("GET", "http://one", &[]), named("one", "/"));
        assert_eq!(target("GET", "/", &[("host", "[::1]:8080")]), named("[::1]:8080", "/"));
        assert_eq!(target("OPTIONS", "*", &[("host", "one")]), named("one", "*"));
        for fields in [&[][..], &[("host", "one"), ("host", "one")], &[("host", "one, two")], &[("host", "")]] {
            assert_eq!(target("GET", "/", fields), Err(Refusal::AmbiguousHost), "{fields:?}");
        }
        for host in [
            "a%41",
            "a%",
            "[:::::::::]",
            "[1:2:3:4:5:6:7:8:9:a]",
            "one/two",
            "one two",
            "user@one",
            "one:80@two",
            "one#",
            "one:x",
            "one:",
            "[::1",
            "[::1]x",
            "a\\b",
        ] {
            let is_refused = target("GET", "/", &[("host", host)]) == Err(Refusal::AmbiguousHost);
            assert_eq!(is_refused, host != "one:", "{host}");
        }
        assert_eq!(target("GET", "http://one/", &[("host", "two")]), Err(Refusal::AmbiguousHost));
        assert_eq!(target("GET", "http://user@one/", &[]), Err(Refusal::AmbiguousHost));
    }

    #[test]
    fn a_target_is_one_that_is_served_here() {
        let host = [("host", "one")];
        assert_eq!(target("CONNECT", "one:80", &host), Err(Refusal::Connect));
        assert_eq!(target("GET", "https://one/", &host), Err(Refusal::WrongTarget));
        assert_eq!(target("GET", "*", &host), Err(Refusal::WrongTarget));
        assert_eq!(target("GET", &format!("/{}", "a".repeat(PATH_BYTES_MAX)), &host), Err(Refusal::TargetTooLong));
    }
}
