//! JSON documents by path: one ordered map of the store, from the path to the text of the document.
//!
//! A document is kept as the text that was given, on one line, so it comes back with every digit that it had.

use crate::Result;
use serde::de::IgnoredAny;
use std::ops::Bound;
use thorp::{Db, Map, Tx};

/// The name of the map in the store.
const ROOT: &str = "documents";

/// How many documents one transaction of a long listing reads.
const PAGE: usize = 500;

/// The documents of a store.
pub(crate) type Documents = Map<String, String>;

/// The map; it begins with the first document.
pub(crate) fn documents(tx: &mut Tx) -> thorp::Result<Documents> {
    tx.map(ROOT)
}

/// The document at a path.
pub(crate) fn find(tx: &mut Tx, path: &str) -> thorp::Result<Option<String>> {
    match tx.find_map::<String, String>(ROOT)? {
        Some(documents) => documents.get(tx, path),
        None => Ok(None),
    }
}

/// Checks that a text is one JSON value; gives it on one line. Inside of strings JSON has no line breaks as such.
pub(crate) fn check_json(text: &str) -> Result<String> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(text.trim().replace(['\r', '\n'], " ")),
        Err(error) => Err(format!("this is not JSON: {error}; text stands in double quotes, as in '\"text\"'").into()),
    }
}

/// Checks that a path is one: names, separated by single slashes.
pub(crate) fn check_path(path: &str) -> Result {
    if path.is_empty() || path.split('/').any(str::is_empty) {
        return Err(format!("'{path}' is no path: write names with single slashes between, as in design/wheel").into());
    }
    Ok(())
}

/// What lies directly under a folder: documents by name, folders with a slash behind theirs.
pub(crate) fn list(db: &Db, folder: &str) -> Result<Vec<String>> {
    let prefix = prefix_of(folder);
    let mut names = Vec::new();
    let mut from = Bound::Included(prefix.clone());
    while let Some(path) = first(db, &from)?.filter(|path| path.starts_with(&prefix)) {
        if let Some((name, _)) = path[prefix.len()..].split_once('/') {
            names.push(format!("{name}/"));
            // Whatever else is in that folder is passed over: a zero is what follows a slash.
            from = Bound::Included(format!("{prefix}{name}0"));
        } else {
            names.push(path[prefix.len()..].to_owned());
            from = Bound::Excluded(path);
        }
    }
    Ok(names)
}

fn first(db: &Db, from: &Bound<String>) -> Result<Option<String>> {
    let page = page(db, from, 1)?;
    Ok(page.into_iter().next().map(|(path, _)| path))
}

/// Shows all documents under a folder whose names are in `names`, in order, until `show` has seen enough. A long
/// listing is several transactions: each shows the store as it was at one moment, later ones at later moments.
pub(crate) fn scan(
    db: &Db,
    folder: &str,
    names: (Option<&str>, Option<&str>),
    mut show: impl FnMut(&str, &str) -> Result<bool>,
) -> Result {
    let prefix = prefix_of(folder);
    let end = names.1.map(|name| format!("{prefix}{name}"));
    let mut from = Bound::Included(format!("{prefix}{}", names.0.unwrap_or_default()));
    loop {
        let page = page(db, &from, PAGE)?;
        for (path, document) in &page {
            let is_over = !path.starts_with(&prefix) || end.as_ref().is_some_and(|end| path >= end);
            if is_over || !show(path, document)? {
                return Ok(());
            }
        }
        match page.into_iter().last() {
            Some((path, _)) => from = Bound::Excluded(path),
            None => return Ok(()),
        }
    }
}

fn page(db: &Db, from: &Bound<String>, count: usize) -> Result<Vec<(String, String)>> {
    Ok(db.transact(|tx| {
        let Some(documents) = tx.find_map::<String, String>(ROOT)? else { return Ok(Vec::new()) };
        let mut cursor = documents.range::<String>((from.as_ref(), Bound::Unbounded));
        let mut page = Vec::new();
        while page.len() < count
            && let Some(entry) = cursor.next(tx)?
        {
            page.push(entry);
        }
        Ok(page)
    })?)
}

/// What the paths in a folder begin with; the empty name is the folder of everything.
fn prefix_of(folder: &str) -> String {
    match folder.trim_end_matches('/') {
        "" => String::new(),
        folder => format!("{folder}/"),
    }
}
