//! The encodings of characters in strings (ISO 10303-21, 6.4.3): the file is ASCII, so everything else is spelt out.
//!
//! | spelling | means |
//! |---|---|
//! | `''`, `\\` | an apostrophe, a backslash |
//! | `\S\x` | the character of `x` plus 128 in the current ISO 8859 page, set by `\PA\` (page 1) to `\PI\` (page 9) |
//! | `\X\hh` | the character U+00hh |
//! | `\X2\hhhh…\X0\`, `\X4\hhhhhhhh…\X0\` | UTF-16 units, code points |
//!
//! Files that hold UTF-8 as it is, against the standard but often seen, are read as what they mean. Only page 1 of
//! ISO 8859 is known; a string that uses another one keeps its spelling.

use std::fmt::Write as _;

/// Takes the encodings off. `None`: a backslash that begins nothing known, or digits that are no character.
pub(super) fn decode(spelt: &str) -> Option<String> {
    let mut text = String::with_capacity(spelt.len());
    let mut rest = spelt;
    while let Some(at) = rest.find(['\\', '\'']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = if let Some(after) = rest.strip_prefix("''") {
            text.push('\'');
            after
        } else if let Some(after) = rest.strip_prefix("\\\\") {
            text.push('\\');
            after
        } else if let Some(after) = rest.strip_prefix("\\PA\\") {
            after
        } else if let Some(after) = rest.strip_prefix("\\S\\") {
            let low = after.chars().next().filter(char::is_ascii)?;
            text.push(char::from(low as u8 + 128));
            &after[1..]
        } else if let Some(after) = rest.strip_prefix("\\X\\") {
            text.push(char::from(u8::from_str_radix(after.get(..2)?, 16).ok()?));
            &after[2..]
        } else if let Some(after) = rest.strip_prefix("\\X2\\") {
            let (digits, after) = after.split_once("\\X0\\")?;
            let units = units(digits, 4)?.into_iter().map(|unit| unit as u16);
            for character in char::decode_utf16(units) {
                text.push(character.ok()?);
            }
            after
        } else if let Some(after) = rest.strip_prefix("\\X4\\") {
            let (digits, after) = after.split_once("\\X0\\")?;
            for unit in units(digits, 8)? {
                text.push(char::from_u32(unit)?);
            }
            after
        } else {
            return None;
        };
    }
    text.push_str(rest);
    Some(text)
}

/// Puts the encodings on.
pub(super) fn encode(text: &str, out: &mut String) {
    let mut open = None;
    for character in text.chars() {
        let spelling = match character {
            ' '..='~' => None,
            '\0'..='\u{ffff}' => Some("X2"),
            _ => Some("X4"),
        };
        if spelling != open {
            if open.is_some() {
                out.push_str("\\X0\\");
            }
            if let Some(kind) = spelling {
                out.push('\\');
                out.push_str(kind);
                out.push('\\');
            }
            open = spelling;
        }
        match (spelling, character) {
            (None, '\'') => out.push_str("''"),
            (None, '\\') => out.push_str("\\\\"),
            (None, _) => out.push(character),
            (Some("X2"), _) => push_hex(out, character, 4),
            (Some(_), _) => push_hex(out, character, 8),
        }
    }
    if open.is_some() {
        out.push_str("\\X0\\");
    }
}

fn push_hex(out: &mut String, character: char, width: usize) {
    write!(out, "{:0width$X}", u32::from(character)).expect("a String takes everything");
}

/// Splits hexadecimal digits into numbers of `width` digits each.
fn units(digits: &str, width: usize) -> Option<Vec<u32>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(width) {
        return None;
    }
    (0..digits.len()).step_by(width).map(|at| u32::from_str_radix(&digits[at..at + width], 16).ok()).collect()
}
