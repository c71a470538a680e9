//! The file server of a node of a store of several: it takes up the sites that are at home here, and fetches those that
//! should be.
//!
//! ```text
//!   connect to the store, at this node --> look at the homes of all spaces, again when places change
//!     home here, of an earlier term: take it in a new term, and serve
//!     home at another node, and the shard of the space is here or comes: copy the chunks while that node serves,
//!       have it hand the space over, copy the rest, take the home in one transaction, and serve
//!     home at another node now: forget
//! ```
//! A shard that moves here closes at its old node when its sites are here (**SitesBeforeClose**): so a node whose
//! shards were moved away has no sites either.
//!
//! The server lives as long as the process, whatever becomes of the node's lease: homes and terms protect the records.

use super::FileService;
use super::disk::ServerDisk;
use super::homes::{Homes, Places, on_record};
use crate::depot::Depot;
use crate::error::FilesError;
use crate::home::{SiteHome, has_sites};
use crate::line::{Threads, lock};
use crate::local::Local;
use crate::record::{SiteName, SiteRecord};
use crate::records::{Records, revisions, sites_in};
use crate::remote::{HandedOver, Remote, Server};
use crate::sites::Transfer;
use net::{Beside, Handle, Runtime};
use objects::{Db, Tx};
use spread::server_work::SiteState;
use spread::{FileServer, SiteKey};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tree::ChunkHash;
use types::{NodeId, Shard};

/// How often places and leaving spaces are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often homes are looked at without news.
const HOMES_EVERY: Duration = Duration::from_secs(10);

/// How long sites may fail to come before operators are told.
const TROUBLE_AFTER: Duration = Duration::from_secs(10);

/// How soon something is tried again that has failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a space may be handed over without a new home before it is taken up again.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a space may be handed over once the node that wants it is lost.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// The memory for the records of sites, and how long a transaction on them is tried.
const CACHE_BYTES: usize = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Chunks of uploads that are copied at a time.
const LOOSE_AT_A_TIME: usize = 256;

/// The sites of a node.
#[derive(Debug)]
pub struct NodeSites {
    service: FileService,
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    lease: Duration,
    homes: Arc<Homes>,
    server: Handle<FileServer>,
    disk: std::sync::Weak<ServerDisk>,
    is_over: Arc<AtomicBool>,
    /// The shards that move here and whose sites are here.
    complete: Mutex<BTreeSet<Shard>>,
    /// The obstacle to the move of sites that should be here, and since when there is one.
    trouble: Mutex<Option<(Instant, String)>>,
    /// Since when spaces are being handed over.
    leaving: Mutex<HashMap<String, Instant>>,
}

impl NodeSites {
    /// Starts the file server of a node in `dir`. Subscribers have leases of this length, which is the same at all
    /// nodes.
    ///
    /// # Errors
    /// Chunks that cannot be opened, and threads that cannot be started.
    pub fn start(own: NodeId, dir: &Path, lease: Duration, runtime: &Runtime) -> Result<Self, FilesError> {
        let homes = Arc::new(Homes::new(own));
        let (service, server) = FileService::of_node(homes.clone(), dir, lease, runtime)?;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            lease,
            homes,
            server,
            disk: service.disk.clone(),
            is_over: Arc::default(),
            complete: Mutex::default(),
            trouble: Mutex::default(),
            leaving: Mutex::default(),
        });
        Ok(Self { service, shared, threads: Arc::default() })
    }

    /// Begins to take up sites, once the node listens at this address.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn open(&self, address: &str) -> Result<(), FilesError> {
        let (shared, address) = (self.shared.clone(), address.to_owned());
        self.threads.spawn("node-sites", move || shared.run(&address)).map_err(FilesError::Thread)
    }

    /// The node knows where the shards are.
    pub fn set_places(&self, places: Places) {
        self.shared.homes.set_places(places);
    }

    /// The shards that move here and whose sites have come: their old nodes may close them.
    pub fn complete(&self) -> Vec<Shard> {
        lock(&self.shared.complete).iter().copied().collect()
    }

    /// The obstacle to the move of sites that should be here, if there has been one for some time.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).clone().filter(|(since, _)| since.elapsed() > TROUBLE_AFTER).map(|(_, why)| why)
    }

    /// Asks why the bucket of the chunks cannot be used, if its last request has failed.
    pub fn bucket_trouble(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        self.service.bucket_trouble()
    }

    /// The machine, for the listener of the node.
    pub fn beside(&self, sessions_max: usize) -> Beside {
        self.service.beside(sessions_max)
    }
}

impl Drop for NodeSites {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        if let Some(db) = self.shared.homes.db() {
            // Transactions that run end.
            let _ = db.clone().close();
        }
        self.threads.join();
    }
}

impl Shared {
    fn run(&self, address: &str) {
        let Some(db) = self.connect(address) else { return };
        self.homes.set_db(db);
        let (mut seen, mut due) = (None, Instant::now());
        while !self.is_over.load(Relaxed) {
            let Some(places) = self.homes.places() else {
                sleep(LOOK_EVERY);
                continue;
            };
            self.look_after_leaving(&places);
            if seen.as_ref() != Some(&places) || Instant::now() >= due {
                let is_done = self.look(&places);
                due = Instant::now() + if is_done { HOMES_EVERY } else { AGAIN_AFTER };
                seen = Some(places);
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Connects to the node itself, which serves when its shards are open.
    fn connect(&self, address: &str) -> Option<Db> {
        while !self.is_over.load(Relaxed) {
            let builder = Db::builder().cache_bytes(CACHE_BYTES).patience(PATIENCE);
            if let Ok(db) = builder.connect(address) {
                return Some(db);
            }
            sleep(LOOK_EVERY);
        }
        None
    }

    /// Looks at the homes of all spaces. Returns whether nothing is left to do.
    fn look(&self, places: &Places) -> bool {
        let (spaces, are_all) = self.homes.spaces();
        self.server.look(|server| server.forget_unused(|space| self.homes.has_term(space)));
        let mut left = BTreeMap::new();
        // Sites that are here are served first: fetching others may take long.
        for fetches in [false, true] {
            for (number, space) in &spaces {
                if self.is_over.load(Relaxed) {
                    return false;
                }
                left.remove(number);
                if let Err(error) = self.look_at(places, *number, space, fetches) {
                    left.insert(*number, format!("the sites of space '{space}' are not here yet: {error}"));
                }
            }
        }
        let own = self.homes.own;
        let moves = |number: &u32| places.home_of(*number) == Some(own);
        let why = left.iter().find(|(number, _)| moves(number)).map(|(_, why)| why.clone());
        let mut trouble = lock(&self.trouble);
        let since = trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *trouble = why.map(|why| (since, why));
        drop(trouble);
        let waits =
            places.shards.iter().filter(|_| are_all).filter(|(_, at)| at.to == Some(own)).map(|(shard, _)| *shard);
        let lacks = |shard: &Shard| left.keys().any(|number| places.shard_of(*number) == *shard);
        *lock(&self.complete) = waits.filter(|shard| !lacks(shard)).collect();
        left.is_empty() && are_all
    }

    /// Takes up the sites of a space, has them come, or forgets them.
    fn look_at(&self, places: &Places, number: u32, space: &str, fetches: bool) -> Result<(), FilesError> {
        let Some(db) = self.homes.db() else { return Ok(()) };
        if self.is_leaving(space) {
            return Ok(());
        }
        let is_meant = places.home_of(number) == Some(self.homes.own);
        if let Some(node) = places.missed(number) {
            // Its sites are not known. A shard that comes from there waits for them (**SitesBeforeClose**).
            let away = || Err(FilesError::Server(format!("node {}", node.0), "it is away".to_owned()));
            return if is_meant { away() } else { Ok(()) };
        }
        let is_served = self.server.look(|server| server.own_spaces()).iter().any(|own| own == space);
        match on_record(db, space)? {
            Some(home) if self.homes.is_own(space, home) && is_served => Ok(()),
            Some(home) if home.node == self.homes.own.0 => self.take(space, Some(home), self.lease, Vec::new()),
            Some(home) => {
                if is_served {
                    self.server.call_if(|server, now| (server.forget(now, space), true));
                }
                if is_meant && fetches { self.fetch(places, home, space) } else { Ok(()) }
            }
            None if is_meant && !is_served && db.space(space)?.transact(has_sites)? => {
                self.take(space, None, self.lease, Vec::new())
            }
            // Nothing was published.
            None if is_served && !is_meant => {
                self.server.call_if(|server, now| (server.forget(now, space), true));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn is_leaving(&self, space: &str) -> bool {
        self.server.look(|server| server.leaving_spaces()).iter().any(|(of, _)| of == space)
    }

    /// Takes the home of a space from `before`, in a new term, and serves its sites.
    fn take(
        &self,
        space: &str,
        before: Option<SiteHome>,
        lease: Duration,
        uploads: Vec<ChunkHash>,
    ) -> Result<(), FilesError> {
        let Some(db) = self.homes.db() else { return Ok(()) };
        let home = self.homes.next_home(space)?;
        let key = |name: String| SiteKey { space: space.to_owned(), name };
        let read = |tx: &mut Tx, name: String, record: SiteRecord| super::records::state(tx, key(name), &record);
        let taken = db.space(space)?.transact(|tx| -> objects::Result<Option<Vec<SiteState>>> {
            let found = SiteHome::find(tx)?;
            // Its own, if the outcome of the transaction was unknown.
            if found != before && found != Some(home) {
                return Ok(None);
            }
            home.set(tx)?;
            sites_in(tx, read).map(Some)
        })?;
        let sites = taken.ok_or(FilesError::OtherHome)?;
        self.server.call_if(|server, now| (server.adopt(now, space, sites, (lease, uploads)), true));
        Ok(())
    }

    /// Has the sites of a space come from the node that is their home.
    fn fetch(&self, places: &Places, home: SiteHome, space: &str) -> Result<(), FilesError> {
        let node = NodeId(home.node);
        let Some(address) = places.address(node).filter(|_| places.is_up(node)) else {
            return Err(FilesError::Server(format!("node {}", node.0), "it is away".to_owned()));
        };
        if !self.server.call_if(|server, _| (server.begin_copy(), false)) {
            return Err(FilesError::Server("this node".to_owned(), "chunks are being removed".to_owned()));
        }
        let fetched = self.fetch_from(address, home.node, space);
        self.server.call_if(|server, _| (server.end_copy(), true));
        fetched
    }

    fn fetch_from(&self, address: &str, node: u16, space: &str) -> Result<(), FilesError> {
        let (Some(db), Some(disk)) = (self.homes.db(), self.disk.upgrade()) else { return Ok(()) };
        let db = db.space(space)?;
        let is_over = self.is_over.clone();
        let server = Server {
            addresses: address.to_owned(),
            space: space.to_owned(),
            cache: None,
            is_given_up: Arc::new(move || is_over.load(Relaxed)),
        };
        let records = Records::at_server(Some(db.clone()));
        let from = Remote::connect(server, records.clone())?;
        let to = Local::of(records, &self.dir, disk.open_chunks()?);
        self.copy(&db, &from, &to)?;
        let HandedOver { term, lease, hashes } = from.hand_over(space, self.homes.own)?;
        // Later revisions.
        self.copy(&db, &from, &to)?;
        for part in to.missing(&hashes)?.chunks(LOOSE_AT_A_TIME) {
            copy_loose(&from, &to, part)?;
        }
        let before = SiteHome { node, term };
        self.take(space, Some(before), lease, hashes)
    }

    /// Copies the chunks of all revisions that are missing here.
    fn copy(&self, db: &Db, from: &Remote, to: &Local) -> Result<(), FilesError> {
        let all = db.transact(|tx| sites_in(tx, |tx, name, record| Ok((name, revisions(tx, record.revisions)?))))?;
        for (name, revisions) in all {
            let site = SiteName::parse(&name)?;
            let transfer = Transfer { from, to, site: &site, repairs: false };
            let mut older = None;
            for revision in revisions.iter().rev() {
                let over = || Err(FilesError::Interrupted);
                transfer.revision(&site, revision, older, &mut |_| {
                    if self.is_over.load(Relaxed) { over() } else { Ok(()) }
                })?;
                older = Some(revision.root());
            }
        }
        Ok(())
    }

    /// Forgets spaces that were handed over when their next home is on record, and takes them up again if it does not
    /// come.
    fn look_after_leaving(&self, places: &Places) {
        let Some(db) = self.homes.db() else { return };
        let all = self.server.look(|server| server.leaving_spaces());
        let mut since = lock(&self.leaving);
        since.retain(|space, _| all.iter().any(|(of, _)| of == space));
        for (space, is_lost) in all {
            let begun = *since.entry(space.clone()).or_insert_with(Instant::now);
            let Ok(home) = on_record(db, &space) else { continue };
            let is_own = home.is_some_and(|home| home.node == self.homes.own.0);
            if !is_own {
                self.server.call_if(|server, now| (server.forget(now, &space), true));
            } else if begun.elapsed() > if is_lost { BACK_WITHIN } else { TAKEN_WITHIN }
                || !self.is_wanted(places, &space)
            {
                // The transaction of the other node fails from then on.
                let _ = self.take(&space, home, self.lease, Vec::new());
            }
        }
    }

    /// Whether another node should have a space, and is there.
    fn is_wanted(&self, places: &Places, space: &str) -> bool {
        let number = self.homes.db().and_then(|db| self.homes.number(db, space).ok().flatten());
        let home = number.and_then(|number| places.home_of(number));
        home.is_some_and(|home| home != self.homes.own && places.is_up(home))
    }
}

/// Copies chunks of uploads. A missing chunk was not sent yet.
fn copy_loose(from: &Remote, to: &Local, hashes: &[ChunkHash]) -> Result<(), FilesError> {
    use tree::Source;
    from.expect_chunks(hashes);
    let mut chunks = Vec::new();
    for hash in hashes {
        match from.chunk(hash) {
            Ok(bytes) => chunks.push((*hash, bytes)),
            Err(FilesError::MissingChunk(_)) => {}
            Err(error) => return Err(error),
        }
    }
    to.put_chunks(&chunks)
}
