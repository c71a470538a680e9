//! One statement's bytes as tokens.

/// A token of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword: a type's name, `HEADER`, `ISO-10303-21`; user-defined ones begin with `!`.
    Word(&'a str),
    /// `#12`
    Name(u64),
    /// A number's text.
    Number(&'a str),
    /// The text between apostrophes, with its encodings.
    Text(&'a str),
    /// The word between points.
    Enumeration(&'a str),
    /// The digits between quotation marks.
    Binary(&'a str),
    /// One of `( ) , = $ *`.
    Sign(u8),
}

/// Where a statement stops making sense: the offset in it, and what was expected there.
pub(super) struct Misfit {
    pub(super) at: usize,
    pub(super) expected: &'static str,
}

/// The tokens of one statement, without its semicolon.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Where the next token begins.
    pub(super) fn at(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, Misfit> {
        self.skip_blanks();
        let Some(&first) = self.text.as_bytes().get(self.at) else { return Ok(None) };
        let token = match first {
            b'(' | b')' | b',' | b'=' | b'$' | b'*' => {
                self.at += 1;
                Token::Sign(first)
            }
            b'#' => {
                self.at += 1;
                let digits = self.run(|byte| byte.is_ascii_digit());
                Token::Name(digits.parse().map_err(|_| self.misfit("a number behind '#'"))?)
            }
            b'\'' => Token::Text(self.quoted_text()?),
            b'"' => Token::Binary(self.enclosed(b'"', "a closing quotation mark")?),
            b'.' => Token::Enumeration(self.enclosed(b'.', "a closing point")?),
            b'+' | b'-' | b'0'..=b'9' => Token::Number(
                self.run(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'E' | b'e')),
            ),
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'!' => {
                Token::Word(self.run(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'!')))
            }
            _ => return Err(self.misfit("a value, a name or a sign")),
        };
        Ok(Some(token))
    }

    /// The error of a statement that goes wrong here.
    pub(super) fn misfit(&self, expected: &'static str) -> Misfit {
        Misfit { at: self.at, expected }
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Up to the closing apostrophe; a doubled one belongs to the text.
    fn quoted_text(&mut self) -> Result<&'a str, Misfit> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        loop {
            match bytes.get(end) {
                None => return Err(self.misfit("a closing apostrophe")),
                Some(b'\'') if bytes.get(end + 1) == Some(&b'\'') => end += 2,
                Some(b'\'') => break,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        Ok(&self.text[start..end])
    }

    fn enclosed(&mut self, by: u8, expected: &'static str) -> Result<&'a str, Misfit> {
        let start = self.at + 1;
        let len = self.text[start..].bytes().position(|byte| byte == by).ok_or_else(|| self.misfit(expected))?;
        self.at = start + len + 1;
        Ok(&self.text[start..start + len])
    }

    fn skip_blanks(&mut self) {
        loop {
            self.run(|byte| byte.is_ascii_whitespace());
            if !self.text[self.at..].starts_with("/*") {
                return;
            }
            let comment = &self.text[self.at..];
            self.at += comment[2..].find("*/").map_or(comment.len(), |end| end + 4);
        }
    }
}
