//! Runs the program, and gives each test a folder of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thorp-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it, as a word for a command line.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

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

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thorp"));
    command.env_remove("THORP_SERVER").env_remove("THORP_DIR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
    let mut child = command().args(words).stdin(Stdio::piped()).spawn().unwrap();
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

/// A running store.
pub(crate) fn serve(folder: &Folder) -> bench::Server {
    bench::Server::start(&options(folder)).unwrap()
}

pub(crate) fn options(folder: &Folder) -> bench::ServerOptions {
    bench::ServerOptions::new(env!("CARGO_BIN_EXE_thorp"), folder.path().join("store"))
}

/// Whether a program of others is there. Where it is not its tests are skipped, but for CI, which installs it.
pub(crate) fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    assert!(is_there || std::env::var_os("CI").is_none(), "{name} is not installed");
    if !is_there {
        eprintln!("skipped: {name} is not installed");
    }
    is_there
}

/// A program of others that `cargo xtask provision` has put beside the build. Where it is not there its tests are
/// skipped, but for CI, which puts it there.
pub(crate) fn tool(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join(file);
    assert!(path.is_file() || std::env::var_os("CI").is_none(), "{} is not installed", path.display());
    if !path.is_file() {
        eprintln!("skipped: `cargo xtask provision` has not installed {file}");
    }
    path.is_file().then_some(path)
}
