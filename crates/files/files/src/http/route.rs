//! The site's answer to a path, all of it from one revision.
//!
//! ```text
//!   a page that was served lately
//!   a forced rule of _redirects     redirect, or the page at another path
//!   a file                          with its variants
//!   a rule of _redirects
//!   404.html                        the nearest one upward
//! ```
//! A page at another path is a file: no rule applies to that path again. So rules cannot be a circle.

use crate::http::page::Page;
use crate::http::pages::FoundPage;
use crate::http::refusal::{Missed, Refusal};
use crate::http::resolve::{Asked, FileAt, Resource, resolve, resolve_missing, resolve_page};
use crate::http::rules::{Ruled, Rules, SiteFields};
use crate::http::served::Served;
use crate::reader::Reader;
use http::{HeaderValue, StatusCode, Uri};
use std::sync::Arc;
use tree::ChunkHash;

/// The answer to a path.
#[derive(Debug)]
pub(crate) enum Routed {
    /// The page at the path.
    Page(Arc<FoundPage>),
    /// The page at another path, with the fields of this path.
    Instead(Arc<FoundPage>, SiteFields),
    /// The page for missing files, with the fields of this path.
    Missing(Arc<FoundPage>, SiteFields),
    /// A redirect.
    Redirect(StatusCode, HeaderValue),
    /// A directory whose path was given without its slash.
    Slash,
}

/// A revision that answers.
struct Site<'a> {
    served: &'a Served,
    reader: Reader<'a>,
    root: ChunkHash,
    rules: Rules,
}

/// Finds the answer to a request's path, which begins with a slash, in the revision of a root.
pub(crate) fn route(served: &Served, reader: Reader<'_>, root: ChunkHash, uri: &Uri) -> Result<Routed, Missed> {
    let (path, query) = (uri.path(), uri.query());
    if let Some(found) = served.pages.get(root, path) {
        return Ok(Routed::Page(found));
    }
    let asked = Asked::parse(path).ok_or(Refusal::Path)?;
    let site = Site { served, reader, root, rules: served.rules.of(reader, root)? };
    let text = asked.text();
    if let Some(ruled) = site.rules.redirects.forced(&text, query) {
        return site.follow(ruled, &asked, &text);
    }
    match resolve(reader, root, &asked)? {
        Some(Resource::File(file)) => return Ok(Routed::Page(site.keep(path, &text, &file)?)),
        Some(Resource::Slash) => return Ok(Routed::Slash),
        None => {}
    }
    match site.rules.redirects.missing(&text, query) {
        Some(ruled) => site.follow(ruled, &asked, &text),
        None => site.missing(&asked, &text),
    }
}

impl Site<'_> {
    /// The answer by a rule for a path.
    fn follow(&self, ruled: Ruled, asked: &Asked, text: &[u8]) -> Result<Routed, Missed> {
        let (status, path) = match ruled {
            Ruled::To(status, location) => {
                let location = HeaderValue::try_from(location).map_err(|_| Refusal::Path)?;
                return Ok(Routed::Redirect(status, location));
            }
            Ruled::Page(status, path) => (status, path),
        };
        match self.page(&path)? {
            Some(page) if status == StatusCode::OK => Ok(Routed::Instead(page, self.rules.fields.of(text))),
            Some(page) => Ok(Routed::Missing(page, self.rules.fields.of(text))),
            None => self.missing(asked, text),
        }
    }

    /// The answer to a path that the site does not have.
    fn missing(&self, asked: &Asked, text: &[u8]) -> Result<Routed, Missed> {
        let file = resolve_missing(self.reader, self.root, asked)?.ok_or(Refusal::NotFound)?;
        let fields = self.rules.fields.of(text);
        Ok(Routed::Missing(self.read(&file, SiteFields::default())?, fields))
    }

    /// The page at the path that a rule leads to; none if there is none.
    fn page(&self, path: &str) -> Result<Option<Arc<FoundPage>>, Missed> {
        if let Some(found) = self.served.pages.get(self.root, path) {
            return Ok(Some(found));
        }
        let asked = Asked::parse(path).ok_or(Refusal::Path)?;
        let Some(file) = resolve_page(self.reader, self.root, &asked)? else { return Ok(None) };
        let text = asked.text();
        let is_direct = matches!(resolve(self.reader, self.root, &asked)?, Some(Resource::File(_)));
        if is_direct && self.rules.redirects.forced(&text, None).is_none() {
            return self.keep(path, &text, &file).map(Some);
        }
        self.read(&file, SiteFields::default()).map(Some)
    }

    /// Reads the page at a path, and keeps it.
    fn keep(&self, path: &str, text: &[u8], file: &FileAt) -> Result<Arc<FoundPage>, Missed> {
        let found = self.read(file, self.rules.fields.of(text))?;
        self.served.pages.insert(self.root, path, found.clone());
        Ok(found)
    }

    fn read(&self, file: &FileAt, fields: SiteFields) -> Result<Arc<FoundPage>, Missed> {
        let page = Page::read(self.reader, file.directory, &file.name, &file.kind)?.ok_or(Refusal::NotFound)?;
        Ok(Arc::new(FoundPage { page, fields }))
    }
}
