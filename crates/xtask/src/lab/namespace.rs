//! A place: a network namespace with one TUN device, which lives as long as a thread of this process.
//!
//! ```text
//!   thread "place 1":  new namespace ──► TUN device ──► ip link, ip addr ──► waits for the lab's end
//!                            │                │
//!                            │                └ its file goes to the relay
//!                            └ has no name but /proc/<process>/task/<thread>/ns/net: however the process ends,
//!                              even killed, the kernel takes the namespace away, and nothing is left behind
//! ```

use super::kernel;
use super::network::{self, Place};
use super::worker::Worker;
use crate::{Result, output_of};
use std::fs::File;
use std::io::{PipeReader, Read};
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::mpsc;

/// The device's name, the same at every place.
const DEVICE: &str = "lab0";

/// How many packets the kernel keeps for the relay while it is kept from running. The usual 500 are a few milliseconds
/// of a fast connection, and packets that do not fit would be lost without the line having been asked.
const DEVICE_QUEUE_PACKETS: &str = "5000";

/// The programs that the lab, or its user, calls; each with where it comes from.
const PROGRAMS: [(&str, &str); 2] = [("ip", "iproute2"), ("nsenter", "util-linux")];

/// A network namespace, which is gone with this.
pub(super) struct Namespace {
    _keeper: Worker,
    /// Its address in the lab.
    pub(super) ip: Ipv4Addr,
    /// The path that names it.
    pub(super) path: String,
}

impl Namespace {
    /// Makes the namespace of a place, and its device.
    pub(super) fn make(place: Place) -> Result<(Self, File)> {
        let ip = network::address(place);
        let (made, outcome) = mpsc::channel();
        let keeper = Worker::start(&format!("place {place}"), move |stop| keep(ip, stop, &made))?;
        let (path, device) = outcome.recv().map_err(|_| format!("lab: place {place} was not made"))??;
        Ok((Self { _keeper: keeper, ip, path }, device))
    }
}

/// Why there can be no namespaces here, in a line; `None`: there can.
pub(super) fn obstacle() -> Option<String> {
    let is_missing = |program: &str| Command::new(program).arg("-V").output().is_err();
    if let Some((program, package)) = PROGRAMS.into_iter().find(|(program, _)| is_missing(program)) {
        return Some(format!("there is no program `{program}`: it comes with {package}"));
    }
    // Everything that needs a right is tried once, where it harms nobody: rights have too many reasons to guess.
    let trial = std::thread::spawn(|| enter().err());
    trial.join().unwrap_or_else(|_| Some("the trial has panicked".to_owned()))
}

/// The work of a place's thread.
fn keep(ip: Ipv4Addr, mut stop: PipeReader, made: &mpsc::Sender<Result<(String, File)>>) {
    let outcome = furnish(ip);
    let is_made = outcome.is_ok();
    if made.send(outcome).is_ok() && is_made {
        // Nothing is ever written: this returns when the lab ends.
        let _ = stop.read(&mut [0]);
    }
}

fn furnish(ip: Ipv4Addr) -> Result<(String, File)> {
    let device = enter().map_err(|why| format!("lab: {why}"))?;
    let (process, thread) = (std::process::id(), rustix::thread::gettid());
    run_ip(&["link", "set", "lo", "up"])?;
    run_ip(&["addr", "add", &format!("{ip}/24"), "dev", DEVICE])?;
    run_ip(&["link", "set", DEVICE, "mtu", "1500", "txqueuelen", DEVICE_QUEUE_PACKETS, "up"])?;
    Ok((format!("/proc/{process}/task/{thread}/ns/net"), device))
}

/// The steps that take rights: the calling thread gets a network of its own, and in it a device.
fn enter() -> Result<File> {
    let needs = "this needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, and the module `tun`";
    kernel::enter_new_network().map_err(|error| format!("cannot make a network namespace: {error}; {needs}"))?;
    kernel::open_tun(DEVICE).map_err(|error| format!("cannot make a TUN device: {error}; {needs}"))
}

/// A process begins in the namespace of the thread that starts it.
fn run_ip(words: &[&str]) -> Result {
    output_of(Command::new("ip").args(words)).map(drop).map_err(|why| format!("lab: {why}"))
}
