//! Opening a database, and what may be chosen before.

use crate::references::references;
use crate::{Db, Result};
use database::{Config, Database, Eligible, MAIN_SPACE_NAME, block_on, check_application_space};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use types::{CATALOG_SPACE, MAIN_SPACE, ObjectId};

/// The options of a database before it is opened; everything has a default.
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
    pub(crate) config: Config,
    /// The name of the space to open, if it is not the main one.
    space: Option<String>,
    /// The node of this process.
    #[cfg(feature = "cluster")]
    pub(crate) node: membership::Embedded,
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
    /// [`crate::Error::Open`] with a line that says what is wrong and what to do: the directory is in use, it is no store, it
    /// is damaged.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(dir)
    }

    /// A store in memory, gone when the last handle to it is dropped.
    ///
    /// ```
    /// # use objects as thorp;
    /// let db = thorp::Db::in_memory()?;
    /// let greeting = db.transact(|tx| tx.create(thorp::Anywhere, &"hello".to_string()))?;
    /// assert_eq!(db.transact(|tx| tx.get(greeting))?, "hello");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn in_memory() -> Result<Self> {
        Ok(Self::on(Database::in_memory()?))
    }

    /// Connects to the server at an address such as `127.0.0.1:7411`, or to the redirector of a group. Of several
    /// addresses, such as `thorp://shed:7412,store:7411`, the first that answers is taken: a group's members name its
    /// redirector, and the store behind it for when there is none. A connection that is lost later is opened again and
    /// again, and the cache stays.
    ///
    /// ```
    /// # use objects as thorp;
    /// let error = thorp::Db::connect("127.0.0.1:9").unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9: connection refused"));
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Open`] with a line that says what is wrong and what to do: the text is no list of addresses, nobody
    /// listens there, or no Thorp server.
    pub fn connect(addresses: impl ToString) -> Result<Self> {
        Self::builder().connect(addresses)
    }

    /// [`Db::connect`] as a future. Called from a task of tokio, the database's connection is that runtime's: answers
    /// are received by the thread that waits for them. The runtime needs its drivers (`enable_all`) and must outlive
    /// the database. On any other executor, threads of our own receive; and for a member of a group they always do,
    /// because its peers are answered whatever the application computes.
    ///
    /// ```
    /// # use objects as thorp;
    /// # thorp::wait_for(async {
    /// let error = thorp::Db::connect_async("127.0.0.1:9").await.unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9: connection refused"));
    /// # });
    /// ```
    pub async fn connect_async(addresses: impl ToString) -> Result<Self> {
        Self::builder().connect_async(addresses).await
    }

    /// A database with other settings than the default ones.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Closes the database, for all its handles. If it is a directory of this process, everything that was committed is
    /// written home, and the directory is free. Dropping the last handle does the same, and says nothing if it fails.
    /// Other handles to the same database are of no use afterwards: their operations are refused at once, as
    /// [`crate::Error::Closed`].
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
    /// An error of the disk, and [`crate::Error::Closed`] if it was closed before.
    pub fn close(self) -> Result<()> {
        Ok(self.database.close()?)
    }
}

impl Builder {
    /// The memory for cached pages, in bytes. 64 MiB by default.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.config.client.cache_bytes_limit = bytes;
        self
    }

    /// The most pages that are fetched ahead with one that is needed because they lie beside it, 16 by default. 0 turns
    /// that off, and with it that pages come which those that are needed refer to.
    pub fn prefetch_pages(mut self, pages: u32) -> Self {
        self.config.client.prefetch_pages_max = pages;
        self
    }

    /// Whether [`crate::Tx::read_ahead`] fetches what is said to be read soon. It does by default; without it, and
    /// without prefetching, each page costs a round trip of its own, as in systems that fetch on demand only.
    pub fn read_ahead(mut self, read_ahead: bool) -> Self {
        self.config.client.reads_ahead = read_ahead;
        self
    }

    /// Whether a transaction that has only read, and has fetched from the store since it began, commits without asking.
    /// It does by default: what it has read was current when the store answered. Without it, each commit is a round
    /// trip.
    pub fn commit_fresh(mut self, commit_fresh: bool) -> Self {
        self.config.client.commits_fresh = commit_fresh;
        self
    }

    /// How long a transaction waits for an answer of the store, be it that the store cannot be reached or that the line
    /// to it is slow; and how long one that others get ahead of is tried again. 30 seconds by default. A commit that
    /// has been sent by then ends as [`crate::Error::OutcomeUnknown`]: an application that commits much over a slow
    /// line needs more patience than the line needs time.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.config.client.patience = patience;
        self
    }

    /// Committed changes that may wait in memory to be written home, in bytes: the modified object buffer. 64 MiB by
    /// default. For a store in this process.
    pub fn mob_bytes(mut self, bytes: usize) -> Self {
        self.config.store.mob_bytes_limit = bytes;
        self
    }

    /// The store's memory for pages, in bytes. 64 MiB by default. For a store in this process.
    pub fn store_cache_bytes(mut self, bytes: usize) -> Self {
        self.config.store.cache_bytes_limit = bytes;
        self
    }

    /// The largest size of the log of commits on disk, in bytes; an eighth of it is taken at once. By default 1 GiB, or
    /// four times the MOB if that is more. For a store in this process.
    pub fn log_bytes(mut self, bytes: usize) -> Self {
        self.config.log_bytes = Some(bytes);
        self
    }

    /// The space of the store that the database is opened on, by name; made if there is none, see [`Builder::create`].
    /// The main one by default. A name has at most 64 letters of ASCII, digits, `-`, `_` and `.`, and begins with a
    /// letter.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let dir = std::env::temp_dir().join(format!("thorp-doc-space-{}", std::process::id()));
    /// let plans = thorp::Db::builder().space("plans").open(&dir)?;
    /// plans.transact(|tx| tx.map::<String, String>("documents"))?;
    /// plans.close()?;
    ///
    /// let main = thorp::Db::open(&dir)?;
    /// assert!(main.transact(|tx| tx.names())?.is_empty());
    /// # main.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn space(mut self, name: impl Into<String>) -> Self {
        self.space = Some(name.into());
        self
    }

    /// Whether what is opened is made where there is none: the store of [`Builder::open`], and the space of
    /// [`Builder::space`] and [`Db::space`]. It is by default; without it a space that is not there is
    /// [`crate::Error::NoSuchSpace`].
    pub fn create(mut self, create: bool) -> Self {
        self.config.disk.create = create;
        self
    }

    /// Whether the directory of [`Builder::open`] is only read, so that it may lie on a file system that cannot be
    /// written. The log is recovered in memory, and changes fail as [`crate::Error::ReadOnly`]. Several processes can
    /// read a directory at the same time, and no process can write to it then.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let dir = std::env::temp_dir().join(format!("thorp-doc-read-only-{}", std::process::id()));
    /// # thorp::Db::open(&dir)?.close()?;
    /// let db = thorp::Db::builder().read_only(true).open(&dir)?;
    /// let error = db.transact(|tx| tx.create(thorp::Anywhere, &1_u8)).unwrap_err();
    /// assert!(matches!(error, thorp::Error::ReadOnly));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.config.disk.read_only = read_only;
        self
    }

    /// How long [`Builder::connect`] continues trying when nobody answers. Not at all by default: once, and it fails.
    pub fn connect_within(mut self, within: Duration) -> Self {
        self.config.connect_within = within;
        self
    }

    /// The group to be a member of where that can be had: should the client have to speak to the store directly, the
    /// store tells it where the group's redirector is as soon as there is one. A client that has been with the
    /// redirector knows the name from it.
    ///
    /// ```
    /// # use objects as thorp;
    /// let error = thorp::Db::builder().group("office").connect("127.0.0.1:9,127.0.0.1:10").unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9, 127.0.0.1:10: connection refused"));
    /// ```
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.config.client.group = Some(name.into());
        self
    }

    /// This process can be the redirector of its [`Builder::group`]: it takes over when there is none, listens at
    /// `listen`, an address that the other members reach, and speaks to the store at `store`, one or several addresses
    /// as in [`Db::connect`].
    ///
    /// ```no_run
    /// # use objects as thorp;
    /// let listen = "127.0.0.1:7413".parse().unwrap();
    /// let db = thorp::Db::builder()
    ///     .group("office")
    ///     .eligible(listen, "store:7411")
    ///     .connect("shed:7412,store:7411")?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "addresses are small, and callers have them as they come")]
    pub fn eligible(mut self, listen: SocketAddr, store: impl ToString) -> Self {
        self.config.eligible = Some(Eligible { listen, store: store.to_string() });
        self
    }

    /// Whether this process may listen where others than this machine can reach, although connections are neither
    /// encrypted nor authenticated yet. It may not by default.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.config.insecure = insecure;
        self
    }

    /// Opens a directory, see [`Db::open`].
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        let config = self.of_objects()?;
        block_on(self.enter(Database::open(dir.as_ref(), &config)?))
    }

    /// Connects to a server, see [`Db::connect`].
    #[expect(clippy::needless_pass_by_value, reason = "addresses are small, and callers have them as they come")]
    pub fn connect(self, addresses: impl ToString) -> Result<Db> {
        let config = self.of_objects()?;
        block_on(self.enter(Database::connect(&addresses.to_string(), &config)?))
    }

    /// Connects to a server, see [`Db::connect_async`].
    pub async fn connect_async(self, addresses: impl ToString) -> Result<Db> {
        let config = self.of_objects()?;
        self.enter(Database::connect_async(&addresses.to_string(), &config).await?).await
    }

    /// The settings, with what objects bring along: how to find the references in them, and what a client reads first,
    /// which is the space's names; or, to find the space, the catalog.
    pub(crate) fn of_objects(&self) -> Result<Config> {
        let mut config = self.config.clone();
        config.store.references = references;
        let first = match &self.space {
            Some(name) if name != MAIN_SPACE_NAME => {
                check_application_space(name)?;
                CATALOG_SPACE
            }
            _ => MAIN_SPACE,
        };
        config.client.first = config.client.reads_ahead.then(|| ObjectId::root(first));
        Ok(config)
    }

    /// Objects in the space that was chosen.
    pub(crate) async fn enter(self, database: Arc<Database>) -> Result<Db> {
        let db = Db { creates: self.config.disk.create, ..Db::on(database) };
        match &self.space {
            Some(name) => db.space_async(name).await,
            None => Ok(db),
        }
    }
}
