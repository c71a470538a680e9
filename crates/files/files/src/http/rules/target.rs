//! The targets of redirects and rewrites: paths of the site, or pages of other hosts, with places for placeholders.

use crate::http::rules::pattern::{Captures, Pattern, is_of_name};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

/// Places of placeholders in a target.
const PLACES_MAX: usize = 16;

/// The bytes of a target with its placeholders filled in.
const FILLED_BYTES_MAX: usize = 8 * 1024;

/// The bytes of a captured part that are not encoded: no such part ends the path of a target or leads to another host.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The bytes of a file's own text that are encoded.
const IN_TARGET: &AsciiSet = &CONTROLS.add(b'\\').add(b'"').add(b'<').add(b'>').add(b'`');

/// A target, encoded as in a `Location`.
#[derive(Debug)]
pub(super) struct Target {
    pieces: Vec<Piece>,
    /// Whether it is a path of the site.
    is_here: bool,
    /// Whether it has a query of its own.
    has_query: bool,
    /// Whether it is a path of the site, and nothing behind it.
    pub(super) is_page: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Box<str>),
    Capture(usize),
}

impl Target {
    /// Parses the target of a pattern.
    ///
    /// # Errors
    /// The reason why the text cannot be one.
    pub(super) fn parse(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let (text, is_here) = (encode(text)?, text.starts_with('/'));
        if text.starts_with("//") || text.starts_with("/%5C") {
            return Err("a target on another host begins with 'https://'".to_owned());
        }
        // A host is complete: a captured part that ends it would lead wherever a link says.
        let host_end = if is_here { 0 } else { host_end(&text)? };
        let (path, fragment) = text.split_at(text.find('#').unwrap_or(text.len()));
        let (has_query, is_page) = (path.contains('?'), is_here && !text.contains(['?', '#']));
        let mut target = Self { pieces: Vec::new(), is_here, has_query, is_page };
        target.pieces.push(Piece::Text(text[..host_end].into()));
        target.push_pieces(&path[host_end..], pattern)?;
        target.pieces.push(Piece::Text(fragment.into()));
        if target.pieces.iter().filter(|piece| matches!(piece, Piece::Capture(_))).count() > PLACES_MAX {
            return Err(format!("a target has {PLACES_MAX} placeholders at most"));
        }
        Ok(target)
    }

    fn push_pieces(&mut self, text: &str, pattern: &Pattern) -> Result<(), String> {
        let (mut rest, mut searched) = (text, 0);
        while let Some(colon) = rest[searched..].find(':').map(|at| searched + at) {
            let name_end = rest[colon + 1..].bytes().position(|byte| !is_of_name(byte));
            let name_end = name_end.map_or(rest.len(), |at| colon + 1 + at);
            let name = &rest[colon + 1..name_end];
            match pattern.capture(name) {
                Some(index) => {
                    self.pieces.push(Piece::Text(rest[..colon].into()));
                    self.pieces.push(Piece::Capture(index));
                    (rest, searched) = (&rest[name_end..], 0);
                }
                // Colons inside of names are usual, as in `Special:Random`.
                None if !name.is_empty() && rest[..colon].ends_with(['/', '=', '&', '?']) => {
                    return Err(format!("the path has no placeholder ':{name}'"));
                }
                None => searched = name_end,
            }
        }
        self.pieces.push(Piece::Text(rest.into()));
        Ok(())
    }

    /// Fills in captured parts, and the query of a request unless the target has one; none if that is too long.
    pub(super) fn fill(&self, captures: &Captures<'_>, query: Option<&str>) -> Option<String> {
        let mut filled = String::new();
        let (fragment, pieces) = self.pieces.split_last()?;
        for piece in pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Capture(index) => filled.extend(percent_encode(captures.get(*index)?, IN_PATH)),
            }
            if filled.len() > FILLED_BYTES_MAX {
                return None;
            }
        }
        if self.is_here && filled.starts_with("//") {
            // An empty part would make the next one a host.
            filled = format!("/{}", filled.trim_start_matches('/'));
        }
        if let Some(query) = query.filter(|_| !self.has_query) {
            filled.push('?');
            filled.push_str(query);
        }
        if let Piece::Text(fragment) = fragment {
            filled.push_str(fragment);
        }
        Some(filled)
    }
}

/// The end of the host of a target elsewhere.
fn host_end(text: &str) -> Result<usize, String> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme));
    let scheme = scheme.ok_or("a target begins with '/', 'https://' or 'http://'")?.len();
    let end = text[scheme..].find(['/', '?', '#']).map_or(text.len(), |at| scheme + at);
    let host = &text[scheme..end];
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    if name.is_empty() || host.contains('@') || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the host of a target is a name, perhaps with a port, and has no placeholders".to_owned());
    }
    Ok(end)
}

/// Encodes bytes that a `Location` cannot have. Browsers read a backslash as a slash.
fn encode(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("a target has no control characters".to_owned());
    }
    Ok(percent_encode(text.as_bytes(), IN_TARGET).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pattern: &str, target: &str, path: &str, query: Option<&str>) -> Option<String> {
        let pattern = Pattern::parse(pattern).unwrap();
        let target = Target::parse(target, &pattern).unwrap();
        target.fill(&pattern.matches(path.as_bytes()).unwrap(), query)
    }

    #[track_caller]
    fn check(rule: (&str, &str), path: &str, expected: &str) {
        assert_eq!(fill(rule.0, rule.1, path, None).as_deref(), Some(expected), "{rule:?} {path}");
    }

    #[test]
    fn captured_parts_are_filled_in() {
        check(("/old/*", "/new/:splat"), "old/a/b/", "/new/a/b/");
        check(("/:y/:m", "/blog-:y-:m.html"), "2024/05", "/blog-2024-05.html");
        check(("/:y/:m", "/archive?month=:m&year=:y#:y"), "2024/05", "/archive?month=05&year=2024#:y");
        check(("/*", "https://b.example:8443/:splat"), "a", "https://b.example:8443/a");
        check(("/r", "/wiki/Special:Random"), "r", "/wiki/Special:Random");
        check(("/caf", "/caf\u{e9}"), "caf", "/caf%C3%A9");
    }

    #[test]
    fn queries_are_kept() {
        let fill = |target: &str| fill("/a", target, "a", Some("q=1")).unwrap();
        assert_eq!(fill("/b"), "/b?q=1");
        assert_eq!(fill("/b#c"), "/b?q=1#c");
        assert_eq!(fill("/b?own=1"), "/b?own=1");
        assert_eq!(fill("https://b.example"), "https://b.example?q=1");
    }

    #[test]
    fn no_captured_part_is_a_host_a_query_or_a_field() {
        check(("/old/:a/*", "/:splat/:a"), "old/evil.example", "/evil.example");
        check(("/old/*", "/:splat"), "old/\\evil.example", "/%5Cevil.example");
        check(
            ("/old/*", "/:splat"),
            "old/\r\nSet-Cookie: a=b",
            "/%0D%0ASet%2DCookie%3A%20a%3Db".replace("%2D", "-").as_str(),
        );
        check(("/old/*", "/x?id=:splat"), "old/a&b=c#d?e", "/x?id=a%26b%3Dc%23d%3Fe");
        for target in ["//b.example", "/\\b.example", "https://:splat/", "https://b.example:splat", "https://:splat@b/"]
        {
            assert!(Target::parse(target, &Pattern::parse("/*").unwrap()).is_err(), "{target}");
        }
        for target in ["javascript:alert(1)", "b", "ftp://b.example/", "https:///b", "/:year", "/a?b=:c"] {
            assert!(Target::parse(target, &Pattern::parse("/*").unwrap()).is_err(), "{target}");
        }
    }

    #[test]
    fn what_is_filled_in_is_bounded() {
        let path = "a".repeat(5000);
        assert!(fill("/*", "/:splat", &path, None).is_some());
        assert_eq!(fill("/*", "/:splat/:splat", &path, None), None);
    }
}
