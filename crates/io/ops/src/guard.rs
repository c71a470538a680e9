//! Access to an address. With a token, each request has to bring it. Without one the address is on loopback, and every
//! program of this machine may ask, except for web pages: their browser sends `Origin`, or a `Host` that is not an
//! address.

use crate::service::Refused;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

/// The token that requests at an address need, if any. It may be replaced while the program runs.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<RwLock<Option<String>>>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Checks that an address without a token cannot be reached from other machines.
pub fn check_address(address: SocketAddr, has_token: bool) -> Result<(), Error> {
    if has_token || address.ip().is_loopback() {
        return Ok(());
    }
    let text = format!(
        "operators at {address} need a token, as other machines can connect there: use --token-file, or an address \
         such as 127.0.0.1"
    );
    Err(Error::new(ErrorKind::PermissionDenied, text))
}

impl Token {
    pub(crate) fn set(&self, token: Option<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Checks that a request with these fields may be answered.
    pub(crate) fn check(&self, fields: &HeaderMap) -> Result<(), Refused> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Some(token) => check_token(token, fields),
            None => refuse_page(fields),
        }
    }
}

fn check_token(token: &str, fields: &HeaderMap) -> Result<(), Refused> {
    let brought = fields.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if brought.is_some_and(|brought| is_same(brought, token.as_bytes())) {
        return Ok(());
    }
    let text = "the token is missing or wrong: expected the field `Authorization: Bearer TOKEN`";
    Err(Refused::new(StatusCode::UNAUTHORIZED, "no-token", text))
}

fn refuse_page(fields: &HeaderMap) -> Result<(), Refused> {
    let host = fields.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok();
    if is_here && !fields.contains_key(ORIGIN) {
        return Ok(());
    }
    let text = "web pages are not answered here: name an address or `localhost` as `Host`, or set a token";
    Err(Refused::new(StatusCode::FORBIDDEN, "web-page", text))
}

/// Compares in a time that does not depend on where the two differ.
fn is_same(brought: &[u8], token: &[u8]) -> bool {
    let differences = brought.iter().zip(token).fold(0, |sum, (one, other)| sum | (one ^ other));
    brought.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn refused(token: Option<&str>, fields: &[(&'static str, &'static str)]) -> Option<StatusCode> {
        let fields =
            fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let guard = Token::default();
        guard.set(token.map(str::to_owned));
        guard.check(&fields.collect()).err().map(|refused| refused.status)
    }

    #[test]
    fn web_pages_and_requests_without_the_token_are_refused() {
        for host in ["127.0.0.1:8081", "[::1]:8081", "localhost:8081", "localhost"] {
            assert_eq!(refused(None, &[("host", host)]), None, "{host}");
        }
        assert_eq!(refused(None, &[("host", "rebound.example:8081")]), Some(StatusCode::FORBIDDEN));
        let page = [("host", "127.0.0.1:8081"), ("origin", "http://evil.example")];
        assert_eq!(refused(None, &page), Some(StatusCode::FORBIDDEN));
        assert_eq!(refused(None, &[]), Some(StatusCode::FORBIDDEN));
        assert_eq!(refused(Some("s3cret"), &[("host", "x")]), Some(StatusCode::UNAUTHORIZED));
        for wrong in ["Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"] {
            assert_eq!(refused(Some("s3cret"), &[("authorization", wrong)]), Some(StatusCode::UNAUTHORIZED));
        }
        assert_eq!(refused(Some("s3cret"), &[("authorization", "Bearer s3cret")]), None);
    }

    #[test]
    fn an_address_that_others_reach_needs_a_token() {
        let check = |address: &str, has_token| check_address(address.parse().unwrap(), has_token).is_ok();
        assert!(check("127.0.0.1:1", false) && check("[::1]:1", false) && check("0.0.0.0:1", true));
        assert!(!check("0.0.0.0:1", false) && !check("192.0.2.1:1", false));
    }
}
