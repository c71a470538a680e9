//! One word for one thing: what docs/terms.md says is no longer used is not used in code.

use super::text;
use crate::{Result, root};
use std::path::{Path, PathBuf};

/// Its text has the words of its tests.
const OWN: &str = "crates/xtask";

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let terms =
        std::fs::read_to_string(root().join("docs/terms.md")).map_err(|error| format!("docs/terms.md: {error}"))?;
    let retired = retired(&terms);
    let is_code = |file: &&PathBuf| file.extension().is_some_and(|ext| ext == "rs") && !file.starts_with(OWN);
    let found = |file: &PathBuf| find(file, &text(file).unwrap_or_default(), &retired);
    Ok(files.iter().filter(is_code).flat_map(found).collect())
}

/// The words in `code` of each row's third column, with the term that is in the first.
fn retired(terms: &str) -> Vec<(String, String)> {
    let mut retired = Vec::new();
    for row in terms.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, term, _, not, _] = cells[..] else { continue };
        retired.extend(not.split('`').skip(1).step_by(2).map(|word| (word.to_owned(), term.to_owned())));
    }
    retired
}

/// Finds names that are one of the words, or have it as their first part.
fn find(file: &Path, text: &str, retired: &[(String, String)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in names {
            let begins =
                |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
            if let Some((word, term)) = retired.iter().find(|(word, _)| begins(word)) {
                findings.push(format!("{}:{}: `{word}` is called {term}", file.display(), index + 1));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_word_is_found_where_it_is_a_name() {
        let retired = retired("| term | is | not |\n|---|---|---|\n| kill | to end | `bury`, murder |\n");
        assert_eq!(retired, [("bury".to_owned(), "kill".to_owned())]);
        let found = find(Path::new("a.rs"), "fn bury_store() {}\nlet buryable = murder(bury);", &retired);
        assert_eq!(found, ["a.rs:1: `bury` is called kill", "a.rs:2: `bury` is called kill"]);
    }
}
