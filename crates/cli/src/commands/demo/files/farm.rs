//! The processes: a store, and behind each line the redirector of a group, two servers that follow the site, and, where
//! file systems can be mounted, a mount of it.

use super::super::DELAY;
use super::acknowledged::{Acknowledged, LEASE};
use super::client::{Client, Mode};
use super::content::{Content, Page};
use super::fault::{Target, Targets};
use super::mounts::Mount;
use crate::Result;
use crate::stopper::Interrupt;
use fixtures::installed::succeed;
use fixtures::mounts::has_fuse;
use fixtures::{Emulator, PATIENCE, Process, Program, lasting_address};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const SITE: &str = "demo";

const GROUPS: usize = 2;
const SERVERS_PER_GROUP: usize = 2;

/// How often servers are asked for their version.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// All processes. They end in the order of the fields: mounts and servers first, and the store last.
pub(super) struct Farm {
    mounts: Vec<Mount>,
    servers: Vec<Process>,
    redirectors: Vec<Process>,
    lines: Vec<Emulator>,
    store: Process,
    program: Program,
    dir: PathBuf,
    www: PathBuf,
    acknowledged: Acknowledged,
}

/// A publish that has begun.
pub(super) struct Publishing {
    process: Process,
    version: u64,
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
        let (mounts, servers, redirectors, lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (dir, www) = (dir.to_owned(), www.to_owned());
        let mut farm = Self {
            mounts,
            servers,
            redirectors,
            lines,
            store,
            program,
            dir,
            www,
            acknowledged: Acknowledged::default(),
        };
        farm.publish(1)?;
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
            if has_fuse() {
                let (at, cache) =
                    (farm.dir.join(format!("mount-{}", group + 1)), farm.dir.join(format!("mounted-{}", group + 1)));
                let words = ["--server", &redirector.address().to_string(), "--cache", &cache.to_string_lossy()];
                farm.mounts.push(Mount::start(&farm.program, SITE, &at, &words)?);
            }
            farm.redirectors.push(redirector);
            farm.lines.push(line);
        }
        Ok(farm)
    }

    /// Runs `thorp` with the store's address.
    fn run(&self, words: &[&str]) -> Result<String> {
        succeed(&mut self.command(words)).map_err(|why| format!("thorp {}: {why}", words.join(" ")).into())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.program.command();
        // The index of the directory goes with everything else.
        command.env("XDG_CACHE_HOME", self.dir.join("index"));
        command.args(words).args(["--json", "--server", &self.store.address().to_string()]);
        command
    }

    /// Publishes the directory in this version, and returns when that was done.
    ///
    /// # Errors
    /// Its own words for why it was not published.
    pub(super) fn publish(&self, version: u64) -> Result<Instant> {
        let publishing = self.begin_publish(version)?;
        self.end_publish(publishing)
    }

    /// Starts to publish the directory in this version.
    ///
    /// # Errors
    /// The system does not start the command.
    pub(super) fn begin_publish(&self, version: u64) -> Result<Publishing> {
        let command = self.command(&["publish", &self.www.to_string_lossy(), SITE]);
        Ok(Publishing { process: Process::spawn(command, "thorp publish")?, version })
    }

    /// Waits until it is published.
    ///
    /// # Errors
    /// Its own words for why it was not published.
    pub(super) fn end_publish(&self, Publishing { process, version }: Publishing) -> Result<Instant> {
        let ended = process.ended()?;
        let returned = self.acknowledged.add(version);
        if ended.status.success() {
            Ok(returned)
        } else {
            Err(format!("thorp publish: {}", ended.stderr.trim()).into())
        }
    }

    /// The publishes so far, for readers.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        self.acknowledged.clone()
    }

    /// Waits until every server and mount has this version.
    ///
    /// # Errors
    /// One does not have it within a minute, or the wait was interrupted.
    pub(super) fn await_version(&self, version: u64, interrupt: &Interrupt) -> Result {
        let begun = Instant::now();
        let servers =
            (0..).zip(self.addresses()).map(|(number, at)| (Target::Server(number), Place::Served(Client::new(at))));
        let mounts = (0..).zip(&self.mounts).map(|(number, mount)| (Target::Mount(number), Place::Mounted(mount.at())));
        let mut behind: Vec<_> = servers.chain(mounts).collect();
        loop {
            behind.retain_mut(|(_, place)| place.version().is_none_or(|there| there < version));
            let Some((target, _)) = behind.first() else { return Ok(()) };
            if interrupt.has_come() {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let text = format!("{target} does not have version {version} within {seconds} s of its publish");
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

    /// Compares every file at every server and mount with the newest version. Returns the first difference.
    pub(super) fn damage(&self, content: &Content) -> Option<String> {
        let mounted = |(number, mount): (usize, &Mount)| {
            let differs =
                |(path, text): &(String, String)| fs::read_to_string(mount.at().join(path)).ok().as_ref() != Some(text);
            content.files().find(differs).map(|(path, _)| format!("mount {} has another /{path}", number + 1))
        };
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
            let served = compared.into_iter().find_map(|compared| compared.join().unwrap_or_else(panicked));
            served.or_else(|| self.mounts.iter().enumerate().find_map(mounted))
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

    /// Where the site is mounted.
    pub(super) fn mounted(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().map(Mount::at)
    }

    /// The processes that can be broken.
    pub(super) fn targets(&self) -> Targets {
        let [servers, redirectors, mounts] = [self.servers.len(), self.redirectors.len(), self.mounts.len()];
        Targets { servers, redirectors, mounts }
    }

    pub(super) fn process(&mut self, target: Target) -> &mut Process {
        match target {
            Target::Server(number) => &mut self.servers[number],
            Target::Redirector(number) => &mut self.redirectors[number],
            Target::Store => &mut self.store,
            Target::Mount(number) => &mut self.mounts[number].process,
        }
    }

    pub(super) fn store_id(&self) -> u32 {
        self.store.id()
    }

    pub(super) fn redirector_ids(&self) -> String {
        ids(self.redirectors.iter())
    }

    pub(super) fn server_ids(&self) -> String {
        ids(self.servers.iter())
    }

    /// The ids of the mounts' processes, if there are any.
    pub(super) fn mount_ids(&self) -> String {
        ids(self.mounts.iter().map(|mount| &mount.process))
    }
}

/// Where the site can be read.
enum Place<'a> {
    Served(Client),
    Mounted(&'a Path),
}

impl Place<'_> {
    /// The version that a new visitor is shown, if there is an answer.
    fn version(&mut self) -> Option<u64> {
        let text = match self {
            Self::Served(server) => server.get(&Page::path(0), Mode::Navigate, "").ok()?.body,
            Self::Mounted(at) => fs::read_to_string(at.join(Page::path(0))).ok()?,
        };
        Page::read(&text).map(|page| page.version)
    }
}

fn ids<'a>(processes: impl Iterator<Item = &'a Process>) -> String {
    processes.map(|it| it.id().to_string()).collect::<Vec<_>>().join(", ")
}
