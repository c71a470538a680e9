//! The encodings of characters in strings (ISO 10303-21, 6.4.3). Editions 1 and 2 are ASCII and spell everything else
//! out; edition 3 is UTF-8.
//!
//! | spelling | meaning |
//! |---|---|
//! | `''`, `\\` | an apostrophe, a backslash |
//! | `\S\x` | the character of `x` plus 128 in the current page of ISO 8859; `x` is any character, an apostrophe too |
//! | `\PA\` to `\PI\` | the current page is ISO 8859-1 to ISO 8859-9; each string begins with ISO 8859-1 |
//! | `\X\hh` | the character U+00hh |
//! | `\X2\hhhh…\X0\`, `\X4\hhhhhhhh…\X0\` | UTF-16 units, code points |
//! | `\N\`, `\F\` | a line or a page ends where the file is printed; the text is not changed |

use crate::pages::Page;

/// The place of a scan within a string: what the next byte would be part of.
///
/// A closing apostrophe cannot be found without the directives: in `\S\'` the apostrophe is a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Characters, and the first apostrophe of two.
    Plain,
    /// Behind a backslash.
    Backslash,
    /// Behind `\S`.
    Shift,
    /// Behind `\S\`: one character, whatever it is.
    Shifted,
    /// Behind `\P`.
    Page,
    /// Behind `\X`.
    Hex,
    /// Behind `\PA`, `\X2` or `\N`: the backslash that is missing.
    Closing,
}

impl Place {
    /// Takes the next byte. Returns whether it is the closing apostrophe, or the first of two, behind which the string
    /// continues.
    pub fn is_closed_by(&mut self, byte: u8) -> bool {
        let before = *self;
        *self = match (before, byte) {
            (Self::Shift, b'\\') => Self::Shifted,
            (Self::Backslash, b'S') => Self::Shift,
            (Self::Backslash, b'P') => Self::Page,
            (Self::Backslash, b'X') => Self::Hex,
            (Self::Backslash, b'N' | b'F') | (Self::Page, b'A'..=b'I') | (Self::Hex, b'0' | b'2' | b'4') => {
                Self::Closing
            }
            (Self::Shifted, _) | (Self::Backslash | Self::Hex | Self::Closing, b'\\') => Self::Plain,
            (_, b'\\') => Self::Backslash,
            _ => Self::Plain,
        };
        byte == b'\'' && before != Self::Shifted
    }
}

/// Returns the characters of a spelling. A backslash that begins nothing known stays.
pub(crate) fn decode(spelling: &str) -> String {
    let (mut text, mut page, mut rest) = (String::with_capacity(spelling.len()), Page::default(), spelling);
    while let Some(at) = rest.find(['\\', '\'']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = directive(rest, &mut page, &mut text).unwrap_or_else(|| {
            text.push_str(&rest[..1]);
            &rest[1..]
        });
    }
    text.push_str(rest);
    text
}

/// Decodes the directive that a text begins with, and returns the rest. `None` for anything else, and for digits
/// without a character.
fn directive<'a>(rest: &'a str, page: &mut Page, text: &mut String) -> Option<&'a str> {
    if let Some(after) = rest.strip_prefix("''") {
        text.push('\'');
        return Some(after);
    }
    let rest = rest.strip_prefix('\\')?;
    let (word, after) = rest.split_once('\\')?;
    match word.as_bytes() {
        b"" => text.push('\\'),
        b"S" => {
            let low = *after.as_bytes().first().filter(|byte| byte.is_ascii())?;
            text.push(page.character(low)?);
            return Some(&after[1..]);
        }
        [b'P', letter] => *page = Page::of(*letter)?,
        b"X" => {
            text.push(char::from_u32(hex(after.get(..2)?)?)?);
            return Some(&after[2..]);
        }
        b"X2" => {
            let (digits, after) = after.split_once("\\X0\\")?;
            let units = units(digits, 4)?.into_iter().map(|unit| unit as u16);
            text.push_str(&char::decode_utf16(units).collect::<Result<String, _>>().ok()?);
            return Some(after);
        }
        b"X4" => {
            let (digits, after) = after.split_once("\\X0\\")?;
            text.push_str(&units(digits, 8)?.into_iter().map(char::from_u32).collect::<Option<String>>()?);
            return Some(after);
        }
        b"N" | b"F" => {}
        _ => return None,
    }
    Some(after)
}

/// Splits hexadecimal digits into numbers of `width` digits each.
fn units(digits: &str, width: usize) -> Option<Vec<u32>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(width) {
        return None;
    }
    (0..digits.len()).step_by(width).map(|at| hex(&digits[at..at + width])).collect()
}

fn hex(digits: &str) -> Option<u32> {
    // The standard library would take a sign, too.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Spells characters as every edition of the standard reads them: in ASCII.
pub(crate) fn encode(text: &str, out: &mut Vec<u8>) {
    let mut open = None;
    for character in text.chars() {
        let spelling = match character {
            ' '..='~' => None,
            '\0'..='\u{ffff}' => Some("X2"),
            _ => Some("X4"),
        };
        if spelling != open {
            if open.is_some() {
                out.extend_from_slice(b"\\X0\\");
            }
            if let Some(kind) = spelling {
                out.extend_from_slice(format!("\\{kind}\\").as_bytes());
            }
            open = spelling;
        }
        match (spelling, character) {
            (None, _) => push_plain(character as u8, out),
            (Some("X2"), _) => out.extend_from_slice(format!("{:04X}", u32::from(character)).as_bytes()),
            (Some(_), _) => out.extend_from_slice(format!("{:08X}", u32::from(character)).as_bytes()),
        }
    }
    if open.is_some() {
        out.extend_from_slice(b"\\X0\\");
    }
}

/// Spells characters as edition 3 does: as they are, except those that would control a terminal.
pub(crate) fn encode_readably(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        if character.is_control() {
            // All control characters are below U+0100.
            out.extend_from_slice(format!("\\X\\{:02X}", u32::from(character)).as_bytes());
        } else if character.is_ascii() {
            push_plain(character as u8, out);
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn push_plain(byte: u8, out: &mut Vec<u8>) {
    if matches!(byte, b'\'' | b'\\') {
        out.push(byte);
    }
    out.push(byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_directive_is_decoded() {
        let cases = [
            ("it''s \\\\ a door", "it's \\ a door"),
            ("K\\S\\|che", "Küche"),
            ("nach \\S\\' 3 Abs. 2", "nach § 3 Abs. 2"),
            ("\\X\\FC \\X2\\00E4D83DDE00\\X0\\ \\X4\\0001F600\\X0\\", "ü ä😀 😀"),
            ("\\PE\\\\S\\=\\S\\5\\S\\b", "НЕт"),
            ("\\PB\\\\S\\3\\S\\1 \\PA\\\\S\\3", "łą ³"),
            ("\\PC\\\\S\\! \\PD\\\\S\\\" \\PF\\\\S\\G", "Ħ ĸ ا"),
            ("\\PG\\\\S\\a \\PH\\\\S\\` \\PI\\\\S\\p", "α א ğ"),
            ("\\S\\\\", "Ü"),
            ("a\\N\\b\\F\\c", "abc"),
            ("K\u{fc}che", "Küche"),
        ];
        for (spelling, text) in cases {
            assert_eq!(decode(spelling), text, "{spelling}");
        }
    }

    #[test]
    fn what_is_no_directive_stays() {
        let texts = [
            "\\Q\\ stays",
            "C:\\temp",
            "\\",
            "\\X\\+F",
            "\\X2\\D83D\\X0\\",
            "\\X2\\12",
            "\\PJ\\",
            "\\S\\ü",
            "\\PC\\\\S\\%",
        ];
        for text in texts {
            let decoded = decode(text);
            assert!(text.ends_with(&decoded) && decoded.len() + 4 >= text.len(), "{text} became {decoded}");
        }
    }

    /// Whether a scan finds the end of a string where it is, in front of a comma.
    fn is_found(spelling: &str) -> bool {
        let (mut place, text) = (Place::Plain, format!("{spelling}',"));
        let closing: Vec<_> = text.bytes().enumerate().filter(|&(_, byte)| place.is_closed_by(byte)).collect();
        // Doubled apostrophes close and open again.
        closing.len() % 2 == 1 && closing.last() == Some(&(spelling.len(), b'\''))
    }

    #[test]
    fn the_end_of_a_string_is_behind_its_directives() {
        let spellings = [
            "",
            "a''b''",
            "\\S\\'",
            "\\S\\'''",
            "C:\\\\S\\\\",
            "\\PE\\\\S\\'",
            "\\X2\\00E4\\X0\\S\\\\",
            "\\S\\\\",
            "\\N\\",
        ];
        for spelling in spellings {
            assert!(is_found(spelling), "{spelling}");
        }
        assert!(!is_found("\\S\\"), "the apostrophe behind it is a character");
    }

    proptest! {
        #[test]
        fn encoded_characters_are_decoded(text: String) {
            for encode in [encode, encode_readably] {
                let mut spelling = Vec::new();
                encode(&text, &mut spelling);
                let spelling = String::from_utf8(spelling).unwrap();
                prop_assert_eq!(decode(&spelling), &text[..]);
                prop_assert!(is_found(&spelling));
            }
        }
    }
}
