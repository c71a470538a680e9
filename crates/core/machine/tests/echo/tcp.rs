//! Over TCP, with two echoes whose logs are in memory: files that fail where the test says so.

use crate::caller::{Caller, HEARD};
use crate::disk::LogDisk;
use crate::messages::ECHO;
use crate::server::Echo;
use machine::{RoleId, UpstreamId};
use net::{Handle, Host, HostEnd, ListenConfig, Machines, Runtime, UpstreamState};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use vfs::memory::{Fault, Memory};

const PATIENCE: Duration = Duration::from_secs(20);

const ONE: UpstreamId = UpstreamId(1);
const OTHER: UpstreamId = UpstreamId(2);

/// An echo over the files of a directory. Returns its host, its address, and the number of its records.
fn serve(files: &Memory, address: &str, runtime: &Runtime) -> (Arc<Host>, SocketAddr, u64) {
    let (disk, records) = LogDisk::open(Arc::new(files.clone())).unwrap();
    let mut machines = Machines::new();
    machines.add_with_disk(Echo::recovered(records), disk);
    let host = Host::start(machines, runtime);
    let (address, begun) = (address.parse().unwrap(), Instant::now());
    loop {
        // The task of an earlier listener may still have the address.
        match host.listen(RoleId::ONLY, ListenConfig::new(ECHO, address)) {
            Ok(address) => return (host, address, records),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A caller, and the host that drives it.
struct Near {
    caller: Handle<Caller>,
    host: Arc<Host>,
}

impl Near {
    fn start(runtime: &Runtime) -> Self {
        let mut machines = Machines::new();
        let (role, caller) = machines.add(Caller::default());
        let host = Host::start(machines, runtime);
        Self { caller: Handle::new(caller, host.driver(role)), host }
    }

    fn call<R>(&self, call: impl FnOnce(&mut Caller) -> R) -> R {
        self.caller.call(call)
    }

    /// Waits until `is_done`.
    #[track_caller]
    fn wait(&self, is_done: impl Fn(&Caller) -> bool) {
        let (waker, begun) = (Waker::from(Arc::new(Unpark(thread::current()))), Instant::now());
        while !self.call(|caller| is_done(caller)) {
            assert!(begun.elapsed() < PATIENCE, "nothing is heard");
            self.caller.driver().wake_on(HEARD, &waker);
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Shouts, and waits until every echo has heard it.
    #[track_caller]
    fn shout(&self, text: &str) {
        self.call(|caller| caller.shout(text));
        self.wait(Caller::is_heard);
    }

    fn heard(&self, echo: UpstreamId) -> Vec<(u64, String)> {
        self.call(|caller| caller.heard(echo).to_vec())
    }

    /// Waits until the session with an echo is reported to be up, which follows its first message.
    #[track_caller]
    fn wait_up(&self, echo: UpstreamId, address: SocketAddr) {
        let (up, begun) = (UpstreamState::Up(address.to_string()), Instant::now());
        while self.host.upstream_state(RoleId::ONLY, echo) != up {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.host.upstream_state(RoleId::ONLY, echo));
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn texts_are_heard_by_two_echoes_and_after_a_restart() {
    let (files, runtime) = (Memory::default(), Runtime::start().unwrap());
    let (one, address, _) = serve(&files, "127.0.0.1:0", &runtime);
    let (other, other_address, _) = serve(&Memory::default(), "127.0.0.1:0", &runtime);
    let near = Near::start(&runtime);
    near.call(|caller| caller.call(ONE, [address.to_string()]));
    near.call(|caller| caller.call(OTHER, [other_address.to_string()]));
    near.shout("round 1");
    near.wait_up(ONE, address);
    near.wait_up(OTHER, other_address);
    for round in 2..=50 {
        near.shout(&format!("round {round}"));
    }
    assert!(one.tally().flushes >= 50 && other.tally().flushes >= 50, "each is durable before it is heard");

    one.close(RoleId::ONLY);
    assert_eq!(one.wait_end(), HostEnd::Closed);
    drop(one);
    let (one, _, records) = serve(&files, &address.to_string(), &runtime);
    assert_eq!(records, 50);
    near.shout("again");
    assert_eq!(near.heard(ONE)[50], (51, "again".to_owned()));
    assert_eq!(near.heard(OTHER)[50], (51, "again".to_owned()));

    // The other echo is left, and the first one continues.
    let messages = other.tally().messages_in;
    near.call(|caller| caller.leave(OTHER));
    let begun = Instant::now();
    while other.tally().messages_in == messages {
        assert!(begun.elapsed() < PATIENCE, "the echo that is left hears no goodbye");
        thread::sleep(Duration::from_millis(1));
    }
    near.shout("alone");
    assert_eq!((near.heard(ONE).len(), near.heard(OTHER).len()), (52, 0));
    assert_eq!(other.tally().messages_in, messages + 1);
    drop((near, one, other));
}

#[test]
fn an_echo_outlives_a_failed_write() {
    let (files, runtime) = (Memory::default(), Runtime::start().unwrap());
    let (far, address, _) = serve(&files, "127.0.0.1:0", &runtime);
    let near = Near::start(&runtime);
    near.call(|caller| caller.call(ONE, [address.to_string()]));
    near.shout("before");
    for (nth, failures) in [(0, 1), (1, 1), (0, 40), (2, 7)].into_iter().enumerate() {
        files.plan(Some(Fault::Error(failures.0, Errno::IO, failures.1)));
        near.shout(&format!("failure {nth}"));
    }
    files.plan(None);
    near.shout("after");
    assert_eq!(far.end(), None);
    let heard: Vec<_> = near.heard(ONE).into_iter().map(|(_, text)| text).collect();
    let expected = ["before", "failure 0", "failure 1", "failure 2", "failure 3", "after"];
    assert!(expected.iter().all(|text| heard.iter().any(|heard| heard == text)), "{heard:?}");
    drop((near, far));
    // Everything that was heard is in the log.
    let (_far, _, records) = serve(&files, "127.0.0.1:0", &runtime);
    assert!(records >= expected.len() as u64, "{records} records");
}
