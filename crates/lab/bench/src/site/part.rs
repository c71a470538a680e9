//! A part of a web site in a process of its own, as a user would start it: an application, a watcher, a proxy.

use crate::Result;
use crate::process::{Process, Program, listening};
use rustix::process::Signal;
use std::net::SocketAddr;

/// A running part: `thorp` with a command that serves. Dropping it kills it.
#[derive(Debug)]
pub struct Part {
    what: &'static str,
    program: Program,
    arguments: Vec<String>,
    process: Process,
    address: SocketAddr,
}

impl Part {
    /// Starts it and waits until it says that it is ready. `what` it is begins the line that says why it did not start.
    ///
    /// # Errors
    /// The part's own words for why it did not start.
    pub fn start(what: &'static str, program: &Program, arguments: &[&str]) -> Result<Self> {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let (process, address) = spawn(what, program, &arguments)?;
        Ok(Self { what, program: program.clone(), arguments, process, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Stops it where it is, or lets it continue.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// SIGKILL: the process does not get to do anything more.
    ///
    /// # Errors
    /// It has ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts another one with the same words.
    ///
    /// # Errors
    /// The part's own words for why it did not start.
    pub fn start_again(&mut self) -> Result<()> {
        (self.process, self.address) = spawn(self.what, &self.program, &self.arguments)?;
        Ok(())
    }
}

fn spawn(what: &'static str, program: &Program, arguments: &[String]) -> Result<(Process, SocketAddr)> {
    let (mut process, ready) =
        Process::start(program.command().args(arguments).args(["--json", "--until-stdin-closes"]), what)?;
    // A watcher listens before it watches.
    let mut is_ready = arguments.first().is_none_or(|command| command != "watch");
    while !is_ready {
        match process.hear() {
            Ok(line) => is_ready = line["state"] == "watching",
            Err(line) => return Err(process.why_not_ready(what, &line)),
        }
    }
    process.ignore();
    Ok((process, listening(&ready)?))
}
