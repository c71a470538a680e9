//! Plays the scripts of this folder, for the tests of the roles that hold the conversations.
//!
//! ```text
//! > m1 fetch 1/3 number=7            an event
//! upstream session Fetch 1/3 at_least=v0        what the role says to it
//! # Why.
//! ```
//! Empty lines and `#` lines are kept as they are. `UPDATE_EXPECT=1` writes what is said into the files.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// A role to whom a script's events happen.
pub(crate) trait Player {
    /// Carries out an event; `None` if it cannot be read.
    fn event(&mut self, event: &str) -> Option<()>;

    /// Puts down what the role says to it.
    fn drain(&mut self);

    /// The lines of the script so far.
    fn said(&mut self) -> &mut String;
}

/// The script with what is said in place of what was expected to be said.
pub(crate) fn play(script: &str, mut player: impl Player) -> String {
    for (number, line) in script.lines().enumerate() {
        let event = line.strip_prefix("> ");
        if event.is_some() || line.is_empty() || line.starts_with('#') {
            writeln!(player.said(), "{line}").unwrap();
        }
        if let Some(event) = event {
            player.event(event).unwrap_or_else(|| panic!("line {}: cannot read {line:?}", number + 1));
            player.drain();
        }
    }
    std::mem::take(player.said())
}

/// Plays the scripts whose names begin with `prefix`, each with a role of its own.
pub(crate) fn play_all<P: Player>(prefix: &str, begin: impl Fn() -> P) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/conversations");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut scripts: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "no scripts are called {prefix}*");
    let mut differing = Vec::new();
    for path in scripts {
        let expected = fs::read_to_string(&path).unwrap();
        let played = play(&expected, begin());
        if played != expected && env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &played).unwrap();
        } else if played != expected {
            let line = played.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
            let at = |text: &str| text.lines().nth(line).unwrap_or("the end").to_owned();
            let (path, expected, played) = (path.display(), at(&expected), at(&played));
            differing.push(format!("{path}:{}:\n  expected {expected}\n  got      {played}", line + 1));
        }
    }
    assert!(differing.is_empty(), "{}\nUPDATE_EXPECT=1 takes over what was said", differing.join("\n"));
}
