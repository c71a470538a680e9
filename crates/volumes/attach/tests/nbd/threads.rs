//! The threads of a server: who waits for what, what a client may have at most, how a server is stopped.

use crate::rig::{Folder, Random, Rig, ask, export};
use fixtures::MemoryDevice;
use fixtures::nbd_client::{Client, Command};
use nbd::numbers::{flag, transmission};
use nbd::{Address, Ended, Server, ServerConfig};
use nbd::{Answer, Device, Geometry, Operation, Replies, Request};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// As long as a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device whose flushes wait, as those of a disk do, until the test lets them go.
struct SlowDisk {
    memory: MemoryDevice,
    /// Told of each flush that waits.
    flushing: Mutex<Sender<()>>,
    /// A message for each flush that may end.
    flushed: Mutex<Receiver<()>>,
}

impl SlowDisk {
    fn new() -> (Arc<Self>, Receiver<()>, Sender<()>) {
        let (flushing, waits) = channel();
        let (lets, flushed) = channel();
        let (flushing, flushed) = (Mutex::new(flushing), Mutex::new(flushed));
        (Arc::new(Self { memory: MemoryDevice::new(1 << 20), flushing, flushed }), waits, lets)
    }
}

impl Device for SlowDisk {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        let (flushes, mut others): (Vec<_>, Vec<_>) =
            batch.drain(..).partition(|request| request.operation == Operation::Flush);
        self.memory.submit(&mut others, replies);
        for flush in flushes {
            replies.stalls();
            self.flushing.lock().unwrap().send(()).unwrap();
            self.flushed.lock().unwrap().recv().unwrap();
            replies.done(flush.ticket, Ok(Answer::Done));
        }
    }
}

#[test]
fn what_is_written_is_read_in_every_form() {
    let rig = Rig::new(Arc::new(MemoryDevice::new(1 << 20)));
    let data = Random(1).bytes(70_000);
    for structured in [true, false] {
        let mut client = Client::connect_as(&rig.address, "", structured).unwrap();
        assert_eq!((client.info().size, client.has(transmission::CAN_MULTI_CONN)), (1 << 20, true));
        ask(&mut client, &Command::Write { offset: 100_000, data: &data, fua: true });
        let whole = |whole| Command::Read { offset: 0, len: 1 << 20, whole };
        let chunks: &[_] = if structured { &[(false, (1, 2)), (true, (1, 0))] } else { &[(false, (0, 0))] };
        for (is_whole, chunks) in chunks {
            let reply = ask(&mut client, &whole(*is_whole));
            assert!(reply.data[100_000..170_000] == data, "structured {structured}, whole {is_whole}");
            assert!(reply.data[..100_000].iter().chain(&reply.data[170_000..]).all(|byte| *byte == 0));
            assert_eq!(reply.chunks, *chunks, "holes are not sent, unless in one chunk");
        }
        ask(&mut client, &Command::Zero { offset: 98_304, len: 32_768, flags: flag::NO_HOLE });
        if structured {
            let all = Command::Extents { offset: 0, len: 1 << 20, one: false };
            assert_eq!(ask(&mut client, &all).extents, [(98_304, 3), (32_768, 2), (65_536, 0), (851_968, 3)]);
            let one = Command::Extents { offset: 0, len: 512, one: true };
            assert_eq!(ask(&mut client, &one).extents, [(512, 3)]);
        }
        let beyond = client.call(&Command::Write { offset: (1 << 20) - 1, data: b"xy", fua: false }).unwrap();
        assert_eq!((beyond.error, beyond.text.contains("beyond")), (28, structured));
        ask(&mut client, &Command::Trim { offset: 0, len: 1 << 20, fua: true });
        assert!(ask(&mut client, &whole(false)).data.iter().all(|byte| *byte == 0));
        client.disconnect().unwrap();
    }
    assert_eq!(rig.server.tally().refused, 2);
    assert!(rig.server.stop(PATIENCE));
}

#[test]
fn a_read_does_not_wait_for_a_flush() {
    let (disk, flushing, flushed) = SlowDisk::new();
    let rig = Rig::new(disk);
    let mut client = rig.connect();
    let flushes: Vec<u64> = (0..3).map(|_| client.add(&Command::Flush)).collect();
    client.flush().unwrap();
    flushing.recv_timeout(PATIENCE).unwrap();
    for _ in 0..3 {
        let read = client.add(&Command::Read { offset: 0, len: 512, whole: false });
        client.flush().unwrap();
        assert_eq!(client.receive().unwrap().cookie, read, "the flushes still wait");
    }
    for _ in &flushes {
        flushed.send(()).unwrap();
    }
    let ended: Vec<u64> = flushes.iter().map(|_| client.receive().unwrap().cookie).collect();
    assert_eq!((ended, client.under_way()), (flushes, 0));
}

/// A device that takes its time with each request, and with the last until the test says so.
struct OneByOne {
    memory: MemoryDevice,
    last: Mutex<Receiver<()>>,
}

impl Device for OneByOne {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        for request in batch.drain(..) {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1) {}
            if request.operation == Operation::Flush {
                self.last.lock().unwrap().recv().unwrap();
            }
            self.memory.submit(&mut vec![request], replies);
        }
    }
}

#[test]
fn a_reply_does_not_wait_for_a_slow_batch() {
    let (lets, last) = channel();
    let rig = Rig::new(Arc::new(OneByOne { memory: MemoryDevice::new(1 << 20), last: Mutex::new(last) }));
    let mut client = rig.connect();
    let reads: Vec<u64> = (0..3).map(|_| client.add(&Command::Read { offset: 0, len: 512, whole: false })).collect();
    let flush = client.add(&Command::Flush);
    client.flush().unwrap();
    // The third may have to wait for the flush: replies leave as others are added.
    let early = [client.receive().unwrap().cookie, client.receive().unwrap().cookie];
    lets.send(()).unwrap();
    let late = [client.receive().unwrap().cookie, client.receive().unwrap().cookie];
    assert_eq!([early, late].concat(), [&reads[..], &[flush]].concat());
}

/// A flush may be led for others, so it does not wait until the client has taken the replies before it.
#[test]
fn a_flush_does_not_wait_for_a_client() {
    let (disk, flushing, flushed) = SlowDisk::new();
    let rig = Rig::new(disk);
    for _ in 0..2 {
        let mut client = rig.connect();
        // One write, so one batch: more than a socket takes, and the flush.
        let reads: Vec<u64> =
            (0..8).map(|_| client.add(&Command::Read { offset: 0, len: 1 << 20, whole: true })).collect();
        let flush = client.add(&Command::Flush);
        client.flush().unwrap();
        flushing.recv_timeout(PATIENCE).unwrap();
        flushed.send(()).unwrap();
        let replies: Vec<u64> = reads.iter().map(|_| client.receive().unwrap().cookie).collect();
        assert_eq!((replies, client.receive().unwrap().cookie), (reads, flush));
        client.disconnect().unwrap();
    }
}

#[test]
fn a_server_that_is_stopped_finishes_what_is_under_way() {
    let (disk, flushing, flushed) = SlowDisk::new();
    let rig = Rig::new(disk);
    let mut client = rig.connect();
    let flush = client.add(&Command::Flush);
    client.flush().unwrap();
    flushing.recv_timeout(PATIENCE).unwrap();
    let (server, folder) = (rig.server, rig.folder);
    let stopping = thread::spawn(move || server.stop(PATIENCE));
    // The socket goes when no connection is taken any more.
    while folder.path("nbd").exists() {
        thread::yield_now();
    }
    flushed.send(()).unwrap();
    let reply = client.receive().unwrap();
    assert_eq!((reply.cookie, reply.error), (flush, 0));
    assert!(stopping.join().unwrap(), "all was finished");
    assert!(client.call(&Command::Flush).is_err(), "and nothing more is taken");
}

/// A client that takes no replies costs its own connection some memory; the others continue, also those whose flush was
/// led by its thread.
#[test]
fn a_client_that_reads_no_replies_is_in_nobodys_way() {
    let rig = Rig::new(Arc::new(MemoryDevice::new(64 << 20)));
    let (mut greedy, mut other) = (rig.connect(), rig.connect());
    ask(&mut other, &Command::Write { offset: 0, data: &vec![7; 1 << 20], fua: false });
    for _ in 0..100 {
        greedy.add(&Command::Read { offset: 0, len: 1 << 20, whole: false });
    }
    greedy.flush().unwrap();
    for _ in 0..100 {
        ask(&mut other, &Command::Write { offset: 0, data: &[8; 4096], fua: true });
    }
    assert!(rig.server.tally().requests < 200, "the server does not read on for one that takes nothing");
    for _ in 0..100 {
        assert_eq!(greedy.receive().unwrap().data.len(), 1 << 20);
    }
    let flush = greedy.call(&Command::Flush).unwrap();
    assert_eq!(flush.error, 0);
}

#[test]
fn a_client_that_goes_takes_its_connection_along() {
    let rig = Rig::new(Arc::new(MemoryDevice::new(64 << 20)));
    for _ in 0..3 {
        let mut client = rig.connect();
        for _ in 0..100 {
            client.add(&Command::Read { offset: 0, len: 1 << 20, whole: true });
        }
        client.flush().unwrap();
        client.receive().unwrap();
    }
    while rig.server.connections() > 0 {
        thread::yield_now();
    }
    assert_eq!(rig.server.tally().ended(Ended::Closed), 3);
}

#[test]
fn connections_and_their_handshakes_are_bounded() {
    let folder = Folder::new();
    let config = ServerConfig {
        connections_max: 2,
        handshake_within: Duration::from_millis(50),
        ..ServerConfig::new(folder.socket())
    };
    let server = Server::start(&config, export(Arc::new(MemoryDevice::new(1 << 20)))).unwrap();
    let Address::Unix(path) = folder.socket() else { unreachable!() };
    let mut held = Client::connect(&folder.socket(), "disk").unwrap();
    let also = Client::connect(&folder.socket(), "disk").unwrap();
    let mut greeting = [0; 18];
    let mut refused = UnixStream::connect(&path).unwrap();
    assert_eq!(refused.read(&mut greeting).unwrap(), 0, "one too many");
    drop(also);
    while server.connections() > 1 {
        thread::yield_now();
    }
    let mut silent = UnixStream::connect(&path).unwrap();
    silent.read_exact(&mut greeting).unwrap();
    assert_eq!(silent.read(&mut greeting).unwrap(), 0, "too slow");
    ask(&mut held, &Command::Flush);
    while server.connections() > 1 {
        thread::yield_now();
    }
    let mut wrong = UnixStream::connect(&path).unwrap();
    wrong.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    assert_eq!(wrong.read_to_end(&mut Vec::new()).unwrap(), 18, "the greeting, and the end");
    drop(held);
    while server.connections() > 0 {
        thread::yield_now();
    }
    let count = |why| server.tally().ended(why);
    let counts = [Ended::Full, Ended::Slow, Ended::ClientFlags, Ended::Closed].map(count);
    assert_eq!(counts, [1, 1, 1, 2]);
    assert!(server.stop(PATIENCE));
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = Folder::new();
    let config = ServerConfig::new(folder.socket());
    drop(UnixListener::bind(folder.path("nbd")).unwrap());
    let device = || export(Arc::new(MemoryDevice::new(1 << 20)));
    let server = Server::start(&config, device()).unwrap();
    let refused = Server::start(&config, device()).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    ask(&mut Client::connect(&folder.socket(), "disk").unwrap(), &Command::Flush);
    assert!(server.stop(PATIENCE));
}

#[test]
fn an_open_network_is_refused_unless_it_is_meant() {
    let at = |ip: Ipv4Addr| ServerConfig::new(Address::Tcp(SocketAddr::from((ip, 0))));
    let device = || export(Arc::new(MemoryDevice::new(1 << 20)));
    let refused = Server::start(&at(Ipv4Addr::UNSPECIFIED), device()).unwrap_err().to_string();
    assert!(refused.contains("--insecure"), "{refused}");
    let insecure = ServerConfig { insecure: true, ..at(Ipv4Addr::UNSPECIFIED) };
    assert!(Server::start(&insecure, device()).is_ok());
    let server = Server::start(&at(Ipv4Addr::LOCALHOST), device()).unwrap();
    let mut client = Client::connect(&server.addresses()[0], "disk").unwrap();
    ask(&mut client, &Command::Write { offset: 0, data: &vec![1; 300_000], fua: true });
    assert!(ask(&mut client, &Command::Read { offset: 0, len: 300_000, whole: false }).data == vec![1; 300_000]);
    drop(client);
    assert!(server.stop(PATIENCE));
}

/// Streams that begin as they should and continue as they like, some of them cut off: the server continues.
#[test]
fn hostile_streams_end_their_own_connections() {
    let rig = Rig::new(Arc::new(MemoryDevice::new(1 << 20)));
    let Address::Unix(path) = &rig.address else { unreachable!() };
    let mut random = Random(5);
    // The client's flags, and EXPORT_NAME without a name.
    let begin = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1], &[0; 4]].concat();
    for round in 0..200 {
        let mut stream = UnixStream::connect(path).unwrap();
        let mut bytes = begin[..random.below(begin.len() as u64 + 1) as usize].to_vec();
        if round % 2 == 0 {
            bytes = begin.clone();
            for _ in 0..random.below(20) {
                let payload = random.below(600) as usize;
                let fields =
                    [random.below(40), random.below(9), round, random.next() % (1 << 21), random.below(1 << 13)];
                bytes.extend(0x2560_9513_u32.to_be_bytes());
                bytes.extend([fields[0] as u16, fields[1] as u16].map(u16::to_be_bytes).as_flattened());
                bytes.extend([fields[2], fields[3]].map(u64::to_be_bytes).as_flattened());
                bytes.extend((fields[4] as u32).to_be_bytes());
                bytes.extend(random.bytes(payload));
            }
        }
        bytes.extend(random.bytes(50));
        // The server may have hung up already.
        let _ = stream.write_all(&bytes);
        drop(stream);
        while rig.server.tally().connections <= round || rig.server.connections() > 30 {
            thread::yield_now();
        }
    }
    ask(&mut rig.connect(), &Command::Flush);
    while rig.server.connections() > 0 {
        thread::yield_now();
    }
    let tally = rig.server.tally();
    assert_eq!((tally.connections, tally.ended.iter().map(|(_, count)| count).sum()), (201, 201_u64), "{tally:?}");
    assert_eq!((tally.ended(Ended::Panicked), tally.ended(Ended::Full)), (0, 0), "{tally:?}");
}

/// A device that has a bug.
struct Panics;

impl Device for Panics {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 20)
    }

    fn submit(&self, _: &mut Vec<Request>, _: &Arc<dyn Replies>) {
        panic!("a bug, for a test");
    }
}

#[test]
fn a_device_that_panics_ends_the_connection() {
    let rig = Rig::new(Arc::new(Panics));
    assert!(rig.connect().call(&Command::Flush).is_err());
    while rig.server.connections() > 0 {
        thread::yield_now();
    }
    assert_eq!(rig.server.tally().ended(Ended::Panicked), 1);
    assert!(rig.server.stop(PATIENCE));
}
