//! The processes: a store with homes, two holders, and hosts that have the volume attached.

use crate::Result;
use crate::stopper::Interrupt;
use attach::control;
use bench::{Part, Process, Program, Server, ServerOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The length of the lease: a silent host may be taken over from then.
pub(super) const LEASE: Duration = Duration::from_secs(3);

const VOLUME: &str = "demo";
const SIZE: &str = "192M";

/// Longer than this nothing takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes end in the order of the fields: who asks before who is asked.
pub(super) struct Site {
    holders: [Part; 2],
    store: Server,
    program: Program,
    dir: PathBuf,
}

impl Site {
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let program = Program::from(&std::env::current_exe()?);
        let options = ServerOptions::new(program.clone(), dir.join("store"));
        let arguments = vec!["--volumes".to_owned(), text(&dir.join("homes"))];
        let store = Server::start(&ServerOptions { arguments, ..options })?;
        let address = store.address().to_string();
        let holder = |number: usize| {
            let (copies, domain) = (text(&dir.join(format!("holder-{number}"))), format!("holder-{number}"));
            let words = ["holder", "--store", &address, "--dir", &copies, "--room", "512M", "--listen", "127.0.0.1:0"];
            // The host that attaches it brings it home here, and is seen to do so.
            Part::start(
                "a holder",
                &program,
                &[&words[..], &["--domain", &domain, "--bring-home-after-s", "0"]].concat(),
            )
        };
        let holders = [holder(1)?, holder(2)?];
        let site = Self { holders, store, program, dir: dir.to_owned() };
        site.create()?;
        Ok(site)
    }

    fn create(&self) -> Result {
        let mut command = self.program.command();
        command.args(["volume", "create", VOLUME, "--size", SIZE, "--copies", "2"]);
        let lease = LEASE.as_secs().to_string();
        let made = command.args(["--lease-s", &lease, "--store", &self.address()]).output()?;
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).trim().to_owned().into()) }
    }

    fn address(&self) -> String {
        self.store.address().to_string()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn describe(&self) -> String {
        let [one, other] = &self.holders;
        format!(
            "A store with the homes of volumes (process {}), two holders (processes {} and {}), and a volume of {SIZE} with two\n\
             copies of what is not home, attached at host-1.",
            self.store.pid(),
            one.pid(),
            other.pid()
        )
    }

    /// Attaches the volume at a host, which takes it over if another one has had it.
    pub(super) fn attach(&self, host: &str) -> Result<Host> {
        let (cache, socket) = (self.dir.join(host), self.dir.join(format!("{host}.nbd")));
        let mut command = self.program.command();
        command.args(["volume", "attach", VOLUME, "--store", &self.address(), "--domain", host, "--cache"]).arg(&cache);
        command.args(["--listen", &format!("unix:{}", socket.display()), "--dirty", "256M", "--clean", "64M"]);
        // Blocks go home late: what is killed with the host is at the holders alone.
        command.args(["--age-s", "600", "--json", "--until-stdin-closes"]);
        let (mut process, _) = Process::start(&mut command, "the volume's host")?;
        process.ignore();
        Ok(Host { process, socket, cache })
    }
}

/// A host that has the volume attached.
pub(super) struct Host {
    process: Process,
    socket: PathBuf,
    cache: PathBuf,
}

impl Host {
    /// Where NBD clients come.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits until a holder has everything, so that what is acknowledged has its two copies.
    pub(super) fn await_copies(&self, interrupt: &Interrupt) -> Result {
        let begun = Instant::now();
        loop {
            let status = control::ask(&self.cache)?;
            if status["is_degraded"] == false {
                return Ok(());
            }
            if interrupt.has_come() {
                return Err("interrupted".into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the volume has no holder after {} s: {status}", PATIENCE.as_secs()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its disk is gone.
    pub(super) fn remove_cache(&self) -> Result {
        Ok(std::fs::remove_dir_all(&self.cache)?)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn dirty_bytes(&self) -> Result<u64> {
        Ok(control::ask(&self.cache)?["dirty_bytes"].as_u64().unwrap_or_default())
    }

    pub(super) fn kill(&mut self) -> Result {
        self.process.kill()
    }

    /// Brings everything home, and ends.
    pub(super) fn detach(mut self) -> Result {
        self.process.close_stdin();
        if self.process.wait()? { Ok(()) } else { Err("host-2 could not bring everything home".into()) }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
