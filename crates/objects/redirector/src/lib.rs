//! The redirector role: is in for the store where a group of clients is (BuddyCache paper, sections 3 and 4), as a
//! pure machine.
//!
//! ```text
//!   member ---+                                 +--- the group's pages, questions and commits: one upstream session
//!   member ---+--- sessions ---- Redirector ----+
//!   member ---+                                                                                        store
//!      \___________/ pages go from member to member directly
//! ```
//! To its members it is what a store is to a client, and to the store what a client is. It decides nothing about
//! transactions: their evidence does, at the store.
//!
//! # How it is called
//! [`Redirector::upstream_connected`], [`Redirector::from_store`], [`Redirector::upstream_disconnected`] for the
//! session with the store; [`Redirector::connected`], [`Redirector::handle`], [`Redirector::disconnected`] for the
//! members'. After each of them [`Redirector::poll_output`] until it returns nothing, then [`Redirector::poll_timeout`]
//! for when to call [`Redirector::handle_timeout`]. `now` never goes back. [`Redirector::close`] is the last.
//!
//! # Invariants
//! 1. A member that holds a page, or may soon install it, is listed before anything is done about it; and as long as
//!    anybody is listed, or a fetch of the page is outstanding, the store lists the group.
//! 2. The store's news is passed on in its order: everything that concerns a member is in its stream before the answers
//!    and the requests for help that come after it.
//! 3. A commit's reply stands for its invalidations: the members that hold its pages are given the new values, the
//!    committer the reply.
//! 4. No member is waited for: a page that one needs of another is asked elsewhere when it does not come.
//! 5. A message that the store would end a session for ends the session of the member that sends it, and is neither
//!    kept nor passed on: the session with the store is the whole group's.
//!
//! # Files
//! | file | duty |
//! |---|---|
//! | `nodes` | the nodes of the store, and which of them has which page |
//! | `store_session`, `session` | the session with a node: sending on it; its course |
//! | `dispatch` | which method hears a member's message |
//! | `lead` | whether we are the group's redirector, or stand by |
//! | `members`, `resume` | the sessions of the members; the caches that they bring |
//! | `counts` | the counts that a member can have learned of |
//! | `holders` | which members hold a page, and which have it whole |
//! | `fetch`, `sources`, `absent` | pages that members want; where they come from; how many that do not exist are held |
//! | `help` | pages that go from member to member |
//! | `standby` | pages that the redirector keeps itself |
//! | `commit`, `update` | commits on their way; the news of their changes, and its receivers |
//! | `lease` | read-only transactions that are validated here |
//! | `syncs` | members that ask for all changes that they have not heard yet |
//! | `grant`, `line` | pages to create objects in, and whose turn it should get some |
//! | `machine`, `tables` | the trait of all machines; the tables of a status |
//! | `config`, `status`, `outputs` | settings; the answer to an operator; actions for the driver, in order |
//! | `mutants` | rules that take code to break, for tests of the checkers |
#![no_std]

extern crate alloc;

mod absent;
mod commit;
mod config;
mod counts;
mod dispatch;
mod fetch;
mod grant;
mod help;
mod holders;
mod lead;
mod lease;
mod line;
mod machine;
mod members;
#[cfg(feature = "mutants")]
mod mutants;
mod nodes;
mod outputs;
mod resume;
mod session;
mod sources;
mod standby;
mod status;
mod store_session;
mod syncs;
pub mod tables;
mod update;

use ::machine::{Goodbye, UpstreamId};
use absent::Absent;
use commit::Commits;
pub use config::{Config, Duty};
use grant::Grants;
use help::Helps;
use holders::Holders;
use lead::Leadership;
use members::Members;
use messages::{Leader, ToClient, ToServer};
use nodes::Nodes;
pub use outputs::Output;
use outputs::Outputs;
use resume::Revalidations;
use standby::Standby;
pub use status::{MemberStatus, Stats, Status};
use syncs::Syncs;
use types::{ClientId, GoodbyeReason, SessionId, Time};

/// The machine. Its parts meet here: each keeps its own state, and its methods take what else they change. In the file
/// of a part, `impl Redirector` is the way of an event through several of them: the part decides, the role says in
/// which order who learns of it. No file calls one that calls it back.
#[derive(Debug)]
pub struct Redirector {
    config: Config,
    id: ClientId,
    out: Outputs,
    nodes: Nodes,
    leadership: Leadership,
    members: Members,
    /// The members that hold each page.
    holders: Holders,
    /// The held pages that do not exist.
    absent: Absent,
    helps: Helps,
    commits: Commits,
    grants: Grants,
    revalidations: Revalidations,
    standby: Standby,
    syncs: Syncs,
    stats: Stats,
}

impl Redirector {
    /// A redirector that knows nobody yet. `id` is new: drawn for this life of the process.
    pub fn new(config: Config, id: ClientId) -> Self {
        Self {
            id,
            out: Outputs::default(),
            nodes: Nodes::new(&config),
            leadership: Leadership::new(&config),
            members: Members::new(config.limits),
            holders: Holders::default(),
            absent: Absent::default(),
            helps: Helps::new(config.help_within),
            commits: Commits::new(config.retained_bytes_limit, config.limits.commits_per_group),
            grants: Grants::new(&config.limits),
            revalidations: Revalidations::default(),
            standby: Standby::new(config.cache_bytes_limit, config.broken),
            syncs: Syncs::default(),
            stats: Stats::default(),
            config,
        }
    }

    /// The connection to a node of the store is up.
    pub fn upstream_connected(&mut self, now: Time, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.upstream_is_down(now, at);
            self.say_hello(now, at);
        }
    }

    /// The connection to a node is gone. Pages that were asked for are asked for again when there is another.
    pub fn upstream_disconnected(&mut self, now: Time, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.upstream_is_down(now, at);
            self.is_cut_off_from(now, at);
        }
    }

    /// A heartbeat of a node: some bytes of a message, or room for what is on its way there.
    pub fn heard_store(&mut self, now: Time, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.nodes[at].session.up.heard(now);
        }
    }

    /// A node has said something.
    pub fn from_store(&mut self, now: Time, upstream: UpstreamId, message: ToClient) {
        // One of a connection that was closed is of no account.
        let Some(at) = self.nodes.find(upstream) else { return };
        self.hear_store(now, at, message);
        self.follow_up(now);
    }

    /// A member's connection has come in.
    pub fn connected(&mut self, now: Time, session: SessionId) {
        if self.members.is_empty() && !self.is_open() {
            self.nodes.wait_from(now);
        }
        if !self.members.connect(now, session) {
            let text = "the group takes no more members".into();
            self.out.end(session, Goodbye { reason: GoodbyeReason::Full, text });
        }
    }

    /// A member's connection is gone.
    pub fn disconnected(&mut self, now: Time, session: SessionId) {
        self.forget_member(now, session);
        self.follow_up(now);
    }

    /// A heartbeat of a member: some bytes of a message, or room for what is on its way there.
    pub fn heard(&mut self, now: Time, from: SessionId) {
        self.members.hear(now, from);
    }

    /// A member has said something.
    pub fn handle(&mut self, now: Time, from: SessionId, message: ToServer) {
        // A message from a session that was ended is of no interest.
        if !self.members.hear(now, from) {
            return;
        }
        self.helps.hear(from);
        if let Err(why) = self.dispatch(now, from, message) {
            self.end(now, from, why);
        }
        self.follow_up(now);
    }

    /// The member beside us has found that nobody leads the group any more: takes over in this epoch.
    pub fn lead(&mut self, now: Time, epoch: u64) {
        if let Some(step) = self.leadership.lead(epoch) {
            self.take_step(now, step);
            self.follow_up(now);
        }
    }

    /// The member beside us says whose redirector lives, or that it is with none.
    pub fn led_by(&mut self, now: Time, leader: Option<Leader>) {
        if let Some(step) = self.leadership.led_by(leader) {
            self.take_step(now, step);
            self.follow_up(now);
        }
    }

    /// The next action that the machine wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When [`Redirector::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (members, helps) = (self.members.next_due(self.config.silence), self.helps.next_due());
        let due = [self.upstream_due(), self.leadership.next_due(), self.cut_off_at(), members, helps];
        due.into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.upstream_timeout(now);
        self.end_silent(now);
        self.let_depart(now);
        self.ask_others(now);
        self.tell_members(now);
        self.follow_up(now);
    }

    /// The work that every event may have made possible or necessary.
    fn follow_up(&mut self, now: Time) {
        self.flush_told();
        self.acknowledge(now);
        self.send_unsent(now);
    }
}
