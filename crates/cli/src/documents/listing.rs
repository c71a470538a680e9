//! A listing of a folder, in order: names directly under it, and documents. Page by page, each page one transaction
//! that reads ahead, so that a long listing takes few round trips and no transaction grows with it.

use super::{find_documents, prefix_of};
use crate::Result;
use std::ops::Bound;
use thorp::{Db, Tx};

/// The most that one transaction of a long listing reads: so many names or documents, and about so many bytes of them.
const PAGE: usize = 1_000;
const PAGE_BYTES: usize = 8 << 20;

/// Some of the documents under a folder.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    prefix: String,
    from: Bound<String>,
    to: Bound<String>,
}

impl Range {
    /// All under a folder.
    pub(crate) fn under(folder: &str) -> Self {
        Self::between(folder, None, None)
    }

    /// Those whose names below the folder are at `from` or behind it, and before `to`.
    pub(crate) fn between(folder: &str, from: Option<&str>, to: Option<&str>) -> Self {
        let prefix = prefix_of(folder);
        let end = match to {
            Some(to) => Bound::Excluded(format!("{prefix}{to}")),
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Excluded(behind(&prefix)),
        };
        let from = Bound::Included(format!("{prefix}{}", from.unwrap_or_default()));
        Self { prefix, from, to: end }
    }

    /// Moves the range's beginning behind a path.
    pub(crate) fn go_on_behind(&mut self, path: &str) {
        self.from = Bound::Excluded(path.to_owned());
    }

    /// The prefix of its paths, before their names.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether there can be anything in it: a map refuses a range that ends before it begins.
    fn is_possible(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) => from < to,
            _ => true,
        }
    }

    /// The range as a map takes it.
    pub(crate) fn bounds(&self) -> (Bound<&String>, Bound<&String>) {
        (self.from.as_ref(), self.to.as_ref())
    }
}

/// The least path behind all that begin with a folder's prefix: a zero is what follows a slash.
fn behind(prefix: &str) -> String {
    format!("{}0", &prefix[..prefix.len() - 1])
}

/// Shows what lies directly under a folder: documents by name, folders with a slash behind theirs.
pub(crate) fn list(db: &Db, folder: &str, mut show: impl FnMut(String) -> Result) -> Result {
    let mut range = Range::under(folder);
    loop {
        let (names, rest) = db.transact(|tx| names(tx, range.clone()))?;
        names.into_iter().try_for_each(&mut show)?;
        match rest {
            Some(rest) => range = rest,
            None => return Ok(()),
        }
    }
}

/// The first names of a range, and where there may be more. Values are not read.
fn names(tx: &mut Tx, mut range: Range) -> thorp::Result<(Vec<String>, Option<Range>)> {
    let mut names = Vec::new();
    let Some(documents) = find_documents(tx)? else { return Ok((names, None)) };
    let mut cursor = documents.range::<String>(range.bounds());
    while names.len() < PAGE {
        let Some(path) = cursor.next_key(tx)? else { return Ok((names, None)) };
        let name = &path[range.prefix.len()..];
        let Some((folder, _)) = name.split_once('/') else {
            names.push(name.to_owned());
            range.go_on_behind(&path);
            continue;
        };
        // The other paths in that folder are passed over.
        range.from = Bound::Included(behind(&path[..=range.prefix.len() + folder.len()]));
        names.push(format!("{folder}/"));
        if !range.is_possible() {
            return Ok((names, None));
        }
        cursor = documents.range::<String>(range.bounds());
    }
    Ok((names, Some(range)))
}

/// The first documents of a range, with their paths; none at its end.
pub(crate) fn page(tx: &mut Tx, range: &Range, count: usize) -> thorp::Result<Vec<(String, String)>> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    let Some(documents) = find_documents(tx)? else { return Ok(page) };
    if !range.is_possible() {
        return Ok(page);
    }
    let mut cursor = documents.range::<String>(range.bounds());
    while page.len() < count.min(PAGE) && bytes < PAGE_BYTES {
        let Some((path, document)) = cursor.next(tx)? else { break };
        bytes += document.len();
        page.push((path, document));
    }
    Ok(page)
}
