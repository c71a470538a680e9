//! A PostgreSQL server of a test's own, and sessions with it.

use fixtures::Folder;
use fixtures::installed::or_skipped;
use pgwatch::{Map, WatchConfig};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

/// A server that runs.
pub(crate) struct Postgres {
    server: fixtures::Postgres,
    // It goes last.
    _folder: Folder,
}

impl Deref for Postgres {
    type Target = fixtures::Postgres;

    fn deref(&self) -> &Self::Target {
        &self.server
    }
}

impl DerefMut for Postgres {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.server
    }
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

/// Whether there is a server to be had; says so if not. In CI there has to be.
pub(crate) fn is_installed() -> bool {
    or_skipped(fixtures::Postgres::is_installed(), "PostgreSQL")
}

impl Postgres {
    /// A new database with logical replication, and these settings besides.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let folder = Folder::new();
        // The server's user has to pass through it.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let settings = [&["max_prepared_transactions=2"], settings].concat();
        Self { server: fixtures::Postgres::create(folder.path(), &settings).unwrap(), _folder: folder }
    }

    /// How it is reached.
    pub(crate) fn config(&self) -> Config {
        self.words().parse().unwrap()
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
