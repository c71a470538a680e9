//! HTML, with what it depends on and the versions of what it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A page under construction. Text goes in by `write!`, values of others as [`Text`].
#[derive(Debug, Default)]
pub(crate) struct Page {
    html: String,
    dependencies: BTreeSet<String>,
    versions: BTreeMap<String, i64>,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title></head><body>\n\
             <nav><a href=\"/\">Home</a> <a href=\"/browse\">Browse</a> <a href=\"/sell\">Sell</a> \
             <a href=\"/register\">Register</a></nav>\n<h1>{0}</h1>\n",
            Text(title)
        );
        Self { html, ..Self::default() }
    }

    /// It depends on this.
    pub(crate) fn depends_on(&mut self, name: impl Into<String>) {
        self.dependencies.insert(name.into());
    }

    /// It shows this in this version, and so depends on it. A row that is not there has version 0.
    pub(crate) fn shows(&mut self, name: String, version: i64) {
        self.depends_on(name.clone());
        self.versions.insert(name, version);
    }

    /// The field `Cache-Groups` (RFC 9875). Names are made here, of letters, digits and colons.
    pub(crate) fn groups(&self) -> String {
        joined(self.dependencies.iter().map(|name| format!("\"{name}\"")))
    }

    /// The versions of what it shows: `item:42=7, user:3=1`.
    pub(crate) fn versions(&self) -> String {
        joined(self.versions.iter().map(|(name, version)| format!("{name}={version}")))
    }

    /// All of it.
    pub(crate) fn finish(self) -> String {
        self.html + "</body></html>\n"
    }
}

impl fmt::Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.html.push_str(text);
        Ok(())
    }
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// A text of somebody else's, without meaning as HTML.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let entity = match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            };
            f.write_str(&rest[..at])?;
            f.write_str(entity)?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_no_html() {
        assert_eq!(
            Text("<a href='x'>\"R&D\"</a>").to_string(),
            "&lt;a href=&#39;x&#39;&gt;&quot;R&amp;D&quot;&lt;/a&gt;"
        );
    }

    #[test]
    fn a_page_names_what_it_shows() {
        let mut page = Page::new("Items");
        page.shows("item:2".to_owned(), 7);
        page.depends_on("regions");
        assert_eq!(page.groups(), "\"item:2\", \"regions\"");
        assert_eq!(page.versions(), "item:2=7");
    }
}
