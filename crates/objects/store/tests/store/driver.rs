//! A fake driver: a disk in memory that does its work when told to and keeps over a crash what was durable; and short
//! ways to say what clients say.

use bytes::Bytes;
use machine::{Port, UpstreamId};
use messages::{
    CommitReply, CommitRequest, Fetch, Grant, Held, Hello, Invalidation, Outcome, Page, PageReads, Ping, Resume,
    Resumed, ToClient, ToNode, ToServer,
};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::{
    Checkpoint, Config, DiskDone, DiskWork, HomePage, Opened, Output, Position, Record, SessionId, SetAside, Store,
};
use types::{
    Broken, ClientId, ClusterId, Delta, GoodbyeReason, Incarnation, Life, ObjectPage, PageId, PageRange, SlotChange,
    SlotNo, Time, TxnId, Version,
};

thread_local! {
    /// The rule that is taken out of stores which this thread opens.
    pub(crate) static TAKEN_OUT: Cell<Broken> = const { Cell::new(Broken::NONE) };
}

pub(crate) const CLUSTER: ClusterId = ClusterId(7);

/// The parts that survive a crash.
#[derive(Default)]
struct Disk {
    log: BTreeMap<Position, Record>,
    home: BTreeMap<PageId, (Version, Bytes)>,
    checkpoint: Checkpoint,
    incarnation: u64,
}

/// One store node, its driver, and what its sessions have received.
pub(crate) struct Driver {
    pub(crate) store: Store,
    pub(crate) now: Time,
    config: Config,
    disk: Disk,
    /// The most that the log holds, in bytes, and the home, in pages.
    pub(crate) log_bytes: u64,
    pub(crate) home_pages: usize,
    /// How large the log may grow, in bytes.
    pub(crate) log_bytes_max: u64,
    /// Pages whose image in the home cannot be read.
    pub(crate) damaged: Vec<PageId>,
    /// Messages do not leave: sessions that want to hear when they have wait.
    pub(crate) lines_are_full: bool,
    awaits_room: Vec<SessionId>,
    work: VecDeque<DiskWork>,
    durable: Position,
    held: Vec<(SessionId, ToClient, Position)>,
    inbox: BTreeMap<SessionId, Vec<ToClient>>,
    ended: BTreeMap<SessionId, GoodbyeReason>,
    /// The links that the node wants opened.
    pub(crate) opened: Vec<(UpstreamId, String)>,
    /// Messages to other nodes, and the ends of links to them.
    pub(crate) said: Vec<(Port, ToNode)>,
    closed: bool,
}

impl Driver {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self::with_log(config, 1 << 30)
    }

    pub(crate) fn with_log(config: Config, log_bytes: u64) -> Self {
        let config = Config { broken: TAKEN_OUT.get(), ..config };
        let disk = Disk::default();
        let mut driver = Self {
            store: open(&config, &disk, log_bytes),
            now: Time::ZERO,
            config,
            disk,
            log_bytes,
            home_pages: usize::MAX,
            log_bytes_max: log_bytes,
            damaged: Vec::new(),
            lines_are_full: false,
            awaits_room: Vec::new(),
            work: VecDeque::new(),
            durable: Position(0),
            held: Vec::new(),
            inbox: BTreeMap::new(),
            ended: BTreeMap::new(),
            opened: Vec::new(),
            said: Vec::new(),
            closed: false,
        };
        driver.restart();
        driver
    }

    /// Kills the process: records that were not durable are lost, sessions are gone, and the store recovers.
    pub(crate) fn crash(&mut self) {
        self.work.clear();
        self.held.clear();
        self.said.clear();
        self.restart();
    }

    /// Kills the process again before anything that recovery wants written is durable.
    pub(crate) fn crash_in_recovery(&mut self) {
        self.work.clear();
        self.held.clear();
        self.reopen();
        self.collect();
    }

    /// The configuration that the store is started with from the next time on.
    pub(crate) fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn restart(&mut self) {
        self.reopen();
        self.run();
    }

    fn reopen(&mut self) {
        self.disk.incarnation += 1;
        self.store = open(&self.config, &self.disk, self.log_bytes - self.log_used());
        for (position, record) in self.disk.log.clone() {
            self.durable = position;
            self.store.recover(position, record);
        }
        self.store.start(self.now);
    }

    fn log_used(&self) -> u64 {
        self.disk.log.values().map(Record::bytes_bound).sum()
    }

    /// A client says something; the disk does nothing yet.
    pub(crate) fn say(&mut self, session: SessionId, message: impl Into<ToServer>) {
        self.store.handle(self.now, session, message.into());
        self.collect();
    }

    /// Another node says something; the disk does nothing yet. Returns what the store says to it.
    pub(crate) fn hear(&mut self, from: Port, message: impl Into<ToNode>) -> Vec<ToNode> {
        self.store.hear_link(self.now, from, message.into());
        self.said_on(from)
    }

    /// The messages on a link to another node since it was asked last.
    pub(crate) fn said_on(&mut self, port: Port) -> Vec<ToNode> {
        self.collect();
        self.said.extract_if(.., |(to, _)| *to == port).map(|(_, message)| message).collect()
    }

    /// Does all disk work there is, and what follows from it.
    pub(crate) fn run(&mut self) {
        self.collect();
        while let Some(work) = self.work.pop_front() {
            self.carry_out(work);
        }
    }

    /// Does the appends only.
    pub(crate) fn sync(&mut self) {
        self.collect();
        let (appends, rest): (Vec<_>, Vec<_>) =
            self.work.drain(..).partition(|work| matches!(work, DiskWork::Append(..)));
        self.work = rest.into();
        for append in appends {
            self.carry_out(append);
        }
    }

    /// Does the first waiting work of a kind; says whether there was any.
    pub(crate) fn do_first(&mut self, kind: impl Fn(&DiskWork) -> bool) -> bool {
        self.collect();
        let at = self.work.iter().position(kind);
        let work = at.and_then(|at| self.work.remove(at));
        work.map(|work| self.carry_out(work)).is_some()
    }

    /// The log holds a record from before the store was opened.
    pub(crate) fn has_logged(&mut self, record: Record) {
        let last = self.disk.log.last_key_value().map_or(0, |(last, _)| last.0);
        self.disk.log.insert(Position(last + 1), record);
    }

    /// The home's copy of a page.
    pub(crate) fn home(&self, page: PageId) -> Option<(Version, Bytes)> {
        self.disk.home.get(&page).cloned()
    }

    /// Returns the changes to damaged pages that the checkpoint has.
    pub(crate) fn aside(&self) -> &[SetAside] {
        &self.disk.checkpoint.aside
    }

    /// Disk work that is waiting.
    pub(crate) fn work(&self) -> impl Iterator<Item = &DiskWork> {
        self.work.iter()
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
        while self.store.poll_timeout().is_some_and(|due| due <= self.now) {
            self.store.handle_timeout(self.now);
            self.run();
        }
    }

    /// The connection breaks.
    pub(crate) fn hang_up(&mut self, session: SessionId) {
        self.store.disconnected(self.now, session);
        self.collect();
    }

    fn carry_out(&mut self, work: DiskWork) {
        let done = match work {
            DiskWork::Append(position, record) => {
                let expected = self.disk.log.last_key_value().map_or(1, |(last, _)| last.0 + 1);
                assert_eq!(position, Position(expected), "appends are consecutive");
                self.disk.log.insert(position, record);
                assert!(self.log_used() <= self.log_bytes, "the store promised room that it does not have");
                self.durable = position;
                DiskDone::Durable { through: position, log_bytes_free: self.log_bytes - self.log_used() }
            }
            DiskWork::Free(position) => {
                self.disk.log = self.disk.log.split_off(&position);
                assert!(!self.disk.log.is_empty(), "the last record stays");
                DiskDone::Freed { log_bytes_free: self.log_bytes - self.log_used() }
            }
            DiskWork::MakeRoom(bytes) => {
                let wanted = (self.log_used() + bytes).min(self.log_bytes_max);
                self.log_bytes = self.log_bytes.max(wanted);
                DiskDone::Freed { log_bytes_free: self.log_bytes - self.log_used() }
            }
            DiskWork::ReadLog => {
                let records = self.disk.log.iter().map(|(at, record)| (*at, record.clone())).collect();
                DiskDone::Log { records, is_last: true }
            }
            DiskWork::Read(pages) => {
                let (damaged, whole): (Vec<_>, Vec<_>) =
                    pages.into_iter().partition(|page| self.damaged.contains(page));
                for page in damaged {
                    self.store.disk(self.now, DiskDone::Damaged(page, "bad checksum".to_owned()));
                }
                DiskDone::Pages(whole.into_iter().map(|page| (page, self.disk.home.get(&page).cloned())).collect())
            }
            DiskWork::Install(images, checkpoint) => {
                let new = images.iter().filter(|image| !self.disk.home.contains_key(&image.page)).count();
                if self.disk.home.len() + new > self.home_pages {
                    DiskDone::HomeFull
                } else {
                    self.disk.home.extend(images.into_iter().map(|home| (home.page, (home.version, home.image))));
                    self.disk.checkpoint = checkpoint;
                    DiskDone::Installed
                }
            }
        };
        self.store.disk(self.now, done);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.store.poll_output() {
            match output {
                Output::Send { to, message, after } => self.held.push((to, message, after.unwrap_or_default())),
                Output::End { session, reason, .. } => {
                    self.ended.insert(session, reason);
                }
                Output::AwaitRoom(session) => self.awaits_room.push(session),
                Output::Say(port, message) => self.said.push((port, message)),
                Output::EndLink(port, why) => self.said.push((port, why.into())),
                Output::OpenLink(upstream, address) => self.opened.push((upstream, address)),
                Output::CloseLink(upstream) => self.opened.retain(|(opened, _)| *opened != upstream),
                Output::Disk(work) => self.work.push_back(work),
                Output::Closed => self.closed = true,
            }
        }
        // A message that waits has all behind it on its session wait as well.
        for (session, message, after) in std::mem::take(&mut self.held) {
            if after <= self.durable && self.held.iter().all(|(held, ..)| *held != session) {
                self.inbox.entry(session).or_default().push(message);
            } else {
                self.held.push((session, message, after));
            }
        }
        if !self.lines_are_full
            && let Some(session) = self.awaits_room.pop()
        {
            self.store.has_room(session);
            self.collect();
        }
    }

    /// The messages leave, and so do those that were waiting for that.
    pub(crate) fn empty_lines(&mut self) {
        self.lines_are_full = false;
        self.collect();
    }

    // The messages of clients.
    // ------------------------------------------------------------------------------------------------

    /// The messages that the session has received since it was asked last.
    pub(crate) fn take(&mut self, session: SessionId) -> Vec<ToClient> {
        self.inbox.remove(&session).unwrap_or_default()
    }

    pub(crate) fn ended(&self, session: SessionId) -> Option<GoodbyeReason> {
        self.ended.get(&session).copied()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn log_records(&self) -> usize {
        self.disk.log.len()
    }

    /// Whether the log holds such a record.
    pub(crate) fn has_record(&self, is_meant: impl Fn(&Record) -> bool) -> bool {
        self.disk.log.values().any(is_meant)
    }

    /// A session past hello, with nothing resumed yet.
    pub(crate) fn greet(&mut self, session: u64, client: u64, epoch: u64) -> SessionId {
        let id = SessionId(session);
        self.store.connected(self.now, id);
        self.say(id, hello(client, epoch));
        self.run();
        id
    }

    /// A session of a client with an empty cache.
    pub(crate) fn join(&mut self, session: u64, client: u64) -> SessionId {
        let id = self.greet(session, client, session);
        self.resume(id, Version::ZERO, &[], &[]);
        self.take(id);
        id
    }

    /// Resumes a session; gives the invalidations that come before the answer, and the answer.
    pub(crate) fn resume(
        &mut self,
        session: SessionId,
        horizon: Version,
        pages: &[(PageId, u64)],
        grants: &[PageRange],
    ) -> (Vec<Invalidation>, Resumed) {
        self.take(session);
        let pages = pages.iter().map(|&(page, version)| Held { page, version: Version(version) }).collect();
        self.say(session, Resume { horizon: horizon.into(), pages, grants: grants.to_vec(), last: true, missed: 0 });
        self.run();
        let mut messages = self.take(session);
        match messages.pop() {
            Some(ToClient::Resumed(resumed)) => (invalidations(&messages), resumed),
            other => panic!("expected to be resumed, got {other:?}"),
        }
    }

    /// Wants pages and gets them.
    pub(crate) fn grant(&mut self, session: SessionId, count: u32) -> Vec<PageId> {
        self.say(session, Grant { space: 0, count });
        self.run();
        let granted = self.take(session).into_iter().find_map(|message| match message {
            ToClient::Granted(granted) => Some(granted.ranges),
            _ => None,
        });
        granted.expect("an answer").into_iter().flat_map(PageRange::pages).collect()
    }

    /// Fetches a page; gives the invalidations that come before it, and it.
    pub(crate) fn fetch(&mut self, session: SessionId, page: PageId) -> (Vec<Invalidation>, Page) {
        self.take(session);
        self.say(session, Fetch { pages: vec![page], at_least: Version::ZERO.into(), number: 0, follow: None });
        self.run();
        let mut messages = self.take(session);
        match messages.pop() {
            Some(ToClient::Page(page)) => (invalidations(&messages), page),
            other => panic!("expected page {page}, got {other:?}"),
        }
    }

    /// The value of a slot as a fetch gives it.
    pub(crate) fn value(&mut self, session: SessionId, page: PageId, slot: SlotNo) -> Option<Vec<u8>> {
        let (_, page) = self.fetch(session, page);
        ObjectPage::parse(page.image).expect("a page").get(slot).map(<[u8]>::to_vec)
    }

    /// Asks for a commit and gets its outcome.
    pub(crate) fn commit(&mut self, session: SessionId, request: &Txn) -> Outcome {
        self.say(session, request.message());
        self.run();
        self.outcome(session).expect("an outcome")
    }

    /// The first outcome that the session has received; what came with it is gone.
    pub(crate) fn outcome(&mut self, session: SessionId) -> Option<Outcome> {
        self.take(session).into_iter().find_map(|message| match message {
            ToClient::CommitReply(CommitReply { outcome, .. }) => Some(outcome),
            _ => None,
        })
    }

    /// Pings; gives the invalidations that come before the answer.
    pub(crate) fn ping(&mut self, session: SessionId) -> Vec<ToClient> {
        self.take(session);
        self.say(session, Ping { nonce: 1 });
        self.run();
        self.take(session)
    }
}

fn open(config: &Config, disk: &Disk, log_bytes_free: u64) -> Store {
    let home = |(&page, (version, image)): (&PageId, &(Version, Bytes))| HomePage {
        page,
        version: *version,
        bytes: image.len() as u32,
    };
    let opened = Opened {
        cluster: CLUSTER,
        incarnation: Incarnation(disk.incarnation),
        life: Life(disk.incarnation),
        checkpoint: disk.checkpoint.clone(),
        pages: disk.home.iter().map(home).collect(),
        log_bytes_free,
    };
    Store::new(config.clone(), opened)
}

pub(crate) fn hello(client: u64, epoch: u64) -> ToServer {
    ToServer::Hello(Hello { features: 0, cluster: None, client: ClientId(client), epoch })
}

/// The invalidations in what was received.
pub(crate) fn invalidations(messages: &[ToClient]) -> Vec<Invalidation> {
    let items = messages.iter().filter_map(|message| match message {
        ToClient::Invalidations(batch) => Some(batch.items.clone()),
        _ => None,
    });
    items.flatten().collect()
}

/// Page 0 of space 0, which exists from birth.
pub(crate) const ROOT: PageId = PageId::new(0, 0);

/// The store's incarnation that a transaction's request is sent to, unless a test says another.
const NEVER_LAPSES: Incarnation = Incarnation(u64::MAX);

/// A transaction in the making.
#[derive(Clone)]
pub(crate) struct Txn(pub(crate) CommitRequest);

pub(crate) fn txn(client: u64, number: u64) -> Txn {
    let txn = TxnId { client: ClientId(client), number };
    Txn(CommitRequest { txn, incarnation: NEVER_LAPSES, answered: 1, reads: Vec::new(), writes: Vec::new() })
}

impl Txn {
    /// It was sent to this incarnation of the store.
    pub(crate) fn to(mut self, incarnation: u64) -> Self {
        self.0.incarnation = Incarnation(incarnation);
        self
    }

    /// Reads a slot with evidence; all slots of a page have the same.
    pub(crate) fn read(mut self, page: PageId, slot: SlotNo, evidence: u64) -> Self {
        let at = self.0.reads.binary_search_by_key(&page, |reads| reads.page).unwrap_or_else(|at| {
            let reads =
                PageReads { page, slots: [].into_iter().collect(), evidence: Version(evidence), exceptions: vec![] };
            self.0.reads.insert(at, reads);
            at
        });
        self.0.reads[at].slots.insert(slot);
        self
    }

    /// Reads a slot and gives it a value.
    pub(crate) fn write(self, page: PageId, slot: SlotNo, evidence: u64, value: &[u8]) -> Self {
        self.change(page, slot, evidence, Some(Bytes::copy_from_slice(value)))
    }

    /// Reads a slot and deletes what is in it.
    pub(crate) fn delete(self, page: PageId, slot: SlotNo, evidence: u64) -> Self {
        self.change(page, slot, evidence, None)
    }

    fn change(mut self, page: PageId, slot: SlotNo, evidence: u64, value: Option<Bytes>) -> Self {
        self = self.read(page, slot, evidence);
        let at = self.0.writes.binary_search_by_key(&page, |delta| delta.page).unwrap_or_else(|at| {
            self.0.writes.insert(at, Delta { page, changes: Vec::new() });
            at
        });
        let changes = &mut self.0.writes[at].changes;
        changes.push(SlotChange { slot, value });
        changes.sort_by_key(|change| change.slot);
        self
    }

    /// The client has all outcomes below this number.
    pub(crate) fn answered(mut self, answered: u64) -> Self {
        self.0.answered = answered;
        self
    }

    pub(crate) fn message(&self) -> ToServer {
        ToServer::Commit(self.0.clone())
    }
}

/// The count at which a commit happened.
pub(crate) fn count(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Committed { pages } => pages[0].version.0,
        other => panic!("expected a commit, got {other:?}"),
    }
}
