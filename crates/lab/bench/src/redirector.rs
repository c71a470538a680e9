//! A redirector in a process of its own: for the crash loop, the demo and tests.

use crate::Result;
use crate::process::{Process, Program, listening};
use rustix::process::Signal;
use serde_json::Value;
use std::net::SocketAddr;

/// How a redirector is started.
#[derive(Clone, Debug)]
pub struct RedirectorOptions {
    /// The program: `thorp`.
    pub program: Program,
    /// Its group's name.
    pub group: String,
    /// Where it listens; port 0 takes any.
    pub listen: SocketAddr,
    /// The store's address.
    pub store: SocketAddr,
    /// More words for the command line.
    pub arguments: Vec<String>,
}

impl RedirectorOptions {
    /// A redirector of a store, on any free port.
    pub fn new(program: impl Into<Program>, group: impl Into<String>, store: SocketAddr) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { program: program.into(), group: group.into(), listen, store, arguments: Vec::new() }
    }
}

/// A running redirector. Dropping it kills it.
#[derive(Debug)]
pub struct Redirector {
    process: Process,
    address: SocketAddr,
}

impl Redirector {
    /// Starts a redirector and waits until it leads its group.
    pub fn start(options: &RedirectorOptions) -> Result<Self> {
        let mut redirector = Self::start_aside(options)?;
        while redirector.hear()?["leads"] != options.group.as_str() {}
        Ok(redirector)
    }

    /// Starts one that does not lead, or not yet: waits until it listens.
    pub fn start_aside(options: &RedirectorOptions) -> Result<Self> {
        let RedirectorOptions { program, group, listen, store, arguments } = options;
        let mut command = program.command();
        command
            .args(["group", "--json", "--until-stdin-closes", "--name", group])
            .args(["--listen", &listen.to_string(), "--store", &store.to_string()])
            .args(arguments);
        let (process, ready) = Process::start(&mut command, "the redirector")?;
        Ok(Self { process, address: listening(&ready)? })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The redirector's next word on its state, which it gives at each change. Waits until there is something.
    pub fn hear(&mut self) -> Result<Value> {
        self.process.hear().map_err(|line| format!("the redirector has ended; it said `{}`", line.trim()).into())
    }

    /// Stops it where it is, or lets it continue.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// SIGKILL: the process does not get to do anything more.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Waits until it ends by itself. Returns whether all was well.
    pub fn wait(&mut self) -> Result<bool> {
        self.process.wait()
    }
}
