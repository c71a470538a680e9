//! `_redirects`: which paths of a site lead elsewhere, in the format of Netlify.
//!
//! ```text
//! /home           /                          a redirect, 301 unless a status follows
//! /blog/:year/*   /archive/:year/:splat 302
//! /app/*          /app/index.html       200  a rewrite: the page at another path
//! /beta/*         /                     302! also where there is a file
//! ```

use crate::http::rules::lines::{SkippedLine, read_lines};
use crate::http::rules::pattern::{Captures, Pattern};
use crate::http::rules::target::Target;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use std::collections::HashMap;

/// The name of the file, at the root of a site.
pub(super) const FILE: &str = "_redirects";

/// The bytes of the file.
pub(super) const BYTES_MAX: u64 = 256 * 1024;

/// Rules of a site, and those of them with placeholders or a splat, which are tried one by one.
const RULES_MAX: usize = 5000;
const PATTERNS_MAX: usize = 200;

/// The rules of a site.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    rules: Vec<Rule>,
    all: Table,
    /// The rules that hold even where there is a file.
    forced: Table,
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    target: Target,
    status: StatusCode,
}

/// Indexes of rules, by their paths or in their order.
#[derive(Debug, Default)]
struct Table {
    exact: HashMap<Box<[u8]>, usize>,
    patterns: Vec<usize>,
}

/// The answer to a path by a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// A redirect with this status and `Location`.
    To(StatusCode, String),
    /// The page at another path of the site, as the answer with this status.
    Page(StatusCode, String),
}

impl Redirects {
    /// Reads the file. Returns the rules, and the lines that are skipped, each with the reason.
    pub(super) fn read(bytes: &[u8]) -> (Self, Vec<SkippedLine>) {
        let mut redirects = Self::default();
        let skipped = read_lines(bytes, |line| redirects.read_line(line));
        (redirects, skipped)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        let (from, to, status) = match words[..] {
            [from, to] => (from, to, "301"),
            [from, to, status] if to.starts_with('/') || !to.contains('=') || to.contains("://") => (from, to, status),
            [_, _, _, ..] => return Err("parameters and conditions are not supported".to_owned()),
            _ => return Err("expected: a path, its target, and a status".to_owned()),
        };
        let (status, is_forced) = status.strip_suffix('!').map_or((status, false), |status| (status, true));
        let status = read_status(status)?;
        let pattern = Pattern::parse(from)?;
        let target = Target::parse(to, &pattern)?;
        if is_page(status) && !target.is_page {
            let status = status.as_u16();
            return Err(format!("status {status} is for a page of the site: nothing is fetched from other hosts"));
        }
        let exact = pattern.exact();
        let leads_to_itself = |path: &[u8]| is_loop(path, target.fill(&Vec::new(), None).as_deref());
        if !is_page(status) && exact.as_deref().is_some_and(leads_to_itself) {
            return Err("it leads to itself".to_owned());
        }
        if self.rules.len() == RULES_MAX {
            return Err(format!("a site has {RULES_MAX} rules at most"));
        }
        if exact.is_none() && self.all.patterns.len() == PATTERNS_MAX {
            return Err(format!("a site has {PATTERNS_MAX} rules with placeholders or '*' at most"));
        }
        let index = self.rules.len();
        if is_forced {
            self.forced.add(exact.as_deref(), index);
        }
        self.all.add(exact.as_deref(), index);
        self.rules.push(Rule { pattern, target, status });
        Ok(())
    }

    /// The answer to a path that has no file, by the first rule that matches. `path` is decoded and without its first
    /// slash.
    pub(crate) fn missing(&self, path: &[u8], query: Option<&str>) -> Option<Ruled> {
        self.apply(&self.all, path, query)
    }

    /// The answer to a path by the first forced rule that matches, whether or not there is a file.
    pub(crate) fn forced(&self, path: &[u8], query: Option<&str>) -> Option<Ruled> {
        self.apply(&self.forced, path, query)
    }

    fn apply(&self, table: &Table, path: &[u8], query: Option<&str>) -> Option<Ruled> {
        table.candidates(path).find_map(|index| {
            let rule = self.rules.get(index)?;
            rule.apply(path, &rule.pattern.matches(path)?, query)
        })
    }
}

impl Table {
    fn add(&mut self, exact: Option<&[u8]>, index: usize) {
        match exact {
            Some(path) => drop(self.exact.entry(path.into()).or_insert(index)),
            None => self.patterns.push(index),
        }
    }

    /// The rules that may match a path, in the order of the file.
    fn candidates(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let exact = self.exact.get(path.strip_suffix(b"/").unwrap_or(path)).copied();
        let split = exact.map_or(0, |exact| self.patterns.partition_point(|index| *index < exact));
        let (before, behind) = self.patterns.split_at(split);
        before.iter().copied().chain(exact).chain(behind.iter().copied())
    }
}

impl Rule {
    /// Applies the rule to a path that it matches; none if it would lead to itself, or further than a URL can be long.
    fn apply(&self, path: &[u8], captures: &Captures<'_>, query: Option<&str>) -> Option<Ruled> {
        if is_page(self.status) {
            return Some(Ruled::Page(self.status, self.target.fill(captures, None)?));
        }
        let filled = self.target.fill(captures, None)?;
        if is_loop(path, Some(&filled)) {
            return None;
        }
        Some(Ruled::To(self.status, self.target.fill(captures, query)?))
    }
}

/// Whether a redirect leads from a path to the same one, but for slashes that make no difference.
fn is_loop(path: &[u8], to: Option<&str>) -> bool {
    let Some(to) = to.and_then(|to| to.strip_prefix('/')) else { return false };
    let to = to.split(['?', '#']).next().unwrap_or_default();
    let to: Vec<u8> = percent_decode_str(to).collect();
    names(&to).eq(names(path))
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Whether a rule with this status answers with a page of the site.
fn is_page(status: StatusCode) -> bool {
    matches!(status, StatusCode::OK | StatusCode::NOT_FOUND)
}

fn read_status(text: &str) -> Result<StatusCode, String> {
    Ok(match text {
        "200" => StatusCode::OK,
        "301" => StatusCode::MOVED_PERMANENTLY,
        "302" => StatusCode::FOUND,
        "303" => StatusCode::SEE_OTHER,
        "307" => StatusCode::TEMPORARY_REDIRECT,
        "308" => StatusCode::PERMANENT_REDIRECT,
        "404" => StatusCode::NOT_FOUND,
        _ => return Err("a status is 200, 301, 302, 303, 307, 308 or 404, perhaps with '!'".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Redirects {
        let (redirects, skipped) = Redirects::read(text.as_bytes());
        assert_eq!(skipped, [], "{text}");
        redirects
    }

    fn to(status: u16, location: &str) -> Ruled {
        Ruled::To(StatusCode::from_u16(status).unwrap(), location.to_owned())
    }

    fn page(status: u16, path: &str) -> Ruled {
        Ruled::Page(StatusCode::from_u16(status).unwrap(), path.to_owned())
    }

    #[test]
    fn the_first_rule_that_matches_answers() {
        let redirects = read(
            "# moved\n/home / # a comment\r\n/:a /first 302\n/about /never\n\n/b/c /exact 307\n/b/* /splat/:splat 308\n\
             /app/* /app/index.html 200\n/gone/* /gone.html 404\n",
        );
        let missing = |path: &str| redirects.missing(path.as_bytes(), None);
        assert_eq!(missing("home"), Some(to(301, "/")));
        assert_eq!(missing("home/"), Some(to(301, "/")));
        assert_eq!(missing("about"), Some(to(302, "/first")));
        assert_eq!(missing("b/c"), Some(to(307, "/exact")));
        assert_eq!(missing("b/d/"), Some(to(308, "/splat/d/")));
        assert_eq!(missing("app/a/b"), Some(page(200, "/app/index.html")));
        assert_eq!(missing("gone/a"), Some(page(404, "/gone.html")));
        assert_eq!(missing("none/a"), None);
        assert_eq!(redirects.missing(b"home", Some("q=1")), Some(to(301, "/?q=1")));
        assert_eq!(redirects.forced(b"home", None), None);
    }

    #[test]
    fn forced_rules_hold_where_there_is_a_file() {
        let redirects = read("/a /b\n/a /c 302!\n/d/* /e 200!\n");
        assert_eq!(redirects.forced(b"a", None), Some(to(302, "/c")));
        assert_eq!(redirects.missing(b"a", None), Some(to(301, "/b")));
        assert_eq!(redirects.forced(b"d/x", None), Some(page(200, "/e")));
    }

    #[test]
    fn no_rule_leads_to_itself() {
        let redirects = read("/a/* /a/:splat/\n/:x /:x\n/:x/:y /b\n");
        for path in ["a/b", "a", "c/"] {
            assert!(
                !matches!(redirects.missing(path.as_bytes(), None), Some(Ruled::To(_, to)) if to != "/b"),
                "{path}"
            );
        }
        assert_eq!(Redirects::read(b"/a /a/ 301\n").1, [(1, "it leads to itself".to_owned())]);
        assert_eq!(Redirects::read(b"/a /%61?q#f 301\n").1.len(), 1);
    }

    #[test]
    fn bad_lines_are_skipped_by_number() {
        let text = "/a\n/b /c\n/d /e 418\n/f https://g.example/ 200\n/h id=:id /i 301\n/j /k 302 Country=de\nl /m\n";
        let (redirects, skipped) = Redirects::read(text.as_bytes());
        assert_eq!(redirects.rules.len(), 1);
        let numbers: Vec<usize> = skipped.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7], "{skipped:?}");
        assert!(skipped[2].1.contains("other hosts"), "{skipped:?}");
        assert!(skipped[3].1.contains("parameters"), "{skipped:?}");
        let (_, skipped) = Redirects::read(&[b"/a /b\n/", &[b'c'; 3000][..], b" /d\n/\xff /e\n"].concat());
        assert_eq!(skipped.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn rules_and_patterns_are_bounded() {
        let many = |line: &dyn Fn(usize) -> String, count: usize| (0..count).map(line).collect::<String>();
        let (redirects, skipped) = Redirects::read(many(&|at| format!("/{at}/* /x\n"), PATTERNS_MAX + 2).as_bytes());
        assert_eq!((redirects.rules.len(), skipped.len()), (PATTERNS_MAX, 2));
        let (redirects, skipped) = Redirects::read(many(&|at| format!("/{at} /x\n"), RULES_MAX + 3).as_bytes());
        assert_eq!((redirects.rules.len(), skipped.len()), (RULES_MAX, 3));
    }
}
