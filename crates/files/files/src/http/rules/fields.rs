//! `_headers`: fields that a site adds to its answers, in the format of Cloudflare and Netlify.
//!
//! ```text
//! /*
//!   X-Frame-Options: DENY
//! /assets/*
//!   Cache-Control: public, max-age=31536000, immutable
//!   ! X-Frame-Options
//! ```

use crate::http::rules::lines::{SkippedLine, read_lines};
use crate::http::rules::pattern::Pattern;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The name of the file, at the root of a site.
pub(super) const FILE: &str = "_headers";

/// The bytes of the file.
pub(super) const BYTES_MAX: u64 = 64 * 1024;

/// Paths with fields, which are tried one by one, and all of their fields.
const BLOCKS_MAX: usize = 200;
const FIELDS_MAX: usize = 1000;

/// Fields that are the server's: those of the connection, of conditions and ranges, of variants, and of sessions.
const OWN: [&str; 20] = [
    "accept-ranges",
    "age",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
];

/// Fields of Thorp's own.
const OWN_PREFIX: &str = "thorp-";

/// The rules of a site.
#[derive(Debug, Default)]
pub(crate) struct FieldRules {
    blocks: Vec<Block>,
    fields: usize,
}

#[derive(Debug)]
struct Block {
    pattern: Pattern,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Add(HeaderName, HeaderValue),
    Remove(HeaderName),
}

/// The fields that a site adds to the answers for a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteFields(Vec<(HeaderName, HeaderValue)>);

impl FieldRules {
    /// Reads the file. Returns the rules, and the lines that are skipped, each with the reason.
    pub(super) fn read(bytes: &[u8]) -> (Self, Vec<SkippedLine>) {
        let (mut rules, mut is_skipping) = (Self::default(), false);
        let skipped = read_lines(bytes, |line| {
            // Fields have no '/' at the beginning. So the indentation is for people, as at Netlify.
            if line.starts_with('/') || line.starts_with("http://") || line.starts_with("https://") {
                let block = rules.read_path(line);
                is_skipping = block.is_err();
                block
            } else if is_skipping {
                Err("its path is skipped".to_owned())
            } else {
                rules.read_field(line)
            }
        });
        (rules, skipped)
    }

    fn read_path(&mut self, line: &str) -> Result<(), String> {
        let pattern = Pattern::parse(line)?;
        if self.blocks.len() == BLOCKS_MAX {
            return Err(format!("a site has fields for {BLOCKS_MAX} paths at most"));
        }
        self.blocks.push(Block { pattern, changes: Vec::new() });
        Ok(())
    }

    fn read_field(&mut self, line: &str) -> Result<(), String> {
        if self.fields == FIELDS_MAX {
            return Err(format!("a site has {FIELDS_MAX} fields at most"));
        }
        let Some(block) = self.blocks.last_mut() else {
            return Err("expected: a path, which begins with '/'".to_owned());
        };
        let change = if let Some(name) = line.strip_prefix('!') {
            Change::Remove(read_name(name)?)
        } else {
            let (name, value) = line.split_once(':').ok_or("expected: 'Name: value' or '! Name'")?;
            let (name, value) = (read_name(name)?, value.trim());
            let value = HeaderValue::from_str(value).ok().filter(|_| !value.is_empty() && value.is_ascii());
            Change::Add(name, value.ok_or("a value is printable ASCII, and not empty")?)
        };
        block.changes.push(change);
        self.fields += 1;
        Ok(())
    }

    /// The fields for a path, which is decoded and without its first slash. A field that is added twice has both
    /// values, separated by a comma.
    pub(crate) fn of(&self, path: &[u8]) -> SiteFields {
        let mut fields: Vec<(&HeaderName, Vec<u8>)> = Vec::new();
        let blocks = self.blocks.iter().filter(|block| block.pattern.matches(path).is_some());
        for change in blocks.flat_map(|block| &block.changes) {
            match change {
                Change::Remove(name) => fields.retain(|(other, _)| *other != name),
                Change::Add(name, value) => match fields.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, values)) => values.extend_from_slice(&[b", ", value.as_bytes()].concat()),
                    None => fields.push((name, value.as_bytes().to_vec())),
                },
            }
        }
        let fields = fields.into_iter().filter_map(|(name, values)| {
            HeaderValue::from_maybe_shared(bytes::Bytes::from(values)).ok().map(|value| (name.clone(), value))
        });
        SiteFields(fields.collect())
    }
}

impl SiteFields {
    /// Adds the fields to an answer, in place of the server's defaults.
    pub(crate) fn add_to(&self, answer: &mut HeaderMap) {
        for (name, value) in &self.0 {
            answer.insert(name, value.clone());
        }
    }

    /// Adds the fields to an answer that is an error: without `Cache-Control`, as the path may have a file soon.
    pub(crate) fn add_to_error(&self, answer: &mut HeaderMap) {
        for (name, value) in self.0.iter().filter(|(name, _)| name != CACHE_CONTROL && name != "expires") {
            answer.insert(name, value.clone());
        }
    }

    /// The bytes of the fields, about.
    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|(name, value)| 100 + name.as_str().len() + value.len()).sum()
    }
}

fn read_name(text: &str) -> Result<HeaderName, String> {
    let name = HeaderName::from_bytes(text.trim().as_bytes()).map_err(|_| "a name is letters, digits and '-'")?;
    if OWN.contains(&name.as_str()) || name.as_str().starts_with(OWN_PREFIX) {
        return Err(format!("{name} is set by the server"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rules: &FieldRules, path: &str) -> Vec<String> {
        let fields = rules.of(path.as_bytes()).0;
        fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_path_has_the_fields_of_every_pattern_that_matches() {
        let (rules, skipped) = FieldRules::read(
            b"# for all\n/*\n  X-Frame-Options: DENY\n\tReferrer-Policy: no-referrer\r\n  X-Robots-Tag: nosnippet\n\n\
              /img/*.jpg\n  X-Robots-Tag: noindex\n  ! Referrer-Policy\n/a\nLink: </b>; rel=preload\nLink: </c>\n",
        );
        assert_eq!(skipped, []);
        let all = ["x-frame-options: DENY", "referrer-policy: no-referrer", "x-robots-tag: nosnippet"];
        assert_eq!(of(&rules, ""), all);
        assert_eq!(of(&rules, "img/a.jpg"), ["x-frame-options: DENY", "x-robots-tag: nosnippet, noindex"]);
        assert_eq!(of(&rules, "a/"), [&all[..], &["link: </b>; rel=preload, </c>"]].concat());
    }

    #[test]
    fn bad_lines_are_skipped_by_number() {
        let text = "X-A: 1\n/a\n X-B\n X-C:\n X-D: \u{e9}\n X E: 1\n X-F: ok\n\
                    https://b.example/*\n X-G: 1\n/c\n X-H: ok\n X-I: a\rb\n";
        let (rules, skipped) = FieldRules::read(text.as_bytes());
        let numbers: Vec<usize> = skipped.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 8, 9, 12], "{skipped:?}");
        assert_eq!(of(&rules, "a"), ["x-f: ok"]);
        assert_eq!(of(&rules, "c"), ["x-h: ok"]);
    }

    #[test]
    fn fields_of_the_server_cannot_be_set() {
        for name in OWN.into_iter().chain(["Thorp-Stale", "ETAG", "Set-Cookie"]) {
            for line in [format!("{name}: 1"), format!("! {name}")] {
                let (rules, skipped) = FieldRules::read(format!("/*\n {line}\n").as_bytes());
                assert!(skipped.len() == 1 && skipped[0].1.ends_with("is set by the server"), "{line}: {skipped:?}");
                assert_eq!(rules.of(b"a"), SiteFields::default());
            }
        }
    }

    #[test]
    fn paths_and_fields_are_bounded() {
        let many = |line: &dyn Fn(usize) -> String, count: usize| (0..count).map(line).collect::<String>();
        let (rules, skipped) = FieldRules::read(many(&|at| format!("/{at}\n"), BLOCKS_MAX + 2).as_bytes());
        assert_eq!((rules.blocks.len(), skipped.len()), (BLOCKS_MAX, 2));
        let text = format!("/*\n{}", many(&|at| format!("x-{at}: 1\n"), FIELDS_MAX + 3));
        let (rules, skipped) = FieldRules::read(text.as_bytes());
        assert_eq!((rules.of(b"").0.len(), skipped.len()), (FIELDS_MAX, 3));
    }
}
