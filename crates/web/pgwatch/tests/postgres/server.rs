//! A PostgreSQL server of a test's own: in a temporary folder, on a Unix socket, under another user if this one is
//! root, whom it refuses.

use pgwatch::{Map, WatchConfig};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

/// The user of that number has no rights anywhere.
const NOBODY: u32 = 65534;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs.
pub(crate) struct Postgres {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

/// A session with it, for one thread at a time.
pub(crate) struct Session {
    client: Client,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().enable_time().build().unwrap()
    })
}

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// The folder of the newest installed server's programs.
fn programs() -> Option<PathBuf> {
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut packaged: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    packaged.sort();
    packaged.into_iter().rev().chain(on_path).find(|folder| folder.join("initdb").is_file())
}

/// A program of the server, under a user that it accepts.
fn program(name: &str) -> Command {
    let mut command = Command::new(programs().expect("it was looked for before").join(name));
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command
}

/// A folder that the server's user owns.
fn own(folder: &Path) {
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Whether there is a server to be had; says so if not. In CI there has to be.
pub(crate) fn is_installed() -> bool {
    let is_installed = programs().is_some();
    assert!(is_installed || std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
    if !is_installed {
        println!("skipped, because PostgreSQL is not installed");
    }
    is_installed
}

impl Postgres {
    /// A new database with logical replication, and these settings besides.
    pub(crate) fn start(settings: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("thorp-test-pg-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        own(&folder);
        let mut initdb = program("initdb");
        initdb
            .args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"])
            .arg(folder.join("data"));
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        // The port names the socket alone, unless a test listens.
        let port = 20_000 + (std::process::id() * 16 + number) as u16 % 20_000;
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut server = Self { folder, port, settings, process: None };
        server.start_again();
        server
    }

    /// Starts it where it was, and waits until it answers.
    pub(crate) fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
        for setting in ["listen_addresses=", "wal_level=logical", "fsync=off", "max_prepared_transactions=2"] {
            postgres.args(["-c", setting]);
        }
        for setting in &self.settings {
            postgres.args(["-c", setting]);
        }
        postgres.arg("-p").arg(self.port.to_string());
        self.process = Some(postgres.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let begun = Instant::now();
        while block_on(self.config().connect(NoTls)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "no server: {}", fs::read_to_string(self.folder.join("log")).unwrap());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How it is reached.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(&self.folder).port(self.port).user("postgres").dbname("postgres");
        config
    }

    /// How another server reaches it, in words.
    pub(crate) fn words(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.folder.display(), self.port)
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// How it is watched.
    pub(crate) fn watched(&self, map: &str) -> WatchConfig {
        WatchConfig {
            ping: Duration::from_millis(100),
            retry: Duration::from_millis(20),
            ..WatchConfig::new(self.config(), "thorp", Map::parse(map).unwrap())
        }
    }

    /// A session.
    pub(crate) fn session(&self) -> Session {
        Session::open(&self.config())
    }

    /// Ends it as a failing machine does.
    pub(crate) fn crash(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let id = process.id().to_string();
        assert!(Command::new("kill").args(["-QUIT", &id]).status().unwrap().success());
        process.wait().unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.crash();
        }
        if !thread::panicking() {
            fs::remove_dir_all(&self.folder).unwrap();
        }
    }
}

impl Session {
    /// Opens a session like this.
    pub(crate) fn open(config: &Config) -> Self {
        let (client, connection) = block_on(config.connect(NoTls)).unwrap();
        runtime().spawn(connection);
        Self { client }
    }

    /// Runs statements.
    pub(crate) fn run(&self, statements: &str) {
        block_on(self.client.batch_execute(statements)).unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Runs statements that may fail.
    pub(crate) fn try_run(&self, statements: &str) -> Result<(), tokio_postgres::Error> {
        block_on(self.client.batch_execute(statements))
    }

    /// The first value that a query finds, as text.
    pub(crate) fn ask(&self, query: &str) -> String {
        let found = block_on(self.client.simple_query(query)).unwrap_or_else(|error| panic!("{query}: {error:?}"));
        let row = found.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        row.unwrap_or_default()
    }

    /// The process of its server's end.
    pub(crate) fn process(&self) -> String {
        self.ask("SELECT pg_backend_pid()")
    }
}
