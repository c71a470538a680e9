//! Names of parameters and cookies, as operators write them.

use crate::token::is_token;
use std::fmt;
use std::str::FromStr;

/// A name, or the prefix of names: `fbclid`, `utm_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: Box<str>,
    is_begin: bool,
}

/// The name of a cookie (RFC 6265, section 4.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieName(Box<str>);

impl NamePattern {
    /// Whether a name is one of them.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let text = self.text.as_bytes();
        if self.is_begin { name.starts_with(text) } else { name == text }
    }
}

impl FromStr for NamePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, is_begin) = text.strip_suffix('*').map_or((text, false), |begin| (begin, true));
        let is_name = name.bytes().all(|byte| byte.is_ascii_graphic() && !b"*&=;,?#\"".contains(&byte));
        if name.is_empty() || !is_name {
            return Err(format!(
                "'{text}' is not a pattern: expected a name such as fbclid, or a prefix such as utm_*"
            ));
        }
        Ok(Self { text: name.into(), is_begin })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_begin { "*" } else { "" })
    }
}

impl CookieName {
    /// The cookie's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CookieName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !is_token(text.as_bytes()) {
            return Err(format!("'{text}' is not the name of a cookie: expected letters, digits, '-' and '_'"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for CookieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
