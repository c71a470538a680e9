//! A store, or a node of one, whose disk does its work at once and outlives it: everything that a machine on a network
//! needs of one.

pub(crate) mod job;
pub(crate) mod nodes;

use bytes::Bytes;
use machine::{Goodbye, Machine, Output, Parcel, Port};
use messages::ToNode;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use store::{Checkpoint, Config, DiskDone, DiskWork, HomePage, Opened, Record, Store};
use types::{ClusterId, Incarnation, Life, PageId, Position, Time, Version};

const LOG_BYTES: u64 = 1 << 30;

/// The parts that survive a crash.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    log: BTreeMap<Position, Record>,
    home: BTreeMap<PageId, (Version, Bytes)>,
    checkpoint: Checkpoint,
    incarnation: u64,
}

/// One store with its disk.
#[derive(Debug)]
pub(crate) struct Stored {
    store: Store,
    disk: Arc<Mutex<Disk>>,
    now: Time,
    /// The messages of a node on its links, which the test carries.
    said: VecDeque<(Port, ToNode)>,
}

impl Disk {
    /// The disk of a node of several, where these pages of space 0 exist.
    pub(crate) fn of_several(pages: u32) -> Self {
        let checkpoint = Checkpoint { next_pages: vec![(0, pages)], ..Checkpoint::default() };
        Self { checkpoint, ..Self::default() }
    }

    fn bytes_free(&self) -> u64 {
        LOG_BYTES - self.log.values().map(Record::bytes_bound).sum::<u64>()
    }

    fn carry_out(&mut self, work: DiskWork) -> DiskDone {
        match work {
            DiskWork::Append(position, record) => {
                self.log.insert(position, record);
                DiskDone::Durable { through: position, log_bytes_free: self.bytes_free() }
            }
            DiskWork::Free(position) => {
                self.log = self.log.split_off(&position);
                DiskDone::Freed { log_bytes_free: self.bytes_free() }
            }
            DiskWork::ReadLog => {
                let records = self.log.iter().map(|(&position, record)| (position, record.clone())).collect();
                DiskDone::Log { records, is_last: true }
            }
            DiskWork::MakeRoom(_) => DiskDone::Freed { log_bytes_free: self.bytes_free() },
            DiskWork::Read(pages) => {
                DiskDone::Pages(pages.into_iter().map(|page| (page, self.home.get(&page).cloned())).collect())
            }
            DiskWork::Install(images, checkpoint) => {
                self.home.extend(images.into_iter().map(|home| (home.page, (home.version, home.image))));
                self.checkpoint = checkpoint;
                DiskDone::Installed
            }
        }
    }
}

impl Stored {
    /// A store that finds what its disk has.
    pub(crate) fn open(config: Config, disk: Arc<Mutex<Disk>>) -> Self {
        let store = {
            let mut disk = disk.lock().unwrap();
            disk.incarnation += 1;
            let home = |(&page, (version, image)): (&PageId, &(Version, Bytes))| HomePage {
                page,
                version: *version,
                bytes: image.len() as u32,
            };
            let opened = Opened {
                cluster: ClusterId(7),
                incarnation: Incarnation(disk.incarnation),
                life: Life(disk.incarnation),
                checkpoint: disk.checkpoint.clone(),
                pages: disk.home.iter().map(home).collect(),
                log_bytes_free: disk.bytes_free(),
            };
            let mut store = Store::new(config, opened);
            disk.log.iter().for_each(|(position, record)| store.recover(*position, record.clone()));
            store
        };
        Self { store, disk, now: Time::ZERO, said: VecDeque::new() }
    }

    /// The store of a node.
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The messages of the node on its links.
    pub(crate) fn said(&mut self) -> VecDeque<(Port, ToNode)> {
        std::mem::take(&mut self.said)
    }
}

impl Machine for Stored {
    fn start(&mut self, now: Time) {
        self.now = now;
        Machine::start(&mut self.store, now);
    }

    fn connected(&mut self, now: Time, port: Port) {
        self.now = now;
        Machine::connected(&mut self.store, now, port);
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        self.now = now;
        Machine::disconnected(&mut self.store, now, port);
    }

    fn has_room(&mut self, port: Port) {
        Machine::has_room(&mut self.store, port);
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        self.now = now;
        Machine::handle(&mut self.store, now, port, message);
    }

    fn stop(&mut self, why: &str) {
        Machine::stop(&mut self.store, why);
    }

    /// Everything that a message waits for is durable when it is said.
    fn poll_output(&mut self) -> Option<Output> {
        loop {
            match Machine::poll_output(&mut self.store)? {
                Output::Disk(work) => {
                    let done = self.disk.lock().unwrap().carry_out(work.open().expect("a store's work"));
                    self.store.disk(self.now, done);
                }
                Output::Send(port @ (Port::Upstream(_) | Port::FromNode(_)), message, _) => {
                    self.said.push_back((port, message.open().expect("a message to a node")));
                }
                Output::End(port @ (Port::Upstream(_) | Port::FromNode(_)), reason, text) => {
                    self.said.push_back((port, Goodbye { reason, text }.into()));
                }
                // The test links the nodes.
                Output::Open(..) | Output::Close(_) => {}
                Output::Send(port, message, _) => return Some(Output::Send(port, message, None)),
                other => return Some(other),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        Machine::poll_timeout(&self.store)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        Machine::handle_timeout(&mut self.store, now);
    }
}
