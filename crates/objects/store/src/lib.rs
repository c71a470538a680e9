//! A node of a store, as a pure machine: its sessions, its log, and the three roles that it hosts. Coordinator, master
//! and sequencer are crates of their own. The node passes messages between them and their sessions, and keeps their
//! log.
//!
//! # How it is called
//! [`Store::new`], then [`Store::recover`] for each record of the log in order, then [`Store::start`]. From then on, in
//! any order: [`Store::connected`], [`Store::handle`], [`Store::disconnected`], [`Store::disk`],
//! [`Store::handle_timeout`]; in a store of several nodes also [`Store::node_is_at`], [`Store::link_is_up`],
//! [`Store::hear_link`], [`Store::link_is_down`], [`Store::open`], [`Store::open_closed`], [`Store::place`],
//! [`Store::set_incoming`], [`Store::set_outgoing`], [`Store::admit`], [`Store::sequence`],
//! [`Store::follow_sequencer`], [`Store::extend_lease`] and [`Store::end_lease`]. After each of them
//! [`Store::poll_output`] until it returns nothing, then [`Store::poll_timeout`] for when to call again. `now`
//! never goes back.
//!
//! # Files
//! | file | what it knows or does |
//! |---|---|
//! | `sessions`, `hello`, `ending` | who is there; how a session begins and ends |
//! | `clients` | which sessions speak for a client, and how long it is remembered when none does |
//! | `group`, `leaders`, `watch` | what a redirector says for its members; which one leads which group; watchers |
//! | `commit`, `form` | a commit's way through the roles |
//! | `room` | room in the log, and the requests that wait for it |
//! | `log`, `in_flight`, `freeing` | which position, what of it is durable, what is still needed |
//! | `lives` | the lives of the process, and leases that were given before a restart |
//! | `links`, `peers`, `questions` | connections to other nodes; what is said there; when the sequencer is asked |
//! | `placement` | where the other nodes are, and which has which shard, for clients |
//! | `lease` | how long the node may speak |
//! | `openings`, `kept` | shards that open; what of the log other nodes need |
//! | `incoming`, `outgoing` | shards that move to this node, and away from it |
//! | `recovery`, `uncounted` | from the log after a crash; the commits in a log of an earlier format |
//! | `machine`, `tables` | the trait of all machines; the tables of a status |
//! | `status`, `inspect` | what an operator asks; what checkers look at |
//! | `work`, `outputs` | what the driver does for all this, and in what order |
#![no_std]

extern crate alloc;

mod clients;
mod commit;
mod ending;
mod form;
mod freeing;
mod group;
mod hello;
mod in_flight;
mod incoming;
mod inspect;
mod kept;
mod leaders;
mod lease;
mod links;
mod lives;
mod log;
mod machine;
mod openings;
mod outgoing;
mod outputs;
mod peers;
mod placement;
mod questions;
mod recovery;
mod room;
mod sessions;
mod status;
pub mod tables;
mod uncounted;
mod watch;
pub mod work;

use ::machine::{Goodbye, Port, UpstreamId};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use coordinator::Coordinator;
use core::time::Duration;
use freeing::Covered;
use in_flight::InFlight;
use incoming::IncomingShards;
pub use incoming::Progress;
use kept::Kept;
use leaders::Leaders;
use lease::NodeLease;
use links::Links;
use lives::Lives;
use log::Log;
use master::Master;
pub use master::{InTurn, References};
use messages::{Ping, ToClient, ToNode, ToServer};
use openings::Opens;
pub use outgoing::ClosedShard;
use outgoing::OutgoingShards;
use outputs::Outputs;
use peers::Peers;
use placement::Nodes;
use recovery::Recovery;
use room::Room;
use sequencer::Sequencer;
use sessions::Sessions;
pub use status::{SessionStatus, SpaceStatus, Status};
use types::limits::TXN_BYTES_MAX;
use types::{
    Broken, ClientId, ClusterId, Epoch, GoodbyeReason, Incarnation, Life, Limits, NodeId, Rule, Sharding, Time,
};
pub use types::{Position, SessionId};
pub use uncounted::Uncounted;
pub use work::{
    Checkpoint, ClientOutcomes, CommitRecord, Counted, DiskDone, DiskWork, HomeImage, HomePage, LeasesGiven, Opened,
    Record, SetAside, UncountedCommit,
};

/// The settings that a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's place in the store.
    pub node: NodeId,
    /// All nodes of the store, this one among them; none if it is the only one for ever.
    pub members: Vec<NodeId>,
    /// Which pages have counts in common.
    pub sharding: Sharding,
    /// Committed deltas that may wait for write-back, in bytes.
    pub mob_bytes_limit: usize,
    /// Page images kept for fetches, in bytes.
    pub cache_bytes_limit: usize,
    /// Changes remembered slot by slot; beyond, laggards revalidate by page version.
    pub recent_limit: usize,
    /// The longest that an invalidation waits for a reply to ride on.
    pub invalidation_delay: Duration,
    /// A session that is silent for this long is dead.
    pub silence: Duration,
    /// The spaces on which groups have leases, so that their redirectors validate read-only transactions themselves.
    pub leased_spaces: Vec<u32>,
    /// How long a lease lasts. A group that dies delays writers by it at most.
    pub lease: Duration,
    /// How long the grants and outcomes of a client that is gone are kept for its return.
    pub grace: Duration,
    /// Where objects refer to, as the front end knows that has made them.
    pub references: References,
    /// How much goes into one message, and how much is kept for others.
    pub limits: Limits,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

impl Config {
    /// Whether the store has several nodes.
    pub(crate) fn has_peers(&self) -> bool {
        !self.members.is_empty()
    }

    /// The master's part of it.
    fn of_master(&self) -> master::Config {
        master::Config {
            sharding: self.sharding,
            has_peers: self.has_peers(),
            mob_bytes_limit: self.mob_bytes_limit,
            cache_bytes_limit: self.cache_bytes_limit,
            recent_limit: self.recent_limit,
            invalidation_delay: self.invalidation_delay,
            leased_spaces: self.leased_spaces.clone(),
            lease: self.lease,
            grace: self.grace,
            references: self.references,
            limits: self.limits,
            broken: self.broken,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: NodeId(0),
            members: Vec::new(),
            sharding: Sharding::ONE,
            mob_bytes_limit: 64 * 1024 * 1024,
            cache_bytes_limit: 64 * 1024 * 1024,
            recent_limit: 1_000_000,
            invalidation_delay: Duration::from_millis(3),
            silence: Duration::from_secs(10),
            leased_spaces: Vec::new(),
            lease: Duration::from_secs(2),
            grace: Duration::from_secs(60),
            references: |_, _| {},
            limits: Limits::SHIPPED,
            broken: Broken::NONE,
        }
    }
}

/// An action that the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message on a session, once everything through `after` is durable; messages of one session keep their
    /// order.
    Send {
        /// The session.
        to: SessionId,
        /// The message.
        message: ToClient,
        /// The position that must be durable first, if any.
        after: Option<Position>,
    },
    /// End a session, after what was sent before has gone out.
    End {
        /// The session.
        session: SessionId,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
    /// Say when everything that was sent on this session before has left, by [`Store::has_room`].
    AwaitRoom(SessionId),
    /// Say something on a link to another node. Messages on one link keep their order.
    Say(Port, ToNode),
    /// End a connection that is a link, or does not become one.
    EndLink(Port, Goodbye),
    /// Open a connection to another node, whenever there is none.
    OpenLink(UpstreamId, String),
    /// Close such a connection for good.
    CloseLink(UpstreamId),
    /// Do disk work.
    Disk(DiskWork),
    /// Everything that was committed is home and every session has ended: the process may stop.
    Closed,
}

/// The machine. Its parts meet here: each keeps its own state, and what runs through several of them is in the file
/// that is named for it (`commit`, `freeing`, `recovery`).
#[derive(Debug)]
pub struct Store {
    config: Config,
    cluster: ClusterId,
    incarnation: Incarnation,
    life: Life,
    /// The time of the last event.
    now: Time,
    out: Outputs,
    sessions: Sessions,
    own_client: Option<ClientId>,
    leaders: Leaders,
    lives: Lives,
    coordinator: Coordinator,
    /// The node's own sequencer, if it serves.
    sequencer: Option<Sequencer>,
    master: Master,
    log: Log,
    room: Room,
    /// The last record of a grant.
    last_grant: Position,
    in_flight: InFlight,
    covered: Covered,
    peers: Peers,
    links: Links,
    lease: NodeLease,
    openings: Opens,
    incoming: IncomingShards,
    outgoing: OutgoingShards,
    kept: Kept,
    nodes: Nodes,
    recovery: Recovery,
    /// When the silent are looked for next.
    sweep: Option<Time>,
    closing: bool,
    closed: bool,
    recovered_commits: u64,
    commits_gone: u64,
}

/// The figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions.
    pub sessions: u64,
    /// Commits since the start that wrote something.
    pub commits: u64,
    /// Read-only transactions validated since the start.
    pub read_only: u64,
    /// Refused commits since the start.
    pub refused: u64,
    /// Pages sent since the start.
    pub pages_sent: u64,
    /// Bytes of deltas that wait for write-back.
    pub mob_bytes: u64,
    /// Pages that were ever granted.
    pub pages: u64,
    /// Of these, those that clients have to create objects in, and have not yet.
    pub pages_granted: u64,
    /// And those that were emptied, or given back, and will be granted again first.
    pub pages_spare: u64,
    /// Bytes of cached page images.
    pub cache_bytes: u64,
    /// Commits found in the log at the start.
    pub recovered_commits: u64,
    /// Commits that a client or a redirector has seen and this store has not, because it was restored to an older
    /// state: the greatest number reported since the start.
    pub commits_gone: u64,
    /// Pages that could not be read since the start.
    pub pages_damaged: u64,
}

impl Store {
    /// A store over what the driver has opened.
    pub fn new(config: Config, opened: Opened) -> Self {
        let Opened { cluster, incarnation, life, checkpoint, pages, log_bytes_free } = opened;
        let Checkpoint { applied, next_pages, outcomes, forgotten, aside } = checkpoint;
        let Config { sharding, limits, broken, .. } = config;
        let unlogged_bytes_max = TXN_BYTES_MAX.max(config.mob_bytes_limit);
        let coordinator =
            coordinator::Config { node: config.node, incarnation, sharding, unlogged_bytes_max, limits, broken };
        let mut coordinator = Coordinator::new(coordinator, outcomes, forgotten);
        for &node in config.members.iter().filter(|node| **node != config.node) {
            coordinator.lost(node);
        }
        Self {
            cluster,
            incarnation,
            life,
            now: Time::ZERO,
            out: Outputs::default(),
            sessions: Sessions::new(config.grace, limits),
            own_client: None,
            leaders: Leaders::new(limits),
            lives: Lives::default(),
            coordinator,
            sequencer: (!config.has_peers()).then(|| Sequencer::new(Epoch::default(), broken)),
            master: Master::new(config.of_master(), master::Opened { pages, next_pages, aside }),
            log: Log::new(log_bytes_free),
            room: Room::default(),
            last_grant: Position(0),
            in_flight: InFlight::default(),
            covered: Covered::default(),
            peers: Peers::new(config.node),
            links: Links::default(),
            lease: NodeLease::default(),
            openings: Opens::default(),
            incoming: IncomingShards::default(),
            outgoing: OutgoingShards::default(),
            kept: Kept::default(),
            nodes: Nodes::default(),
            recovery: Recovery::new(applied),
            sweep: None,
            closing: false,
            closed: false,
            recovered_commits: 0,
            commits_gone: 0,
            config,
        }
    }

    /// Takes a record that the log held.
    pub fn recover(&mut self, position: Position, record: Record) {
        self.recover_record(position, record);
    }

    /// Everything has been recovered: begins a new life, and opens for business.
    pub fn start(&mut self, now: Time) {
        self.finish_recovery(now);
        self.master.start(now, self.lives.earlier());
        self.follow_up(now);
    }

    /// A connection has come in.
    pub fn connected(&mut self, now: Time, session: SessionId) {
        if self.closing {
            self.out.end(session, Goodbye { reason: GoodbyeReason::Done, text: "the store is closing down".into() });
        } else if !self.sessions.connect(now, session) {
            let text = "the store takes no more sessions".into();
            self.out.end(session, Goodbye { reason: GoodbyeReason::Full, text });
        }
        self.sweep.get_or_insert(now + self.config.silence / 4);
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, now: Time, session: SessionId) {
        self.forget_session(now, session);
        self.follow_up(now);
    }

    /// A heartbeat on a session: some bytes of a message, or room for what is on its way there.
    pub fn heard(&mut self, now: Time, from: SessionId) {
        self.sessions.hear(now, from);
    }

    /// The messages on a session have left.
    pub fn has_room(&mut self, session: SessionId) {
        self.master.has_room(session);
        self.carry_on(self.now);
    }

    /// A message has come in on a session.
    pub fn handle(&mut self, now: Time, from: SessionId, message: ToServer) {
        // A message from a session that was ended is of no interest.
        if !self.sessions.hear(now, from) {
            return;
        }
        self.master.list_late_holders(from);
        let done = self.dispatch(now, from, message);
        self.carry_on(now);
        if let Err(why) = done {
            self.end(now, from, why);
        }
        self.follow_up(now);
    }

    /// Disk work is done.
    pub fn disk(&mut self, now: Time, done: DiskDone) {
        match done {
            DiskDone::Durable { through, log_bytes_free } => {
                self.log.durable(through, log_bytes_free);
                self.finish_through(now, through);
                self.read_log();
                self.open_write_back();
                self.free_home();
            }
            DiskDone::Freed { log_bytes_free } => self.log.freed(log_bytes_free),
            DiskDone::Grown { log_bytes_free } => self.log.grown(log_bytes_free),
            DiskDone::Pages(pages) => {
                for (page, found) in pages {
                    self.master.has_read(now, page, found);
                }
            }
            DiskDone::Damaged(page, why) => self.master.is_damaged(now, page, why),
            DiskDone::Installed => self.installed(),
            DiskDone::HomeFull => self.master.home_full(now),
            DiskDone::Log { records, is_last } => self.has_read_log(now, records, is_last),
        }
        self.follow_up(now);
    }

    /// Refuses new commits, writes everything home, ends all sessions, then gives [`Output::Closed`].
    pub fn close(&mut self, now: Time) {
        self.closing = true;
        self.coordinator.close();
        self.master.close();
        self.follow_up(now);
    }

    /// The next action that the machine wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When [`Store::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.master.poll_timeout(), self.sessions.next_forgotten(), self.sweep].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.master.handle_timeout(now);
        self.end_silent(now);
        self.forget_clients(now);
        self.follow_up(now);
    }

    /// Refused commits since the start, by the reason's name.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        self.coordinator.refusals()
    }

    /// The share of the log that is taken, by records that were not written back, in percent. With a full log, commits
    /// of this node wait.
    pub fn log_percent(&self) -> u8 {
        self.log.percent_taken()
    }

    /// Names the client that the store's own process has for itself. Its session is none of an operator's.
    pub fn set_own_client(&mut self, client: ClientId) {
        self.own_client = Some(client);
    }

    /// The store's figures.
    pub fn stats(&self) -> Stats {
        let coordinator::Stats { commits, read_only, refused } = self.coordinator.stats();
        let master::Stats { pages_sent, mob_bytes, pages, pages_granted, pages_spare, cache_bytes, pages_damaged } =
            self.master.stats();
        Stats {
            sessions: self.sessions.all_but(self.own_client).len() as u64,
            commits,
            read_only,
            refused,
            pages_sent,
            mob_bytes,
            pages,
            pages_granted,
            pages_spare,
            cache_bytes,
            recovered_commits: self.recovered_commits,
            commits_gone: self.commits_gone,
            pages_damaged,
        }
    }

    /// One message of a live session. An error that must end the session comes back as its goodbye.
    fn dispatch(&mut self, now: Time, from: SessionId, message: ToServer) -> Result<(), Goodbye> {
        match message {
            ToServer::Hello(hello) => self.hello(now, from, &hello),
            ToServer::Goodbye(_) => Err(Goodbye { reason: GoodbyeReason::Done, text: "the client is done".into() }),
            _ if self.sessions.client(from).is_none() => {
                Err(Goodbye::malformed("expected a hello before anything else".into()))
            }
            message if self.sessions.is_watcher(from) => self.hear_watcher(now, from, message),
            ToServer::Resume(resume) => {
                self.resumed(now, from, &resume)?;
                self.commits_gone = self.commits_gone.max(resume.missed);
                Ok(())
            }
            ToServer::Ping(ping) => {
                self.ping(now, from, ping);
                Ok(())
            }
            ToServer::Pong(_) => Ok(()),
            ToServer::Fetch(fetch) => self.fetch(from, fetch),
            ToServer::Released(released) => self.master.released(from, &released),
            ToServer::Commit(request) => self.commit(now, from, request),
            ToServer::AskOutcome(ask) => self.ask_outcome(now, from, ask),
            ToServer::Ack(ack) => self.master.ack(from, &ack),
            ToServer::Grant(grant) => self.grant(from, grant),
            ToServer::Sync(sync) => {
                self.master.sync(from, sync);
                Ok(())
            }
            ToServer::Revalidate(revalidate) => {
                self.check_group(from)?;
                self.master.revalidate(from, &revalidate)
            }
            ToServer::Departed(departed) => self.departed(now, from, departed),
            ToServer::Lead(lead) => self.lead(now, from, lead),
            ToServer::FindLeader(find) => self.find_leader(now, from, find),
            ToServer::Promise(promise) => {
                self.check_group(from)?;
                self.master.promise(from, promise);
                Ok(())
            }
            ToServer::Reachable(_) | ToServer::NoHelp(_) | ToServer::PeerPage(_) | ToServer::Arrived(_) => {
                Err(Goodbye::malformed("expected a request to a store, got one to a redirector".into()))
            }
        }
    }

    /// A heartbeat.
    pub(crate) fn ping(&mut self, now: Time, from: SessionId, ping: Ping) {
        let may_lease = !self.outgoing.has_closed() || self.config.broken.is(Rule::PlaceBeforeLease);
        self.master.heartbeat(now, from, ping.nonce, may_lease, self.room.waiting_of(from));
    }

    /// Sends an answer, and before it the invalidations that it depends on.
    pub(crate) fn reply(&mut self, now: Time, session: SessionId, message: impl Into<ToClient>) {
        self.master.reply(session, message);
        self.carry_on(now);
    }

    /// The work that every event may have made possible or necessary.
    fn follow_up(&mut self, now: Time) {
        self.now = now;
        self.carry_on(now);
        loop {
            self.master.follow_up(now, self.log_state());
            let has_done_more = self.carry_on(now);
            let has_closed = self.close_outgoing(now);
            if !self.admit_waiting(now) && !has_done_more && !has_closed {
                break;
            }
        }
        self.ask_for_counts(now);
        self.copy_incoming(now);
        self.open_to_clients(now);
        self.grant_between(now);
        self.finish_closing(now);
    }

    /// A store of several nodes takes clients once its shards are open, and tells them where the others are.
    fn open_to_clients(&mut self, now: Time) {
        if self.config.has_peers() {
            if !self.lives.is_named() && self.is_open() {
                self.name_life(now);
            }
            self.tell_placement_to_all();
        }
    }
}
