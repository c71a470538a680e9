//! The operator's decisions for an origin.

use crate::names::{CookieName, NamePattern};
use crate::token::Token;
use http::HeaderName;
use std::str::FromStr;
use types::limits::{DEPENDENCIES_PER_RESPONSE_MAX, DEPENDENCY_BYTES_MAX};

/// The operator's decisions for one origin. The default is a shared cache by the letter of RFC 9111.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of this cache in `Cache-Status`.
    pub cache_name: Token,
    /// Fields that speak to this cache in particular and go before `Cache-Control`, the first that is there before the
    /// others.
    pub targeted_fields: Vec<TargetedField>,
    /// The fields in which the origin names a response's dependencies.
    pub dependency_fields: Vec<DependencyField>,
    /// The lifetime of a response that states none.
    pub heuristic: Heuristic,
    /// Whether a stale response may ever be served.
    pub coherence: Coherence,
    /// Whether clients may ask for more than the cache would do.
    pub request_directives: RequestDirectives,
    /// The codings that variants may differ in: `Accept-Encoding` is reduced to these before it is compared and sent
    /// on, so that clients' ways of writing it do not multiply the entries.
    pub codings: Vec<Token>,
    /// Fields whose value in the request to the origin does not follow from the client's request, since the proxy
    /// writes them. A response that varies by one of them is not stored.
    pub rewritten_fields: Vec<HeaderName>,
    /// Parameters of a query that make no difference: requests are without them, to the cache and to the origin.
    pub ignored_query: Vec<NamePattern>,
    /// Cookies that make none, likewise.
    pub ignored_cookies: Vec<NamePattern>,
    /// Cookies that every response differs by.
    pub key_cookies: Vec<CookieName>,
    /// The most dependencies that a response may name.
    pub dependencies_max: usize,
    /// The longest name of a dependency, in bytes.
    pub dependency_bytes_max: usize,
}

impl Default for Policy {
    fn default() -> Self {
        let token = |text| Token::new(text).expect("a token");
        Self {
            cache_name: token("thorp"),
            targeted_fields: TargetedField::defaults(),
            dependency_fields: DependencyField::defaults(),
            heuristic: Heuristic::default(),
            coherence: Coherence::Strong,
            request_directives: RequestDirectives::Honour,
            codings: ["br", "gzip", "zstd"].map(token).into(),
            rewritten_fields: ["forwarded", "x-forwarded-for", "x-real-ip"].map(HeaderName::from_static).into(),
            ignored_query: Vec::new(),
            ignored_cookies: Vec::new(),
            key_cookies: Vec::new(),
            dependencies_max: DEPENDENCIES_PER_RESPONSE_MAX,
            dependency_bytes_max: DEPENDENCY_BYTES_MAX,
        }
    }
}

/// The lifetime of a response that states none (RFC 9111, section 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// The share of the time since `Last-Modified`, in percent. Ten is what the RFC names as typical.
    pub percent: u64,
    /// The longest such lifetime, in seconds.
    pub lifetime_max_s: u64,
    /// The lifetime of a response that names its dependencies, in seconds: it is good until one of them changes.
    pub with_dependencies_s: u64,
    /// The least lifetime of any such response, in seconds; 0 leaves it to the others.
    pub default_s: u64,
}

impl Default for Heuristic {
    fn default() -> Self {
        Self { percent: 10, lifetime_max_s: 24 * 3600, with_dependencies_s: 24 * 3600, default_s: 0 }
    }
}

/// The promise that is made about an origin's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// A stale response is never served, whatever a client or the origin would allow.
    Strong,
    /// `stale-while-revalidate`, `stale-if-error` and a request's `max-stale` are honoured.
    Weak,
}

/// How far the `Cache-Control` of requests is followed. It is advice, by section 5.2.1 of RFC 9111.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectives {
    /// Clients may ask for validation, for fresher responses, and that nothing be stored.
    Honour,
    /// Only `only-if-cached` is followed, since it asks for less work: a client that reloads its page again and again
    /// puts no load on the origin.
    OnlyIfCached,
}

/// A field that speaks to this cache in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetedField {
    /// Its name.
    pub name: HeaderName,
    /// How it is written.
    pub syntax: TargetedSyntax,
}

/// How a targeted field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetedSyntax {
    /// As a dictionary of structured fields (RFC 9213).
    Structured,
    /// As `Surrogate-Control`, which came before (W3C's Edge Architecture): a directive may be for one cache by name,
    /// as in `max-age=60;thorp`.
    Surrogate,
}

impl TargetedField {
    /// The fields that are read by default.
    pub fn defaults() -> Vec<Self> {
        let field = |name, syntax| Self { name: HeaderName::from_static(name), syntax };
        vec![
            field("thorp-cache-control", TargetedSyntax::Structured),
            field("cdn-cache-control", TargetedSyntax::Structured),
            field("surrogate-control", TargetedSyntax::Surrogate),
        ]
    }
}

impl FromStr for TargetedField {
    type Err = String;

    /// `NAME`, as a dictionary of structured fields, or `NAME:surrogate`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' is no such field: expected NAME, or NAME:surrogate");
        let (name, syntax) = match text.split_once(':') {
            None => (text, TargetedSyntax::Structured),
            Some((name, "surrogate")) => (name, TargetedSyntax::Surrogate),
            Some(_) => return Err(expected()),
        };
        Ok(Self { name: name.parse().map_err(|_| expected())?, syntax })
    }
}

/// A field in which an origin names a response's dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyField {
    /// Its name.
    pub name: HeaderName,
    /// How its names are separated.
    pub syntax: DependencySyntax,
}

/// How the names of a field are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencySyntax {
    /// A list of strings, as structured fields have it (RFC 9651).
    StructuredList,
    /// By spaces.
    Spaces,
    /// By commas, with or without spaces.
    Commas,
}

impl DependencyField {
    /// The fields that are read by default.
    pub fn defaults() -> Vec<Self> {
        let field = |name, syntax| Self { name: HeaderName::from_static(name), syntax };
        vec![
            field("cache-groups", DependencySyntax::StructuredList),
            field("surrogate-key", DependencySyntax::Spaces),
            field("cache-tag", DependencySyntax::Commas),
            field("edge-cache-tag", DependencySyntax::Commas),
            field("xkey", DependencySyntax::Spaces),
        ]
    }
}

impl FromStr for DependencyField {
    type Err = String;

    /// `NAME:list` (structured strings), `NAME:spaces` or `NAME:commas`; one that is read by default needs no more than
    /// its name.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' is no such field: expected NAME:list, NAME:spaces or NAME:commas");
        let (name, syntax) = text.split_once(':').unwrap_or((text, ""));
        let name: HeaderName = name.parse().map_err(|_| expected())?;
        let known = Self::defaults().into_iter().find(|field| field.name == name);
        let syntax = match (syntax, known) {
            ("", Some(known)) => known.syntax,
            ("list", _) => DependencySyntax::StructuredList,
            ("spaces", _) => DependencySyntax::Spaces,
            ("commas", _) => DependencySyntax::Commas,
            _ => return Err(expected()),
        };
        Ok(Self { name, syntax })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_operators_write_them() {
        let dependencies = |text: &str| text.parse::<DependencyField>().map(|field| field.syntax);
        assert_eq!(dependencies("X-Tags:spaces"), Ok(DependencySyntax::Spaces));
        assert_eq!(dependencies("X-Tags:list"), Ok(DependencySyntax::StructuredList));
        assert_eq!(dependencies("Cache-Tag"), Ok(DependencySyntax::Commas));
        for text in ["X-Tags", "X-Tags:", "X-Tags:tabs", ":spaces", "X Tags:spaces", ""] {
            assert!(dependencies(text).is_err(), "{text}");
        }
        let targeted = |text: &str| text.parse::<TargetedField>().map(|field| field.syntax);
        assert_eq!(targeted("Shop-Cache-Control"), Ok(TargetedSyntax::Structured));
        assert_eq!(targeted("Shop-Control:surrogate"), Ok(TargetedSyntax::Surrogate));
        assert!(targeted("Shop-Control:").is_err() && targeted("").is_err());
    }
}
