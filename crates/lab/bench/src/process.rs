//! A role of Thorp in a process of its own, as a user would start it.

use crate::Result;
use crate::children::Started;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// How the program is run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program: `thorp`.
    pub path: PathBuf,
    /// Words before it, which run it somewhere else: in a network namespace, say.
    pub run: Vec<String>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Program {
    fn from(path: &P) -> Self {
        Self { path: path.as_ref().into(), run: Vec::new() }
    }
}

impl Program {
    /// A command that runs it, with all its ends captured.
    pub fn command(&self) -> Command {
        let path = OsString::from(&self.path);
        let mut words = self.run.iter().map(OsString::from).chain([path]);
        let mut command = Command::new(words.next().expect("the program is one of them"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A running process that says in lines of JSON what becomes of it. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Started,
    /// `None` when nobody listens any more.
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it. `what` it is begins the line that says why it did not start.
    ///
    /// # Errors
    /// Its own words for why it did not start.
    pub fn start(command: &mut Command, what: &str) -> Result<(Self, Value)> {
        let mut child = Started::spawn(command, Signal::KILL)?;
        let stdout = child.stdout.take().ok_or("the output of a process was not captured")?;
        let mut process = Self { child, stdout: Some(BufReader::new(stdout)) };
        match process.hear() {
            Ok(ready) => Ok((process, ready)),
            Err(line) => Err(process.why_not_ready(what, &line)),
        }
    }

    /// The next line that it says; as it is, if it is no JSON.
    pub(crate) fn hear(&mut self) -> std::result::Result<Value, String> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            let _ = stdout.read_line(&mut line);
        }
        serde_json::from_str(&line).map_err(|_| line)
    }

    /// Lets it say what it likes, to nobody: without that it would wait when there is no more room for its words.
    pub fn ignore(&mut self) {
        fn drain(mut words: impl Read + Send + 'static) {
            thread::spawn(move || io::copy(&mut words, &mut io::sink()));
        }
        self.stdout.take().into_iter().for_each(drain);
        self.child.stderr.take().into_iter().for_each(drain);
    }

    /// Its standard input ends, and with it a process that was told so.
    pub fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it where it is, or lets it continue.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.child.signal(signal)?)
    }

    /// SIGKILL: the process does not get to do anything more.
    ///
    /// # Errors
    /// It has ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.child.signal(Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it ends by itself. Returns whether all was well.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn wait(&mut self) -> Result<bool> {
        Ok(self.child.wait()?.success())
    }

    /// Takes the process's own words for why it did not start.
    pub(crate) fn why_not_ready(mut self, what: &str, line: &str) -> crate::Error {
        let _ = self.child.signal(Signal::KILL);
        let mut words = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut words);
        }
        match words.trim() {
            "" => format!("{what} did not start; it said `{}`", line.trim()).into(),
            words => format!("{what} did not start: {words}").into(),
        }
    }
}

/// Where a process says that it listens.
pub(crate) fn listening(ready: &Value) -> Result<SocketAddr> {
    let address = ready["listen"].as_str().and_then(|address| address.parse().ok());
    address.ok_or_else(|| format!("a process said that it is ready, and not where: {ready}").into())
}

/// An address on loopback that nobody uses, for a process that will be killed and started again.
///
/// The system's own choice would not do: it is out of the range from which connections take their own ends, and a
/// client that calls a dead store there again and again may end up connected to itself, and keep the port.
pub fn lasting_address() -> Result<SocketAddr> {
    const RANGE: std::ops::Range<u32> = 20_000..32_000;
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() * 7;
    for _ in RANGE {
        // None is given twice, although nobody may listen there yet.
        let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        let port = RANGE.start + (first + attempt) % RANGE.len() as u32;
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if std::net::TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no free port on loopback between 20000 and 32000".into())
}
