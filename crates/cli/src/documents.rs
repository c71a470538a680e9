//! JSON documents by path: one ordered map of the store, from the path to the text of the document.
//!
//! A document is kept as the text that was given, on one line, so it comes back with every digit that it had.

mod listing;
mod removal;

pub(crate) use listing::{Range, list, page};
pub(crate) use removal::remove_all;

use crate::Result;
use crate::error::usage;
use designs::{DESIGNS, Design};
use serde::de::IgnoredAny;
use thorp::limits::OBJECT_BYTES_MAX;
use thorp::{AsyncTx, EncodeKey, Error, KEY_BYTES_MAX, Map, Tx};

/// The name of the map in the store.
pub(crate) const ROOT: &str = "documents";

/// The names of the maps that documents, and the marks of their loads, are kept in.
pub(crate) const OWN_NAMES: [&str; 2] = [ROOT, LOADS];

/// The name of the map of marks: how far the loads of files have come.
pub(crate) const LOADS: &str = "loads";

/// The mark that some editors put at the beginning of a file: it is no part of the text.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The documents of a store.
pub(crate) type Documents = Map<String, String>;

/// The map; it begins with the first document.
pub(crate) fn documents(tx: &mut Tx) -> thorp::Result<Documents> {
    tx.map(ROOT)
}

/// The map, if there is one.
pub(crate) fn find_documents(tx: &mut Tx) -> thorp::Result<Option<Documents>> {
    tx.find_map(ROOT)
}

/// The document at a path.
pub(crate) fn find(tx: &mut Tx, path: &str) -> thorp::Result<Option<String>> {
    match find_documents(tx)? {
        Some(documents) => documents.get(tx, path),
        None => Ok(None),
    }
}

/// Checks that a text is one JSON value; gives it on one line. Inside of strings JSON has no line breaks as such.
pub(crate) fn check_json(text: &str) -> Result<String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim();
    if text.len() > OBJECT_BYTES_MAX {
        return Err(format!("the document is larger than the limit of {} MiB", OBJECT_BYTES_MAX >> 20).into());
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(text.replace(['\r', '\n'], " ")),
        Err(error) => Err(format!("this is not JSON: {error}; text stands in double quotes, as in '\"text\"'").into()),
    }
}

/// Checks that a path is one: names, separated by single slashes.
pub(crate) fn check_path(path: &str) -> Result {
    if path.is_empty() || path.split('/').any(str::is_empty) {
        let text = format!("'{path}' is not a path: write names with single slashes between, as in design/wheel");
        return Err(usage(text));
    }
    check_length(path)
}

/// Checks a path of a folder, which may be that of everything, and end with a slash as `ls` shows it.
pub(crate) fn check_folder(folder: &str) -> Result {
    match folder.strip_suffix('/').unwrap_or(folder) {
        "" => Ok(()),
        folder => check_path(folder),
    }
}

fn check_length(path: &str) -> Result {
    let mut key = Vec::new();
    path.encode_key(&mut key);
    if key.len() > KEY_BYTES_MAX {
        return Err(usage(format!(
            "a path of {} bytes is longer than one can be, {KEY_BYTES_MAX} with its marks",
            path.len()
        )));
    }
    Ok(())
}

/// Refuses paths for documents that lie in a design: its entities have them.
pub(crate) fn refuse_inside_designs<'a>(tx: &mut Tx, paths: impl IntoIterator<Item = &'a str>) -> thorp::Result<()> {
    let Some(designs) = tx.find_map::<String, Design>(DESIGNS)? else { return Ok(()) };
    for path in paths {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let name = &path[..end];
            if designs.get(tx, name)?.is_some() {
                let text = format!("'{path}' cannot be a document: '{name}' is a design; choose another path");
                return Err(Error::application(text));
            }
        }
    }
    Ok(())
}

/// Refuses the name of a design where documents lie.
pub(crate) async fn refuse_over_documents(tx: &mut AsyncTx, name: &str) -> thorp::Result<()> {
    let Some(documents) = tx.find_map::<String, String>(ROOT).await? else { return Ok(()) };
    let inside = Range::under(name);
    let mut cursor = documents.range::<String>(inside.bounds());
    if documents.get(tx, name).await?.is_some() || cursor.next(tx).await?.is_some() {
        let text = format!("'{name}' cannot be a design: there are documents of that path; choose another name");
        return Err(Error::application(text));
    }
    Ok(())
}

/// The prefix of the paths in a folder; the empty name is the folder of everything.
fn prefix_of(folder: &str) -> String {
    match folder.trim_end_matches('/') {
        "" => String::new(),
        folder => format!("{folder}/"),
    }
}
