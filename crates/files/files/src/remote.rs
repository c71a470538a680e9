//! The sites of a store that is served: requests to its file server, over a session that comes back by itself.
//!
//! Chunks that are about to be read are asked for together, so a tree costs a round trip for each level of directories
//! and not one for each directory.

use crate::depot::{Collected, Depot, Follower, NewTree, Publishing, Switched};
use crate::error::FilesError;
use crate::locks::{Lock, LockPlace};
use crate::record::{Revision, SiteName};
use crate::records::{Missed, Records, draw};
use bytes::Bytes;
use machine::{RoleId, Waiter};
use net::{ConnectError, Handle, Host, Machines, Runtime, UpstreamConfig, UpstreamState};
use spread::messages::{ChangeKind, Refusal, SUBSCRIBER, Size, Standing};
use spread::{Answer, Client, HELD, LockState, Locking, Number, Request, SiteKey, SiteSettings, Swept, Ticket};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tree::{ChunkHash, Path, Source, nodes_below};
use types::limits::{CHUNKS_PER_PUT_MAX, HASHES_PER_MESSAGE_MAX, PUBLISHER_REQUESTS_MAX, PUT_BYTES_MAX};
use types::{GoodbyeReason, NodeId};
use vfs::make_directory;

/// How long a server that is lost is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long an answer to a hold is waited for. Behind it, the revision is read without.
const HOLD_WITHIN: Duration = Duration::from_secs(10);

/// The interval at which a waiting thread checks that the server is there and the caller still waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Nodes that are asked for at a time.
const NODES_AT_A_TIME: usize = 1000;

/// Chunks that are read at a time to find damaged ones.
const CHECKS_AT_A_TIME: usize = 32;

/// Requests of an upload that are under way at a time.
const REQUESTS_MAX: usize = PUBLISHER_REQUESTS_MAX / 2;

/// A server of sites, as a command names it.
pub struct Server {
    /// Its addresses, separated by commas, which are tried in turn.
    pub addresses: String,
    /// The space of its sites.
    pub space: String,
    /// The folder for what this host remembers of directories that it has published, if there is one.
    pub cache: Option<PathBuf>,
    /// Whether the caller has given up.
    pub is_given_up: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Chunks and records at a server.
pub(crate) struct Remote {
    server: Server,
    client: Handle<Client>,
    host: Arc<Host>,
    role: RoleId,
    records: Records,
    /// The revision that is read.
    reading: Mutex<Option<(SiteName, u64)>>,
    /// Chunks that were read ahead.
    ahead: Mutex<Ahead>,
    /// Some more were.
    came: Condvar,
}

/// A space that was handed over.
pub(crate) struct HandedOver {
    /// The term of the home before.
    pub(crate) term: u64,
    /// The longest lease that it has given.
    pub(crate) lease: Duration,
    /// Chunks of uploads that are in no revision yet.
    pub(crate) hashes: Vec<ChunkHash>,
}

#[derive(Default)]
struct Ahead {
    /// The calls that read all nodes of a tree.
    reading: u32,
    /// Nodes stay, as a tree is walked more than once.
    nodes: HashMap<ChunkHash, Bytes>,
    /// Content that is on its way, and is read once.
    asked: HashMap<ChunkHash, Ticket>,
}

impl Remote {
    /// Connects to the file server of a store.
    pub(crate) fn connect(server: Server, records: Records) -> Result<Self, FilesError> {
        let failed = |why: String| FilesError::Server(server.addresses.clone(), why);
        let upstream = UpstreamConfig::parse(SUBSCRIBER, &server.addresses).map_err(|it| failed(it.to_string()))?;
        let mut machines = Machines::new();
        let (role, client) = machines.add(Client::of_space(draw()?, &server.space));
        let runtime = Runtime::start().map_err(|error| failed(error.to_string()))?;
        let host = Host::start(machines, &runtime);
        host.connect(role, upstream);
        let client = Handle::new(client, host.driver(role));
        Ok(Self {
            server,
            client,
            host,
            role,
            records,
            reading: Mutex::default(),
            ahead: Mutex::default(),
            came: Condvar::new(),
        })
    }

    /// Asks which node is missed, if a node of a store of several says so: the sites' records are probably there, too.
    pub(crate) fn missed(&self) -> Missed {
        let (host, role, addresses) = (Arc::downgrade(&self.host), self.role, self.server.addresses.clone());
        let ask = move || match host.upgrade()?.server_state(role) {
            UpstreamState::Down(ConnectError::Refused { reason: GoodbyeReason::CutOff, text, .. }) => {
                Some((addresses.clone(), text))
            }
            _ => None,
        };
        Missed(Arc::new(ask))
    }

    fn key(&self, site: &SiteName) -> SiteKey {
        SiteKey { space: self.server.space.clone(), name: site.to_string() }
    }

    fn ask(&self, request: Request) -> Ticket {
        self.client.call(|client| client.ask(request))
    }

    /// Waits for the next answer to a request.
    fn wait(&self, ticket: Ticket) -> Result<Answer, FilesError> {
        let answer = self.wait_until(Waiter(ticket.0), |client| client.take(ticket));
        if let Err(FilesError::Interrupted) = answer {
            self.client.look(|client| client.forget(ticket));
        }
        answer
    }

    /// Waits until there is an answer.
    fn wait_until<T>(&self, waiter: Waiter, answer: impl Fn(&mut Client) -> Option<T>) -> Result<T, FilesError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut lost_since = None;
        loop {
            let (answer, is_over) = self.client.look(|client| (answer(client), client.is_over()));
            if let Some(answer) = answer {
                return Ok(answer);
            }
            let failed = |why: String| Err(FilesError::Server(self.server.addresses.clone(), why));
            if is_over {
                return failed("the connection has ended".to_owned());
            }
            match self.host.server_state(self.role) {
                UpstreamState::Over(why) => return failed(why.to_string()),
                UpstreamState::Down(why) => {
                    if lost_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        return failed(why.to_string());
                    }
                }
                UpstreamState::Connecting | UpstreamState::Up(_) => lost_since = None,
            }
            if (self.server.is_given_up)() {
                return Err(FilesError::Interrupted);
            }
            self.client.driver().wake_on(waiter, &waker);
            // An answer that came before the waker was there has woken it.
            thread::park_timeout(LOOK_EVERY);
        }
    }

    /// Has the server hand the sites of the space over to a node that has copied them.
    pub(crate) fn hand_over(&self, space: &str, to: NodeId) -> Result<HandedOver, FilesError> {
        let ticket = self.ask(Request::HandOver(space.to_owned(), to));
        match self.wait_for("", ticket)? {
            Answer::HandedOver { term, lease, hashes } => Ok(HandedOver { term, lease, hashes }),
            other => Err(self.unexpected(&other)),
        }
    }

    fn change(&self, site: &SiteName, kind: ChangeKind, settings: SiteSettings) -> Result<(), FilesError> {
        let ticket = self.ask(Request::Change(self.key(site), kind, settings));
        self.wait_for(site.as_str(), ticket).map(drop)
    }

    /// Waits for the only answer to a request.
    fn wait_for(&self, site: &str, ticket: Ticket) -> Result<Answer, FilesError> {
        match self.wait(ticket)? {
            Answer::Refused(why, head, text) => Err(self.refused(site, why, head, text)),
            answer => Ok(answer),
        }
    }

    fn refused(&self, site: &str, why: Refusal, head: Number, text: String) -> FilesError {
        match why {
            Refusal::Overtaken => FilesError::Overtaken { site: site.to_owned(), base: 0, head: head.count },
            Refusal::NoSite => FilesError::NoSite(site.to_owned()),
            Refusal::IsThere => FilesError::IsThere(site.to_owned()),
            Refusal::Malformed => FilesError::Malformed(text),
            Refusal::NoRoom => FilesError::ServerFull(text),
            Refusal::Relay => FilesError::Relay(self.server.addresses.clone()),
            Refusal::Conflict => FilesError::Conflict { site: site.to_owned(), base: 0, head: head.count, paths: text },
            Refusal::NotKept => FilesError::NotKept { site: site.to_owned(), base: 0 },
            Refusal::LockOver => FilesError::LockOver(site.to_owned()),
            Refusal::Incomplete | Refusal::Failed => FilesError::Server(self.server.addresses.clone(), text),
        }
    }

    fn unexpected(&self, answer: &Answer) -> FilesError {
        FilesError::Server(self.server.addresses.clone(), format!("it answers {answer:?}, which does not fit"))
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a chunk that was asked for.
    fn arrive(&self, hash: &ChunkHash, ticket: Ticket) -> Result<Bytes, FilesError> {
        match self.wait(ticket)? {
            Answer::Chunk(Some(bytes)) => Ok(bytes),
            Answer::Chunk(None) => {
                self.is_there()?;
                Err(FilesError::MissingChunk(*hash))
            }
            Answer::Refused(why, head, text) => Err(self.refused("", why, head, text)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Checks that the revision that is read was not removed.
    fn is_there(&self) -> Result<(), FilesError> {
        let reading = self.reading().clone();
        reading.map_or(Ok(()), |(site, number)| self.records.revision(&site, number).map(drop))
    }

    fn reading(&self) -> MutexGuard<'_, Option<(SiteName, u64)>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that reads all nodes of a tree, until this is dropped.
struct Reading<'a>(&'a Remote);

impl<'a> Reading<'a> {
    fn begin(remote: &'a Remote) -> Self {
        remote.ahead().reading += 1;
        Self(remote)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.ahead().reading -= 1;
        self.0.came.notify_all();
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Source for Remote {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        let asked = {
            // A node that another thread is about to read is not asked for twice.
            let is_coming = |ahead: &mut Ahead| {
                let is_here = ahead.nodes.contains_key(hash) || ahead.asked.contains_key(hash);
                !is_here && ahead.reading > 0
            };
            let mut ahead = self.came.wait_while(self.ahead(), is_coming).unwrap_or_else(PoisonError::into_inner);
            if let Some(bytes) = ahead.nodes.get(hash) {
                return Ok(bytes.clone());
            }
            ahead.asked.remove(hash)
        };
        let ticket = asked.unwrap_or_else(|| self.ask(Request::Want(*hash)));
        self.arrive(hash, ticket)
    }
}

impl Depot for Remote {
    /// The server protects what this session has named.
    fn begin(&self) -> Publishing<'_> {
        Publishing(None)
    }

    fn missing(&self, hashes: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError> {
        let mut missing = Vec::new();
        for part in hashes.chunks(REQUESTS_MAX * HASHES_PER_MESSAGE_MAX) {
            let ask = |part: &[ChunkHash]| self.ask(Request::Have(part.to_vec()));
            let tickets: Vec<Ticket> = part.chunks(HASHES_PER_MESSAGE_MAX).map(ask).collect();
            for ticket in tickets {
                match self.wait_for("", ticket)? {
                    Answer::Missing(hashes) => missing.extend(hashes),
                    other => return Err(self.unexpected(&other)),
                }
            }
        }
        Ok(missing)
    }

    fn put(&self, site: &SiteName, chunks: &[(ChunkHash, Bytes)]) -> Result<(), FilesError> {
        let mut under_way = VecDeque::new();
        for part in parts(chunks) {
            if under_way.len() == REQUESTS_MAX
                && let Some(ticket) = under_way.pop_front()
            {
                self.wait_for("", ticket)?;
            }
            under_way.push_back(self.ask(Request::Put(self.key(site), part.to_vec())));
        }
        under_way.into_iter().try_for_each(|ticket| self.wait_for("", ticket).map(drop))
    }

    /// The server reads a chunk to send it, and from then on counts a damaged one as missing.
    fn check(&self, hashes: &[ChunkHash]) -> Result<(), FilesError> {
        for part in hashes.chunks(CHECKS_AT_A_TIME) {
            let tickets: Vec<Ticket> = part.iter().map(|hash| self.ask(Request::Want(*hash))).collect();
            for ticket in tickets {
                self.wait_for("", ticket)?;
            }
        }
        Ok(())
    }

    fn switch(&self, site: &SiteName, base: Option<&Revision>, new: NewTree) -> Result<Switched, FilesError> {
        let NewTree { root, of, files, bytes, note, waits, merges, locks, ends_locks } = new;
        let (key, size) = (self.key(site), Size { files, bytes });
        let base_root = base.map(Revision::root);
        let note_of = note.clone();
        let ticket = self.ask(Request::Publish {
            key,
            base: base_root,
            root,
            of,
            size,
            waits,
            merges,
            ends_locks,
            locks,
            note: note_of,
        });
        let name = site.to_string();
        let why =
            |error| if let FilesError::Interrupted = error { "interrupted".to_owned() } else { error.to_string() };
        let (revision, is_new) = match self.wait(ticket) {
            Ok(Answer::Published { revision, is_new }) => (revision, is_new),
            Ok(Answer::Refused(why, head, text)) => {
                let mut refused = self.refused(&name, why, head, text);
                if let FilesError::Overtaken { base: of, .. }
                | FilesError::Conflict { base: of, .. }
                | FilesError::NotKept { base: of, .. } = &mut refused
                {
                    *of = base.map_or(0, |base| base.number);
                }
                return Err(refused);
            }
            Ok(other) => return Err(self.unexpected(&other)),
            // The server may have it, or have made it.
            Err(error) => return Err(FilesError::NotKnown(name, why(error))),
        };
        if waits {
            // The publish is made, whatever becomes of the wait.
            let everywhere = self.wait_for(&name, ticket);
            everywhere.map_err(|error| FilesError::NotEverywhere(name, revision.number.count, why(error)))?;
        }
        // As its record has it, but for the second in which the store wrote that.
        let own = || Revision::new(revision.number, revision.root, note, (files, bytes), of);
        if revision.root == root && is_new {
            return Ok(Switched { revision: own(), is_new });
        }
        // The size of a merged tree is in its record, unless later publishes have dropped that already.
        let revision = match self.records.revision(site, revision.number.count) {
            Err(FilesError::NoRevision(..)) => own(),
            recorded => recorded?,
        };
        Ok(Switched { revision, is_new })
    }

    fn lock(&self, site: &SiteName, path: &Path, within: Duration) -> Result<Lock, FilesError> {
        let key = self.key(site);
        let ticket = self.client.call_if(|client, now| (client.lock(now, key, path), true));
        // Dropped, it withdraws the request.
        let place = RemoteLock { client: self.client.clone(), _host: self.host.clone(), ticket };
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= within;
        let answer = self.wait_until(Waiter(ticket.0), |client| {
            client.take(ticket).map(Some).or_else(|| is_late().then_some(None))
        })?;
        match answer {
            Some(Answer::Locked(Locking { token, number, root })) => {
                let head = root.map(|root| (number.count, root));
                Ok(Lock::new(path.clone(), token, head, place))
            }
            Some(Answer::Refused(why, head, text)) => Err(self.refused(site.as_str(), why, head, text)),
            Some(other) => Err(self.unexpected(&other)),
            None => Err(FilesError::Locked(site.to_string(), path.to_string())),
        }
    }

    fn create(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.change(site, ChangeKind::Create, settings)
    }

    fn set(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.change(site, ChangeKind::Set, settings)
    }

    fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        self.change(site, ChangeKind::Remove, SiteSettings::default())
    }

    fn survey(&self, site: &SiteName) -> Result<Vec<Follower>, FilesError> {
        let ticket = self.ask(Request::Survey(self.key(site)));
        let follower = |it: Standing| Follower {
            life: it.life,
            revision: it.at.count,
            lease: Duration::from_millis(it.lease_ms.into()),
            holds: it.holds,
            is_connected: it.is_connected,
        };
        match self.wait_for(site.as_str(), ticket)? {
            Answer::Surveyed(_, standings) => Ok(standings.into_iter().map(follower).collect()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn collect(&self) -> Result<Collected, FilesError> {
        let ticket = self.ask(Request::Collect);
        match self.wait_for("", ticket)? {
            Answer::Collected(Swept { chunks, bytes }) => Ok(Collected { chunks, bytes }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// A publish that changes nothing makes nothing, and can wait.
    fn wait_everywhere(&self, site: &SiteName, head: &Revision) -> Result<(), FilesError> {
        let (root, note) = (head.root(), String::new());
        let unchanged = NewTree {
            root,
            of: None,
            files: head.files,
            bytes: head.bytes,
            note,
            waits: true,
            merges: false,
            locks: Vec::new(),
            ends_locks: false,
        };
        self.switch(site, Some(head), unchanged).map(drop)
    }

    fn hold(&self, site: &SiteName, revision: &Revision) -> Result<(), FilesError> {
        let (key, life) = (self.key(site), draw()?);
        *self.reading() = Some((site.clone(), revision.number));
        let number = revision.full_number();
        self.client.call_if(|client, now| (client.hold(now, key, number, life), true));
        let begun = Instant::now();
        let is_late = || begun.elapsed() > HOLD_WITHIN;
        let is_held = self.wait_until(HELD, |client| client.is_held().or_else(|| is_late().then_some(false)))?;
        // It was removed otherwise, or a relay asks its store for the hold.
        if is_held { Ok(()) } else { self.is_there() }
    }

    fn expect_nodes(&self, root: ChunkHash) -> Result<(), FilesError> {
        let _reading = Reading::begin(self);
        let mut level = vec![root];
        while !level.is_empty() {
            let mut below = Vec::new();
            for part in level.chunks(NODES_AT_A_TIME) {
                let ask = |hash: &ChunkHash| (*hash, self.ask(Request::Want(*hash)));
                let asked: Vec<(ChunkHash, Ticket)> =
                    part.iter().filter(|hash| !self.ahead().nodes.contains_key(hash)).map(ask).collect();
                for (hash, ticket) in asked {
                    let bytes = match self.arrive(&hash, ticket) {
                        // A reader that needs it finds out.
                        Err(FilesError::MissingChunk(_)) => continue,
                        bytes => bytes?,
                    };
                    below.extend(nodes_below(bytes.clone()).unwrap_or_default());
                    self.ahead().nodes.insert(hash, bytes);
                    self.came.notify_all();
                }
            }
            level = below;
        }
        Ok(())
    }

    fn expect_chunks(&self, hashes: &[ChunkHash]) {
        for hash in hashes {
            let is_new = {
                let ahead = self.ahead();
                !ahead.nodes.contains_key(hash) && !ahead.asked.contains_key(hash)
            };
            if is_new {
                let ticket = self.ask(Request::Want(*hash));
                self.ahead().asked.insert(*hash, ticket);
            }
        }
    }

    fn indexes(&self) -> Option<PathBuf> {
        // Sites of two stores may have one name, so each store has a folder.
        let store = ChunkHash::of(format!("{} {}", self.server.addresses, self.server.space).as_bytes()).to_string();
        let folder = self.server.cache.as_ref()?.join(&store[..16]);
        make_directory(&folder).ok().map(|()| folder)
    }
}

/// A lock at a server, or the request for one.
struct RemoteLock {
    client: Handle<Client>,
    /// The session lives as long as the lock.
    _host: Arc<Host>,
    ticket: Ticket,
}

impl LockPlace for RemoteLock {
    fn state(&self) -> LockState {
        self.client.call_if(|client, now| {
            let is_over = client.is_over();
            (if is_over { LockState::Over } else { client.lock_state(now, self.ticket) }, false)
        })
    }

    fn wait(&self, within: Duration) -> LockState {
        let (begun, waker) = (Instant::now(), Waker::from(Arc::new(Unpark(thread::current()))));
        loop {
            self.client.driver().wake_on(Waiter(self.ticket.0), &waker);
            let (state, left) = (self.state(), within.saturating_sub(begun.elapsed()));
            if state != LockState::Held || left.is_zero() {
                return state;
            }
            thread::park_timeout(left.min(LOOK_EVERY));
        }
    }
}

impl fmt::Debug for RemoteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLock").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        self.client.call(|client| client.forget(self.ticket));
    }
}

/// Chunks in parts that fit into a message each.
fn parts(chunks: &[(ChunkHash, Bytes)]) -> impl Iterator<Item = &[(ChunkHash, Bytes)]> {
    let mut left = chunks;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, chunk): &&(ChunkHash, Bytes)| {
            bytes += chunk.len();
            bytes <= PUT_BYTES_MAX
        };
        let count = left.iter().take(CHUNKS_PER_PUT_MAX).take_while(fits).count();
        let (part, rest) = left.split_at(count.max(1).min(left.len()));
        left = rest;
        (!part.is_empty()).then_some(part)
    })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
