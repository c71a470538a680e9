//! The session of a visitor: a signed cookie that names the revision of the page.

use crate::record::SiteName;
use http::header::{ACCEPT, COOKIE};
use http::{HeaderMap, HeaderValue};
use spread::messages::VisitorKey;
use spread::{Number, Visit};

/// The bytes of a signature in a cookie. A forged cookie would let a client choose old revisions, and nothing more.
const MAC_BYTES: usize = 16;

/// The space of every store, whose name is not in cookies.
const MAIN: &str = "main";

/// The cookies of a site.
#[derive(Clone, Debug)]
pub(crate) struct Visitors {
    site: SiteName,
    /// The name of the cookie. Sites of one name in two spaces may be on one host.
    name: String,
    /// Whether clients speak HTTPS.
    is_secure: bool,
}

impl Visitors {
    pub(crate) fn new(space: &str, site: SiteName, is_secure: bool) -> Self {
        // Neither name has a '~', and both have only characters of a cookie's name.
        let name = if space == MAIN { format!("thorp-{site}") } else { format!("thorp-{site}~{space}") };
        Self { site, name, is_secure }
    }

    /// The session of a request: the revision of its page, and whether it opens another page.
    pub(crate) fn visit(&self, fields: &HeaderMap, key: &VisitorKey) -> Visit {
        Visit { seen: self.seen(fields, key), navigates: is_navigation(fields), ..Visit::default() }
    }

    /// The cookie that moves a visitor's session to a revision.
    pub(crate) fn cookie(&self, revision: Number, key: &VisitorKey) -> Option<HeaderValue> {
        let (name, mac) = (&self.name, self.mac(revision, key));
        let Number { life, count } = revision;
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{name}={count}.{life}.{mac}; Path=/; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).ok()
    }

    /// The revision in the visitor's cookie, if it is signed.
    fn seen(&self, fields: &HeaderMap, key: &VisitorKey) -> Option<Number> {
        // Other cookies may have any bytes.
        let lines = fields.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let mut cookies = lines.filter_map(|cookie| str::from_utf8(cookie).ok()?.trim().split_once('='));
        cookies.find_map(|(name, value)| {
            let mut parts = value.splitn(3, '.').filter(|_| name == self.name);
            let (count, life, mac) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
            let revision = Number { life, count };
            (mac == self.mac(revision, key)).then_some(revision)
        })
    }

    fn mac(&self, Number { life, count }: Number, key: &VisitorKey) -> String {
        let hash = blake3::keyed_hash(&key.0, format!("{}@{count}.{life}", self.site).as_bytes()).to_hex();
        hash[..2 * MAC_BYTES].to_owned()
    }
}

/// Whether a request opens a page, and is not for a part of one, nor for a page that may be opened later. Browsers say
/// so where the connection is secure; where it is not, they accept XHTML only for pages.
fn is_navigation(fields: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| fields.get(name).is_some_and(|given| given == value);
    if fields.contains_key("sec-purpose") || is("purpose", "prefetch") {
        return false;
    }
    if fields.contains_key("sec-fetch-mode") {
        return is("sec-fetch-mode", "navigate")
            && (is("sec-fetch-dest", "document") || !fields.contains_key("sec-fetch-dest"));
    }
    let accepts_pages = |line: &HeaderValue| line.to_str().is_ok_and(|line| line.contains("application/xhtml+xml"));
    fields.get_all(ACCEPT).iter().any(accepts_pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const KEY: VisitorKey = VisitorKey([7; 32]);
    const OF_16: Number = Number { life: 3, count: 16 };

    fn cookie() -> String {
        let cookie = visitors().cookie(OF_16, &KEY).unwrap();
        cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    fn visitors() -> Visitors {
        of_space("main")
    }

    fn of_space(space: &str) -> Visitors {
        Visitors::new(space, SiteName::parse("shop").unwrap(), false)
    }

    #[test]
    fn sites_of_one_name_have_a_cookie_in_each_space() {
        let cookie = of_space("attic").cookie(OF_16, &KEY).unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        assert!(cookie.starts_with("thorp-shop~attic=16.3."), "{cookie}");
        let seen = |space: &str| of_space(space).visit(&fields(&[("cookie", cookie)]), &KEY).seen;
        assert_eq!((seen("attic"), seen("main"), seen("shed")), (Some(OF_16), None, None));
    }

    #[test]
    fn a_navigation_moves_and_a_part_of_a_page_does_not() {
        let visit = |given: &[(&'static str, &str)]| {
            let Visit { seen, navigates, .. } = visitors().visit(&fields(given), &KEY);
            (seen, navigates)
        };
        let page = ("sec-fetch-mode", "navigate");
        let part = ("sec-fetch-mode", "no-cors");
        let text = cookie();
        let of_16 = ("cookie", text.as_str());
        assert_eq!(visit(&[page]), (None, true));
        assert_eq!(visit(&[page, of_16]), (Some(OF_16), true));
        assert_eq!(visit(&[part, of_16]), (Some(OF_16), false));
        assert_eq!(visit(&[part, ("cookie", &format!("a=b; {text}; c=d"))]), (Some(OF_16), false));
        assert_eq!(visit(&[part]), (None, false));
        // Without the field, as over a connection that is not secure.
        let accept = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
        assert_eq!(visit(&[accept, of_16]), (Some(OF_16), true));
        // A script, a frame in the page, and a page that may be opened later.
        assert!(!visit(&[("accept", "text/html, */*"), of_16]).1);
        assert!(!visit(&[page, ("sec-fetch-dest", "iframe"), of_16]).1);
        assert!(!visit(&[page, ("sec-purpose", "prefetch"), of_16]).1);
        assert!(!visit(&[("accept", "image/png"), of_16]).1);
        let mut others = HeaderMap::new();
        let bytes = ["theme=d\u{e4}rk; ".as_bytes(), b"\xff=\xfe; ", text.as_bytes()].concat();
        others.insert(COOKIE, HeaderValue::from_bytes(&bytes).unwrap());
        assert_eq!(visitors().visit(&others, &KEY).seen, Some(OF_16));
    }

    #[test]
    fn a_forged_cookie_is_none() {
        let cookie = cookie();
        let seen = |cookie: &str, key: &VisitorKey| visitors().visit(&fields(&[("cookie", cookie)]), key).seen;
        assert_eq!(seen(&cookie, &KEY), Some(OF_16));
        let changed = [("=16.", "=15."), ("16.3.", "16.4."), ("shop", "shed"), (".3.", ".")];
        for forged in changed.map(|(from, to)| cookie.replace(from, to)).into_iter().chain([format!("{cookie}0")]) {
            assert_eq!(seen(&forged, &KEY), None, "{forged}");
        }
        assert_eq!(seen(&cookie, &VisitorKey([8; 32])), None);
    }
}
