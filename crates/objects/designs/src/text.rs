//! Texts, which are read as characters and keep the spelling that they had in their file.

use crate::strings;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// The text of a parameter: characters, and the spelling that a file has them in.
///
/// ```
/// # use designs::Text;
/// let text = Text::from_spelling(b"nach \\S\\' 3 Abs. 2");
/// assert_eq!(text.characters(), "nach § 3 Abs. 2");
/// assert_eq!(*text.spelling(), *b"nach \\S\\' 3 Abs. 2");
/// assert_eq!(*Text::from("Küche").spelling(), *b"K\\X2\\00FC\\X0\\che");
/// ```
///
/// Two texts are equal if their spellings are.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Stored);

/// A text as it is stored: a string, or bytes.
#[derive(Clone, PartialEq, Eq)]
enum Stored {
    /// The characters. Their spelling is the one that [`strings::encode`] gives.
    Characters(String),
    /// Any other spelling.
    Spelling(Vec<u8>),
}

impl Text {
    /// The text between the apostrophes of a file.
    pub fn from_spelling(spelling: &[u8]) -> Self {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
        if spelling.iter().all(is_plain) {
            return Self(Stored::Characters(as_text(spelling).into_owned()));
        }
        let text = Self(Stored::Characters(strings::decode(&as_text(spelling))));
        if *text.spelling() == *spelling { text } else { Self(Stored::Spelling(spelling.to_vec())) }
    }

    /// The characters.
    pub fn characters(&self) -> Cow<'_, str> {
        match &self.0 {
            Stored::Characters(text) => text.into(),
            Stored::Spelling(spelling) => strings::decode(&as_text(spelling)).into(),
        }
    }

    /// The text as a file has it between apostrophes.
    pub fn spelling(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Stored::Spelling(spelling) => spelling.into(),
            Stored::Characters(text) => {
                let mut spelling = Vec::with_capacity(text.len());
                strings::encode(text, &mut spelling);
                spelling.into()
            }
        }
    }
}

/// A spelling's bytes as text: UTF-8, or ISO 8859-1, which old writers put into strings as it is.
fn as_text(spelling: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(spelling) {
        Ok(text) => text.into(),
        Err(_) => spelling.iter().copied().map(char::from).collect::<String>().into(),
    }
}

impl From<String> for Text {
    fn from(characters: String) -> Self {
        Self(Stored::Characters(characters))
    }
}

impl From<&str> for Text {
    fn from(characters: &str) -> Self {
        characters.to_owned().into()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.characters())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.spelling().escape_ascii())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Stored::Characters(text) => serializer.serialize_str(text),
            Stored::Spelling(spelling) => serializer.serialize_bytes(spelling),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

/// Takes a string or bytes.
struct Either;

impl Visitor<'_> for Either {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or the bytes of its spelling")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, spelling: &[u8]) -> Result<Text, E> {
        Ok(Text(Stored::Spelling(spelling.to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objects::{Anywhere, Db};

    #[test]
    fn a_text_is_stored_with_its_spelling() {
        let db = Db::in_memory().unwrap();
        let spellings = [
            &b"plain"[..],
            b"it''s",
            b"\\X2\\00FC\\X0\\",
            b"\\PE\\\\S\\=",
            b"\\S\\'",
            b"K\xc3\xbcche",
            b"K\xfcche",
            b"\\",
        ];
        for spelling in spellings {
            let text = Text::from_spelling(spelling);
            let stored = db.transact(|tx| {
                let object = tx.create(Anywhere, &text)?;
                tx.get(object)
            });
            assert_eq!(*stored.unwrap().spelling(), *spelling);
        }
    }

    /// Earlier versions have stored all texts as strings.
    #[test]
    fn a_string_is_read_as_a_text() {
        let db = Db::in_memory().unwrap();
        let text = db.transact(|tx| {
            let object = tx.create(Anywhere, &"Küche".to_owned())?;
            tx.get(object.cast::<Text>())
        });
        assert_eq!(text.unwrap(), Text::from("Küche"));
    }
}
