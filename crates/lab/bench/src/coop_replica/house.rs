//! The processes of the CoopReplica experiments: a store with homes, a holder, and owners that come and go.
//!
//! ```text
//!   this process --NBD--> owner (thorp volume attach) --copies--> holder (thorp holder)
//!                           |                                        |
//!                           +------------ thorp serve --volumes -----+      homes, registry
//! ```
//! Processes of their own, on one machine, in a folder of their own, so that each experiment has new ones. Two hosts
//! are meant: this process and the owner have one half of its processors, the holder and the store the other. The disk
//! is one, unless the holder is given another: else its flushes wait for the owner's, and the other way.

use crate::web::Cores;
use crate::{Place, Result, Sample};
use fixtures::installed::succeed;
use fixtures::nbd_client::{Client, Command as Ask};
use fixtures::{FileDevice, Folder, Process, Program, try_until};
use nbd::{Address, Export, Server as NbdServer, ServerConfig};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An owner that has its first copy at a holder is waited for this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// How an owner has its volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attaching {
    /// The volume's number.
    pub(super) volume: usize,
    /// Its copies, the owner's own among them.
    pub(super) copies: u8,
    /// When a write is answered: `write` or `flush`.
    pub(super) ack: &'static str,
    /// The room of its log, in MiB.
    pub(super) dirty_mib: u64,
}

/// A load: how many writes of how many bytes, and how many of them are under way at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) count: usize,
    pub(super) depth: usize,
    pub(super) is_random: bool,
    /// Each write should be durable before it is answered (FUA), whatever the volume does without that.
    pub(super) is_synced: bool,
    /// The part of the volume that is written: so many bytes from its begin.
    pub(super) over: u64,
}

/// The outcome of a load.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) bytes_per_s: f64,
    pub(super) p50_us: f64,
}

/// A store with homes, and a holder.
pub(super) struct House {
    program: Program,
    dir: PathBuf,
    store: String,
    cores: Cores,
    _server: Process,
    _holder: Process,
    // Nobody writes there when it goes: the next experiment needs the room.
    _folder: Folder,
}

impl House {
    /// Starts them for an experiment of this name; the holder has this much room in a folder on `disk`, if it should
    /// have another one than the rest.
    pub(super) fn start(place: &Place, name: &str, room_mib: u64, disk: Option<&Path>) -> Result<Self> {
        let (program, dir, cores) = (Program::from(&place.program), place.dir.join(name), Cores::halves()?);
        let folder = Folder::create(dir.clone())?;
        let serve = || program.serve(&dir.join("store"), &["--volumes", &path(&dir, "homes")]);
        let server = cores.run_on_servers(serve)?;
        let store = server.address().to_string();
        let copies = path(disk.unwrap_or(&dir), "copies");
        let hold = || program.holder(&store, &copies, &format!("{room_mib}M"), &["--domain", "holder"]);
        let holder = cores.run_on_servers(hold)?;
        Ok(Self { program, dir, store, cores, _server: server, _holder: holder, _folder: folder })
    }

    /// Does something on the owner's host: it has one half of the processors, and so have owners that it starts.
    pub(super) fn on_host<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.cores.run_with_clients(work)
    }

    /// Where the store is.
    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// The folder of the experiment, on the owner's and home's disk.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Calls `thorp volume`, and gives what it says.
    pub(super) fn call(&self, words: &[&str]) -> Result<Value> {
        let mut command = self.program.command();
        command.arg("volume").args(words).args(["--store", &self.store, "--json"]);
        let said = succeed(&mut command).map_err(|why| format!("thorp volume {}: {why}", words[0]))?;
        Ok(serde_json::from_str(&said).unwrap_or_default())
    }

    /// Makes a volume.
    pub(super) fn create(&self, number: usize, size: u64, copies: u8) -> Result<()> {
        let (size, copies) = (size.to_string(), copies.to_string());
        self.call(&["create", &volume(number), "--size", &size, "--copies", &copies]).map(drop)
    }

    /// Attaches a volume, of which nothing goes home by itself, and waits until its copies count.
    pub(super) fn attach(&self, attaching: Attaching) -> Result<Owner> {
        let Attaching { volume: number, copies, ack, dirty_mib } = attaching;
        let dirty = format!("{dirty_mib}M");
        let (name, socket) = (volume(number), self.dir.join("nbd"));
        let (cache, listen) = (path(&self.dir, &format!("cache-{number}")), format!("unix:{}", socket.display()));
        let words = ["volume", "attach", &name, "--store", &self.store, "--cache", &cache, "--listen", &listen];
        let more = ["--ack", ack, "--age-s", "86400", "--dirty", &dirty, "--domain", "owner", "--spare", "0"];
        let process = self.program.start("the owner", &[&words[..], &more].concat())?;
        let owner = Owner { process, client: Client::connect(&Address::Unix(socket), "")? };
        if copies > 1 {
            self.await_holder(&name)?;
        }
        Ok(owner)
    }

    /// Serves a file of this size on the owner's disk as a device without a cache or copies, from this process.
    pub(super) fn plain(&self, size: u64) -> Result<Plain> {
        let (file, address) = (self.dir.join("plain"), Address::Unix(self.dir.join("nbd-plain")));
        std::fs::File::create(&file)?.set_len(size)?;
        let device = Arc::new(FileDevice::open(&file, false)?);
        let export = Export { name: String::new(), description: String::new(), device };
        let server = NbdServer::start(&ServerConfig::new(address.clone()), vec![export])?;
        Ok(Plain { client: Client::connect(&address, "")?, _server: server })
    }

    /// Waits until a volume has its copies at the holder.
    fn await_holder(&self, name: &str) -> Result<()> {
        let has_holder = |status: &Value| status["holders"].as_array().is_some_and(|holders| !holders.is_empty());
        let ask = || match self.call(&["status", name]) {
            Ok(status) => has_holder(&status).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        try_until(&format!("volume {name} has a holder"), PATIENCE, ask)?
    }
}

/// The name of a volume.
pub(super) fn volume(number: usize) -> String {
    format!("v{number}")
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_string_lossy().into_owned()
}

/// A volume that is attached by a process of its own.
pub(super) struct Owner {
    process: Process,
    client: Client,
}

/// A file that is served as it is.
pub(super) struct Plain {
    client: Client,
    _server: NbdServer,
}

impl Plain {
    /// Runs a load, as [`Owner::run`] does.
    pub(super) fn run(&mut self, load: Load, turn: usize) -> Result<Outcome> {
        run(&mut self.client, load, turn)
    }
}

/// Runs a load, whose blocks say which turn wrote them. It is over when all of it is safe: a flush at its end belongs
/// to it.
fn run(client: &mut Client, load: Load, turn: usize) -> Result<Outcome> {
    let Load { bytes, count, depth, is_random, is_synced, over, .. } = load;
    let data = vec![turn as u8 + 1; bytes];
    // A step that shares no divisor with the places visits each of them once.
    let step = if is_random { 0x9e37_79b9 } else { 1 };
    let place = |number: usize| ((turn * count + number) as u64).wrapping_mul(step) % (over / bytes as u64);
    let (mut begun, mut latencies) = (HashMap::new(), Sample::default());
    let (start, mut asked) = (Instant::now(), 0);
    while latencies.len() < count {
        while asked < count && begun.len() < depth {
            let write = Ask::Write { offset: place(asked) * bytes as u64, data: &data, fua: is_synced };
            begun.insert(client.add(&write), Instant::now());
            asked += 1;
        }
        client.flush()?;
        let reply = client.receive()?;
        if reply.error != 0 {
            return Err(format!("a write was refused with error {}", reply.error).into());
        }
        latencies.push(begun.remove(&reply.cookie).ok_or("a reply to nothing")?.elapsed());
    }
    client.call(&Ask::Flush)?;
    let bytes_per_s = (bytes * count) as f64 / start.elapsed().as_secs_f64();
    Ok(Outcome { bytes_per_s, p50_us: latencies.micros(0.5) })
}

impl Owner {
    /// Runs a load on the volume.
    pub(super) fn run(&mut self, load: Load, turn: usize) -> Result<Outcome> {
        run(&mut self.client, load, turn)
    }

    /// Brings everything home.
    pub(super) fn detach(mut self) -> Result<()> {
        self.client.disconnect()?;
        self.process.close_stdin();
        if self.process.wait()? { Ok(()) } else { Err("the owner could not bring everything home".into()) }
    }

    /// It is gone, with everything that it had in memory.
    pub(super) fn kill(mut self) -> Result<()> {
        self.process.kill()
    }
}
