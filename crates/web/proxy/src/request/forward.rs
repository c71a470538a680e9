//! The fields that say that a message was passed on: `Via`, `Forwarded` and its older kin, `Max-Forwards`.
//!
//! A client's own word for who it is and where it came in is not passed on: a field that an application may answer
//! differently for, and that is not in the key, is how a cache is poisoned. So these are replaced, not added to, and
//! those that rewrite a target are removed, in each spelling that an application reads as the same name.

use crate::request::refusal::Refusal;
use crate::request::target::Target;
use http::header::{CONNECTION, FORWARDED, HOST, MAX_FORWARDS, TE, TRAILER, UPGRADE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use responses::is_hop_by_hop;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields by which a client could have an application answer for another target or method, or as another client. The
/// guide lists them with their effects.
const REWRITING: [&str; 17] = [
    "client-ip",
    "front-end-https",
    "proxy",
    "x-client-ip",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-host",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-middleware-subrequest",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Fields that the proxy writes, or by which a message is framed or routed.
const OWN: [&str; 8] = [
    "content-length",
    "forwarded",
    "host",
    "transfer-encoding",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Removes the request fields that an application must not believe, and calls `dropped` with the name of each: those of
/// [`REWRITING`], and names with underscores, which many servers (WSGI, CGI, Rack) read as if they had hyphens. With
/// `keep_underscores` the latter stay, except where the name with hyphens is one that a client has no say in.
pub(crate) fn drop_untrusted(fields: &mut HeaderMap, keep_underscores: bool, mut dropped: impl FnMut(&HeaderName)) {
    let names: Vec<_> = fields.keys().filter(|name| is_untrusted(name.as_str(), keep_underscores)).cloned().collect();
    for name in names {
        fields.remove(&name);
        dropped(&name);
    }
}

fn is_untrusted(name: &str, keep_underscores: bool) -> bool {
    if !name.contains('_') {
        return REWRITING.contains(&name);
    }
    let hyphenated = || name.replace('_', "-");
    !keep_underscores || REWRITING.iter().chain(&OWN).any(|other| hyphenated() == *other)
}

/// The trailers of a request as they are passed on: some servers take them for fields of the head.
pub(crate) fn clean_trailers(
    mut trailers: HeaderMap,
    keep_underscores: bool,
    dropped: impl FnMut(&HeaderName),
) -> HeaderMap {
    drop_untrusted(&mut trailers, keep_underscores, dropped);
    let is_of_head = |name: &&HeaderName| OWN.contains(&name.as_str()) || is_hop_by_hop(name);
    for name in trailers.keys().filter(is_of_head).cloned().collect::<Vec<_>>() {
        trailers.remove(name);
    }
    trailers
}

/// Where a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It continues.
    On,
    /// It ends here, as its `Max-Forwards` says.
    Here,
}

/// Whether a request continues; counts its `Max-Forwards` down.
pub(crate) fn count_down(method: &Method, fields: &mut HeaderMap) -> Result<Way, Refusal> {
    if *method == Method::TRACE {
        return Err(Refusal::Trace);
    }
    if *method != Method::OPTIONS {
        return Ok(Way::On);
    }
    let Some(value) = fields.get(MAX_FORWARDS) else { return Ok(Way::On) };
    let is_number = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    let count: u64 = match value.to_str().map(str::parse) {
        Ok(Ok(count)) if is_number => count,
        _ => return Err(Refusal::BadMaxForwards),
    };
    let Some(left) = count.checked_sub(1) else { return Ok(Way::Here) };
    fields.insert(MAX_FORWARDS, left.into());
    Ok(Way::On)
}

/// Takes out the fields that `Connection` names, so that nothing here decides by what the origin does not get. Those
/// that frame or route the message are not a client's to take out.
pub(crate) fn strip_named(fields: &mut HeaderMap) {
    const KEPT: [&str; 8] =
        ["keep-alive", "close", "upgrade", "te", "host", "content-length", "transfer-encoding", "trailer"];
    let options = fields.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let options = options.flat_map(|value| value.split(',')).map(str::trim);
    let named = options.filter(|option| !KEPT.iter().any(|kept| option.eq_ignore_ascii_case(kept)));
    let named: Vec<HeaderName> = named.filter_map(|option| option.parse().ok()).collect();
    for name in named {
        fields.remove(name);
    }
}

/// Copies what says that trailers follow, or may: it is about the message, and hyper frames it again.
pub(crate) fn keep_trailers(from: &HeaderMap, to: &mut HeaderMap) {
    for value in from.get_all(TRAILER) {
        to.append(TRAILER, value.clone());
    }
    let takes_trailers = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"trailers");
    if from.get_all(TE).iter().any(takes_trailers) {
        to.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Whether a request has passed here before.
pub(crate) fn has_passed(fields: &HeaderMap, name: &str) -> bool {
    let entries = fields.get_all(VIA).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    entries.filter_map(|entry| entry.split_whitespace().nth(1)).any(|by| by == name)
}

/// Says in a message's fields that it was passed on.
pub(crate) fn add_via(fields: &mut HeaderMap, version: Version, name: &str) {
    let version = match version {
        Version::HTTP_2 => "2.0",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::try_from(format!("{version} {name}")) {
        fields.append(VIA, value);
    }
}

/// Sets the fields that tell the origin who a request came from and where it came in. Connection-specific fields are
/// out already. The host is in lower case, as it is in the key: an application that tells spellings apart could
/// otherwise answer one of them for all.
pub(crate) fn add_forwarded(fields: &mut HeaderMap, target: &Target<'_>, client: SocketAddr) {
    let (ip, scheme) = (client.ip().to_canonical(), target.scheme.name());
    let authority = target.authority.to_ascii_lowercase();
    let mut node = String::new();
    // Writing to a string does not fail.
    let _ = match ip {
        IpAddr::V4(ip) => write!(node, "{ip}"),
        IpAddr::V6(ip) => write!(node, "\"[{ip}]\""),
    };
    let mut set = |name: HeaderName, value: String| {
        // Its parts have been parsed: a value that is none cannot come about.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(name, value);
        }
    };
    set(FORWARDED, format!("for={node};host=\"{authority}\";proto={scheme}"));
    set(X_FORWARDED_FOR, ip.to_string());
    set(X_FORWARDED_HOST, authority.clone());
    set(X_FORWARDED_PROTO, scheme.to_owned());
    set(HOST, authority);
}

/// Whether a request asks for a protocol that is passed on: a WebSocket. Others, `h2c` above all, would carry requests
/// that nothing here looks at; and a request that may change something is looked at, whatever else it asks for.
pub(crate) fn wants_upgrade(method: &Method, version: Version, fields: &HeaderMap) -> bool {
    let is_named = fields.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        let mut options = value.split(',');
        options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
    });
    let mut protocols = fields.get_all(UPGRADE).iter();
    let is_web_socket = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    let may_be_one = *method == Method::GET && version == Version::HTTP_11;
    is_named && may_be_one && protocols.next().is_some_and(is_web_socket) && protocols.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::target::Scheme;

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn max_forwards_counts_down_to_here() {
        let count = |value: &'static str| {
            let mut fields = fields(&[("max-forwards", value)]);
            let way = count_down(&Method::OPTIONS, &mut fields);
            way.map(|way| (way, fields[MAX_FORWARDS].to_str().unwrap().to_owned()))
        };
        assert_eq!(count("0"), Ok((Way::Here, "0".to_owned())));
        assert_eq!(count("10"), Ok((Way::On, "9".to_owned())));
        for bad in ["", "-1", "+1", "1, 2", "99999999999999999999999"] {
            assert_eq!(count(bad), Err(Refusal::BadMaxForwards), "{bad}");
        }
        assert_eq!(count_down(&Method::TRACE, &mut HeaderMap::new()), Err(Refusal::Trace));
        assert_eq!(count_down(&Method::GET, &mut fields(&[("max-forwards", "0")])), Ok(Way::On), "not for GET");
    }

    #[test]
    fn a_loop_is_seen_among_other_proxies() {
        assert!(has_passed(&fields(&[("via", "1.0 a, 1.1 thorp-1 (really)")]), "thorp-1"));
        assert!(!has_passed(&fields(&[("via", "1.0 thorp-12, 1.1 a thorp-1")]), "thorp-1"));
    }

    #[test]
    fn a_client_does_not_say_who_it_is() {
        let mut said = fields(&[("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1"), ("host", "One")]);
        let target = Target { scheme: Scheme::Http, authority: "One:80", path: "/" };
        add_forwarded(&mut said, &target, "[2001:db8::7]:999".parse().unwrap());
        assert_eq!(said["forwarded"], "for=\"[2001:db8::7]\";host=\"one:80\";proto=http");
        assert_eq!(said["x-forwarded-for"], "2001:db8::7");
        assert_eq!(said["host"], "one:80");
    }

    #[test]
    fn names_that_an_application_must_not_believe_are_dropped() {
        let left = |keep_underscores| {
            let mut fields = fields(&[
                ("x-original-url", "/admin"),
                ("x_original_url", "/admin"),
                ("x-original_url", "/admin"),
                ("x_forwarded_for", "10.0.0.1"),
                ("content_length", "5"),
                ("x_tenant", "1"),
                ("x-tenant", "1"),
            ]);
            let mut dropped = Vec::new();
            drop_untrusted(&mut fields, keep_underscores, |name| dropped.push(name.to_string()));
            assert_eq!(dropped.len() + fields.len(), 7);
            let mut left: Vec<_> = fields.keys().map(ToString::to_string).collect();
            left.sort();
            left
        };
        assert_eq!(left(false), ["x-tenant"]);
        assert_eq!(left(true), ["x-tenant", "x_tenant"]);
    }

    /// The guide is where operators look a field up.
    #[test]
    fn the_guide_lists_all_of_them() {
        let guide = include_str!("../../../../../docs/web.md").to_ascii_lowercase();
        for name in REWRITING {
            assert!(guide.contains(&format!("`{name}`")), "{name} is missing in docs/web.md");
        }
    }

    #[test]
    fn a_web_socket_is_passed_and_no_other_upgrade() {
        let wants = |upgrade| {
            let fields = fields(&[("connection", "keep-alive, Upgrade"), ("upgrade", upgrade)]);
            wants_upgrade(&Method::GET, Version::HTTP_11, &fields)
        };
        assert!(wants("websocket") && wants("WebSocket"));
        assert!(!wants("h2c") && !wants("websocket, h2c"));
        assert!(
            !wants_upgrade(&Method::GET, Version::HTTP_11, &fields(&[("upgrade", "websocket")])),
            "the connection is not asked"
        );
    }
}
