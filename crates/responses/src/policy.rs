//! What an operator decides for an origin.

use crate::dependencies::DependencyField;
use crate::directives::TargetedField;

/// The operator's decisions for one origin. The default is a shared cache by the letter of RFC 9111.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The name of this cache in `Cache-Status`, a token.
    pub cache_name: String,
    /// Fields that speak to this cache in particular and go before `Cache-Control`, the first that is there before the
    /// others.
    pub targeted_fields: Vec<TargetedField>,
    /// The fields in which the origin names what a response depends on.
    pub dependency_fields: Vec<DependencyField>,
    /// How long a response is fresh that does not say it.
    pub heuristic: Heuristic,
    /// Whether a stale response may ever be served.
    pub coherence: Coherence,
    /// Whether clients may ask for more than the cache would do.
    pub request_directives: RequestDirectives,
    /// The codings that variants may differ in: `Accept-Encoding` is reduced to these before it is compared and sent
    /// on, so that clients' ways of writing it do not multiply the entries.
    pub codings: Vec<&'static str>,
    /// The most dependencies that a response may name.
    pub dependencies_max: usize,
    /// The longest name of a dependency, in bytes.
    pub dependency_bytes_max: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            cache_name: "thorp".to_owned(),
            targeted_fields: TargetedField::defaults(),
            dependency_fields: DependencyField::defaults(),
            heuristic: Heuristic::default(),
            coherence: Coherence::Strong,
            request_directives: RequestDirectives::Honour,
            codings: vec!["br", "gzip", "zstd"],
            dependencies_max: 256,
            dependency_bytes_max: 256,
        }
    }
}

/// How long a response is fresh that does not say it (RFC 9111, section 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// The share of the time since `Last-Modified`, in percent. Ten is what the RFC names as typical.
    pub percent: u64,
    /// The longest such lifetime, in seconds.
    pub lifetime_max_s: u64,
    /// The lifetime of a response that names what it depends on, in seconds: it is good until one of these changes.
    pub with_dependencies_s: u64,
}

impl Default for Heuristic {
    fn default() -> Self {
        Self { percent: 10, lifetime_max_s: 24 * 3600, with_dependencies_s: 24 * 3600 }
    }
}

/// What is promised of an origin's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// A stale response is never served, whatever a client or the origin would allow.
    Strong,
    /// `stale-while-revalidate`, `stale-if-error` and a request's `max-stale` are honoured.
    Weak,
}

/// What becomes of the `Cache-Control` of requests. It is advice, by section 5.2.1 of RFC 9111.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectives {
    /// Clients may ask for validation, for fresher responses, and that nothing be stored.
    Honour,
    /// Only `only-if-cached` is heard: it asks for less work. For origins that must not be at the mercy of whoever
    /// reloads a page.
    OnlyIfCached,
}
