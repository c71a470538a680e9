//! Tokens: the words that HTTP fields are made of (RFC 9110, section 5.6.2).

/// Whether these bytes are a token.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_part)
}

/// A token that begins with a letter, as structured fields ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(Box<str>);

impl Token {
    /// The text as a token; `None` if it is none.
    pub fn new(text: &str) -> Option<Self> {
        let valid = text.starts_with(|first: char| first.is_ascii_alphabetic()) && is_token(text.as_bytes());
        valid.then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
