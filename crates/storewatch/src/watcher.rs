//! A watcher's session with its store, and the lease that it has there, decided.
//!
//! ```text
//!   Down --Hello, Rejoin--> Greeting --Welcome--> Rejoining --Rejoined/Ping--> Live --Leased--> Live, leased
//!    ^                                                                          |                |
//!    +------------------- the link is gone: everything is marked ---------------+----------------+
//! ```
//! 1. The lease counts from when it was asked for, and shorter by how much slower this clock may be. It goes on when the
//!    session ends: the store waits for it.
//! 2. It is asked for again at a third of its length. One that is given when the one before is over does not follow on it:
//!    the store may have gone on in between without a word.
//! 3. A watcher keeps nothing over sessions, so it need not know the store again that it finds.

use crate::rule::Rule;
use crate::under_way::{Effect, UnderWay};
use node::{Machine, Output, Port, Waiter};
use protocol::{
    Cell, Goodbye, Intent, Leased, Parcel, Ping, Pong, Promise, Rejoin, ToClient, ToServer, WATCH, Welcome,
};
use session::{Overdue, Phase, Upstream};
use std::collections::VecDeque;
use std::time::Duration;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, ClientId, GoodbyeReason, Time, TxnId, Version};

/// The caller that carries out what a watcher wants done waits under this number.
pub const EFFECTS: Waiter = Waiter(0);

/// Commits that the store may have under way at a time.
const COMMITS_MAX: usize = 1 << 16;

/// How often a store that gives no lease is asked for one.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How a watcher stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no session, or no lease any more: the store goes on without a word when the last one is over.
    Apart,
    /// The store gives no lease.
    NotLeased,
    /// There is a lease, and everything is marked until no cache has anything of before.
    CatchingUp,
    /// Commits are told one by one.
    Watching,
}

/// The lease at the store.
#[derive(Debug, Default)]
struct Lease {
    until: Time,
    /// The ping that is not answered yet, and whether a lease has come with it.
    asked: Option<(u64, Time)>,
    is_given: bool,
    /// The store has answered a ping without giving any.
    is_refused: bool,
    last_nonce: u64,
    ask_at: Option<Time>,
    spaces: Vec<u32>,
}

/// A watcher of one store.
#[derive(Debug)]
pub struct Watcher {
    client: ClientId,
    up: Upstream<String>,
    lease: Lease,
    under_way: UnderWay,
    applied: u64,
    is_leaving: bool,
    is_over: bool,
    outputs: VecDeque<Output>,
}

impl Watcher {
    /// A watcher under this number, which is drawn at random: no other session has it.
    pub fn new(client: ClientId) -> Self {
        Self::without(client, Broken::NONE)
    }

    /// The same without a rule.
    pub fn without(client: ClientId, broken: Broken<Rule>) -> Self {
        let outputs = VecDeque::from([Output::Wake(EFFECTS)]);
        let (up, lease, under_way) = (Upstream::default(), Lease::default(), UnderWay::new(broken));
        Self { client, up, lease, under_way, applied: 0, is_leaving: false, is_over: false, outputs }
    }

    /// The next thing to do: callers are woken under [`EFFECTS`] when there is some.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.under_way.poll_effect()
    }

    /// Whether there is something to do.
    pub fn has_effects(&self) -> bool {
        self.under_way.has_effects()
    }

    /// The hub has released an update.
    pub fn released(&mut self, update: u64) {
        let promised = self.under_way.released(update);
        self.promise(promised);
        self.wake();
    }

    /// How it stands.
    pub fn standing(&self, now: Time) -> Standing {
        match self.up.phase() {
            Phase::Live if now < self.lease.until => {
                if self.under_way.is_caught_up() {
                    Standing::Watching
                } else {
                    Standing::CatchingUp
                }
            }
            Phase::Live if self.lease.is_refused => Standing::NotLeased,
            _ => Standing::Apart,
        }
    }

    /// The spaces whose changes it hears of.
    pub fn spaces(&self) -> &[u32] {
        &self.lease.spaces
    }

    /// Changes that the store has applied and told of.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether updates are told one by one, and not everything is marked.
    pub fn is_caught_up(&self) -> bool {
        self.under_way.is_caught_up()
    }

    /// Whether everything is marked, and no cache answers with anything of before.
    pub fn is_all_marked(&self) -> bool {
        self.under_way.is_all_marked()
    }

    /// Everything is to be marked, and stay so: it takes no more of a lease.
    pub fn leave(&mut self) {
        self.is_leaving = true;
        self.under_way.lost();
        self.wake();
    }

    /// Whether nothing is to be had of it any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn promise(&mut self, txn: Option<TxnId>) {
        if let Some(txn) = txn.filter(|_| self.up.is_live()) {
            self.say(Promise { txn });
        }
    }

    fn wake(&mut self) {
        if self.under_way.has_effects() {
            self.outputs.push_back(Output::Wake(EFFECTS));
        }
    }

    fn say(&mut self, message: impl Into<ToServer>) {
        self.outputs.push_back(Output::Send(Port::Server, Parcel::new(message.into()), None));
    }

    fn hang_up(&mut self, reason: GoodbyeReason, text: &str) {
        self.up.close();
        self.outputs.push_back(Output::End(Port::Server, reason, text.to_owned()));
    }

    fn welcomed(&mut self, welcome: &Welcome) {
        if let Err(Goodbye { reason, text }) = self.up.agrees(welcome) {
            return self.hang_up(reason, &text);
        }
        if welcome.features & WATCH == 0 {
            let text = "expected a store that takes watchers, got a redirector, or a store of an earlier version: name \
                        the store's own address";
            return self.hang_up(GoodbyeReason::Protocol, text);
        }
        self.up.welcomed(welcome);
    }

    fn ask_for_lease(&mut self, now: Time) {
        self.lease.last_nonce += 1;
        (self.lease.asked, self.lease.is_given, self.lease.ask_at) = (Some((self.lease.last_nonce, now)), false, None);
        self.up.pinged(now);
        self.say(Ping { nonce: self.lease.last_nonce });
    }

    fn leased(&mut self, now: Time, leased: Leased) {
        let is_answer = |&(nonce, _): &(u64, Time)| nonce == leased.nonce && !self.is_leaving;
        let Some((_, asked)) = self.lease.asked.filter(is_answer) else { return };
        let length = Duration::from_millis(leased.lease_ms.into());
        let until = asked + length * 1000 / (1000 + LEASE_DRIFT_PERMILLE);
        let follows = now < self.lease.until;
        self.lease.until = self.lease.until.max(until);
        (self.lease.is_given, self.lease.spaces) = (true, leased.spaces);
        self.lease.ask_at = Some(asked + length / 3);
        self.under_way.leased(self.lease.until, follows);
    }

    /// The store has answered. It says before that what lease it gives.
    fn answered(&mut self, nonce: u64) {
        if let Some((_, asked)) = self.lease.asked.filter(|(asked, _)| *asked == nonce) {
            self.lease.asked = None;
            self.lease.is_refused = !self.lease.is_given;
            self.lease.ask_at.get_or_insert(asked + ASK_EVERY);
        }
    }

    fn intent(&mut self, intent: &Intent) {
        let promised = self.under_way.told(intent.txn, &intent.pages);
        self.promise(promised);
        if self.under_way.count() > COMMITS_MAX {
            self.hang_up(GoodbyeReason::TooMuch, "expected fewer commits under way at a time");
        }
    }

    fn hear(&mut self, now: Time, message: ToClient) {
        self.up.heard(now);
        match (self.up.phase(), message) {
            (Phase::Greeting, ToClient::Welcome(welcome)) => self.welcomed(&welcome),
            (Phase::Rejoining, ToClient::Rejoined(_)) => {
                self.up.joined(now);
                self.ask_for_lease(now);
            }
            (Phase::Rejoining | Phase::Live, ToClient::Notices(notices)) => {
                self.applied += notices.items.len() as u64;
                notices.items.iter().for_each(|notice| self.under_way.applied(notice.txn));
            }
            (Phase::Live, ToClient::Intent(intent)) => self.intent(&intent),
            (Phase::Live, ToClient::Leased(leased)) => self.leased(now, leased),
            (Phase::Live, ToClient::Pong(pong)) => self.answered(pong.nonce),
            (Phase::Rejoining | Phase::Live, ToClient::Ping(ping)) => self.say(Pong { nonce: ping.nonce }),
            (Phase::Down | Phase::Over(_), _) | (_, ToClient::Goodbye(_)) => {}
            (_, _) => {
                self.hang_up(GoodbyeReason::Malformed, "expected what a store tells its watchers, got another message");
            }
        }
    }

    fn due(&self) -> Option<Time> {
        self.lease.ask_at.filter(|_| self.up.is_live())
    }
}

impl Machine for Watcher {
    fn connected(&mut self, now: Time, _: Port) {
        // It may be another store by now.
        self.up.forget_store();
        let hello = self.up.open(now, self.client, WATCH);
        self.say(hello);
        self.say(Rejoin { horizon: Version::ZERO, pages: Vec::new(), grants: Vec::new(), last: true });
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.up.close();
        (self.lease.asked, self.lease.ask_at, self.lease.is_refused) = (None, None, false);
        self.under_way.lost();
        self.wake();
    }

    fn heard(&mut self, now: Time, _: Port) {
        self.up.heard(now);
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        if let Ok(message) = message.open() {
            self.hear(now, message);
            self.wake();
        }
    }

    /// Its caller finds that nothing more is to come.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs = VecDeque::from([Output::Wake(EFFECTS)]);
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.up.next_due(self.due())
    }

    fn handle_timeout(&mut self, now: Time) {
        match self.up.overdue(now, self.due()) {
            Some(Overdue::Silence(Goodbye { reason, text })) => self.hang_up(reason, &text),
            Some(Overdue::Ping) => self.ask_for_lease(now),
            None => {}
        }
    }

    fn status(&self) -> Vec<protocol::Table> {
        let row = [
            ("client", self.client.0.into()),
            ("caught_up", u64::from(self.is_caught_up()).into()),
            ("commits_under_way", self.under_way.count().into()),
            ("changes", self.applied.into()),
        ];
        let (columns, cells): (Vec<_>, Vec<Cell>) = row.into_iter().map(|(name, cell)| (name.to_owned(), cell)).unzip();
        vec![protocol::Table { name: "watcher".to_owned(), columns, rows: vec![cells] }]
    }
}
