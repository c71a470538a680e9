//! Tools of the tests: folders, servers, the programs of others, random numbers.

use fixtures::installed::{has, succeed};
use fixtures::nbd_client::{Client, Command as Ask, Reply};
use nbd::Device;
use nbd::{Address, Export, Server, ServerConfig};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// A folder that goes with the test.
pub(crate) struct Folder(fixtures::Folder);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(fixtures::Folder::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn socket(&self) -> Address {
        Address::Unix(self.path("nbd"))
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
    has(name).then(|| Command::new(name))
}

/// Runs a program that has to succeed; gives what it printed.
pub(crate) fn run<'a>(mut program: Command, args: impl IntoIterator<Item = &'a str>) -> String {
    succeed(program.args(args)).unwrap_or_else(|why| panic!("{program:?}: {why}"))
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
