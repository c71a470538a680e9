//! A PostgreSQL server for measurements and the demo: new, in a folder of its own, on a Unix socket, under another user
//! if this one is root, whom it refuses.

use crate::Result;
use crate::children::{self, Started};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tokio_postgres::{Config, NoTls};

/// The user of that number has no rights anywhere.
const NOBODY: u32 = 65534;

/// The name of the socket's port: nothing listens on the network.
const PORT: u16 = 5432;

/// How long the server may take to answer when it is started.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server. Dropping it ends it as a failing machine does; its folder is left.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    /// Words before the program.
    run: Vec<String>,
    process: Started,
}

impl Postgres {
    /// The folder of the newest installed server's programs: where Debian puts them, or on the path.
    fn programs() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut packaged: Vec<_> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
            .collect();
        packaged.sort();
        let mut folders = packaged.into_iter().rev().chain(std::env::split_paths(&path));
        folders.find(|folder| folder.join("initdb").is_file())
    }

    /// Whether there is one to be started.
    pub fn is_installed() -> bool {
        Self::programs().is_some()
    }

    /// Makes an empty database in a folder below `dir`, with logical replication, and starts the server; `run` are
    /// words before its program. It does not wait for the disk: what is killed here is processes, and not the machine.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn create(dir: &Path, run: &[String]) -> Result<Self> {
        let programs = Self::programs().ok_or("PostgreSQL is not installed: `initdb` was not found")?;
        let folder = dir.join("postgres");
        fs::create_dir(&folder)?;
        if is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        let mut initdb = program(&programs.join("initdb"), &[]);
        initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
        let output = children::output(initdb.arg(folder.join("data")))?;
        if !output.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        let process = spawn(&programs, &folder, run)?;
        let server = Self { folder, programs, run: run.to_vec(), process };
        server.wait_ready()?;
        Ok(server)
    }

    /// How it is reached.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(&self.folder).port(PORT).user("postgres").dbname("postgres");
        config
    }

    /// The same as a word of a command line.
    pub fn words(&self) -> String {
        format!("host={} port={PORT} user=postgres dbname=postgres", self.folder.display())
    }

    /// Starts it again where it was, and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = spawn(&self.programs, &self.folder, &self.run)?;
        self.wait_ready()
    }

    /// Ends it as a failing machine does: without a word to anybody. Its log has everything that was committed.
    ///
    /// # Errors
    /// It has ended before.
    pub fn crash(&mut self) -> Result<()> {
        self.end(Signal::QUIT)
    }

    /// Has it end in an orderly way.
    ///
    /// # Errors
    /// It has ended before.
    pub fn shut_down(&mut self) -> Result<()> {
        self.end(Signal::INT)
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)?;
        self.process.wait()?;
        Ok(())
    }

    /// Stops all its processes where they are, or lets them continue.
    ///
    /// # Errors
    /// The system does not say which they are.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let own = self.process.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
        self.process.signal(signal)?;
        for child in children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
            // One that has just ended is stopped enough.
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    fn wait_ready(&self) -> Result<()> {
        let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let begun = Instant::now();
        while let Err(error) = tasks.block_on(self.config().connect(NoTls)).map(drop) {
            if begun.elapsed() > READY_WITHIN {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(format!("PostgreSQL does not answer: {error}: {last}").into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An error means that it has ended already. A stopped server would not learn of its end.
        let _ = self.signal(Signal::CONT);
        let _ = self.crash();
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A program of the server, under a user that it accepts.
fn program(path: &Path, run: &[String]) -> Command {
    let mut words = run.iter().map(PathBuf::from).chain([path.to_owned()]);
    let mut command = Command::new(words.next().expect("the program is one of them"));
    command.args(words);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command
}

fn spawn(programs: &Path, folder: &Path, run: &[String]) -> Result<Started> {
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    let mut postgres = program(&programs.join("postgres"), run);
    postgres.arg("-D").arg(folder.join("data")).arg("-k").arg(folder).arg("-p").arg(PORT.to_string());
    for setting in ["listen_addresses=", "wal_level=logical", "fsync=off", "autovacuum_naptime=10min"] {
        postgres.args(["-c", setting]);
    }
    Ok(Started::spawn(postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log), Signal::QUIT)?)
}
