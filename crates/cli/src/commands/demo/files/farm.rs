//! The processes: a store, and behind each line the redirector of a group and two servers that follow the site.

use super::super::DELAY;
use super::client::{Client, Mode};
use super::content::{Content, Page};
use crate::Result;
use crate::stopper::Interrupt;
use fixtures::installed::succeed;
use fixtures::{Emulator, PATIENCE, Process, Program, lasting_address};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const SITE: &str = "demo";

const GROUPS: usize = 2;
const SERVERS_PER_GROUP: usize = 2;

/// The lease of the servers: without their store for longer, they say that they may be behind.
const LEASE: Duration = Duration::from_secs(1);

/// How often servers are asked for their version.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// A process to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Server,
    Redirector,
    Store,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Server, Self::Redirector, Self::Store];

    /// The fault during a publish, if it has one: each comes once, with publishes before, between and behind them.
    pub(super) fn at(publish: u32, publishes: u32) -> Option<Self> {
        let quarter = |number: usize| publishes * (number as u32 + 1) / 4;
        (0..).zip(Self::ALL).find(|(number, _)| publish == quarter(*number)).map(|(_, fault)| fault)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "A server",
            Self::Redirector => "A redirector",
            Self::Store => "The store",
        }
    }
}

/// All processes. They end in the order of the fields: servers first, and the store last.
pub(super) struct Farm {
    servers: Vec<Process>,
    redirectors: Vec<Process>,
    lines: Vec<Emulator>,
    store: Process,
    program: Program,
    dir: PathBuf,
    www: PathBuf,
}

impl Farm {
    /// Starts a store, publishes a directory, and starts the groups and their servers.
    ///
    /// # Errors
    /// A process does not start, in its own words.
    pub(super) fn start(dir: &Path, www: &Path) -> Result<Self> {
        let (program, lease) = (Program::this()?, LEASE.as_millis().to_string());
        let listen = || Ok::<_, fixtures::Error>(lasting_address()?.to_string());
        let store = program.serve(&dir.join("store"), &["--listen", &listen()?, "--site-lease-ms", &lease])?;
        let (servers, redirectors, lines) = (Vec::new(), Vec::new(), Vec::new());
        let (dir, www) = (dir.to_owned(), www.to_owned());
        let mut farm = Self { servers, redirectors, lines, store, program, dir, www };
        farm.publish()?;
        for group in 0..GROUPS {
            let line = Emulator::start(farm.store.address(), DELAY, None)?;
            let name = format!("group-{}", group + 1);
            let redirector = farm.program.group(&name, line.address(), &["--listen", &listen()?])?;
            for _ in 0..SERVERS_PER_GROUP {
                let cache = farm.dir.join(format!("server-{}", farm.servers.len() + 1));
                let (from, cache) = (redirector.address().to_string(), cache.to_string_lossy().into_owned());
                let words = ["site", "serve", SITE, "--server", &from, "--cache", &cache, "--listen", &listen()?];
                farm.servers.push(farm.program.start("a server of the site", &words)?);
            }
            farm.redirectors.push(redirector);
            farm.lines.push(line);
        }
        Ok(farm)
    }

    /// Runs `thorp` with the store's address.
    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = self.program.command();
        // The index of the directory goes with everything else.
        command.env("XDG_CACHE_HOME", self.dir.join("index"));
        command.args(words).args(["--json", "--server", &self.store.address().to_string()]);
        succeed(&mut command).map_err(|why| format!("thorp {}: {why}", words.join(" ")).into())
    }

    /// Publishes the directory, and returns when that was done.
    ///
    /// # Errors
    /// Its own words for why it was not published.
    pub(super) fn publish(&self) -> Result<Instant> {
        self.run(&["publish", &self.www.to_string_lossy(), SITE])?;
        Ok(Instant::now())
    }

    /// Waits until every server serves this version.
    ///
    /// # Errors
    /// A server does not serve it within a minute, or the wait was interrupted.
    pub(super) fn await_version(&self, version: u64, interrupt: &Interrupt) -> Result {
        let begun = Instant::now();
        let mut behind: Vec<_> = (1..).zip(self.addresses().into_iter().map(Client::new)).collect();
        loop {
            behind.retain_mut(|(_, server)| version_at(server).is_none_or(|served| served < version));
            let Some((number, _)) = behind.first() else { return Ok(()) };
            if interrupt.has_come() {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let text =
                    format!("server {number} does not serve version {version} within {seconds} s of its publish");
                return Err(format!("{text}: this is a bug in Thorp").into());
            }
            thread::sleep(ASK_EVERY);
        }
    }

    /// The newest revision of the site, as the store has it.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn revision(&self) -> Result<u64> {
        let status = self.run(&["site", "status", SITE])?;
        let first: Value = serde_json::from_str(status.lines().next().unwrap_or_default())?;
        first["revision"].as_u64().ok_or_else(|| format!("expected a revision, got: {status}").into())
    }

    /// Compares every file at every server with the newest version. Returns the first difference.
    pub(super) fn damage(&self, content: &Content) -> Option<String> {
        let compare = |number: usize, address: SocketAddr| {
            let mut server = Client::new(address);
            content.files().find_map(|(path, text)| match server.get(&path, Mode::Navigate, "") {
                Ok(answer) if answer.status == 200 && answer.body == text => None,
                Ok(answer) => Some(format!("server {} has another /{path} ({})", number + 1, answer.status)),
                Err(error) => Some(format!("server {} does not give /{path}: {error}", number + 1)),
            })
        };
        thread::scope(|scope| {
            let servers = self.addresses().into_iter().enumerate();
            let compared: Vec<_> = servers.map(|(number, at)| scope.spawn(move || compare(number, at))).collect();
            let panicked = |_| Some("a comparison has panicked".to_owned());
            compared.into_iter().find_map(|compared| compared.join().unwrap_or_else(panicked))
        })
    }

    /// Has `thorp site verify` read every chunk of the store. Returns how many are whole.
    ///
    /// # Errors
    /// Its own words for the chunks that are missing or damaged.
    pub(super) fn verify(&self) -> Result<u64> {
        let said = self.run(&["site", "verify", SITE])?;
        let last: Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
        last["whole"].as_u64().ok_or_else(|| format!("expected a count of chunks, got: {said}").into())
    }

    /// The bytes that have crossed each line so far, in both directions.
    pub(super) fn line_bytes(&self) -> Vec<u64> {
        self.lines.iter().map(|line| line.tally().bytes_up + line.tally().bytes_down).collect()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Process::address).collect()
    }

    /// The process that a fault kills.
    pub(super) fn process(&mut self, fault: Fault) -> &mut Process {
        match fault {
            Fault::Server => &mut self.servers[0],
            // The other group's.
            Fault::Redirector => &mut self.redirectors[1],
            Fault::Store => &mut self.store,
        }
    }

    pub(super) fn store_id(&self) -> u32 {
        self.store.id()
    }

    pub(super) fn redirector_ids(&self) -> String {
        ids(&self.redirectors)
    }

    pub(super) fn server_ids(&self) -> String {
        ids(&self.servers)
    }
}

/// The version that a server shows to a new visitor, if it answers.
fn version_at(server: &mut Client) -> Option<u64> {
    let answer = server.get(&Page::path(0), Mode::Navigate, "").ok()?;
    Page::read(&answer.body).map(|page| page.version)
}

fn ids(processes: &[Process]) -> String {
    processes.iter().map(|it| it.id().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_comes_once_however_few_publishes_there_are() {
        for publishes in 4..50 {
            let faults: Vec<_> = (1..=publishes).filter_map(|publish| Fault::at(publish, publishes)).collect();
            assert_eq!(faults, Fault::ALL, "{publishes}");
            assert_eq!(Fault::at(publishes, publishes), None);
        }
    }
}
