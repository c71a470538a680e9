//! Plays the conversations of `testdata/conversations/redirector-*.txt` with a redirector and compares what it says,
//! line by line. `UPDATE_EXPECT=1` writes what it says into the files.

mod conversation;

use conversation::Conversation;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/conversations");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut scripts: Vec<_> = files.filter(|path| name(path).starts_with("redirector-")).collect();
    scripts.sort();
    scripts
}

#[test]
fn conversations_go_as_written() {
    let mut differing = Vec::new();
    for path in scripts() {
        let expected = fs::read_to_string(&path).unwrap();
        let played = Conversation::play(&expected);
        if played != expected && env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &played).unwrap();
        } else if played != expected {
            let line = played.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
            let at = |text: &str| text.lines().nth(line).unwrap_or("the end").to_owned();
            differing.push(format!(
                "{}:{}:\n  expected {}\n  got      {}",
                path.display(),
                line + 1,
                at(&expected),
                at(&played)
            ));
        }
    }
    assert!(differing.is_empty(), "{}\nUPDATE_EXPECT=1 takes over what was said", differing.join("\n"));
}
