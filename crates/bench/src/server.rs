//! A store in a process of its own, as a user would start it: for measurements, the crash loop, the demo and tests.

use crate::Result;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// How a store is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The program: `thorp`.
    pub program: PathBuf,
    /// The store's directory.
    pub dir: PathBuf,
    /// Where it listens; port 0 takes any.
    pub listen: SocketAddr,
    /// More words for the command line.
    pub arguments: Vec<String>,
}

impl ServerOptions {
    /// A store in `dir`, on any free port.
    pub fn new(program: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { program: program.into(), dir: dir.into(), listen, arguments: Vec::new() }
    }
}

/// A running store. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ready: Value,
    address: SocketAddr,
    /// Kept open: a store whose output nobody takes would end when it says that it closes.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a store and waits until it says that it is ready.
    pub fn start(options: &ServerOptions) -> Result<Self> {
        let mut child = Command::new(&options.program)
            .args(["serve", "--json", "--until-stdin-closes", "--listen", &options.listen.to_string(), "--dir"])
            .arg(&options.dir)
            .args(&options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the store's output was not captured")?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line)?;
        match ready(&line) {
            Some((ready, address)) => Ok(Self { child, ready, address, _stdout: stdout }),
            None => Err(why_not_ready(child, &line)),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it said when it was ready.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// The most memory that the process has held so far, in bytes; `None` where the system does not say.
    pub fn memory_bytes_max(&self) -> Option<u64> {
        memory_bytes_max(&self.child.id().to_string())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: the process does not get to do anything more.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory that a process has held so far, in bytes. `pid` may be `self`.
pub(crate) fn memory_bytes_max(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn ready(line: &str) -> Option<(Value, SocketAddr)> {
    let ready: Value = serde_json::from_str(line).ok()?;
    let address = ready["listen"].as_str()?.parse().ok()?;
    Some((ready, address))
}

/// Takes the store's own words for why it did not start.
fn why_not_ready(mut child: Child, line: &str) -> crate::Error {
    let _ = child.kill();
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut words);
    }
    let _ = child.wait();
    match words.trim() {
        "" => format!("the store did not start; it said `{}`", line.trim()).into(),
        words => format!("the store did not start: {words}").into(),
    }
}

/// An address on loopback that nobody uses, for a store that will be killed and started again.
///
/// The system's own choice would not do: it is out of the range from which connections take their own ends, and a
/// client that calls a dead store there again and again may end up connected to itself, and keep the port.
pub fn lasting_address() -> Result<SocketAddr> {
    const RANGE: std::ops::Range<u32> = 20_000..32_000;
    let first = std::process::id() * 7;
    for attempt in 0..RANGE.len() as u32 {
        let port = RANGE.start + (first + attempt) % RANGE.len() as u32;
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if std::net::TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no free port on loopback between 20000 and 32000".into())
}
