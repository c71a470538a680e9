//! The store role: coordinator, master and sequencer of one node, as a pure machine. The first and the last of them are
//! crates of their own, which the node calls; the master is here.
//!
//! # How it is called
//! [`Store::new`], then [`Store::recover`] for each record of the log in order, then [`Store::start`]. From then on,
//! in any order: [`Store::connected`], [`Store::handle`], [`Store::disconnected`], [`Store::disk`],
//! [`Store::handle_timeout`]; and after each of them [`Store::poll_output`] until it returns nothing, then
//! [`Store::poll_timeout`] for when to call again. `now` never goes back.
//!
//! # Files
//! | file | what it knows or does |
//! |---|---|
//! | `sessions`, `resume`, `ending` | who is there; how a session begins, resumes and ends |
//! | `clients` | which sessions speak for a client, and how long it is remembered when none does |
//! | `group`, `leaders` | what a redirector may ask for its members; which redirector leads which group |
//! | `fetch`, `follow`, `images` | pages on their way to a client; what follows them; home images in memory |
//! | `ahead`, `queue` | pages that no request waits for yet, and which of them leaves next |
//! | `commit`, `in_flight` | a commit's way through the roles |
//! | `form`, `ticket`, `admission` | a commit before the master judges it |
//! | `room`, `need` | room in the MOB and the log, and the requests that wait for it |
//! | `turns`, `losses`, `overlap` | commits that wait for a prepared one, or for a client that has lost often |
//! | `validate` | is every slot that was read still the newest |
//! | `log` | which position, what of it is durable, what is still needed |
//! | `master`, `mob` | what each page is now |
//! | `invalidations` | what is said to a session, and what goes before it |
//! | `leases`, `lives` | groups that may validate on their own; leases of before a restart |
//! | `watch` | watchers, which learn of each change before it is visible |
//! | `grant` | which pages exist, and whose the empty ones are |
//! | `writeback`, `recovery` | from memory to the home, and back after a crash |
//! | `uncounted` | the commits in a log of an earlier format, and their counts |
//! | `damage` | pages that cannot be read, and what was committed to them |
//! | `machine`, `tables` | the trait of all machines; the tables of a status |
//! | `status`, `inspect` | what an operator asks; what checkers look at |
//! | `work`, `outputs` | what the driver does for all this, and in what order |
#![no_std]

extern crate alloc;

mod admission;
mod ahead;
mod clients;
mod commit;
mod damage;
mod ending;
mod fetch;
mod follow;
mod form;
mod grant;
mod group;
mod images;
mod in_flight;
mod inspect;
mod invalidations;
mod leaders;
mod leases;
mod lives;
mod log;
mod losses;
mod machine;
mod master;
mod mob;
mod need;
mod outputs;
mod overlap;
mod queue;
mod recovery;
mod resume;
mod room;
mod sessions;
mod status;
pub mod tables;
mod ticket;
mod turns;
mod uncounted;
mod validate;
mod watch;
pub mod work;
mod writeback;

use ::machine::Goodbye;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use coordinator::Coordinator;
use core::time::Duration;
use directory::{Streams, Urgency};
use fetch::Fetches;
pub use follow::References;
use grant::Grants;
use images::Waiter;
use in_flight::InFlight;
pub use inspect::InTurn;
use leaders::Leaders;
use leases::Leases;
use lives::Lives;
use log::Log;
use losses::Losses;
use master::Master;
use messages::{Ack, Ping, Pong, ToClient, ToServer};
use outputs::Outputs;
use recovery::Recovery;
use room::Parked;
use sequencer::Sequencer;
use sessions::Sessions;
pub use status::{SessionStatus, SpaceStatus, Status};
use turns::Turns;
use types::limits::TXN_BYTES_MAX;
use types::{Broken, ClientId, ClusterId, GoodbyeReason, Incarnation, Life, Limits, NodeId, PageId, Time};
pub use types::{Position, SessionId};
pub use uncounted::Uncounted;
pub use work::{
    Checkpoint, ClientOutcomes, CommitRecord, Counted, DiskDone, DiskWork, HomeImage, HomePage, LeasesGiven, Opened,
    Record, SetAside, UncountedCommit,
};
use writeback::WriteBack;

/// The settings that a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's place in the store.
    pub node: NodeId,
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

impl Default for Config {
    fn default() -> Self {
        Self {
            node: NodeId(0),
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
    /// Do disk work.
    Disk(DiskWork),
    /// Everything that was committed is home and every session has ended: the process may stop.
    Closed,
}

/// The machine. Its parts meet here: each keeps its own state, and what runs through several of them is in the file
/// that is named for it (`coordinator`, `fetch`, `resume`, `writeback`, `recovery`).
#[derive(Debug)]
pub struct Store {
    config: Config,
    cluster: ClusterId,
    incarnation: Incarnation,
    life: Life,
    out: Outputs,
    sessions: Sessions,
    own_client: Option<ClientId>,
    leaders: Leaders,
    leases: Leases,
    lives: Lives,
    invalidations: Streams<SessionId>,
    fetches: Fetches,
    parked: Parked,
    turns: Turns,
    losses: Losses,
    coordinator: Coordinator,
    sequencer: Sequencer,
    log: Log,
    in_flight: InFlight,
    master: Master,
    writeback: WriteBack,
    grants: Grants,
    recovery: Recovery,
    /// When the silent are looked for next.
    sweep: Option<Time>,
    /// When pages that were granted before the restart and not claimed since come back.
    unclaimed: Option<Time>,
    closing: bool,
    closed: bool,
    stats: Stats,
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
        let coordinator = coordinator::Config {
            incarnation,
            unlogged_bytes_max: TXN_BYTES_MAX.max(config.mob_bytes_limit),
            limits: config.limits,
            broken: config.broken,
        };
        let mut grants = Grants::restore(checkpoint.next_pages, config.limits);
        for HomePage { page, .. } in &pages {
            grants.granted_below(page.space, page.number.saturating_add(1));
        }
        Self {
            cluster,
            incarnation,
            life,
            out: Outputs::default(),
            sessions: Sessions::new(config.grace, config.limits),
            own_client: None,
            leaders: Leaders::new(config.limits),
            leases: Leases::default(),
            lives: Lives::default(),
            invalidations: Streams::new(config.invalidation_delay, config.limits),
            fetches: Fetches::default(),
            parked: Parked::default(),
            turns: Turns::default(),
            losses: Losses::default(),
            coordinator: Coordinator::new(coordinator, checkpoint.outcomes, checkpoint.forgotten),
            sequencer: Sequencer::default(),
            log: Log::new(log_bytes_free),
            in_flight: InFlight::default(),
            master: Master::new(&config, &pages, checkpoint.aside),
            writeback: WriteBack::new(),
            grants,
            recovery: Recovery::new(checkpoint.applied),
            sweep: None,
            unclaimed: None,
            closing: false,
            closed: false,
            stats: Stats::default(),
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
        self.unclaimed = Some(now + self.config.grace);
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

    /// A message has come in on a session.
    pub fn handle(&mut self, now: Time, from: SessionId, message: ToServer) {
        // A message from a session that was ended is of no interest.
        if !self.sessions.hear(now, from) {
            return;
        }
        self.list_late_holders(from);
        if let Err(why) = self.dispatch(now, from, message) {
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
                self.open_write_back();
                self.free_home();
            }
            DiskDone::Freed { log_bytes_free } => self.log.freed(log_bytes_free),
            DiskDone::Grown { log_bytes_free } => self.log.grown(log_bytes_free),
            DiskDone::Pages(pages) => {
                for (page, found) in pages {
                    match self.master.has_read(page, found, &mut self.out) {
                        Ok(waiters) => waiters.into_iter().for_each(|waiter| self.has_read(now, page, waiter)),
                        Err(why) => self.is_damaged(now, page, why),
                    }
                }
            }
            DiskDone::Damaged(page, why) => self.is_damaged(now, page, why),
            DiskDone::Installed => self.installed(),
            DiskDone::HomeFull => self.home_full(now),
        }
        self.serve_at_least();
        self.follow_up(now);
    }

    /// Refuses new commits, writes everything home, ends all sessions, then gives [`Output::Closed`].
    pub fn close(&mut self, now: Time) {
        self.closing = true;
        self.coordinator.close();
        self.follow_up(now);
    }

    /// The next action that the machine wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When [`Store::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let mob_is_empty = self.master.mob().is_empty();
        let write_back = self.writeback.next_due(mob_is_empty, self.in_flight.last_commit());
        let due = [
            self.invalidations.next_due(),
            self.sessions.next_forgotten(),
            self.sweep,
            self.unclaimed,
            self.leases.next_due(),
            self.turns.next_due(),
            write_back,
        ];
        due.into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(session) = self.invalidations.pop_due(now) {
            self.flush(session, Urgency::Worthwhile);
        }
        self.end_silent(now);
        self.forget_gone(now);
        self.follow_up(now);
    }

    /// Refused commits since the start, by the reason's name.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        self.coordinator.refusals()
    }

    /// Names the client that the store's own process has for itself. Its session is none of an operator's.
    pub fn set_own_client(&mut self, client: ClientId) {
        self.own_client = Some(client);
    }

    /// The store's figures.
    pub fn stats(&self) -> Stats {
        let coordinator::Stats { commits, read_only, refused } = self.coordinator.stats();
        Stats {
            commits,
            read_only,
            refused,
            sessions: self.sessions.all_but(self.own_client).len() as u64,
            pages: self.grants.count() as u64,
            pages_granted: self.grants.owned_count() as u64,
            pages_spare: self.grants.spare_count() as u64,
            mob_bytes: self.master.mob().bytes() as u64,
            cache_bytes: self.master.cache_bytes() as u64,
            pages_damaged: self.master.damaged().count() as u64,
            ..self.stats
        }
    }

    /// One message of a live session. An error that must end the session comes back as its goodbye.
    fn dispatch(&mut self, now: Time, from: SessionId, message: ToServer) -> Result<(), Goodbye> {
        match message {
            ToServer::Hello(hello) => self.hello(now, from, &hello),
            _ if self.sessions.client(from).is_none() => {
                Err(Goodbye::malformed("expected a hello before anything else".into()))
            }
            message if self.sessions.is_watcher(from) => self.hear_watcher(now, from, message),
            ToServer::Resume(resume) => self.resume(now, from, &resume),
            ToServer::Ping(ping) => {
                self.ping(now, from, ping);
                Ok(())
            }
            ToServer::Pong(_) => Ok(()),
            ToServer::Fetch(fetch) => self.fetch(from, fetch),
            ToServer::Released(released) => self.released(from, &released),
            ToServer::Commit(request) => self.commit(now, from, request),
            ToServer::AskOutcome(ask) => self.ask_outcome(now, from, ask),
            ToServer::Ack(ack) => self.ack(from, &ack),
            ToServer::Grant(grant) => self.grant(from, grant),
            ToServer::Revalidate(revalidate) => self.revalidate(from, &revalidate),
            ToServer::Departed(departed) => self.departed(now, from, departed),
            ToServer::Lead(lead) => self.lead(now, from, lead),
            ToServer::FindLeader(find) => self.find_leader(now, from, find),
            ToServer::Promise(promise) => {
                self.check_group(from)?;
                self.promise(from, promise);
                Ok(())
            }
            ToServer::Reachable(_) | ToServer::NoHelp(_) | ToServer::PeerPage(_) | ToServer::Arrived(_) => {
                Err(Goodbye::malformed("expected a request to a store, got one to a redirector".into()))
            }
            ToServer::Goodbye(_) => Err(Goodbye { reason: GoodbyeReason::Done, text: "the client is done".into() }),
        }
    }

    /// A heartbeat. The answer moves the horizon of a client that asks for nothing else.
    pub(crate) fn ping(&mut self, now: Time, from: SessionId, ping: Ping) {
        self.flush(from, Urgency::All);
        self.renew_lease(now, from, ping.nonce);
        self.reply(from, Pong { nonce: ping.nonce }, None);
    }

    fn ack(&mut self, from: SessionId, ack: &Ack) -> Result<(), Goodbye> {
        let applied = self.master.through();
        if !applied.reaches(&ack.through) {
            let text = format!("expected an acknowledgement of up to {applied}, got {}", ack.through);
            return Err(Goodbye::malformed(text));
        }
        self.sessions.ack(from, &ack.through);
        if let Some(least) = self.sessions.least_acked() {
            self.master.prune(least);
        }
        Ok(())
    }

    /// A page that was waited for is in memory.
    fn has_read(&mut self, now: Time, page: PageId, waiter: Waiter) {
        match waiter {
            Waiter::Fetch(session, number, follow) => self.serve_read(session, page, number, follow),
            Waiter::Ahead(session, ahead) => self.has_read_ahead(session, ahead),
            Waiter::Commit(ticket) => self.admit_again(now, ticket),
            Waiter::WriteBack => self.has_read_for_batch(now, page),
        }
    }

    /// The work that every event may have made possible or necessary.
    fn follow_up(&mut self, now: Time) {
        self.go_on_promised(now);
        self.take_turns(now);
        self.unpark(now);
        self.write_back(now);
        self.finish_closing(now);
    }
}
