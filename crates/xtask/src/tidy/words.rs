//! Words that do not belong into the repository, each with what to do instead.

use super::text;
use std::path::{Path, PathBuf};

/// The words that are searched for, and why they should not be there. Each word stands here in two parts, so that this
/// file does not find itself.
const FORBIDDEN: [(&str, &str, &str); 7] = [
    ("/ro", "ot/", "the path of one machine"),
    ("/ho", "me/", "the path of one machine"),
    ("/wo", "rk/", "the path of one machine"),
    ("todo", "!(", "write it, or leave it out"),
    ("dbg", "!(", "a trace of debugging"),
    ("#[ign", "ore", "a test that does not run proves nothing"),
    ("#[al", "low(", "use #[expect(lint, reason = \"...\")], which says so when it is no longer needed"),
];

pub(super) fn check(files: &[PathBuf]) -> Vec<String> {
    files.iter().flat_map(|file| check_text(file, &text(file).unwrap_or_default())).collect()
}

fn check_text(file: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (head, tail, why) in FORBIDDEN {
            let word = [head, tail].concat();
            if has_word(line, &word) {
                findings.push(format!("{}:{}: `{word}`: {why}", file.display(), index + 1));
            }
        }
    }
    findings
}

/// Whether the line has the word, and not as the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_word_is_found_with_its_line() {
        let text = ["fine", &["see /ro", "ot/x"].concat()].join("\n");
        let found = check_text(Path::new("a.rs"), &text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
        assert!(check_text(Path::new("a.rs"), "todo list, allowed").is_empty());
        assert!(check_text(Path::new("a.rs"), "the crate in crates/home/src").is_empty());
    }
}
