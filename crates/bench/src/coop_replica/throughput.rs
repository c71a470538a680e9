//! The CoopReplica paper's figure 2: write throughput without copies, with asynchronous and with synchronous ones.
//!
//! ```text
//!   this process --NBD--> owner (thorp volume attach) --copies--> holder (thorp holder)
//!                           |                                        |
//!                           +------------ thorp serve --volumes -----+      homes, registry
//! ```
//! Processes of their own, on one machine and one disk: the holder's flushes wait for the owner's and the other way. The
//! kinds of volumes take turns, each turn with an attachment of its own, after which everything goes home; a figure is the
//! median of the turns, and a ratio that of each turn's own.

use crate::experiment::Target;
use crate::floor::{PingPong, SyncFloor};
use crate::process::Process;
use crate::sample::median;
use crate::{Place, Program, Result, Row, Sample, Server, ServerOptions};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use volumes::nbd::Address;
use volumes::nbd::client::{Client, Command as Ask};

/// The figure of the paper that is an experiment which can be repeated.
pub const COOPREPLICA_FIGURE: u32 = 2;

const TURNS: usize = 5;

/// The volumes' size; writes at random places go to its first quarter.
const SIZE: u64 = 1 << 30;

/// An owner that has its first copy at a holder is waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    copies: u8,
    /// When a write is answered.
    ack: &'static str,
}

/// Each kind with copies stands behind the one without that answers at the same moment.
const KINDS: [Kind; 4] = [
    Kind { name: "none", copies: 1, ack: "flush" },
    Kind { name: "asynchronous", copies: 2, ack: "flush" },
    Kind { name: "none, synced", copies: 1, ack: "write" },
    Kind { name: "synchronous", copies: 2, ack: "write" },
];

/// A load: how many writes of how many bytes, and how many of them are under way at a time.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    bytes: usize,
    count: usize,
    depth: usize,
    is_random: bool,
}

const SEQUENTIAL: usize = 0;
const RANDOM: usize = 1;
const LONE: usize = 2;

const LOADS: [Load; 3] = [
    Load { name: "128 MiB sequential", bytes: 1 << 20, count: 128, depth: 16, is_random: false },
    Load { name: "4 KiB random, depth 16", bytes: 4096, count: 8192, depth: 16, is_random: true },
    Load { name: "4 KiB random, depth 1", bytes: 4096, count: 1000, depth: 1, is_random: true },
];

/// The outcome of a load.
#[derive(Clone, Debug)]
struct Outcome {
    bytes_per_s: f64,
    p50_us: f64,
}

/// Runs the experiment. `progress` hears what is being done, `found` each row as soon as it is known.
///
/// # Errors
/// Something does not start, or a write is refused.
pub fn coopreplica(place: &Place, progress: &dyn Fn(&str), found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    let house = House::start(place)?;
    let mut outcomes: Vec<Vec<[Outcome; LOADS.len()]>> = vec![Vec::new(); KINDS.len()];
    let (mut floor, mut line) = (SyncFloor::new(&place.dir)?, PingPong::new(4096, 64)?);
    let (mut syncs, mut trips) = (Sample::default(), Sample::default());
    for turn in 0..TURNS {
        for step in 0..KINDS.len() {
            // None is always the first.
            let which = (turn + step) % KINDS.len();
            let kind = KINDS[which];
            progress(&format!("{} copies, turn {} of {TURNS}", kind.name, turn + 1));
            let mut owner = house.attach(kind)?;
            let mut of = Vec::new();
            for load in LOADS {
                of.push(owner.run(load, turn)?);
            }
            owner.detach()?;
            outcomes[which].push(of.try_into().map_err(|_| "a load is missing")?);
        }
        for _ in 0..200 {
            syncs.push(floor.once()?);
            trips.push(line.once()?);
        }
    }
    let of = |kind: usize, load: usize, figure: fn(&Outcome) -> f64| {
        median(outcomes[kind].iter().map(|turn| figure(&turn[load])).collect())
    };
    for (at, load) in LOADS.iter().enumerate() {
        for (which, kind) in KINDS.iter().enumerate() {
            let case = format!("{}, {} copies", load.name, kind.name);
            found(Row::new("2", case, "MB/s", of(which, at, |it| it.bytes_per_s) / 1e6))?;
        }
    }
    for load in [SEQUENTIAL, RANDOM] {
        for (with, without, paper, most) in [(1, 0, 40.0, 5.0), (3, 2, 65.0, 15.0)] {
            let turns = outcomes[with].iter().zip(&outcomes[without]);
            let lost =
                median(turns.map(|(with, without)| 1.0 - with[load].bytes_per_s / without[load].bytes_per_s).collect());
            let case = format!("{}, lost to {} copies", LOADS[load].name, KINDS[with].name);
            found(Row::new("2", case, "%", lost * 100.0).paper(paper).target(Target::AtMost(most)))?;
        }
    }
    let floor_us = syncs.micros(0.5) + trips.micros(0.5);
    found(Row::new("2", "one fdatasync and one round trip", "us", floor_us))?;
    found(Row::new("2", "synchronous write, p50", "us", of(3, LONE, |it| it.p50_us)))?;
    let over = of(3, LONE, |it| it.p50_us) / floor_us;
    found(Row::new("2", "synchronous write over that", "times", over).target(Target::AtMost(1.4)))
}

/// A store with homes, and a holder.
struct House {
    program: Program,
    dir: PathBuf,
    store: String,
    _server: Server,
    _holder: Process,
}

impl House {
    fn start(place: &Place) -> Result<Self> {
        let (program, dir) = (Program::from(&place.program), place.dir.clone());
        let homes = path(&dir, "homes");
        let options = ServerOptions::new(program.clone(), dir.join("store"));
        let server = Server::start(&ServerOptions { arguments: vec!["--volumes".into(), homes], ..options })?;
        let store = server.address().to_string();
        let words = ["holder", "--store", &store, "--dir", &path(&dir, "copies"), "--room", "2G", "--domain", "holder"];
        let more = ["--listen", "127.0.0.1:0", "--json", "--until-stdin-closes"];
        let (mut holder, _) = Process::start(program.command().args(words).args(more), "the holder")?;
        holder.ignore();
        let house = Self { program, dir, store, _server: server, _holder: holder };
        for (number, kind) in KINDS.iter().enumerate() {
            let copies = kind.copies.to_string();
            house.call(&["create", &volume(number), "--size", &SIZE.to_string(), "--copies", &copies])?;
        }
        Ok(house)
    }

    /// Calls `thorp volume`, and gives what it says.
    fn call(&self, words: &[&str]) -> Result<Value> {
        let mut command = self.program.command();
        let said = command.arg("volume").args(words).args(["--store", &self.store, "--json"]).output()?;
        if !said.status.success() {
            return Err(refused(words[0], String::from_utf8_lossy(&said.stderr).trim()));
        }
        Ok(serde_json::from_slice(&said.stdout).unwrap_or_default())
    }

    fn attach(&self, kind: Kind) -> Result<Owner> {
        let number = KINDS.iter().position(|it| *it == kind).ok_or("a kind of volume is missing")?;
        let (name, socket) = (volume(number), self.dir.join("nbd"));
        let (cache, listen) = (path(&self.dir, &format!("cache-{number}")), format!("unix:{}", socket.display()));
        let words = ["volume", "attach", &name, "--store", &self.store, "--cache", &cache, "--listen", &listen];
        // Nothing goes home while it is measured.
        let more = ["--ack", kind.ack, "--age-s", "86400", "--dirty", "1G", "--domain", "owner", "--spare", "0"];
        let mut command = self.program.command();
        command.args(words).args(more).args(["--json", "--until-stdin-closes"]);
        let (process, _) = Process::start(&mut command, "the owner")?;
        let mut owner = Owner { process, client: Client::connect(&Address::Unix(socket), "")? };
        if kind.copies > 1 {
            self.await_holder(&name)?;
        }
        // The first writes go to blocks of the log and the home that were never used.
        owner.run(Load { count: 256, ..LOADS[RANDOM] }, 0)?;
        Ok(owner)
    }

    /// Waits until a volume has its copies at the holder.
    fn await_holder(&self, name: &str) -> Result<()> {
        let begun = Instant::now();
        while self.call(&["status", name])?["holders"].as_array().is_none_or(Vec::is_empty) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("volume {name} has no holder after {} s", PATIENCE.as_secs()).into());
            }
        }
        Ok(())
    }
}

fn refused(what: &str, why: impl Display) -> crate::Error {
    format!("thorp volume {what}: {why}").into()
}

fn volume(number: usize) -> String {
    format!("v{number}")
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_string_lossy().into_owned()
}

/// A volume that is attached by a process of its own.
struct Owner {
    process: Process,
    client: Client,
}

impl Owner {
    /// Runs a load; what was written is safe at its end, which is not measured.
    fn run(&mut self, load: Load, turn: usize) -> Result<Outcome> {
        let Load { bytes, count, depth, is_random, .. } = load;
        let data = vec![turn as u8 + 1; bytes];
        let places = SIZE / 4 / bytes as u64;
        // A step that shares no divisor with the places visits each of them once.
        let step = if is_random { 0x9e37_79b9 } else { 1 };
        let place = |number: usize| ((turn * count + number) as u64).wrapping_mul(step) % places;
        let (mut begun, mut latencies) = (HashMap::new(), Sample::default());
        let (start, mut asked) = (Instant::now(), 0);
        while latencies.len() < count {
            while asked < count && begun.len() < depth {
                let write = Ask::Write { offset: place(asked) * bytes as u64, data: &data, fua: false };
                begun.insert(self.client.add(&write), Instant::now());
                asked += 1;
            }
            self.client.flush()?;
            let reply = self.client.receive()?;
            if reply.error != 0 {
                return Err(format!("a write was refused with error {}", reply.error).into());
            }
            latencies.push(begun.remove(&reply.cookie).ok_or("a reply to nothing")?.elapsed());
        }
        let bytes_per_s = (bytes * count) as f64 / start.elapsed().as_secs_f64();
        self.client.call(&Ask::Flush)?;
        Ok(Outcome { bytes_per_s, p50_us: latencies.micros(0.5) })
    }

    /// Brings everything home.
    fn detach(mut self) -> Result<()> {
        self.client.disconnect()?;
        self.process.close_stdin();
        if self.process.wait()? { Ok(()) } else { Err("the owner could not bring everything home".into()) }
    }
}
