//! The processes: a store with homes, two holders, and hosts that have the volume attached.

use crate::Result;
use crate::stopper::Interrupt;
use attach::control;
use fixtures::installed::succeed;
use fixtures::{PATIENCE, Process, Program, try_until};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The length of the lease: a silent host may be taken over from then.
pub(super) const LEASE: Duration = Duration::from_secs(3);

const VOLUME: &str = "demo";
const SIZE: &str = "192M";

/// Processes end in the order of the fields: who asks before who is asked.
pub(super) struct Site {
    holders: [Process; 2],
    store: Process,
    program: Program,
    dir: PathBuf,
}

impl Site {
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let program = Program::this()?;
        let store = program.serve(&dir.join("store"), &["--volumes", &text(&dir.join("homes"))])?;
        let address = store.address().to_string();
        let holder = |number: usize| {
            let (copies, domain) = (text(&dir.join(format!("holder-{number}"))), format!("holder-{number}"));
            // The host that attaches it brings it home here, and is seen to do so.
            program.holder(&address, &copies, "512M", &["--domain", &domain, "--bring-home-after-s", "0"])
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
        succeed(command.args(["--lease-s", &lease, "--store", &self.address()])).map(drop)
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
            self.store.id(),
            one.id(),
            other.id()
        )
    }

    /// Attaches the volume at a host, which takes it over if another one has had it.
    pub(super) fn attach(&self, host: &str) -> Result<Host> {
        let (cache, socket) = (self.dir.join(host), self.dir.join(format!("{host}.nbd")));
        let (store, dir, listen) = (self.address(), text(&cache), format!("unix:{}", socket.display()));
        let words = ["volume", "attach", VOLUME, "--store", &store, "--domain", host, "--cache", &dir];
        // Blocks go home late: what is killed with the host is at the holders alone.
        let more = ["--listen", &listen, "--dirty", "256M", "--clean", "64M", "--age-s", "600"];
        let process = self.program.start("the volume's host", &[&words[..], &more].concat())?;
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
        let ask = || match control::ask(&self.cache) {
            Ok(status) if status["is_degraded"] == false => Some(Ok(())),
            Ok(_) if interrupt.has_come() => Some(Err("interrupted".into())),
            Ok(_) => None,
            Err(error) => Some(Err(error.into())),
        };
        try_until("the volume has a holder", PATIENCE, ask)?
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
    pub(super) fn detach(self) -> Result {
        let ended = self.process.end()?;
        if ended.status.success() { Ok(()) } else { Err("host-2 could not bring everything home".into()) }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
