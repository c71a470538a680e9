//! Opening a database: a directory of this process. `connect` is for a server.

use crate::connect::Eligible;
use crate::references::references;
use crate::shared::Shared;
use crate::tx::VOLUME;
use crate::wait::block_on;
use crate::{Db, Error, Result};
use client::Client;
use net::{Host, HostEnd, Runtime};
use node::{Disk, Node};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use store::{DiskDone, DiskWork, Store};
use types::{ClientId, ObjectId};

/// What may be tuned before a database is opened; everything has a default.
///
/// ```
/// # use objects as thorp;
/// # let dir = std::env::temp_dir().join(format!("thorp-doc-builder-{}", std::process::id()));
/// let db = thorp::Db::builder().cache_bytes(8 << 20).log_bytes(32 << 20).open(&dir)?;
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), thorp::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) client: client::Config,
    store: store::Config,
    disk: disk::Config,
    log_bytes: Option<usize>,
    pub(crate) connect_within: Duration,
    pub(crate) eligible: Option<Eligible>,
    pub(crate) insecure: bool,
}

impl Db {
    /// Opens the store in a directory, in this process; a missing or empty directory becomes a new store.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let dir = std::env::temp_dir().join(format!("thorp-doc-open-{}", std::process::id()));
    /// let db = thorp::Db::open(&dir)?;
    /// db.transact(|tx| {
    ///     let counter = tx.create(thorp::Anywhere, &1_u64)?;
    ///     tx.set_root("counter", counter)
    /// })?;
    /// db.close()?;
    ///
    /// let db = thorp::Db::open(&dir)?;
    /// let counter = db.transact(|tx| tx.root::<u64>("counter"))?.expect("it was given a name");
    /// assert_eq!(db.transact(|tx| tx.get(counter))?, 1);
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Open`] with a line that says what is wrong and what to do: the directory is in use, it is no store, it
    /// is damaged.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(dir)
    }

    /// A database with other settings than the default ones.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Closes the database, for all its handles. If it is a directory of this process, everything that was committed is
    /// written home, and the directory is free. Dropping the last handle does the same, and says nothing if it fails.
    /// Other handles to the same database are of no use afterwards: what they are asked for is refused at once, as
    /// [`Error::Closed`].
    ///
    /// ```
    /// # use objects as thorp;
    /// let db = thorp::Db::in_memory()?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.transact(|tx| tx.names()), Err(thorp::Error::Closed)));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the disk says, and [`Error::Closed`] if it was closed before.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}

impl Builder {
    /// The memory for cached pages, in bytes. 64 MiB by default.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.client.cache_bytes_limit = bytes;
        self
    }

    /// The most pages that are fetched ahead with one that is needed because they lie beside it, 16 by default. 0 turns
    /// that off, and with it that pages come which those that are needed refer to.
    pub fn prefetch_pages(mut self, pages: u32) -> Self {
        self.client.prefetch_pages_max = pages;
        self
    }

    /// Whether [`crate::Tx::read_ahead`] fetches what is said to be read soon. It does by default; without it, and without
    /// prefetching, each page costs a round trip of its own, as in systems that fetch on demand only.
    pub fn read_ahead(mut self, read_ahead: bool) -> Self {
        self.client.reads_ahead = read_ahead;
        self
    }

    /// Whether a transaction that has only read, and has fetched from the store since it began, commits without asking.
    /// It does by default: what it has read was current when the store answered. Without it, each commit is a round trip.
    pub fn commit_fresh(mut self, commit_fresh: bool) -> Self {
        self.client.commits_fresh = commit_fresh;
        self
    }

    /// How long a transaction waits for an answer of the store, be it that the store cannot be reached or that the line
    /// to it is slow; and how long one that others get ahead of is tried again. 30 seconds by default. A commit that has
    /// been sent by then ends as [`crate::Error::OutcomeUnknown`]: who commits much over a slow line needs more patience
    /// than the line needs time.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.client.patience = patience;
        self
    }

    /// Committed changes that may wait in memory to be written home, in bytes: the modified object buffer. 64 MiB by
    /// default. For [`Builder::open`].
    pub fn mob_bytes(mut self, bytes: usize) -> Self {
        self.store.mob_bytes_limit = bytes;
        self
    }

    /// The store's memory for pages, in bytes. 64 MiB by default. For [`Builder::open`].
    pub fn store_cache_bytes(mut self, bytes: usize) -> Self {
        self.store.cache_bytes_limit = bytes;
        self
    }

    /// What the log of commits may grow to on disk, in bytes; an eighth of it is taken at once. By default 1 GiB, or
    /// four times the MOB if that is more. For [`Builder::open`].
    pub fn log_bytes(mut self, bytes: usize) -> Self {
        self.log_bytes = Some(bytes);
        self
    }

    /// Whether [`Builder::open`] makes a store where there is none. It does by default.
    pub fn create(mut self, create: bool) -> Self {
        self.disk.create = create;
        self
    }

    /// Opens a directory, see [`Db::open`].
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        let refused = |error: disk::DiskError| Error::Open(error.to_string());
        let mut opening = disk::open(dir.as_ref(), &self.disk_config()).map_err(refused)?;
        let mut store = Store::new(self.store_config(), opening.opened().clone());
        while let Some((position, record)) = opening.next_record().map_err(refused)? {
            store.recover(position, record);
        }
        let disk = Arc::new(Borrowed(Mutex::new(Some(Arc::new(opening.finish().map_err(refused)?)))));
        // There is no connection that would carry little at first.
        let client = client::Config { first_window_bytes: usize::MAX, follows: false, ..self.client.clone() };
        let node = Node::with_store(store, Some(Client::new(client, new_client())));
        let host = Host::start(node, Some(disk.clone()), runtime()?);
        let embedded = Embedded { host: host.clone(), disk };
        Ok(self.db(host, Some(embedded)))
    }

    pub(crate) fn db(&self, host: Arc<Host>, embedded: Option<Embedded>) -> Db {
        let node = host.node().clone();
        Db { shared: Arc::new(Shared::new(node, host, self.client.patience, embedded)) }
    }

    /// A client of a server. The names are what an application looks for first.
    pub(crate) fn client(&self) -> Client {
        let first = self.client.reads_ahead.then(|| ObjectId::root(VOLUME));
        Client::new(client::Config { first, ..self.client.clone() }, new_client())
    }

    fn store_config(&self) -> store::Config {
        store::Config { references, ..self.store.clone() }
    }

    fn disk_config(&self) -> disk::Config {
        let config = self.disk.clone();
        let whole = config.segment_bytes * config.segments_max;
        let bytes = self.log_bytes.unwrap_or(whole.max(disk::LOG_OVER_MOB * self.store.mob_bytes_limit));
        disk::Config { segment_bytes: (bytes / config.segments_max).next_multiple_of(4096), ..config }
    }
}

/// An identity that nobody else has.
pub(crate) fn new_client() -> ClientId {
    // The standard library's hasher is the nearest randomness: each is keyed anew.
    ClientId(RandomState::new().hash_one(()))
}

/// The threads of all databases of this process, however many databases.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started =
        Runtime::start().map_err(|error| Error::Open(format!("cannot start threads for the network: {error}")))?;
    Ok(RUNTIME.get_or_init(|| started))
}

/// A store in this process.
#[derive(Debug)]
pub(crate) struct Embedded {
    host: Arc<Host>,
    disk: Arc<Borrowed>,
}

impl Embedded {
    /// Refuses new commits, writes everything home, and sets the directory free.
    pub(crate) fn close(self) -> Result<()> {
        let ended = end(&self.host);
        let Some(disk) = self.disk.take() else { return ended };
        ended.and(sole(disk).close().map_err(|error| Error::Open(error.to_string())))
    }
}

/// The disk, as the host has it until the store is closed. Other handles of the application's keep the host alive, and
/// must not keep the directory.
#[derive(Debug)]
struct Borrowed(Mutex<Option<Arc<disk::RealDisk>>>);

impl Borrowed {
    fn get(&self) -> Option<Arc<disk::RealDisk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Option<Arc<disk::RealDisk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Disk for Borrowed {
    fn submit(&self, work: DiskWork) {
        if let Some(disk) = self.get() {
            disk.submit(work);
        }
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        self.get().is_some_and(|disk| disk.flush(done))
    }

    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>) {
        if let Some(disk) = self.get() {
            disk.on_done(done);
        }
    }

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        if let Some(disk) = self.get() {
            disk.on_failed(failed);
        }
    }
}

fn end(host: &Host) -> Result<()> {
    host.close();
    match block_on(host.ended()) {
        HostEnd::Closed => Ok(()),
        HostEnd::Failed(why) => Err(Error::Open(format!("{why}; what was committed is safe: open it again"))),
    }
}

/// What nobody else holds any more. The host's tasks hold it, and its disk, for a moment at a time; the directory must
/// be free when a store was closed, because the next thing may be to open it again.
fn sole<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(sole) => return sole,
            Err(still_held) => shared = still_held,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
