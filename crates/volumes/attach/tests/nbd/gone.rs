//! Clients that hang up while their requests wait: these take effect before anything of a later client, or never, and
//! keep no place.

use crate::attached::{MIB, PATIENCE, end};
use crate::far::{Homes, VOLUME, attach, config, raw};
use crate::rig::{Folder, Rig, ask};
use attach::{AttachConfig, FarHome};
use fixtures::MemoryDevice;
use fixtures::nbd_client::{Client, Command};
use nbd::numbers::{REQUEST_MAGIC, command, flag};
use nbd::{Address, CREW_MAX, Ended, HANDSHAKES_MAX};
use nbd::{Answer, Device, Geometry, Operation, Replies, Request};
use net::Runtime;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;

/// Where two clients write, one after the other: three blocks each, apart.
const PLACES: u64 = 60;
const PLACE: u64 = 3 * BLOCK;

fn place(at: u64) -> u64 {
    16 * MIB + at * 2 * PLACE
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Changes every place in one of the ways in which a client can, and waits for no reply.
fn change_all(client: &mut Client) {
    let data = vec![1; PLACE as usize];
    for at in 0..PLACES {
        let (offset, len) = (place(at), PLACE as u32);
        client.add(&match at % 5 {
            0 => Command::Write { offset, data: &data, fua: false },
            1 => Command::Write { offset, data: &data, fua: true },
            // Its block is read first, from a home that is away.
            2 => Command::Write { offset: offset + 512, data: &data[..512], fua: false },
            3 => Command::Trim { offset, len, fua: false },
            _ => Command::Zero { offset, len, flags: flag::NO_HOLE },
        });
        // One request at a time: more of them wait than there are threads.
        client.flush().unwrap();
    }
}

/// The log is full, the home's process is dead: a client's writes wait, and it hangs up. Another client, a new one or
/// one that was there before, writes the same blocks. The blocks have its data when the home is back.
#[test]
fn writes_of_a_client_that_is_gone_never_go_over_those_of_its_successor() {
    for is_new in [true, false] {
        let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
        let dir = folder.path("homes");
        let mut homes = Homes::start(&dir);
        let home = FarHome::create(&homes.address, VOLUME, 32 * MIB, &runtime).unwrap();
        let config = AttachConfig { age_max: Duration::from_secs(600), ..config(&folder, "cache") };
        let attached = attach(home, &config);
        let rig = Rig::new(attached.clone());
        let mut filler = rig.connect();
        let before = rig.connect();
        homes.stop();
        let fill = vec![9; MIB as usize];
        for at in 0..8 {
            filler.add(&Command::Write { offset: at * MIB, data: &fill, fua: false });
            filler.flush().unwrap();
        }
        wait_for("the log is full", || attached.status().dirty_bytes > 3 * MIB);
        let mut gone = rig.connect();
        change_all(&mut gone);
        wait_for("as many as there are threads wait", || rig.server.tally().requests >= 8 + CREW_MAX as u64);
        assert_eq!(rig.server.connections(), 3);
        drop(gone);
        let (mut successor, kept) = if is_new { (rig.connect(), Some(before)) } else { (before, None) };
        let data = vec![2; PLACE as usize];
        let writes: Vec<u64> = (0..PLACES)
            .map(|at| successor.add(&Command::Write { offset: place(at), data: &data, fua: false }))
            .collect();
        successor.flush().unwrap();
        let others = 2 + usize::from(is_new);
        wait_for("a client that is gone keeps no place", || rig.server.connections() == others);
        homes.restart(&dir);
        for _ in &writes {
            assert_eq!(successor.receive().unwrap().error, 0);
        }
        ask(&mut successor, &Command::Flush);
        for at in 0..PLACES {
            let read = ask(&mut successor, &Command::Read { offset: place(at), len: PLACE as u32, whole: true });
            assert!(read.data == data, "place {at}, with a new client {is_new}: {:?}", &read.data[..8]);
        }
        for _ in 0..8 {
            assert_eq!(filler.receive().unwrap().error, 0, "a client that is there is in nobody's way");
        }
        assert!(rig.server.tally().given_up > 0);
        drop((filler, kept, successor));
        end(rig, &attached);
        attached.detach().unwrap();
        let home = std::fs::read(raw(&dir, VOLUME)).unwrap();
        for at in 0..PLACES {
            assert!(home[place(at) as usize..][..PLACE as usize] == data, "place {at} at home");
        }
    }
}

/// A device whose writes of ones are held until the test lets them go. It does not say that it waits, so neither the
/// next requests nor the end of the client are read from the socket.
struct Held {
    memory: MemoryDevice,
    told: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        if batch.iter().any(|it| matches!(&it.operation, Operation::Write { data, .. } if data[0] == 1)) {
            self.told.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
        self.memory.submit(batch, replies);
    }
}

/// When a client is let in, requests of clients that have hung up before have taken effect, or never will: one that a
/// thread has in its hands, and one that was not read from the socket.
#[test]
fn a_new_client_comes_after_all_requests_of_those_that_are_gone() {
    let ((told, holds), (lets, go)) = (channel(), channel());
    let memory = MemoryDevice::new(1 << 20);
    let rig = Rig::new(Arc::new(Held { memory, told: Mutex::new(told), go: Mutex::new(go) }));
    let mut gone = rig.connect();
    gone.add(&Command::Write { offset: 0, data: &[1; 4096], fua: false });
    gone.flush().unwrap();
    holds.recv_timeout(PATIENCE).unwrap();
    gone.add(&Command::Write { offset: 4096, data: &[1; 4096], fua: false });
    gone.flush().unwrap();
    drop(gone);
    let mut successor = rig.connect();
    ask(&mut successor, &Command::Write { offset: 0, data: &[2; 8192], fua: true });
    // For the first write, and for the second one if it is carried out.
    lets.send(()).unwrap();
    lets.send(()).unwrap();
    wait_for("the connection ends", || rig.server.connections() == 1);
    let read = ask(&mut successor, &Command::Read { offset: 0, len: 8192, whole: true });
    assert!(read.data == [2; 8192], "{} and {}", read.data[0], read.data[4096]);
    assert!(rig.server.tally().given_up > 0);
}

/// A client that says that it has no more requests, and waits for the end, has all of them carried out.
#[test]
fn requests_before_a_disconnect_are_carried_out() {
    let ((told, holds), (lets, go)) = (channel(), channel());
    let memory = MemoryDevice::new(1 << 20);
    let rig = Rig::new(Arc::new(Held { memory, told: Mutex::new(told), go: Mutex::new(go) }));
    let mut stream = shake_hands(&rig);
    stream.write_all(&request(command::WRITE, 1, 4096)).unwrap();
    stream.write_all(&[1; 4096]).unwrap();
    holds.recv_timeout(PATIENCE).unwrap();
    stream.write_all(&request(command::DISC, 2, 0)).unwrap();
    let mut other = rig.connect();
    lets.send(()).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert_eq!((replies.len(), &replies[4..8]), (16, &[0; 4][..]), "one reply, without an error");
    assert!(ask(&mut other, &Command::Read { offset: 0, len: 4096, whole: true }).data == [1; 4096]);
    assert_eq!(rig.server.tally().ended(Ended::Disconnected), 1);
}

/// A connection to the export without a name, as bytes.
fn shake_hands(rig: &Rig) -> UnixStream {
    let Address::Unix(path) = &rig.address else { unreachable!() };
    let mut stream = UnixStream::connect(path).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1], &[0; 4]].concat()).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

fn request(command: u16, cookie: u64, len: u32) -> Vec<u8> {
    let (magic, flags, offset) = (REQUEST_MAGIC.to_be_bytes(), [0; 2], [0; 8]);
    [&magic[..], &flags, &command.to_be_bytes(), &cookie.to_be_bytes(), &offset, &len.to_be_bytes()].concat()
}

/// A device that answers by another thread: the first read of a batch at once, the others when the test says so.
struct ByAnother {
    go: Arc<Mutex<Receiver<()>>>,
    /// Told when all reads are answered.
    added: Sender<()>,
}

impl Device for ByAnother {
    fn geometry(&self) -> Geometry {
        Geometry::new(64 << 20)
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        let (go, added, replies) = (Arc::clone(&self.go), self.added.clone(), Arc::clone(replies));
        let reads: Vec<_> = batch.drain(..).map(|request| request.ticket).collect();
        thread::spawn(move || {
            for (at, ticket) in reads.into_iter().enumerate() {
                if at == 1 {
                    go.lock().unwrap().recv().unwrap();
                }
                let len = ticket.len;
                replies.done(ticket, Ok(Answer::zeros(len)));
                replies.send();
            }
            added.send(()).unwrap();
        });
    }
}

/// A client takes a part of the first reply and hangs up, when another thread has left its replies to the writing one.
/// Either the thread that reads or the one that writes finds that first, so it is tried many times.
#[test]
fn clients_that_vanish_in_the_middle_of_a_reply_keep_no_place() {
    let ((lets, go), (added, adds)) = (channel(), channel());
    let rig = Rig::new(Arc::new(ByAnother { go: Arc::new(Mutex::new(go)), added }));
    for _ in 0..50 {
        let mut stream = shake_hands(&rig);
        let reads: Vec<u8> = (1..4).flat_map(|cookie| request(command::READ, cookie, 8 << 20)).collect();
        stream.write_all(&reads).unwrap();
        // A thread is at the first reply, which the socket does not take in one.
        stream.read_exact(&mut [0; 4096]).unwrap();
        lets.send(()).unwrap();
        adds.recv_timeout(PATIENCE).unwrap();
    }
    wait_for("the connections end", || rig.server.connections() == 0);
    assert!(rig.server.stop(PATIENCE));
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    const MORE: usize = 10;
    let rig = Rig::new(Arc::new(MemoryDevice::new(1 << 20)));
    let Address::Unix(path) = &rig.address else { unreachable!() };
    let mut held = rig.connect();
    let mut silent: Vec<UnixStream> = (0..HANDSHAKES_MAX + MORE)
        .map(|_| {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.read_exact(&mut [0; 18]).unwrap();
            stream
        })
        .collect();
    ask(&mut rig.connect(), &Command::Flush);
    ask(&mut held, &Command::Flush);
    // The oldest were ended for newer ones, the last one of them for the client.
    for stream in &mut silent[..=MORE] {
        assert_eq!(stream.read(&mut [0; 18]).unwrap(), 0);
    }
    wait_for("they are counted", || rig.server.tally().ended(Ended::Displaced) == MORE as u64 + 1);
    drop(silent);
    drop(held);
    wait_for("all end", || rig.server.connections() == 0);
    assert!(rig.server.stop(PATIENCE));
}
