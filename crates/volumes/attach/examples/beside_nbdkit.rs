//! The NBD server with a file beside nbdkit's file plugin, in turns: `beside_nbdkit [FOLDER [SECONDS [ADDRESS]]]`.
//!
//! Both are processes with a file of their own in the same folder, written once and in the page cache; with an address,
//! ours is the server that listens there, with an export of 256 MiB or more. Each case runs on one and on the other in
//! turn, and its figure is the median of the turns' ratios, so that other work of the machine counts for both. One JSON
//! line a case; `met` says that ours is no slower.

use fixtures::nbd_client::{Client, Command as Ask};
use fixtures::{FileDevice, PATIENCE, Process, Result, try_until};
use nbd::{Address, Export, Server, ServerConfig};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BYTES: u64 = 256 << 20;
const BLOCK: usize = 4096;
/// Turns of each case with each file.
const TURNS: usize = 15;

/// A case: its name, what is asked, how many requests are under way.
const CASES: [(&str, Kind, usize); 8] = [
    ("write_fua", Kind::Write, 1),
    ("write_fua", Kind::Write, 16),
    ("write_flush", Kind::Flushed, 1),
    ("write_flush", Kind::Flushed, 16),
    ("read", Kind::Read, 1),
    ("read", Kind::Read, 16),
    ("read", Kind::Read, 128),
    ("write_unsynced", Kind::Unsynced, 16),
];

#[derive(Clone, Copy)]
enum Kind {
    /// Each write is durable before its reply.
    Write,
    /// A flush follows each write.
    Flushed,
    /// One flush follows all writes.
    Unsynced,
    /// Reads.
    Read,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, file, socket] = &args[..]
        && serve == "serve"
    {
        return run_server(Path::new(file), Path::new(socket));
    }
    let folder = args.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("beside-nbdkit-{}", std::process::id()));
    let seconds: f64 = args.get(1).map_or(Ok(0.5), |seconds| seconds.parse())?;
    std::fs::create_dir_all(&folder)?;
    let address: Option<Address> = args.get(2).map(|address| address.parse()).transpose()?;
    let measured = measure(&folder, Duration::from_secs_f64(seconds), address.as_ref());
    std::fs::remove_dir_all(&folder)?;
    measured
}

/// The process that serves, until its input ends.
fn run_server(file: &Path, socket: &Path) -> Result<()> {
    let device = Arc::new(FileDevice::open(file, false)?);
    let export = Export { name: String::new(), description: String::new(), device };
    let server = Server::start(&ServerConfig::new(Address::Unix(socket.into())), vec![export])?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop(Duration::from_secs(10));
    Ok(())
}

/// Starts such a process.
fn start(file: &Path, socket: &Path) -> Result<Process> {
    let mut ours = Command::new(std::env::current_exe()?);
    ours.arg("serve").arg(file).arg(socket).stdin(Stdio::piped());
    let ours = Process::spawn(ours, "the server")?;
    ours.line()?;
    Ok(ours)
}

fn measure(folder: &Path, turn: Duration, address: Option<&Address>) -> Result<()> {
    let files = [file(folder, "one")?, file(folder, "other")?];
    let mut cases = CASES.map(|_| Figures::default());
    // Where a file lies on its disk is worth more than what serves it, so each server has each file for half of the
    // turns.
    for round in 0..2 {
        let [our_socket, their_socket] = ["ours", "theirs"].map(|name| folder.join(format!("{name}-{round}")));
        let _theirs = start_nbdkit(&files[1 - round], &their_socket)?;
        let (our_address, _ours) = match address {
            Some(address) => (address.clone(), None),
            None => (Address::Unix(our_socket.clone()), Some(start(&files[round], &our_socket)?)),
        };
        let mut clients = [Client::connect(&our_address, "")?, Client::connect(&Address::Unix(their_socket), "")?];
        for ((_, kind, depth), figures) in CASES.iter().zip(&mut cases) {
            for number in 0..TURNS {
                let mut rate = [0.0; 2];
                // Neither is always the first.
                for which in [number % 2, 1 - number % 2] {
                    rate[which] = run(&mut clients[which], *kind, *depth, turn, number as u64)?;
                }
                figures.ours.push(rate[0]);
                figures.theirs.push(rate[1]);
                figures.ratios[round].push(rate[0] / rate[1]);
            }
        }
    }
    for ((case, _, depth), mut figures) in CASES.into_iter().zip(cases) {
        let (ours, theirs) = (median(&mut figures.ours), median(&mut figures.theirs));
        let [one, other] = &mut figures.ratios;
        let ratio = (median(one) * median(other)).sqrt();
        let met = ratio >= 1.0;
        println!(
            r#"{{"case": "{case}", "depth": {depth}, "ours_per_s": {ours:.0}, "nbdkit_per_s": {theirs:.0}, "ratio": {ratio:.3}, "met": {met}}}"#,
        );
    }
    Ok(())
}

/// The figures of a case, turn by turn.
#[derive(Default)]
struct Figures {
    ours: Vec<f64>,
    theirs: Vec<f64>,
    /// The turns' ratios, by round.
    ratios: [Vec<f64>; 2],
}

/// A file that is on its disk and in memory.
fn file(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    let mut file = File::create(&path)?;
    let block = vec![0x5A; 1 << 20];
    for _ in 0..BYTES >> 20 {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(path)
}

fn start_nbdkit(file: &Path, socket: &Path) -> Result<Process> {
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(socket).arg("file").arg(file);
    let nbdkit = Process::spawn(nbdkit, "nbdkit")?;
    try_until("nbdkit listens", PATIENCE, || UnixStream::connect(socket).ok())?;
    Ok(nbdkit)
}

/// Requests of 4 KiB at random places for this long; gives how many a second.
fn run(client: &mut Client, kind: Kind, depth: usize, turn: Duration, seed: u64) -> Result<f64> {
    let data = vec![seed as u8; BLOCK];
    let mut random = seed;
    let mut ask = |client: &mut Client| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (random >> 33) % (BYTES / BLOCK as u64) * BLOCK as u64;
        client.add(&match kind {
            Kind::Read => Ask::Read { offset, len: BLOCK as u32, whole: false },
            _ => Ask::Write { offset, data: &data, fua: matches!(kind, Kind::Write) },
        })
    };
    let begun = Instant::now();
    let mut done = 0_u64;
    // The writes that a flush will follow.
    let mut unflushed: HashSet<u64> = (0..depth).map(|_| ask(client)).collect();
    client.flush()?;
    while client.under_way() > 0 {
        let reply = client.receive()?;
        if reply.error != 0 {
            return Err(format!("error {}: {}", reply.error, reply.text).into());
        }
        if matches!(kind, Kind::Flushed) && unflushed.remove(&reply.cookie) {
            client.add(&Ask::Flush);
        } else {
            done += 1;
            if begun.elapsed() < turn {
                let cookie = ask(client);
                if matches!(kind, Kind::Flushed) {
                    unflushed.insert(cookie);
                }
            }
        }
        client.flush()?;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    if matches!(kind, Kind::Unsynced) {
        client.call(&Ask::Flush)?;
    }
    Ok(rate)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
