//! Tools of the tests: folders, servers, the programs of others, random numbers.

use fixtures::nbd_client::{Client, Command as Ask, Reply};
use nbd::Device;
use nbd::{Address, Export, Server, ServerConfig};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let name = format!("thorp-nbd-{}-{}", std::process::id(), LAST.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn socket(&self) -> Address {
        Address::Unix(self.path("nbd"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn export(device: Arc<dyn Device>) -> Vec<Export> {
    vec![Export { name: "disk".to_owned(), description: "a disk for tests".to_owned(), device }]
}

/// A server of one device, at a socket of its own.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) address: Address,
    pub(crate) folder: Folder,
}

impl Rig {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        let folder = Folder::new();
        let address = folder.socket();
        let server = Server::start(&ServerConfig::new(address.clone()), export(device)).unwrap();
        Self { server, address, folder }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.address, "disk").unwrap()
    }

    pub(crate) fn uri(&self) -> String {
        self.address.to_string()
    }
}

/// Asks, and expects success.
pub(crate) fn ask(client: &mut Client, command: &Ask<'_>) -> Reply {
    let reply = client.call(command).unwrap();
    assert_eq!(reply.error, 0, "{command:?}: {}", reply.text);
    reply
}

/// A program of others. Where it is not installed its tests are skipped, but for CI, which installs it.
pub(crate) fn program(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file());
    assert!(is_there || std::env::var_os("CI").is_none(), "{name} is not installed");
    if !is_there {
        eprintln!("skipped: {name} is not installed");
    }
    is_there.then(|| Command::new(name))
}

/// Runs a program that has to succeed; gives what it printed.
pub(crate) fn run<'a>(mut program: Command, args: impl IntoIterator<Item = &'a str>) -> String {
    let output = program.args(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        types::splitmix(&mut self.0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}
