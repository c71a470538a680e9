//! Over TCP, with a log in a directory: the same two machines.

use bytes::Bytes;
use echo::{CALLER, Caller, ECHO, Echo};
use log::{Limits, Log, LogId, Records, Scan};
use machine::{Append, Disk, Driver, Durable, RoleId, Waiter};
use net::{Host, HostEnd, ListenConfig, Machines, Runtime, Shared, UplinkConfig, UplinkState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use types::Position;
use vfs::{Directory, Files, Malformed};

const ID: LogId = LogId(0xEC0);
const LIMITS: Limits = Limits { segment_bytes: 64 << 10, segments_max: 8, memory_bytes: 32 << 10 };

const PATIENCE: Duration = Duration::from_secs(20);

/// The texts, as they are in the log.
#[derive(Debug)]
struct Texts;

impl Records for Texts {
    type Record = String;

    const BODY_BYTES_MAX: u32 = 64 << 10;

    fn kind(_: &String) -> u8 {
        1
    }

    fn body_bytes(text: &String) -> usize {
        text.len()
    }

    fn encode(text: &String, put: &mut impl FnMut(&[u8])) {
        put(text.as_bytes());
    }

    fn decode(_: u8, body: Bytes) -> Result<String, Malformed> {
        String::from_utf8(body.to_vec()).map_err(|_| Malformed)
    }
}

type Failed = Box<dyn Fn(&str) + Send + Sync>;

/// A disk that is a log. One that fails, or has no room, ends its machine.
struct LogDisk {
    log: Log<Texts>,
    failed: OnceLock<Failed>,
}

impl Disk for LogDisk {
    type Work = Append<String>;
    type Done = Durable;

    fn submit(&self, work: Append<String>) -> bool {
        let Append(Position(position), text) = work;
        self.log.append(position, text);
        true
    }

    fn flush(&self, done: &mut dyn FnMut(Durable)) -> bool {
        let more = self.log.flush(0, &mut |result| match result {
            Ok(log::Durable { through, .. }) => done(Durable(Position(through))),
            Err(error) => drop(self.failed.get().map(|failed| failed(&error.to_string()))),
        });
        more && !self.log.is_stuck()
    }

    fn on_done(&self, _: Box<dyn Fn(Durable) + Send + Sync>) {}

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        assert!(self.failed.set(failed).is_ok(), "registered once");
    }
}

/// An echo over what its log holds, in this life of its.
fn serve(dir: &Path, life: u32, address: SocketAddr, runtime: &Runtime) -> (Arc<Host>, SocketAddr, u64) {
    let files: Arc<dyn Files> = Arc::new(Directory::new(dir));
    let mut scan = Scan::<Texts>::begin(files.clone(), ID, 0).unwrap();
    let records = std::iter::from_fn(|| scan.next_record().unwrap()).count() as u64;
    let log = Log::resume(files, ID, LIMITS, life, &scan).unwrap();
    let mut machines = Machines::new();
    machines.add_with_disk(Echo::recovered(records), Arc::new(LogDisk { log, failed: OnceLock::new() }));
    let host = Host::start(machines, runtime);
    let config = ListenConfig::new(ECHO, address);
    let address = host.listen(RoleId::ONLY, config).unwrap();
    (host, address, records)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Shouts, and waits until all was heard; gives how much that is.
fn shout(caller: &Shared<Caller>, driver: &dyn Driver, text: &str) -> usize {
    caller.lock().unwrap().machine().shout(text);
    driver.settle();
    let (waker, begun) = (Waker::from(Arc::new(Unpark(thread::current()))), Instant::now());
    while !caller.lock().unwrap().look().is_heard() {
        assert!(begun.elapsed() < PATIENCE, "nothing is heard");
        driver.wake_on(Waiter(1), &waker);
        thread::park_timeout(Duration::from_millis(20));
    }
    caller.lock().unwrap().look().heard().len()
}

#[test]
fn texts_are_heard_over_tcp_and_after_a_restart() {
    let dir = std::env::temp_dir().join(format!("thorp-test-echo-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let files = Directory::new(&dir);
    Log::<Texts>::create(&files, ID, LIMITS, 2).unwrap();
    files.sync_dir().unwrap();
    let runtime = Runtime::start().unwrap();
    let (host, address, _) = serve(&dir, 1, "127.0.0.1:0".parse().unwrap(), &runtime);

    let mut machines = Machines::new();
    let (role, caller) = machines.add(Caller::default());
    let near = Host::start(machines, &runtime);
    let driver = near.driver(role);
    near.connect(role, UplinkConfig::new(CALLER, address.to_string()));
    assert_eq!(shout(&caller, &*driver, "hello"), 1);
    near.wait_connected(role, PATIENCE).unwrap();
    assert_eq!(near.server_state(role), UplinkState::Up(address.to_string()));
    for round in 2..=50 {
        assert_eq!(shout(&caller, &*driver, &format!("round {round}")), round);
    }
    assert!(host.tally().flushes >= 50, "each is durable before it is heard");

    host.close(RoleId::ONLY);
    assert_eq!(host.wait_end(), HostEnd::Closed);
    drop(host);
    let (host, _, records) = serve(&dir, 2, address, &runtime);
    assert_eq!(records, 50);
    assert_eq!(shout(&caller, &*driver, "again"), 51);
    assert_eq!(caller.lock().unwrap().look().heard()[50], (51, "again".to_owned()));
    drop((near, host));
    std::fs::remove_dir_all(&dir).unwrap();
}
