//! The client role: a page cache, transactions and their commit requests, as a pure machine.
//!
//! # How it is called
//! By the driver: [`Client::connected`], [`Client::heard`], [`Client::handle`], [`Client::disconnected`],
//! [`Client::handle_timeout`], [`Client::stopped`]; in a group [`Client::reachable`], [`Client::peer_connected`],
//! [`Client::peer_disconnected`], [`Client::from_peer`]; [`Client::way`] says where to connect. By the application's
//! threads, under the same short lock: [`Client::begin`], [`Client::read`] and the rest. After each of them
//! [`Client::poll_output`] until it returns nothing, then [`Client::poll_timeout`] for when to call
//! [`Client::handle_timeout`]. `now` never goes back.
//!
//! A call that cannot be answered from the cache says `Wait`; [`Output::Wake`] says when to call again. A read that
//! hits is a function call: it sends nothing and allocates nothing.
//!
//! # Invariants (the numbers are those of `docs/protocol.md`)
//! - 2, 3: each slot of a cached page is a hole, or reflects every change through the page's version and through the
//!   horizon (`cache`, `session`).
//! - 4: the reads of a running transaction are still in the cache as they were, or frozen with their evidence; if not,
//!   the transaction is doomed, and every call on it says so (`invalidation`, `room`).
//! - 5: no slot goes back (`cache`).
//! - 7: a commit request is sent until its outcome is known, always under the same number (`commit`).
//! - 9: nobody sees a workspace but its own transaction (`workspace`).
//!
//! # Modules
//! | module | duty |
//! |---|---|
//! | `access`, `workspace` | a transaction reads and writes |
//! | `seen` | objects that it reads again |
//! | `create` | where new objects go |
//! | `fetch`, `prefetch`, `follow`, `window` | which pages are under way, and which are asked for next |
//! | `arrive`, `claims` | pages come in, and stay until they were looked at |
//! | `help` | from peers' caches, and from ours to theirs |
//! | `group` | by which way the store is reached |
//! | `room` | pages go out |
//! | `invalidation`, `doom` | changes by others, and the transactions that have read the values before |
//! | `commit` | requests and outcomes |
//! | `fresh` | transactions that commit without a request |
//! | `sync` | transactions that begin with everything that was acknowledged before |
//! | `nodes`, `placement`, `incarnations` | the nodes of the store, which of them has which page, and their lives |
//! | `link` | sending to a node, and giving up |
//! | `session`, `sessions` | a session: its state, and its course from hello to end |
//! | `txns`, `waiting` | the table of transactions; which are woken when |
//! | `machine`, `tables` | the trait of all machines; the table of a status |
//! | `answers`, `outputs` | answers to the application; actions for the driver, in order |
//! | `config`, `inspect` | settings; the view that checkers have |
//! | `mutants` | rules that take code to break, for tests of the checkers |
#![no_std]

extern crate alloc;

mod access;
mod answers;
mod arrive;
mod claims;
mod commit;
mod config;
mod create;
mod doom;
mod fetch;
mod follow;
mod fresh;
mod group;
mod help;
mod incarnations;
mod inspect;
mod invalidation;
mod link;
mod machine;
#[cfg(feature = "mutants")]
mod mutants;
mod nodes;
mod outputs;
mod placement;
mod prefetch;
mod room;
mod seen;
mod session;
mod sessions;
mod sync;
pub mod tables;
mod txns;
mod waiting;
mod window;
mod workspace;

use ::machine::{Goodbye, UpstreamId};
use alloc::format;
use alloc::string::String;
pub use answers::{Created, Read, Stats, TxnError, Write};
use cache::Cache;
use claims::Claims;
use commit::Commits;
pub use config::Config;
use create::Allocator;
use group::Group;
use help::Peers;
use incarnations::Incarnations;
use messages::{At, Phase, Pong, ToClient};
use nodes::Nodes;
pub use outputs::Output;
use outputs::Outputs;
pub use seen::Seen;
use sync::Moments;
use txns::{State, Txns};
use types::{ClientId, Time, Vector};

/// A running transaction of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnHandle(pub u64);

/// The machine. Its parts meet here: each keeps its own state, and its methods take what else they change. In the file
/// of a part, `impl Client` is the way of a call or an event through several of them: the part decides, the role says
/// what goes out and in which order. `access`, `arrive`, `link`, `invalidation` and `room` are of that alone. No file
/// calls one that calls it back.
#[derive(Debug)]
pub struct Client {
    config: Config,
    id: ClientId,
    out: Outputs,
    cache: Cache,
    nodes: Nodes,
    incarnations: Incarnations,
    txns: Txns,
    claims: Claims,
    peers: Peers,
    group: Group,
    commits: Commits,
    allocator: Allocator,
    moments: Moments,
    /// The latest changes that pages reflected which have left the cache (see `room`).
    gone: Vector,
    stats: Stats,
}

impl Client {
    /// A client with an empty cache.
    pub fn new(config: Config, id: ClientId) -> Self {
        Self {
            id,
            out: Outputs::default(),
            cache: Cache::new(config.cache_bytes_limit, config.broken),
            nodes: Nodes::new(&config),
            incarnations: Incarnations::default(),
            txns: Txns::new(config.patience, config.broken),
            claims: Claims::default(),
            peers: Peers::new(config.limits.peers),
            group: Group::new(config.group.clone()),
            commits: Commits::new(config.limits.outcomes_per_client),
            allocator: Allocator::new(config.grant_pages, config.limits.grant_pages),
            moments: Moments::new(config.broken),
            gone: Vector::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// A link to a node of the store is up: says hello.
    pub fn connected(&mut self, now: Time, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.session_is_down(at);
            self.say_hello(now, at);
        }
    }

    /// The link is gone. The cache and the running transactions stay.
    pub fn disconnected(&mut self, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.session_is_down(at);
        }
    }

    /// The store of this process has stopped, and why: every transaction ends at once, and so does each that is begun
    /// later.
    pub fn stopped(&mut self, why: String) {
        self.store_stopped(why);
    }

    /// A message has come in.
    pub fn handle(&mut self, now: Time, upstream: UpstreamId, message: ToClient) {
        // One of a connection that was closed is of no account.
        let Some(at) = self.nodes.find(upstream) else { return };
        self.heard(now, upstream);
        self.nodes.hear_of(at, &message);
        if let Err(why) = self.dispatch(now, at, message) {
            self.hang_up(at, why);
        }
    }

    /// One message of a session. A reason to end it comes back as a goodbye.
    fn dispatch(&mut self, now: Time, at: At, message: ToClient) -> Result<(), Goodbye> {
        let is_home = at == At::HOME;
        match (self.nodes[at].session.up.phase(), message) {
            // A message after we gave the link up is of no account.
            (Phase::Down | Phase::Over(..), _) => {}
            (Phase::Resuming | Phase::Live, ToClient::Pong(pong)) => self.group.pong(pong, &mut self.out),
            (_, ToClient::Goodbye(goodbye)) => return self.goodbye(at, goodbye),
            (Phase::Greeting, ToClient::Welcome(welcome)) => return self.welcome(at, &welcome),
            (Phase::Resuming | Phase::Live, ToClient::Welcome(welcome)) if is_home && self.group.is_joined() => {
                return self.store_lives_anew(&welcome);
            }
            (Phase::Resuming, ToClient::Resumed(resumed)) => return self.resumed(now, at, resumed),
            (Phase::Live, ToClient::Resumed(resumed)) if is_home => return self.lose_pages(now, resumed),
            (Phase::Resuming | Phase::Live, ToClient::Invalidations(invalidations)) => {
                return self.invalidations(now, at, &invalidations);
            }
            (Phase::Live, ToClient::Page(page)) => return self.page(now, at, page),
            (Phase::Live, ToClient::LeftOut(left_out)) => return self.left_out(now, at, &left_out),
            (Phase::Live, ToClient::CommitReply(reply)) => self.commit_reply(now, at, reply),
            (Phase::Live, ToClient::Granted(granted)) => return self.granted(now, at, &granted),
            (Phase::Resuming | Phase::Live, ToClient::Placement(placement)) => {
                return self.placement(now, at, &placement);
            }
            (Phase::Live, ToClient::Synced(synced)) => return self.synced(at, &synced),
            (Phase::Live, ToClient::Elsewhere(elsewhere)) => self.elsewhere(now, at, elsewhere),
            (Phase::Live, ToClient::Help(help)) if is_home => self.help(now, &help),
            (Phase::Live, ToClient::Members(members)) if is_home => {
                self.group.members(members, self.peers.eligible());
            }
            (Phase::Greeting | Phase::Resuming | Phase::Live, ToClient::Leader(leader)) if is_home => {
                let is_live = self.nodes[at].session.is_live();
                return self.group.leader(now, leader, is_live, self.peers.eligible());
            }
            (Phase::Live, ToClient::PeerPage(page)) if is_home => return self.peer_page(now, page),
            (Phase::Resuming | Phase::Live, ToClient::Ping(ping)) => {
                self.send(now, at, Pong { nonce: ping.nonce });
            }
            (phase, _) => {
                let text = format!("a message that a store does not send to a client that is {phase:?}");
                return Err(Goodbye::malformed(text));
            }
        }
        Ok(())
    }

    /// The next action that the machine wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When [`Client::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let find = self.group.find_at().filter(|_| self.nodes[At::HOME].session.is_live());
        let sessions = self.nodes.all().filter_map(|at| self.nodes[at].session.poll_timeout()).min();
        sessions.into_iter().chain(self.txns.impatient_at).chain(find).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        for at in self.nodes.all() {
            if self.nodes[at].session.poll_timeout().is_some_and(|due| due <= now) {
                self.session_timeout(now, at);
            }
        }
        if self.nodes[At::HOME].session.is_live() && self.group.find_at().is_some_and(|at| at <= now) {
            self.find_leader(now);
        }
        for txn in self.txns.impatient(now) {
            self.give_up(txn, &TxnError::Unreachable);
        }
    }

    /// The client's id at the store.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> TxnHandle {
        let home = &self.nodes[At::HOME];
        let txn = self.txns.begin(home.fetches.last());
        if let Phase::Over(error @ TxnError::Stopped(_)) = home.session.up.phase() {
            // With what is cached it could continue for long, and commit nothing in the end.
            self.txns.get(txn).expect("just begun").stop(State::Failed(error.clone()));
        }
        txn
    }

    /// Begins a transaction that sees everything that was acknowledged before, to any client.
    pub fn begin_fresh(&mut self) -> TxnHandle {
        let txn = self.begin();
        if let Ok(running) = self.txns.running(txn) {
            running.moment = self.moments.next();
        }
        txn
    }

    /// Whether the transaction can continue: what any other call on it would say, without its effects.
    pub fn check(&mut self, txn: TxnHandle) -> Result<(), TxnError> {
        self.txns.running(txn).map(drop)
    }

    /// The transaction waits for what dooms it: that others have changed what it has read. It is woken then, or when it
    /// has waited for as long as the application is patient.
    ///
    /// # Errors
    /// Why it can continue no more: [`TxnError::Doomed`] is what it waits for.
    pub fn watch(&mut self, now: Time, txn: TxnHandle) -> Result<(), TxnError> {
        self.txns.running(txn)?;
        self.txns.wait(now, txn);
        Ok(())
    }

    /// Whether the transaction has changed nothing so far.
    pub fn is_read_only(&mut self, txn: TxnHandle) -> Result<bool, TxnError> {
        Ok(self.txns.running(txn)?.workspace.is_read_only())
    }

    /// Drops the transaction and all it did. Also how a handle is ended after an error.
    pub fn abort(&mut self, now: Time, txn: TxnHandle) {
        self.claims.end_all(txn, &mut self.txns, &mut self.cache);
        let Some(ended) = self.txns.end(txn) else { return };
        if let State::Committing(number) = *ended.state() {
            let taken = self.commits.abandon(number).unwrap_or_default();
            return self.allocator.give_back(&taken, &mut self.cache);
        }
        #[cfg(feature = "mutants")]
        self.leave_traces(&ended.workspace);
        self.allocator.check_in(ended.chains);
        self.allocator.give_back(&ended.taken, &mut self.cache);
        self.let_go(now, &ended.workspace);
    }

    /// The client's figures.
    pub fn stats(&self) -> Stats {
        let (cache_bytes, cache_pages) = (self.cache.bytes() as u64, self.cache.len() as u64);
        Stats { cache_bytes, cache_pages, doomed: self.txns.doomed, ..self.stats }
    }
}
