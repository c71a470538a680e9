//! The key of a resource's stored responses: scheme, authority, path and query, to the byte.
//!
//! Nothing is normalised that an origin could tell apart. Two spellings of one resource cost a miss; two requests that
//! share an entry but not a response are how caches are poisoned. So percent-encodings, dot segments and the order of a
//! query are kept as they are. Scheme and authority are compared without regard to case, and the port that is the
//! scheme's own is left out (RFC 9110, section 4.2.3): who passes such a request on has to leave it out there, too
//! ([`without_default_port`]). The parts of a key are joined by a byte that none of them can hold.

use http::Uri;
use std::hash::{Hash, Hasher};

/// Between the parts of a key. It can are in no part of a URI.
const SEPARATOR: u8 = b' ';

/// A key that owns its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Box<[u8]>);

/// The bytes of a [`Key`], wherever they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes<'a>(&'a [u8]);

/// A key in the parts that a request has: it finds a [`Key`] without a copy.
#[derive(Clone, Copy, Debug)]
pub struct KeyRef<'a> {
    scheme: &'a str,
    authority: &'a str,
    path_and_query: &'a str,
}

/// Why a request has no key. It is answered with 400 (Bad Request), and not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// There is no authority, neither in the target nor in `Host`.
    NoAuthority,
    /// The authority is not a host with an optional port.
    BadAuthority,
    /// The path does not begin with a slash, or has a byte that cannot are in it.
    BadPath,
}

impl KeyRefusal {
    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoAuthority => "no-authority",
            Self::BadAuthority => "bad-authority",
            Self::BadPath => "bad-path",
        }
    }
}

/// An authority without its port, if that is the one that its scheme has anyway, or is empty (RFC 3986, section 6.2.3).
pub fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

impl<'a> KeyRef<'a> {
    /// The key of a target. The path begins with a slash; an empty one is written as `/` by the caller.
    pub fn new(scheme: &'a str, authority: &'a str, path_and_query: &'a str) -> Result<Self, KeyRefusal> {
        let authority = without_default_port(scheme, authority);
        if authority.is_empty() {
            return Err(KeyRefusal::NoAuthority);
        }
        let host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(&byte);
        if !authority.bytes().all(host_byte) {
            return Err(KeyRefusal::BadAuthority);
        }
        let visible = |byte: u8| byte > SEPARATOR && byte != 0x7f && byte != b'#';
        if !path_and_query.starts_with('/') || !path_and_query.bytes().all(visible) {
            return Err(KeyRefusal::BadPath);
        }
        Ok(Self { scheme, authority, path_and_query })
    }

    /// The key of a URI in absolute form.
    pub fn of_uri(uri: &'a Uri) -> Result<Self, KeyRefusal> {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(KeyRefusal::NoAuthority);
        };
        Self::new(scheme, authority.as_str(), uri.path_and_query().map_or("/", |path| path.as_str()))
    }

    /// The key of another path of the same origin.
    pub(crate) fn with_path<'b>(self, path_and_query: &'b str) -> Result<KeyRef<'b>, KeyRefusal>
    where
        'a: 'b,
    {
        KeyRef::new(self.scheme, self.authority, path_and_query)
    }

    /// Whether this is the scheme and authority of the key's origin.
    pub(crate) fn is_of_origin(self, scheme: &str, authority: &str) -> bool {
        let authority = without_default_port(scheme, authority);
        self.scheme.eq_ignore_ascii_case(scheme) && self.authority.eq_ignore_ascii_case(authority)
    }

    pub(crate) fn scheme(self) -> &'a str {
        self.scheme
    }

    pub(crate) fn path_and_query(self) -> &'a str {
        self.path_and_query
    }

    /// The key with bytes of its own.
    pub fn to_key(self) -> Key {
        Key(self.bytes().collect())
    }

    /// The bytes of the key. Scheme and authority are in lower case.
    fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let lower = |text: &'a str| text.bytes().map(|byte| byte.to_ascii_lowercase()).chain([SEPARATOR]);
        lower(self.scheme).chain(lower(self.authority)).chain(self.path_and_query.bytes())
    }
}

impl PartialEq<KeyBytes<'_>> for KeyRef<'_> {
    fn eq(&self, key: &KeyBytes<'_>) -> bool {
        let path = self.path_and_query.as_bytes();
        let whole = self.scheme.len() + self.authority.len() + path.len() + 2;
        let rest = key.0.strip_suffix(path).unwrap_or_default();
        let head = self.scheme.len() + 1;
        key.0.len() == whole
            && rest.len() == whole - path.len()
            && rest[..head - 1].eq_ignore_ascii_case(self.scheme.as_bytes())
            && rest[head - 1] == SEPARATOR
            && rest[head..rest.len() - 1].eq_ignore_ascii_case(self.authority.as_bytes())
            && rest[rest.len() - 1] == SEPARATOR
    }
}

impl PartialEq<KeyBytes<'_>> for Key {
    fn eq(&self, key: &KeyBytes<'_>) -> bool {
        self.bytes() == *key
    }
}

impl PartialEq<Key> for KeyRef<'_> {
    fn eq(&self, key: &Key) -> bool {
        *self == key.bytes()
    }
}

/// A key and its references have one hash: over the head in lower case, and over the path.
fn hash_parts<H: Hasher>(scheme: &[u8], authority: &[u8], path_and_query: &[u8], state: &mut H) {
    for text in [scheme, authority] {
        for byte in text {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(SEPARATOR);
    }
    state.write(path_and_query);
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts(self.scheme.as_bytes(), self.authority.as_bytes(), self.path_and_query.as_bytes(), state);
    }
}

impl Hash for KeyBytes<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (scheme, authority, path_and_query) = self.parts();
        hash_parts(scheme, authority, path_and_query, state);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl<'a> KeyBytes<'a> {
    /// Bytes that were those of a [`Key`].
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    fn parts(self) -> (&'a [u8], &'a [u8], &'a [u8]) {
        let mut parts = self.0.splitn(3, |&byte| byte == SEPARATOR);
        let mut next = || parts.next().unwrap_or_default();
        (next(), next(), next())
    }
}

impl Key {
    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A reference to them.
    pub fn bytes(&self) -> KeyBytes<'_> {
        KeyBytes(&self.0)
    }
}

/// As a URI is written.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, authority, path_and_query) = self.bytes().parts();
        let text = String::from_utf8_lossy;
        write!(f, "{}://{}{}", text(scheme), text(authority), text(path_and_query))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({self})")
    }
}
