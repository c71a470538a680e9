//! A store in a process of its own: for measurements, the crash loop, the demo and tests.

use crate::Result;
use crate::process::{Process, Program, listening};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How a store is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The program: `thorp`.
    pub program: Program,
    /// The store's directory.
    pub dir: PathBuf,
    /// Where it listens; port 0 takes any.
    pub listen: SocketAddr,
    /// More words for the command line.
    pub arguments: Vec<String>,
}

impl ServerOptions {
    /// A store in `dir`, on any free port.
    pub fn new(program: impl Into<Program>, dir: impl Into<PathBuf>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { program: program.into(), dir: dir.into(), listen, arguments: Vec::new() }
    }
}

/// A running store. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    process: Process,
    ready: Value,
    address: SocketAddr,
}

impl Server {
    /// Starts a store and waits until it says that it is ready.
    pub fn start(options: &ServerOptions) -> Result<Self> {
        let mut command = options.program.command();
        command
            .args(["serve", "--json", "--until-stdin-closes", "--listen", &options.listen.to_string(), "--dir"])
            .arg(&options.dir)
            .args(&options.arguments);
        let (process, ready) = Process::start(&mut command, "the store")?;
        Ok(Self { process, address: listening(&ready)?, ready })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The line that it printed when it was ready.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// The most memory that the process has held so far, in bytes; `None` where the system does not say.
    pub fn memory_bytes_max(&self) -> Option<u64> {
        memory_bytes_max(&self.pid().to_string())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL: the process does not get to do anything more.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}

/// The most memory that a process has held so far, in bytes. `pid` may be `self`.
pub(crate) fn memory_bytes_max(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
