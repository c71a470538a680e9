//! Every path that a document names exists: links, and everything that is in backticks and looks like a path of ours.

use super::text;
use crate::root;
use std::path::{Path, PathBuf};

/// Folders of the repository; a word in backticks that begins with one of them is a path.
const FOLDERS: [&str; 3] = ["crates/", "docs/", ".ci/"];

pub(super) fn check(files: &[PathBuf]) -> Vec<String> {
    let documents = files.iter().filter(|file| file.extension().is_some_and(|e| e == "md"));
    documents.flat_map(|document| check_document(document)).collect()
}

fn check_document(document: &Path) -> Vec<String> {
    let text = text(document).unwrap_or_default();
    let folder = root().join(document.parent().unwrap_or(Path::new("")));
    let links = links(&text).into_iter().map(|link| (link, folder.join(link)));
    let names = names(&text).into_iter().map(|name| (name, root().join(name)));
    let missing = links.chain(names).filter(|(_, path)| !path.exists());
    missing.map(|(name, _)| format!("{}: names `{name}`, which does not exist", document.display())).collect()
}

/// The targets of links to files; those inside the page and those of the wide world are none.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| target.split('#').next().unwrap_or(target)).collect()
}

/// The paths in backticks. One with a placeholder in it names no file.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    paths.filter(|word| !word.contains(['*', '<', ' '])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_names_are_found() {
        let text = "See [a](docs/a.md#part), [b](https://b.org), [c](#c); `crates/x/src`, `crates/*`, `x`.";
        assert_eq!(links(text), ["docs/a.md"]);
        assert_eq!(names(text), ["crates/x/src"]);
    }
}
