//! Parts of a request that an operator has declared to make no difference, and cookies that do.
//!
//! Ignored parts are taken out of the request before anything looks at it: the key is without it, and so is the
//! request that the origin gets. A response therefore never shows what one client put there to another. A cookie of
//! the key stays, and tells responses apart by its value, as a field that every `Vary` names.

use crate::policy::Policy;
use http::{HeaderMap, HeaderValue, header};

impl Policy {
    /// A path and query without the parameters that are ignored; `None` if it has none of them.
    pub fn without_ignored(&self, path_and_query: &str) -> Option<String> {
        let (path, query) = path_and_query.split_once('?').filter(|_| !self.ignored_query.is_empty())?;
        let is_ignored = |parameter: &&str| {
            let name = parameter.split('=').next().unwrap_or_default();
            self.ignored_query.iter().any(|pattern| pattern.matches(name.as_bytes()))
        };
        if !query.split('&').any(|parameter| is_ignored(&parameter)) {
            return None;
        }
        let kept: Vec<&str> = query.split('&').filter(|parameter| !is_ignored(parameter)).collect();
        Some(if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) })
    }

    /// Takes the cookies out of a request that are ignored.
    pub fn drop_ignored_cookies(&self, request: &mut HeaderMap) {
        let is_ignored = |cookie: &[u8]| self.ignored_cookies.iter().any(|pattern| pattern.matches(name_of(cookie)));
        if self.ignored_cookies.is_empty() || !cookies(request).any(is_ignored) {
            return;
        }
        let kept: Vec<&[u8]> = cookies(request).filter(|cookie| !is_ignored(cookie)).collect();
        // A part of valid values is valid.
        let line = HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok().filter(|line| !line.is_empty());
        match line {
            Some(line) => drop(request.insert(header::COOKIE, line)),
            None => drop(request.remove(header::COOKIE)),
        }
    }

    /// Whether a request has cookies that are not in the key.
    pub(crate) fn has_other_cookies(&self, request: &HeaderMap) -> bool {
        cookies(request).any(|cookie| !self.key_cookies.iter().any(|key| key.as_str().as_bytes() == name_of(cookie)))
    }
}

/// Writes the values of a cookie that a request has, in order, behind a colon; nothing if it has none.
pub(crate) fn write_cookie(name: &str, request: &HeaderMap, out: &mut impl FnMut(&[u8])) {
    let own = cookies(request).filter(|cookie| name_of(cookie) == name.as_bytes());
    for (index, cookie) in own.enumerate() {
        out(if index > 0 { b";" } else { b":" });
        out(&cookie[name.len()..]);
    }
}

/// The cookies of a request, each as the client wrote it.
fn cookies(request: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = request.get_all(header::COOKIE).iter();
    let cookies = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    cookies.map(<[u8]>::trim_ascii).filter(|cookie| !cookie.is_empty())
}

fn name_of(cookie: &[u8]) -> &[u8] {
    cookie.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii_end()
}
