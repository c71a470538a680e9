//! Sentences have nouns for subjects: none in a comment or a document begins with a headless *Who* or *What*, as in
//! "Who waits is not overtaken" for "A commit that waits is not overtaken". Questions may.

use super::text;
use std::path::{Path, PathBuf};

/// The words that such a sentence begins with.
const HEADLESS: [&str; 6] = ["Who", "Whoever", "Whom", "Whose", "What", "Whatever"];

pub(super) fn check(files: &[PathBuf]) -> Vec<String> {
    files.iter().flat_map(|file| find(file, &text(file).unwrap_or_default())).collect()
}

/// Finds the headless sentences of one file.
fn find(file: &Path, text: &str) -> Vec<String> {
    let lines: fn(&str) -> Option<&str> = match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => comment,
        Some("md") => |line| Some(line),
        _ => return Vec::new(),
    };
    let mut sentences = Sentences::default();
    for (number, line) in (1..).zip(text.lines()) {
        sentences.read(number, lines(line).unwrap_or_default());
    }
    sentences.end();
    let is_headless = |sentence: &&Sentence| HEADLESS.contains(&&*sentence.first) && !sentence.last.contains('?');
    let finding = |sentence: &Sentence| {
        let Sentence { line, first, .. } = sentence;
        format!("{}:{line}: a sentence begins with `{first}`: give it a noun for its subject", file.display())
    };
    sentences.found.iter().filter(is_headless).map(finding).collect()
}

/// The text of the comment on a line, if it has one.
fn comment(line: &str) -> Option<&str> {
    let (code, comment) = line.split_once("//")?;
    let is_code = !code.trim().is_empty();
    // Two slashes behind a quotation mark may stand inside of a string.
    (!is_code || !code.contains('"')).then(|| comment.trim_start_matches(['/', '!']))
}

/// The first and the last word of a sentence, and the line on which it begins.
#[derive(Debug)]
struct Sentence {
    line: usize,
    first: String,
    last: String,
}

/// A reader of sentences, line by line. An empty line, a heading, an item of a list and a cell of a table begin one,
/// too.
#[derive(Debug, Default)]
struct Sentences {
    found: Vec<Sentence>,
    is_inside: bool,
}

impl Sentences {
    fn read(&mut self, line: usize, text: &str) {
        if text.trim().is_empty() || text.trim_start().starts_with(['#', '-', '*', '|', '>']) {
            self.end();
        }
        for word in text.split_whitespace() {
            let bare = word.trim_matches(['*', '"', '(', ')', '`', '_', '#', '-', '>', '|']);
            match self.found.last_mut().filter(|_| self.is_inside) {
                _ if bare.is_empty() || word == "|" => self.is_inside &= word != "|",
                Some(sentence) => bare.clone_into(&mut sentence.last),
                None => {
                    let first = bare.trim_end_matches([',', ':']).to_owned();
                    self.found.push(Sentence { line, first, last: bare.to_owned() });
                    self.is_inside = true;
                }
            }
            self.is_inside &= !bare.ends_with(['.', '?', '!', ':']);
        }
        if text.trim_start().starts_with('#') {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_inside = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headless_sentences_are_found() {
        let code =
            "/// Fine. What\n/// is left.\nfn what() {} // Who waits.\n\n// It is: Whoever\n// - **What is it?**\n";
        let lines = |name: &str, text: &str| {
            let found = find(Path::new(name), text).into_iter();
            found.map(|finding| finding.split(':').nth(1).unwrap().parse().unwrap()).collect::<Vec<usize>>()
        };
        let none: [usize; 0] = [];
        assert_eq!(lines("a.rs", code), [1, 3, 5]);
        assert_eq!(lines("a.rs", "let a = \"// What it says.\";\nlet b = what; // Is it? Yes, what else.\n"), none);
        assert_eq!(lines("a.md", "# What there is\n| one | What it is |\n\nWhat\nnow?\n- Whose it is\n"), [1, 2, 6]);
        assert_eq!(lines("a.txt", "What is left."), none);
    }
}
