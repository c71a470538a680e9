//! A volume with copies at holders, over TCP: what was promised is at home or at a holder, whoever has died.

use super::{AttachConfig, Attached, CopiesConfig};
use crate::extents::BLOCK;
use crate::holder::tests::{Party, Scratch, settings};
use crate::holder::{HolderNames, HolderServer};
use crate::home::create_home;
use machines::messages::holder::{Content, VolumeId};
use machines::{Ack, Change, Degraded, Epoch, HostId, Registered, View};
use nbd::{Answer, Device, Errno, Form, Operation, Piece, Replies, Request, Ticket};
use net::Runtime;
use registry::{MemoryRegistry, Registry};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const VOLUME: VolumeId = VolumeId(7);
const SIZE: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_millis(600);

struct World {
    scratch: Scratch,
    runtime: Runtime,
    registry: MemoryRegistry,
}

/// A holder, and its way to the registry.
struct Peer {
    server: HolderServer,
    registry: MemoryRegistry,
}

impl Peer {
    /// Dies without a word.
    fn kill(self) {
        self.registry.cut_off(true);
    }
}

struct Answers(Mutex<Sender<(u64, Result<Answer, Errno>)>>);

impl Replies for Answers {
    fn done(&self, ticket: Ticket, outcome: Result<Answer, Errno>) {
        // A test that has ended does not want to know.
        let _ = self.0.lock().unwrap().send((ticket.cookie, outcome));
    }
    fn send(&self) {}
    fn stalls(&self) {}
}

fn request(attached: &Attached, operation: Operation) -> Result<Answer, Errno> {
    let (sender, answers) = channel();
    let replies: Arc<dyn Replies> = Arc::new(Answers(Mutex::new(sender)));
    let ticket = Ticket { cookie: 1, offset: 0, len: 0, form: Form::Simple };
    attached.submit(&mut vec![Request { ticket, operation }], &replies);
    answers.recv_timeout(PATIENCE).expect("it is answered").1
}

fn write(attached: &Attached, block: u64, version: u64) -> Result<(), Errno> {
    let data = version.to_le_bytes().repeat(BLOCK / 8).into();
    request(attached, Operation::Write { offset: block * BLOCK as u64, data, fua: false }).map(drop)
}

fn flush(attached: &Attached) -> Result<(), Errno> {
    request(attached, Operation::Flush).map(drop)
}

fn version_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

impl World {
    fn new(name: &str, copies: u8) -> Self {
        let (scratch, runtime, registry) = (Scratch::new(name), Runtime::start().unwrap(), MemoryRegistry::new());
        create_home(&scratch.0.join("disk"), SIZE).unwrap();
        registry.create(VOLUME, Registered::new(SIZE, copies, LEASE));
        Self { scratch, runtime, registry }
    }

    fn entry(&self) -> Registered {
        self.registry.view(VOLUME).unwrap().entry
    }

    fn holder_at(&self, name: &str, room: u64, listen: &str) -> Peer {
        let dir = self.scratch.0.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let begun = Instant::now();
        let server = loop {
            let listen = listen.parse().unwrap();
            let settings = crate::HolderSettings { listen, ..settings(&dir, room) };
            match HolderServer::start(&settings, &self.runtime) {
                Ok(server) => break server,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let registry = self.registry.clone();
        let names = HolderNames { name: name.into(), domain: name.into(), address: server.address().to_string() };
        server.register(Arc::new(registry.clone()), names).unwrap();
        Peer { server, registry }
    }

    fn holder(&self, name: &str) -> Peer {
        self.holder_at(name, 64 << 20, "127.0.0.1:0")
    }

    fn claim(&self, host: u64) -> View {
        let View { revision, entry } = self.registry.view(VOLUME).unwrap();
        let entry = Registered {
            epoch: entry.epoch.next(),
            owner: Some(HostId(host)),
            heartbeat: entry.heartbeat + 1,
            ..entry
        };
        self.registry.change(VOLUME, Change { expects: revision, entry }).unwrap()
    }

    fn attach(&self, ack: Ack, registry: Arc<MemoryRegistry>) -> Attached {
        self.attach_patient(ack, registry, Duration::from_millis(100))
    }

    fn attach_patient(&self, ack: Ack, registry: Arc<MemoryRegistry>, lease_patience: Duration) -> Attached {
        let copies = CopiesConfig {
            registry,
            runtime: self.runtime.clone(),
            volume: VOLUME,
            host: HostId(1),
            domain: 1,
            view: self.claim(1),
            spare_holders: 0,
            more_copies_after: 0,
            degraded: Degraded::WriteThrough,
            silence: Duration::from_secs(5),
            replace_after: Duration::from_millis(700),
            lease_patience,
        };
        let config = AttachConfig {
            log_bytes: 32 << 20,
            clean_bytes: 4 << 20,
            ack,
            age_max: Duration::from_secs(3600),
            copies: Some(copies),
            ..AttachConfig::new(self.scratch.0.join("disk"), self.scratch.0.join("cache"))
        };
        Attached::attach(&config).unwrap()
    }

    fn attach_with(&self, ack: Ack) -> Attached {
        let attached = self.attach(ack, Arc::new(self.registry.clone()));
        wait_for("copies are available", || !attached.status().is_degraded);
        attached
    }

    /// The newest version of each block that is at home or at this holder, which is asked under a newer epoch.
    fn newest(&self, holder: &HolderServer) -> BTreeMap<u64, u64> {
        let mut newest = BTreeMap::new();
        let home = std::fs::read(self.scratch.0.join("disk")).unwrap();
        for (block, bytes) in home.chunks(BLOCK).enumerate() {
            newest.insert(block as u64, version_of(bytes));
        }
        let epoch = self.entry().epoch.next();
        for (block, content) in Party::new(holder, &self.runtime).take_over_blocks(VOLUME, epoch.0) {
            if let Content::Data(data) = content.expect("it is there") {
                for (at, bytes) in data.chunks(BLOCK).enumerate() {
                    let newest = newest.entry(block / BLOCK as u64 + at as u64).or_default();
                    *newest = version_of(bytes).max(*newest);
                }
            }
        }
        newest
    }
}

#[track_caller]
fn assert_kept(newest: &BTreeMap<u64, u64>, promised: impl IntoIterator<Item = (u64, u64)>) {
    for (block, version) in promised {
        assert!(
            newest[&block] >= version,
            "block {block} is at version {} where {version} was promised",
            newest[&block]
        );
    }
}

#[test]
fn what_was_promised_is_at_the_holder_when_the_owner_and_its_cache_are_gone() {
    let world = World::new("promised", 2);
    let holder = world.holder("one");
    for (round, ack) in [(0, Ack::Write), (1, Ack::Flush)] {
        let attached = world.attach_with(ack);
        assert_eq!(world.entry().holders, [holder.server.partition()]);
        let versions = |block| round * 1000 + block + 1;
        for block in 0..100 {
            write(&attached, block, versions(block)).unwrap();
        }
        flush(&attached).unwrap();
        drop(attached);
        std::fs::remove_dir_all(world.scratch.0.join("cache")).unwrap();
        assert_kept(&world.newest(&holder.server), (0..100).map(|block| (block, versions(block))));
        // The registry is as a takeover would have left it.
        let View { revision, mut entry } = world.registry.view(VOLUME).unwrap();
        (entry.epoch, entry.owner, entry.holders) = (entry.epoch.next(), None, Vec::new());
        world.registry.change(VOLUME, Change { expects: revision, entry }).unwrap();
        wait_for("nobody counts them", || holder.server.status().used == 0);
    }
}

#[test]
fn heartbeats_have_the_writes_that_holders_have_acknowledged() {
    let world = World::new("heartbeats", 2);
    let holder = world.holder("one");
    let attached = world.attach_with(Ack::Flush);
    for block in 0..20 {
        write(&attached, block, 1).unwrap();
    }
    flush(&attached).unwrap();
    let partition = holder.server.partition();
    let through = || world.entry().acknowledged.iter().find(|it| it.partition == partition).map(|it| it.through.0);
    wait_for("a heartbeat has them", || through() == Some(20));
    attached.detach().unwrap();
    assert_eq!(world.entry().acknowledged, []);
}

#[test]
fn a_volume_goes_on_while_its_holder_is_killed_and_the_holder_catches_up_when_it_is_back() {
    let world = World::new("killed", 2);
    let mut holder = world.holder("one");
    let attached = world.attach_with(Ack::Write);
    let mut version = 0;
    for round in 0..6 {
        for block in 0..40 {
            version += 1;
            write(&attached, block * 3 + round, version).unwrap();
        }
        if round % 2 == 0 {
            holder.kill();
            // With nobody to copy to, a write is answered when it is written back.
            version += 1;
            write(&attached, 500 + round, version).unwrap();
            wait_for("it says so", || attached.status().is_degraded);
            let home = std::fs::read(world.scratch.0.join("disk")).unwrap();
            assert_eq!(version_of(&home[(500 + round as usize) * BLOCK..]), version);
            holder = world.holder("one");
            wait_for("it ends by itself", || !attached.status().is_degraded);
        }
    }
    drop(attached);
    let newest = world.newest(&holder.server);
    assert_eq!(newest.values().max(), Some(&version), "the last write is at home or at the holder");
    assert_eq!(newest[&(39 * 3 + 5)], version);
}

#[test]
fn a_lost_holder_is_replaced_and_forgotten_when_all_is_at_another() {
    let world = World::new("replaced", 2);
    let first = world.holder("one");
    let attached = world.attach_with(Ack::Write);
    for block in 0..200 {
        write(&attached, block, 1).unwrap();
    }
    let second = world.holder("two");
    first.kill();
    wait_for("the other one takes its place", || world.entry().holders == [second.server.partition()]);
    wait_for("there are as many copies again", || !attached.status().is_degraded);
    for block in 0..50 {
        write(&attached, block, 2).unwrap();
    }
    drop(attached);
    let promised = (0..200).map(|block| (block, if block < 50 { 2 } else { 1 }));
    assert_kept(&world.newest(&second.server), promised);
}

#[test]
fn a_holder_that_leaves_is_empty_when_its_copies_are_elsewhere() {
    let world = World::new("leaves", 2);
    let first = world.holder("one");
    let attached = world.attach_with(Ack::Flush);
    for block in 0..200 {
        write(&attached, block, 1).unwrap();
    }
    flush(&attached).unwrap();
    assert!(first.server.status().used > 0);
    let second = world.holder("two");
    first.server.leave();
    wait_for("it is empty", || first.server.status().used == 0);
    assert_eq!(world.entry().holders, [second.server.partition()]);
    drop(attached);
    assert_kept(&world.newest(&second.server), (0..200).map(|block| (block, 1)));
}

#[test]
fn a_small_holder_slows_writers_down_and_loses_nothing() {
    let world = World::new("small", 2);
    let holder = world.holder_at("one", 16 << 20, "127.0.0.1:0");
    let attached = world.attach_with(Ack::Flush);
    for at in 0..256u64 {
        let data = (at + 1).to_le_bytes().repeat((128 << 10) / 8).into();
        request(&attached, Operation::Write { offset: at * (128 << 10), data, fua: false }).unwrap();
    }
    attached.detach().unwrap();
    let home = std::fs::read(world.scratch.0.join("disk")).unwrap();
    for (at, bytes) in (1u64..=256).zip(home.chunks(128 << 10)) {
        assert_eq!(bytes, at.to_le_bytes().repeat((128 << 10) / 8), "piece {at}");
    }
    let entry = world.entry();
    assert_eq!((entry.owner, entry.holders), (None, vec![]));
    wait_for("nothing of it is needed", || holder.server.status().used == 0);
}

#[test]
fn a_holder_that_lost_its_disk_counts_for_nothing_under_its_old_name() {
    let world = World::new("disk", 2);
    let holder = world.holder("one");
    let (partition, address) = (holder.server.partition(), holder.server.address());
    let attached = world.attach_with(Ack::Write);
    (0..50).for_each(|block| write(&attached, block, 1).unwrap());
    holder.kill();
    std::fs::remove_dir_all(world.scratch.0.join("one")).unwrap();
    // It is reached where the one before was, which the registry still names for a while.
    let holder = empty_at(&world, address);
    assert_ne!(holder.server.partition(), partition);
    for block in 0..50 {
        write(&attached, block, 2).unwrap();
    }
    wait_for("it is a holder under its own name", || world.entry().holders == [holder.server.partition()]);
    wait_for("it has all that is dirty", || !attached.status().is_degraded);
    (0..10).for_each(|block| write(&attached, block, 3).unwrap());
    drop(attached);
    assert_kept(&world.newest(&holder.server), (0..50).map(|block| (block, if block < 10 { 3 } else { 2 })));
}

fn empty_at(world: &World, address: SocketAddr) -> Peer {
    world.holder_at("one", 64 << 20, &address.to_string())
}

#[test]
fn an_owner_that_was_taken_over_from_answers_nothing_any_more() {
    let world = World::new("ended", 2);
    let holder = world.holder("one");
    let attached = world.attach_with(Ack::Write);
    write(&attached, 1, 1).unwrap();
    // Another host has waited for its lease, as far as the registry is concerned.
    let view = world.claim(2);
    let mut taker = Party::new(&holder.server, &world.runtime);
    taker.take_over_blocks(VOLUME, view.entry.epoch.0);
    wait_for("it hears of that", || attached.status().failed.is_some());
    let why = attached.status().failed.unwrap();
    assert!(why.contains("another host's since epoch 2"), "{why}");
    assert!(write(&attached, 1, 2).is_err() && flush(&attached).is_err());
    let read = Operation::Read { offset: BLOCK as u64, len: BLOCK as u32 };
    assert!(request(&attached, read).is_err());
    assert!(attached.detach().is_err());
}

#[test]
fn an_owner_without_its_registry_answers_nothing_after_its_lease_and_goes_on_when_it_is_back() {
    let world = World::new("cut", 2);
    let _holder = world.holder("one");
    let registry = Arc::new(world.registry.clone());
    let attached = world.attach(Ack::Write, registry.clone());
    wait_for("copies are available", || !attached.status().is_degraded);
    write(&attached, 1, 1).unwrap();
    let read = || request(&attached, Operation::Read { offset: BLOCK as u64, len: BLOCK as u32 });
    // Where there are zeros is an answer of the volume as well.
    let extents = || request(&attached, Operation::Extents { offset: 0, len: SIZE, one: false });
    assert!(read().is_ok() && extents().is_ok());
    registry.cut_off(true);
    thread::sleep(LEASE);
    assert_eq!((read(), write(&attached, 1, 2)), (Err(Errno::Io), Err(Errno::Io)));
    assert_eq!(extents(), Err(Errno::Io));
    registry.cut_off(false);
    wait_for("it has a lease again", || read().is_ok());
    write(&attached, 1, 3).unwrap();
    let read = read().unwrap();
    assert!(matches!(read, Answer::Read(pieces) if matches!(&pieces[0], Piece::Data(data) if version_of(data) == 3)));
}

/// The registry's store is put back from an older copy: the owner has its entry put there again.
#[test]
fn an_owner_goes_on_when_its_registry_has_gone_back() {
    let world = World::new("back", 2);
    let _holder = world.holder("one");
    let attached = world.attach_patient(Ack::Write, Arc::new(world.registry.clone()), PATIENCE);
    wait_for("copies are available", || !attached.status().is_degraded);
    let older = world.registry.view(VOLUME).unwrap();
    write(&attached, 1, 1).unwrap();
    wait_for("it has said more", || world.registry.view(VOLUME).unwrap().revision > older.revision + 2);
    world.registry.go_back(VOLUME, older.clone());
    wait_for("its entry is there again", || world.registry.view(VOLUME).unwrap().revision > older.revision + (1 << 31));
    assert_eq!(world.entry().holders, older.entry.holders);
    write(&attached, 1, 2).unwrap();
    assert_eq!(attached.status().registry_error, None);
    attached.detach().unwrap();
    assert_eq!((world.entry().owner, world.entry().epoch), (None, older.entry.epoch));
}

/// A line that is cut for a moment fails no request.
#[test]
fn requests_wait_for_the_lease() {
    let world = World::new("patient", 2);
    let _holder = world.holder("one");
    let registry = Arc::new(world.registry.clone());
    let attached = world.attach_patient(Ack::Flush, registry.clone(), PATIENCE);
    wait_for("copies are available", || !attached.status().is_degraded);
    write(&attached, 1, 1).unwrap();
    registry.cut_off(true);
    thread::sleep(LEASE);
    thread::scope(|scope| {
        let read = || request(&attached, Operation::Read { offset: BLOCK as u64, len: BLOCK as u32 });
        let extents = || request(&attached, Operation::Extents { offset: 0, len: SIZE, one: false });
        let requests = [
            scope.spawn(move || read().is_ok()),
            scope.spawn(|| write(&attached, 2, 2).is_ok()),
            scope.spawn(move || extents().is_ok()),
        ];
        thread::sleep(LEASE);
        assert!(requests.iter().all(|request| !request.is_finished()), "the volume may be another host's");
        registry.cut_off(false);
        assert_eq!(requests.map(|request| request.join().unwrap()), [true; 3]);
    });
    // Nor does it keep anybody from ending.
    registry.cut_off(true);
    thread::sleep(LEASE);
    thread::scope(|scope| {
        let waits = scope.spawn(|| write(&attached, 3, 3));
        thread::sleep(LEASE);
        let begun = Instant::now();
        scope.spawn(|| attached.finish());
        assert_eq!(waits.join().unwrap(), Err(Errno::Shutdown));
        assert!(begun.elapsed() < PATIENCE);
        registry.cut_off(false);
    });
}

/// The copies that a takeover finds, by where they are.
impl Party {
    fn take_over_blocks(&mut self, volume: VolumeId, epoch: u64) -> Vec<(u64, Option<Content>)> {
        self.take_over_with(volume, epoch).into_iter().map(|(entry, content)| (entry.extent.offset, content)).collect()
    }
}

#[test]
fn epochs_are_those_of_the_registry() {
    let world = World::new("epochs", 1);
    let attached = world.attach(Ack::Write, Arc::new(world.registry.clone()));
    assert_eq!((attached.status().epoch, world.entry().epoch), (1, Epoch(1)));
    write(&attached, 1, 1).unwrap();
    attached.detach().unwrap();
    assert_eq!(world.entry().owner, None);
    let attached = world.attach(Ack::Write, Arc::new(world.registry.clone()));
    assert_eq!(attached.status().epoch, 2);
    write(&attached, 1, 2).unwrap();
    drop(attached);
    // The log of a host that takes over from itself is its own affair; here all of it is given up.
    let attached = world.attach(Ack::Write, Arc::new(world.registry.clone()));
    assert_eq!((attached.status().epoch, attached.status().dirty_writes), (3, 0));
    write(&attached, 1, 3).unwrap();
    attached.detach().unwrap();
    let home = std::fs::read(world.scratch.0.join("disk")).unwrap();
    assert_eq!(version_of(&home[BLOCK..]), 3);
}
