//! Patterns of paths in `_redirects` and `_headers`: `/about`, `/news/:year/:title`, `/old/*`.

use percent_encoding::percent_decode_str;

/// Placeholders of a pattern.
pub(super) const PLACEHOLDERS_MAX: usize = 8;

/// The name of the placeholder for what `*` matches.
const SPLAT: &str = "splat";

/// A pattern. It is matched against decoded paths without their first slash.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The parts of the path in front of the splat.
    parts: Vec<Part>,
    splat: Option<Splat>,
    /// The names of the captures, in their order.
    names: Vec<Box<str>>,
}

#[derive(Debug)]
enum Part {
    Literal(Box<[u8]>),
    Placeholder,
}

/// A `*`, and the text around it: the beginning of its part, and everything behind it.
#[derive(Debug)]
struct Splat {
    before: Box<[u8]>,
    after: Box<[u8]>,
}

/// The parts of a path that the placeholders of a pattern have matched, in the order of their names.
pub(super) type Captures<'p> = Vec<&'p [u8]>;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The reason why the text cannot be one.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text.strip_prefix('/').ok_or("a path begins with '/'; hosts cannot be matched")?;
        if path.contains(['?', '#']) {
            return Err("a path is matched without its query and fragment");
        }
        let mut pattern = Self { parts: Vec::new(), splat: None, names: Vec::new() };
        let parts = match path.split_once('*') {
            Some((_, after)) if after.contains('*') => return Err("a path has one '*' at most"),
            Some((_, after)) if after.contains("/:") => return Err("a placeholder is in front of '*', not behind it"),
            Some((before, after)) => {
                let (parts, before) = before.rsplit_once('/').unwrap_or(("", before));
                pattern.splat = Some(Splat { before: decode(before)?, after: decode(after)? });
                parts
            }
            None => path,
        };
        for part in parts.split('/').filter(|part| !part.is_empty()) {
            let part = pattern.part(part)?;
            pattern.parts.push(part);
        }
        if pattern.splat.is_some() {
            pattern.names.push(SPLAT.into());
        }
        Ok(pattern)
    }

    fn part(&mut self, text: &str) -> Result<Part, &'static str> {
        let name = text.strip_prefix(':').filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()));
        let Some(name) = name else { return Ok(Part::Literal(decode(text)?)) };
        if !name.bytes().all(is_of_name) {
            return Err("a placeholder is a whole part of a path: ':' and letters, digits or '_'");
        }
        if name == SPLAT || self.names.iter().any(|other| **other == *name) {
            return Err("two placeholders have the same name");
        }
        if self.names.len() == PLACEHOLDERS_MAX {
            return Err("a path has 8 placeholders at most");
        }
        self.names.push(name.into());
        Ok(Part::Placeholder)
    }

    /// The index of a placeholder among the captures.
    pub(super) fn capture(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| **other == *name)
    }

    /// The only path that the pattern matches, if it has neither placeholders nor a splat.
    pub(super) fn exact(&self) -> Option<Vec<u8>> {
        let literals = self.parts.iter().map(|part| match part {
            Part::Literal(literal) => Some(&**literal),
            Part::Placeholder => None,
        });
        let literals: Vec<&[u8]> = literals.collect::<Option<_>>().filter(|_| self.splat.is_none())?;
        Some(literals.join(&b'/'))
    }

    /// Matches a path, whose last slash makes no difference unless a splat takes it.
    pub(super) fn matches<'p>(&self, path: &'p [u8]) -> Option<Captures<'p>> {
        let (mut rest, mut captures) = (path, Vec::new());
        for part in &self.parts {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let own = &rest[..end];
            match part {
                Part::Literal(literal) if **literal == *own => {}
                Part::Placeholder if !own.is_empty() => captures.push(own),
                _ => return None,
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        match &self.splat {
            None => rest.is_empty().then_some(captures),
            Some(Splat { before, after }) => {
                captures.push(rest.strip_prefix(&**before)?.strip_suffix(&**after)?);
                Some(captures)
            }
        }
    }
}

/// Whether a byte can be in the name of a placeholder.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn decode(text: &str) -> Result<Box<[u8]>, &'static str> {
    let decoded: Vec<u8> = percent_decode_str(text).collect();
    // A part of a path that is not decoded has a percent sign that no request can have.
    if text.contains('%') && decoded.len() + 2 * text.matches('%').count() != text.len() {
        return Err("a '%' is followed by two hexadecimal digits");
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expected: Option<&[&str]>) {
        let found = Pattern::parse(pattern).unwrap();
        let found = found.matches(path.as_bytes());
        let expected = expected.map(|parts| parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
        assert_eq!(found, expected, "{pattern} {path}");
    }

    #[test]
    fn placeholders_match_a_part_and_a_splat_the_rest() {
        check("/about", "about", Some(&[]));
        check("/about/", "about", Some(&[]));
        check("/about", "about/", Some(&[]));
        check("/about", "about/us", None);
        check("/", "", Some(&[]));
        check("/", "a", None);
        check("/:year/:title", "2024/rust", Some(&["2024", "rust"]));
        check("/:year/:title", "2024", None);
        check("/:year/:title", "2024/", None);
        check("/old/*", "old/a/b/", Some(&["a/b/"]));
        check("/old/*", "old", Some(&[""]));
        check("/old/*", "older", None);
        check("/*", "", Some(&[""]));
        check("/*.jpg", "img/a.jpg", Some(&["img/a"]));
        check("/*.jpg", "img/a.png", None);
        check("/img/a*", "img/abc", Some(&["bc"]));
        check("/img/a*", "img", None);
        check("/:lang/*/index", "de/a/b/index", Some(&["de", "a/b"]));
        check("/wiki/Special:Random", "wiki/Special:Random", Some(&[]));
        check("/caf%C3%A9", "caf\u{e9}", Some(&[]));
        check("/caf\u{e9}", "caf\u{e9}", Some(&[]));
        check("/a%2A", "a*", Some(&[]));
    }

    #[test]
    fn patterns_are_refused_with_the_reason() {
        for (pattern, part) in [
            ("about", "begins with '/'"),
            ("https://a.example/*", "hosts"),
            ("/a?b=c", "query"),
            ("/*/*", "one '*'"),
            ("/*/:a", "in front of"),
            ("/100%", "hexadecimal"),
            ("/:a/:a", "same name"),
            ("/:splat/*", "same name"),
            ("/:a-:b", "whole part"),
            ("/:a/:b/:c/:d/:e/:f/:g/:h/:i", "at most"),
        ] {
            let why = Pattern::parse(pattern).unwrap_err();
            assert!(why.contains(part), "{pattern}: {why}");
        }
    }
}
