//! The master role: owns the pages of a node, judges transactions on them, applies what commits, and tells the holders.
//!
//! # How it is called
//! [`Master::new`], then [`Master::recovered`] for each commit of the log, [`Master::recovered_through`], and
//! [`Master::start`]. From then on, in any order:
//! - the sessions: [`Master::connected`], [`Master::resumed`], [`Master::fetch`], [`Master::released`],
//!   [`Master::grant`], [`Master::ack`], [`Master::revalidate`], [`Master::heartbeat`], [`Master::promise`],
//!   [`Master::has_room`], [`Master::disconnected`];
//! - the commits: [`Master::prepare`], [`Master::withdraw`], [`Master::logged`], [`Master::decide`],
//!   [`Master::release`];
//! - the other nodes: [`Master::open`], [`Master::lost_coordinator`], and what has a shard move
//!   ([`Master::list_pages`] to [`Master::forget_shard`] at one end, [`Master::take_copy`] at the other);
//! - the disk: [`Master::has_read`], [`Master::is_damaged`], [`Master::installed`], [`Master::home_full`];
//!
//! and after each of them [`Master::follow_up`], then [`Master::poll_output`] until it returns nothing, and
//! [`Master::poll_timeout`] for when to call [`Master::handle_timeout`]. `now` never goes back.
//!
//! # Files
//! | file | what it knows or does |
//! |---|---|
//! | `sessions`, `resume`, `revalidate` | who holds pages; pages that a client or a group's member already has |
//! | `fetch`, `follow`, `images` | pages on their way to a client; what follows them; home images in memory |
//! | `ahead`, `queue` | pages that no request waits for yet, and which of them leaves next |
//! | `judge`, `ticket` | a transaction that is judged, and prepared |
//! | `decide`, `early` | a transaction that has committed is applied, and its changes are told; in which order |
//! | `room`, `need` | room in the MOB, and the requests that wait for it |
//! | `turns`, `losses`, `overlap` | commits that wait for a prepared one, or for a client that has lost often |
//! | `validate` | is every slot that was read still the newest |
//! | `pages`, `mob` | what each page is now |
//! | `shards`, `moves` | which shards are served, and how one opens; and moves to another node |
//! | `invalidations` | what is said to a session, and what goes before it |
//! | `leases` | groups that may validate on their own, and watchers, which learn of each change before it is visible |
//! | `syncs` | sessions that want everything told which has committed |
//! | `grant` | which pages exist, and whose the empty ones are |
//! | `writeback` | from memory to the home |
//! | `damage` | pages that cannot be read, and what was committed to them |
//! | `outputs` | what the master wants done |
//! | `inspect` | what an operator asks, and what checkers look at |
#![no_std]

extern crate alloc;

mod ahead;
mod damage;
mod decide;
mod early;
mod fetch;
mod follow;
mod grant;
mod images;
mod inspect;
mod invalidations;
mod judge;
mod leases;
mod losses;
mod mob;
mod moves;
mod need;
mod outputs;
mod overlap;
mod pages;
mod queue;
mod resume;
mod revalidate;
mod room;
mod sessions;
mod shards;
mod syncs;
mod ticket;
mod turns;
mod validate;
mod writeback;

use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use directory::{Streams, Urgency};
use early::Early;
use fetch::Fetches;
pub use follow::References;
use grant::Grants;
pub use inspect::{InTurn, Stats};
use leases::Leases;
pub use leases::{EarlierLeases, longer};
use losses::Losses;
use messages::Advance;
use moves::Moves;
use outputs::Outputs;
pub use outputs::{HomeImage, HomePage, Install, NextPage, Output, SetAside};
use pages::Pages;
use room::Parked;
use sessions::Sessions;
pub use sessions::{Kind, SessionState};
use shards::Shards;
use syncs::Syncs;
pub use ticket::Origin;
use turns::Turns;
use types::{Broken, Delta, Limits, PageId, Position, Rule, SessionId, Sharding, Time, Vector, Version};
pub use writeback::LogState;
use writeback::WriteBack;

/// The settings of a master.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which pages have counts in common.
    pub sharding: Sharding,
    /// Whether there are other nodes, which coordinate commits too, and are masters of other pages.
    pub has_peers: bool,
    /// Committed deltas that may wait for write-back, in bytes.
    pub mob_bytes_limit: usize,
    /// Page images kept for fetches, in bytes.
    pub cache_bytes_limit: usize,
    /// Changes remembered slot by slot; beyond, laggards revalidate by page version.
    pub recent_limit: usize,
    /// The longest that an invalidation waits for a reply to ride on.
    pub invalidation_delay: Duration,
    /// The spaces on which groups have leases, so that their redirectors validate read-only transactions themselves.
    pub leased_spaces: Vec<u32>,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long pages that were granted before a restart are kept for clients that may claim them.
    pub grace: Duration,
    /// Where objects refer to, as the front end knows that has made them.
    pub references: References,
    /// How much goes into one message, and how much is kept for others.
    pub limits: Limits,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

/// The state in which the disk has a master's pages, beside the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Every page in the home.
    pub pages: Vec<HomePage>,
    /// For each space the first page that was not granted.
    pub next_pages: Vec<(u32, u32)>,
    /// Changes to pages that cannot be read.
    pub aside: Vec<SetAside>,
}

/// The machine. Its parts meet here: each keeps its own state, and what runs through several of them is in the file
/// that is named for it (`judge`, `decide`, `fetch`, `resume`, `writeback`).
#[derive(Debug)]
pub struct Master {
    config: Config,
    out: Outputs,
    sessions: Sessions,
    shards: Shards,
    pages: Pages,
    leases: Leases,
    /// Leases that were given before a restart.
    earlier: EarlierLeases,
    invalidations: Streams<SessionId>,
    fetches: Fetches,
    syncs: Syncs,
    parked: Parked,
    turns: Turns,
    losses: Losses,
    grants: Grants,
    writeback: WriteBack,
    early: Early,
    moves: Moves,
    /// When pages that were granted before the restart and not claimed since come back.
    unclaimed: Option<Time>,
    closing: bool,
    pages_sent: u64,
}

impl Master {
    /// A master over what the disk holds.
    pub fn new(config: Config, opened: Opened) -> Self {
        let Opened { pages, next_pages, aside } = opened;
        let mut grants = Grants::restore(next_pages, config.limits);
        for HomePage { page, .. } in &pages {
            grants.granted_below(page.space, page.number.saturating_add(1));
        }
        Self {
            out: Outputs::default(),
            sessions: Sessions::default(),
            shards: Shards::new(config.has_peers),
            pages: Pages::new(&config, &pages, aside),
            leases: Leases::default(),
            earlier: EarlierLeases::default(),
            invalidations: Streams::new(config.invalidation_delay, config.limits),
            fetches: Fetches::default(),
            syncs: Syncs::default(),
            parked: Parked::default(),
            turns: Turns::default(),
            losses: Losses::default(),
            grants,
            writeback: WriteBack::new(),
            early: Early::default(),
            moves: Moves::default(),
            unclaimed: None,
            closing: false,
            pages_sent: 0,
            config,
        }
    }

    /// The log held a commit. Deltas that were written back are passed over.
    pub fn recovered(&mut self, position: Position, counts: &Vector, deltas: &[Delta]) {
        self.pages.replay(position, counts, deltas);
    }

    /// How the deltas of a commit move their pages at these counts.
    pub fn advances(&self, counts: &Vector, deltas: &[Delta]) -> Vec<Advance> {
        self.pages.advances(counts, deltas.iter())
    }

    /// The log held a record of pages that were granted: all of the space below `next`.
    pub fn recovered_grant(&mut self, space: u32, next: u32) {
        self.grants.granted_below(space, next);
    }

    /// Everything through these counts was applied before the restart.
    pub fn recovered_through(&mut self, applied: &Vector) {
        self.pages.resume(applied);
    }

    /// Opens for business, with leases that may last from before.
    pub fn start(&mut self, now: Time, earlier: EarlierLeases) {
        self.earlier = earlier;
        self.unclaimed = Some(now + self.config.grace);
    }

    /// Refuses the requests that wait, and has all pages written back.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The work that every event may have made possible or necessary. A commit whose reply stands for its invalidation
    /// comes alone, and the rest when it is called again: its session must have the reply before any answer that shows
    /// the count (**ReplyFirst**).
    pub fn follow_up(&mut self, now: Time, log: LogState) {
        let replies_first = !self.config.broken.is(Rule::ReplyFirst);
        if replies_first && self.apply_early(now) {
            return;
        }
        self.serve_at_least();
        self.answer_settled();
        self.go_on_promised(now);
        self.take_turns(now);
        self.unpark(now);
        self.write_back(now, log);
        if !replies_first {
            self.apply_early(now);
        }
    }

    /// The next action that the master wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When [`Master::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let write_back = self.writeback.next_due(self.pages.mob().is_empty());
        let due =
            [self.invalidations.next_due(), self.unclaimed, self.leases.next_due(), self.turns.next_due(), write_back];
        due.into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(session) = self.invalidations.pop_due(now) {
            self.flush(session, Urgency::Worthwhile);
        }
        if self.unclaimed.is_some_and(|unclaimed| unclaimed <= now) {
            self.unclaimed = None;
            self.grants.give_back_unclaimed();
        }
    }

    /// The home has answered for a page. The answer is none for a page that was never installed.
    pub fn has_read(&mut self, now: Time, page: PageId, found: Option<(Version, Bytes)>) {
        match self.pages.has_read(page, found, &mut self.out) {
            Ok(waiters) => waiters.into_iter().for_each(|waiter| self.go_on_read(now, page, waiter)),
            Err(why) => self.is_damaged(now, page, why),
        }
    }

    /// The counts through which updates are applied.
    pub fn applied(&self) -> &Vector {
        self.pages.applied()
    }

    /// The counts through which updates are applied, and for shards that have moved to other nodes the highest versions
    /// in the page home. This node never told a client of a higher count of such a shard.
    pub fn known(&self) -> Vector {
        self.pages.known()
    }
}
