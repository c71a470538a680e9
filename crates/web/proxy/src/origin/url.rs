//! The URL of the origin.

use crate::request::target::Scheme;
use http::Uri;
use http::uri::Authority;
use std::str::FromStr;
use tokio_rustls::rustls::pki_types::ServerName;

/// Where the origin is: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
}

impl FromStr for OriginUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' is no origin: http://HOST:PORT or https://HOST:PORT, without a path");
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(expected()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(expected)?;
        let url = Self { scheme, authority: authority.clone() };
        let is_bare = uri.path_and_query().is_none_or(|path| path == "/");
        let has_name = scheme == Scheme::Http || url.server_name().is_some();
        (is_bare && has_name).then_some(url).ok_or_else(expected)
    }
}

impl OriginUrl {
    /// Whether it is reached over TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The name that its certificate has to be for; none without TLS.
    pub(crate) fn server_name(&self) -> Option<ServerName<'static>> {
        let host = self.authority.host().trim_matches(['[', ']']);
        self.is_https().then(|| ServerName::try_from(host.to_owned()).ok())?
    }
}

impl std::fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority)
    }
}
