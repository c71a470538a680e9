//! Runs the program, to its end or beside a test.

use fixtures::installed::or_skipped;
use fixtures::{Ended, Process, Program};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) use fixtures::Folder;

/// The result of running the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The program's output, if all went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stderr: {}", self.stderr);
        assert_eq!(self.stderr, "");
        self.stdout
    }

    /// The one line that says what went wrong.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        self.line_of(1)
    }

    /// The same where the command was called wrongly.
    #[track_caller]
    pub(crate) fn usage(self) -> String {
        self.line_of(2)
    }

    #[track_caller]
    fn line_of(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stdout: {}, stderr: {}", self.stdout, self.stderr);
        let lines: Vec<_> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "one line: {}", self.stderr);
        lines[0].strip_prefix("thorp: ").unwrap_or_else(|| panic!("whose words are these: {}", lines[0])).to_owned()
    }
}

impl From<Ended> for Ran {
    fn from(ended: Ended) -> Self {
        Self { code: ended.status.code(), stdout: ended.stdout, stderr: ended.stderr }
    }
}

pub(crate) fn program() -> Program {
    Program::from(env!("CARGO_BIN_EXE_thorp"))
}

/// The program with nothing to read.
pub(crate) fn command() -> Command {
    let mut command = program().command();
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn thorp<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Ran {
    ran(command().args(words).output().unwrap())
}

/// The same with something to read.
pub(crate) fn thorp_reading<S: AsRef<OsStr>>(
    words: impl IntoIterator<Item = S>,
    input: impl AsRef<[u8]> + Send,
) -> Ran {
    let mut child = program().command().args(words).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that has read enough hangs up, which is its right.
        scope.spawn(move || drop(stdin.write_all(input.as_ref())));
        ran(child.wait_with_output().unwrap())
    })
}

/// The result of a program that has ended.
pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the program beside the test, with an input that stays open.
pub(crate) fn spawn(words: &[&str]) -> Process {
    let mut command = program().command();
    command.args(words);
    Process::spawn(command, words[0]).unwrap()
}

/// A command that serves, once it is ready.
#[track_caller]
pub(crate) fn start(words: &[&str]) -> Process {
    try_start(words).unwrap()
}

/// A command that serves; `Err` has its words if it ends before it is ready.
pub(crate) fn try_start(words: &[&str]) -> Result<Process, String> {
    program().start(words[0], words).map_err(|error| error.to_string())
}

/// A running store.
#[track_caller]
pub(crate) fn serve(folder: &Folder) -> Process {
    serve_with(folder, &[])
}

#[track_caller]
pub(crate) fn serve_with(folder: &Folder, more: &[&str]) -> Process {
    program().serve(&folder.path().join("store"), more).unwrap()
}

/// A program of others that `cargo xtask provision` has put beside the build. Where it is not there its tests are
/// skipped, but for CI, which puts it there.
pub(crate) fn tool(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join(file);
    or_skipped(path.is_file(), file).then_some(path)
}
