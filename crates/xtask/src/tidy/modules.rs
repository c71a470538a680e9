//! The tables of modules in the documents of crates, held to the modules that there are: a table whose first column is
//! headed *file* or *module* names every module that the file declares, and no other.

use super::text;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn check(files: &[PathBuf]) -> Vec<String> {
    let is_code = |file: &&PathBuf| file.starts_with("crates") && file.extension().is_some_and(|ext| ext == "rs");
    files.iter().filter(is_code).flat_map(|file| compare(file, &text(file).unwrap_or_default())).collect()
}

fn compare(file: &Path, text: &str) -> Vec<String> {
    let Some(named) = named(text) else { return Vec::new() };
    let declared = declared(text);
    let missing = declared.difference(&named).map(|module| (module, "is missing from the table of modules"));
    let gone =
        named.difference(&declared).map(|module| (module, "stands in the table of modules, and is none of them"));
    let finding = |(module, what): (&&str, &str)| format!("{}: `{module}` {what}", file.display());
    missing.chain(gone).map(finding).collect()
}

/// The names in the first column of the table of modules, if the file has one.
fn named(text: &str) -> Option<BTreeSet<&str>> {
    let mut rows = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    rows.find(|row| row.starts_with("| file |") || row.starts_with("| module |"))?;
    let cells = rows.skip(1).map_while(|row| row.strip_prefix('|')).filter_map(|row| row.split('|').next());
    Some(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect())
}

/// The modules that a file declares, but for tests.
fn declared(text: &str) -> BTreeSet<&str> {
    let mut before = "";
    let mut declared = BTreeSet::new();
    for line in text.lines() {
        let module = line.strip_suffix(';').and_then(|line| line.split_once("mod "));
        if let Some((visibility, module)) = module
            && (visibility.is_empty() || visibility.starts_with("pub"))
            && before != "#[cfg(test)]"
        {
            declared.insert(module);
        }
        before = line;
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_what_is_declared() {
        let text = "//! | file | duty |\n//! |---|---|\n//! | `one`, [`two`] | a |\n//! | `gone` | b |\n\nmod one;\n\
                    pub(crate) mod two;\nmod new;\n#[cfg(test)]\nmod tests;\n";
        let found = compare(Path::new("lib.rs"), text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`new` is missing") && found[1].contains("`gone` stands"), "{found:?}");
        assert!(
            compare(Path::new("lib.rs"), "//! | unit | length |\n//! |---|---|\n//! | `m` | 1 |\nmod one;\n")
                .is_empty()
        );
    }
}
