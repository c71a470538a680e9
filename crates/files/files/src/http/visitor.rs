//! The session of a visitor: a signed cookie that names the revision of the page.

use crate::http::refusal::Refusal;
use crate::record::SiteName;
use http::header::{ACCEPT, COOKIE};
use http::{HeaderMap, HeaderValue};

/// The bytes of a signature in a cookie. A forged cookie would let a client choose old revisions, and nothing more.
const MAC_BYTES: usize = 16;

/// The cookies of a site.
#[derive(Clone, Debug)]
pub(crate) struct Visitors {
    site: SiteName,
    key: [u8; 32],
    /// Whether clients speak HTTPS.
    is_secure: bool,
}

/// The revision that a request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) revision: u64,
    /// Whether the visitor's session moves to it.
    pub(crate) moves: bool,
}

impl Visitors {
    pub(crate) fn new(site: SiteName, key: [u8; 32], is_secure: bool) -> Self {
        Self { site, key, is_secure }
    }

    /// Chooses the revision for a request, where `head` is the newest.
    pub(crate) fn reads(&self, fields: &HeaderMap, head: u64) -> Result<Reads, Refusal> {
        let seen = self.seen(fields);
        match seen {
            // The store is older than what the visitor has seen (rule NeverBack).
            Some(seen) if seen > head => Err(Refusal::Behind),
            Some(seen) if !is_navigation(fields) => Ok(Reads { revision: seen, moves: false }),
            _ => Ok(Reads { revision: head, moves: seen != Some(head) && is_navigation(fields) }),
        }
    }

    /// The cookie that moves a visitor's session to a revision.
    pub(crate) fn cookie(&self, revision: u64) -> Option<HeaderValue> {
        let (site, mac) = (&self.site, self.mac(revision));
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("thorp-{site}={revision}.{mac}; Path=/; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).ok()
    }

    /// The revision in the visitor's cookie, if it is signed.
    fn seen(&self, fields: &HeaderMap) -> Option<u64> {
        // Other cookies may have any bytes.
        let lines = fields.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let mut cookies = lines.filter_map(|cookie| str::from_utf8(cookie).ok()?.trim().split_once('='));
        cookies.find_map(|(name, value)| {
            let is_ours = name.strip_prefix("thorp-") == Some(self.site.as_str());
            let (revision, mac) = value.split_once('.').filter(|_| is_ours)?;
            let revision = revision.parse().ok()?;
            (mac == self.mac(revision)).then_some(revision)
        })
    }

    fn mac(&self, revision: u64) -> String {
        let hash = blake3::keyed_hash(&self.key, format!("{}@{revision}", self.site).as_bytes()).to_hex();
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

    fn of(revision: u64) -> String {
        let cookie = visitors().cookie(revision).unwrap();
        cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    fn visitors() -> Visitors {
        Visitors::new(SiteName::parse("shop").unwrap(), [7; 32], false)
    }

    #[test]
    fn a_navigation_moves_and_a_part_of_a_page_does_not() {
        let reads = |head, given: &[(&'static str, &str)]| visitors().reads(&fields(given), head).ok();
        let page = ("sec-fetch-mode", "navigate");
        let part = ("sec-fetch-mode", "no-cors");
        let of_16 = of(16);
        assert_eq!(reads(17, &[page]), Some(Reads { revision: 17, moves: true }));
        assert_eq!(reads(17, &[page, ("cookie", &of_16)]), Some(Reads { revision: 17, moves: true }));
        assert_eq!(reads(17, &[page, ("cookie", &of(17))]), Some(Reads { revision: 17, moves: false }));
        assert_eq!(reads(17, &[part, ("cookie", &of_16)]), Some(Reads { revision: 16, moves: false }));
        assert_eq!(reads(17, &[part, ("cookie", &format!("a=b; {of_16}; c=d"))]).map(|it| it.revision), Some(16));
        assert_eq!(reads(17, &[part]), Some(Reads { revision: 17, moves: false }));
        // Without the field, as over a connection that is not secure.
        let accept = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
        assert_eq!(reads(17, &[accept, ("cookie", &of_16)]).map(|it| it.revision), Some(17));
        // A script, a frame in the page, and a page that may be opened later.
        let of_16 = ("cookie", of_16.as_str());
        assert_eq!(reads(17, &[("accept", "text/html, */*"), of_16]).map(|it| it.revision), Some(16));
        assert_eq!(reads(17, &[page, ("sec-fetch-dest", "iframe"), of_16]).map(|it| it.revision), Some(16));
        assert_eq!(reads(17, &[page, ("sec-purpose", "prefetch"), of_16]).map(|it| it.revision), Some(16));
        let of_16 = of_16.1;
        assert_eq!(reads(17, &[("accept", "image/png"), ("cookie", of_16)]).map(|it| it.revision), Some(16));
        assert_eq!(reads(15, &[part, ("cookie", of_16)]), None, "the store is behind");
        assert_eq!(reads(15, &[page, ("cookie", of_16)]), None);
        let mut others = HeaderMap::new();
        let bytes = ["theme=d\u{e4}rk; ".as_bytes(), b"\xff=\xfe; ", of_16.as_bytes()].concat();
        others.insert(COOKIE, HeaderValue::from_bytes(&bytes).unwrap());
        assert_eq!(visitors().reads(&others, 17).map(|it| it.revision).ok(), Some(16));
    }

    #[test]
    fn a_forged_cookie_is_none() {
        let cookie = of(16);
        for forged in [cookie.replace("=16.", "=15."), cookie.replace("shop", "shed"), format!("{cookie}0")] {
            assert_eq!(visitors().seen(&fields(&[("cookie", &forged)])), None, "{forged}");
        }
        let others = Visitors::new(SiteName::parse("shop").unwrap(), [8; 32], false);
        assert_eq!(others.seen(&fields(&[("cookie", &cookie)])), None);
    }
}
