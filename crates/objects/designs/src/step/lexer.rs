//! One statement's bytes as tokens.

use crate::Place;

/// A token of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword: a type's name, `HEADER`, `ISO-10303-21`; user-defined ones begin with `!`.
    Word(&'a str),
    /// `#12`
    Name(u64),
    /// `@1`, `#PI` or `@PI`: any other name of a value or an entity.
    OtherName(&'a str),
    /// The URI between angle brackets.
    Resource(&'a str),
    /// A number's text.
    Number(&'a str),
    /// The bytes between apostrophes, with their encodings.
    Text(&'a [u8]),
    /// The word between points.
    Enumeration(&'a str),
    /// The digits between quotation marks.
    Binary(&'a str),
    /// One of `( ) , = $ * { } :`.
    Sign(u8),
}

/// Where a statement stops making sense: the offset in it, and what was expected there.
pub(super) struct Misfit {
    pub(super) at: usize,
    pub(super) expected: &'static str,
}

/// The tokens of one statement, without its semicolon.
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
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
        let Some(&first) = self.text.get(self.at) else { return Ok(None) };
        let token = match first {
            b'(' | b')' | b',' | b'=' | b'$' | b'*' | b'{' | b'}' | b':' => {
                self.at += 1;
                Token::Sign(first)
            }
            b'#' | b'@' => self.name()?,
            b'\'' => Token::Text(self.quoted_text()?),
            b'"' => Token::Binary(self.enclosed(b'"', "a closing quotation mark")?),
            b'.' => Token::Enumeration(self.enclosed(b'.', "a closing point")?),
            b'<' => Token::Resource(self.enclosed(b'>', "a closing angle bracket")?),
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

    /// The bytes that belong together. `belongs` takes ASCII alone.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += len;
        std::str::from_utf8(&rest[..len]).unwrap_or_default()
    }

    fn name(&mut self) -> Result<Token<'a>, Misfit> {
        let start = self.at;
        self.at += 1;
        let word = self.run(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if self.text[start] == b'#' && (is_number || word.is_empty()) {
            let number = word.parse().map_err(|_| self.misfit("a number behind '#', up to 2^64"))?;
            return Ok(Token::Name(number));
        }
        let is_constant = word.starts_with(|first: char| !first.is_ascii_digit());
        if word.is_empty() || !(is_number || is_constant) {
            return Err(self.misfit("a number or a name behind '#' or '@'"));
        }
        let name = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        Ok(Token::OtherName(name))
    }

    /// Up to the closing apostrophe; a doubled one belongs to the text.
    fn quoted_text(&mut self) -> Result<&'a [u8], Misfit> {
        let start = self.at + 1;
        let (mut end, mut place) = (start, Place::Plain);
        loop {
            let Some(&byte) = self.text.get(end) else { return Err(self.misfit("a closing apostrophe")) };
            if place.is_closed_by(byte) {
                if self.text.get(end + 1) != Some(&b'\'') {
                    break;
                }
                end += 1;
            }
            end += 1;
        }
        self.at = end + 1;
        Ok(&self.text[start..end])
    }

    fn enclosed(&mut self, by: u8, expected: &'static str) -> Result<&'a str, Misfit> {
        let start = self.at + 1;
        let rest = &self.text[start..];
        let len = rest.iter().position(|&byte| byte == by).ok_or_else(|| self.misfit(expected))?;
        let enclosed = std::str::from_utf8(&rest[..len]).map_err(|_| self.misfit("characters in UTF-8"))?;
        self.at = start + len + 1;
        Ok(enclosed)
    }

    /// Passes over blanks, comments, and directives for printing.
    fn skip_blanks(&mut self) {
        loop {
            self.run(|byte| byte.is_ascii_whitespace());
            let rest = &self.text[self.at..];
            if rest.starts_with(b"/*") {
                let end = rest[2..].windows(2).position(|two| two == b"*/");
                self.at += end.map_or(rest.len(), |end| end + 4);
            } else if rest.starts_with(b"\\N\\") || rest.starts_with(b"\\F\\") {
                self.at += 3;
            } else {
                return;
            }
        }
    }
}
