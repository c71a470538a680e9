//! A watcher's sessions with the nodes of its store, and the leases that it has there, decided.
//!
//! ```text
//!   each node:  Down --Hello, Resume--> Greeting --Welcome--> Resuming --Resumed/Ping--> Live --Leased--> Live, leased
//!                ^                                                                         |                |
//!                +------------------ the link is gone: everything is marked ---------------+----------------+
//!
//!   the hub:    the least of the leases of all nodes that have shards, once each has given one in its session
//! ```
//! 1. A lease counts from when it was asked for, and shorter by how much slower this clock may be. It continues when
//!    the session ends: the node waits for it.
//! 2. It is asked for again at a third of its length. One that is given when the one before is over does not follow on
//!    it: the node may have continued in between without a word.
//! 3. A store of one node sends no placement, and that node has all pages. Each of several nodes sends one before it
//!    gives a lease. If two name different nodes for a shard, the later opening counts ([`messages::store_nodes`]).
//! 4. A shard that moves is closed at its old node, which gives no lease from then on before it has told the new place
//!    (**PlaceBeforeLease**). The new node delays changes until all leases of the old one are over
//!    (**LeasesOutliveOpening**). So the watcher has a lease of the new node before anything changes there, or the
//!    hub's lease was over before (**FollowMoves**).
//! 5. A node without a session or a lease costs a mark of everything, and its sessions with the others live on.
//! 6. A watcher that leaves hangs up, and asks for no lease any more: commits would wait for one whose promises nobody
//!    gives.
//! 7. A watcher keeps nothing over sessions, so it need not know the store again that it finds.

use crate::node::Node;
use crate::rule::Rule;
use crate::under_way::{Effect, Part, UnderWay};
use machine::{Cell, Goodbye, Machine, Output, Parcel, Port, UpstreamId, Waiter};
use messages::{
    At, Change, Intent, Leased, Overdue, Phase, Ping, Placement, Pong, Promise, Resume, StoreNodes, ToClient, ToServer,
    WATCH, Welcome, session_at,
};
use std::collections::VecDeque;
use types::limits::{COMMITS_PER_SESSION_MAX, SESSIONS_MAX};
use types::{Broken, ClientId, ClusterId, GoodbyeReason, Time, Version};

/// The caller that carries out what a watcher wants done waits under this number.
pub const EFFECTS: Waiter = Waiter(0);

/// Commits under way whose changes are marked one by one.
const MARKED_MAX: usize = 1 << 16;

/// Commits that a node may have under way at a time, and so everything that it may report: if its watcher hung up on
/// fewer, the node would tell the next session of as many.
const COMMITS_MAX: usize = SESSIONS_MAX * COMMITS_PER_SESSION_MAX;

/// Things that may wait to be done: some for each commit, and some before everything is marked in their place.
const EFFECTS_MAX: usize = 4 * MARKED_MAX;

const LEAVES: &str = "the watcher is done";

/// How a watcher stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A node that has shards has no session with it, or has given no lease: that node continues without a word when
    /// the last one is over.
    Apart,
    /// A node gives no lease.
    NotLeased,
    /// There are all leases, and everything is marked until no cache has anything of before.
    CatchingUp,
    /// Commits are told one by one.
    Watching,
}

/// A watcher of one store.
#[derive(Debug)]
pub struct Watcher {
    client: ClientId,
    /// The store that the nodes belong to.
    store: Option<ClusterId>,
    nodes: StoreNodes<Node>,
    /// The nodes that have shards.
    needed: Vec<At>,
    /// Until when the hub may give leases.
    until: Time,
    under_way: UnderWay,
    applied: u64,
    is_leaving: bool,
    is_over: bool,
    broken: Broken<Rule>,
    outputs: VecDeque<Output>,
}

impl Watcher {
    /// A watcher under this number, which is drawn at random: no other session has it.
    pub fn new(client: ClientId) -> Self {
        Self::without(client, MARKED_MAX, Broken::NONE)
    }

    /// The same without a rule, which marks the changes of this many commits one by one.
    pub fn without(client: ClientId, marked_max: usize, broken: Broken<Rule>) -> Self {
        Self {
            client,
            store: None,
            nodes: StoreNodes::new(Node::default()),
            needed: vec![At::HOME],
            until: Time::ZERO,
            under_way: UnderWay::new(marked_max, broken),
            applied: 0,
            is_leaving: false,
            is_over: false,
            broken,
            outputs: VecDeque::from([Output::Wake(EFFECTS)]),
        }
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
        let mut needed = self.needed.iter().map(|&at| &self.nodes[at]);
        if needed.clone().all(|node| node.up.is_live() && now < node.lease.until) {
            if self.under_way.is_caught_up() { Standing::Watching } else { Standing::CatchingUp }
        } else if needed.any(|node| node.up.is_live() && node.lease.is_refused) {
            Standing::NotLeased
        } else {
            Standing::Apart
        }
    }

    /// The connections to the nodes that have shards and have given no lease that lasts.
    pub fn awaited(&self, now: Time) -> impl Iterator<Item = UpstreamId> {
        let needed = self.needed.iter().map(|&at| &self.nodes[at]);
        needed.filter(move |node| !node.is_leased(now)).map(|node| node.upstream)
    }

    /// The spaces whose changes it learns of.
    pub fn spaces(&self) -> &[u32] {
        self.needed.first().map_or(&[], |&at| &self.nodes[at].lease.spaces)
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

    /// Everything should be marked, and stay so: it hangs up for good.
    pub fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            for at in self.nodes.all().filter(|&at| at == At::HOME || self.nodes[at].up.is_up()).collect::<Vec<_>>() {
                self.hang_up(at, GoodbyeReason::Done, LEAVES);
            }
            self.under_way.lost_all();
            self.wake();
        }
    }

    /// Whether nothing should be had of it any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn promise(&mut self, parts: impl IntoIterator<Item = Part>) {
        for Part { at, txn } in parts {
            if self.nodes[at].up.is_live() {
                self.say(at, Promise { txn });
            }
        }
    }

    fn wake(&mut self) {
        if self.under_way.has_effects() {
            self.outputs.push_back(Output::Wake(EFFECTS));
        }
    }

    fn say(&mut self, at: At, message: impl Into<ToServer>) {
        let port = Port::Upstream(self.nodes[at].upstream);
        self.outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
    }

    fn hang_up(&mut self, at: At, reason: GoodbyeReason, text: &str) {
        self.nodes[at].close();
        let port = Port::Upstream(self.nodes[at].upstream);
        self.outputs.push_back(Output::End(port, reason, text.to_owned()));
    }

    fn welcomed(&mut self, at: At, welcome: &Welcome) {
        if let Err(Goodbye { reason, text }) = self.nodes[at].up.agrees(welcome) {
            return self.hang_up(at, reason, &text);
        }
        if welcome.features & WATCH == 0 {
            let text = "expected a store that takes watchers, got a redirector, or a store of an earlier version: name \
                        the store's own address";
            return self.hang_up(at, GoodbyeReason::Protocol, text);
        }
        if at == At::HOME && self.store != Some(welcome.cluster) {
            self.begin_anew(welcome.cluster);
        }
        let known = self.nodes[at].id.filter(|_| self.nodes.are_several());
        if self.store != Some(welcome.cluster) || known.is_some_and(|known| known != welcome.node) {
            let text = format!("expected node {known:?} of {:?} at this address, got {:?}", self.store, welcome.node);
            return self.hang_up(at, GoodbyeReason::Done, &text);
        }
        self.nodes[at].id = Some(welcome.node);
        self.nodes[at].up.welcomed(welcome);
    }

    /// Another store answers at the home's addresses, or the first one.
    fn begin_anew(&mut self, store: ClusterId) {
        for upstream in self.nodes.forget_others(|node| &mut node.up) {
            self.outputs.push_back(Output::Close(upstream));
        }
        let home = &mut self.nodes[At::HOME];
        home.id = None;
        home.address.clear();
        (self.store, self.needed) = (Some(store), vec![At::HOME]);
        self.under_way.lost_all();
    }

    /// A node says where the nodes and the shards are.
    fn placed(&mut self, now: Time, at: At, placement: &Placement) {
        let (sharding, own) = (self.nodes[at].up.sharding(), self.nodes[at].id);
        if let Err(Goodbye { reason, text }) = placement.check(sharding, own) {
            return self.hang_up(at, reason, &text);
        }
        let is_first = !self.nodes.are_several();
        for change in self.nodes.place(sharding, placement, Node::beside) {
            match change {
                Change::Close(at, upstream) => {
                    self.session_is_over(at);
                    self.outputs.push_back(Output::Close(upstream));
                }
                Change::Open(upstream, address) => {
                    self.outputs.push_back(Output::Open(upstream, session_at(vec![address])));
                }
            }
        }
        if is_first || !self.broken.is(Rule::FollowMoves) {
            let places = self.nodes.places();
            self.needed = self.nodes.all().filter(|&at| places.has_pages(at)).collect();
        }
        if self.least_lease(now).is_none() {
            self.under_way.mark_all();
        }
        self.lease_hub(now);
    }

    fn session_is_over(&mut self, at: At) {
        self.nodes[at].close();
        // Without shards a node has nothing to tell of.
        if self.needed.contains(&at) || self.under_way.has_parts_at(at) {
            self.under_way.lost(at);
        }
    }

    fn ask_for_lease(&mut self, now: Time, at: At) {
        let node = &mut self.nodes[at];
        let nonce = node.lease.ask(now);
        node.up.pinged(now);
        self.say(at, Ping { nonce });
    }

    fn leased(&mut self, now: Time, at: At, leased: Leased) {
        if self.nodes[at].lease.is_given(leased) && self.needed.contains(&at) {
            if self.broken.is(Rule::LeaseOfEveryNode) {
                return self.lease_hub_until(now, self.nodes[at].lease.until);
            }
            self.lease_hub(now);
        }
    }

    /// The end of the lease that ends first, if all nodes that have shards have given one.
    fn least_lease(&self, now: Time) -> Option<Time> {
        let needed = || self.needed.iter().map(|&at| &self.nodes[at]);
        needed().map(|node| node.lease.until).min().filter(|_| needed().all(|node| node.is_leased(now)))
    }

    fn lease_hub(&mut self, now: Time) {
        if let Some(until) = self.least_lease(now) {
            self.lease_hub_until(now, until);
        }
    }

    fn lease_hub_until(&mut self, now: Time, until: Time) {
        let follows = now < self.until;
        self.until = self.until.max(until);
        self.under_way.leased(self.until, follows);
    }

    fn intent(&mut self, at: At, intent: &Intent) {
        let promised = self.under_way.told(Part { at, txn: intent.txn }, &intent.pages);
        self.promise(promised);
        if self.under_way.count() > COMMITS_MAX * self.nodes.count() {
            self.hang_up(at, GoodbyeReason::TooMuch, "expected fewer commits under way at a time");
        }
    }

    fn hear(&mut self, now: Time, at: At, message: ToClient) {
        self.nodes[at].up.heard(now);
        match (self.nodes[at].up.phase(), message) {
            (Phase::Greeting, ToClient::Welcome(welcome)) => self.welcomed(at, &welcome),
            (Phase::Resuming, ToClient::Resumed(_)) => {
                self.nodes[at].up.joined(now);
                self.ask_for_lease(now, at);
            }
            (Phase::Resuming | Phase::Live, ToClient::Invalidations(invalidations)) => {
                self.applied += invalidations.items.len() as u64;
                let parts = invalidations.items.iter().map(|invalidation| Part { at, txn: invalidation.txn });
                parts.for_each(|part| self.under_way.applied(part));
            }
            (Phase::Resuming | Phase::Live, ToClient::Placement(placement)) => self.placed(now, at, &placement),
            (Phase::Live, ToClient::Intent(intent)) => self.intent(at, &intent),
            (Phase::Resuming | Phase::Live, ToClient::Abandoned(abandoned)) => {
                self.under_way.over(Part { at, txn: abandoned.txn });
            }
            (Phase::Live, ToClient::Leased(leased)) => self.leased(now, at, leased),
            (Phase::Live, ToClient::Pong(pong)) => self.nodes[at].lease.answered(pong.nonce),
            (Phase::Resuming | Phase::Live, ToClient::Ping(ping)) => self.say(at, Pong { nonce: ping.nonce }),
            (Phase::Down | Phase::Over(_), _) | (_, ToClient::Goodbye(_)) => {}
            (_, _) => {
                let text = "expected what a store tells its watchers, got another message";
                self.hang_up(at, GoodbyeReason::Malformed, text);
            }
        }
    }

    fn find(&self, port: Port) -> Option<At> {
        if let Port::Upstream(upstream) = port { self.nodes.find(upstream) } else { None }
    }
}

impl Machine for Watcher {
    fn connected(&mut self, now: Time, port: Port) {
        let Some(at) = self.find(port) else { return };
        if self.is_leaving {
            return self.hang_up(at, GoodbyeReason::Done, LEAVES);
        }
        // It may be another store by now.
        self.nodes[at].up.forget_store();
        let hello = self.nodes[at].up.open(now, self.client, WATCH);
        self.say(at, hello);
        let horizon = Version::ZERO.into();
        self.say(at, Resume { horizon, pages: Vec::new(), grants: Vec::new(), last: true, missed: 0 });
    }

    fn disconnected(&mut self, _: Time, port: Port) {
        if let Some(at) = self.find(port) {
            self.session_is_over(at);
            self.wake();
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        if let Some(at) = self.find(port) {
            self.nodes[at].up.heard(now);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        if let Some(at) = self.find(port)
            && let Ok(message) = message.open()
        {
            self.hear(now, at, message);
            if self.under_way.effects() > EFFECTS_MAX && self.nodes[at].up.is_up() {
                let text = "the hub does not keep up with the commits that it is told of";
                self.hang_up(at, GoodbyeReason::TooMuch, text);
            }
            self.wake();
        }
    }

    /// Its caller finds that nothing more should come.
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
        let nodes = self.nodes.all().map(|at| &self.nodes[at]);
        nodes.filter_map(|node| node.up.next_due(node.due())).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for at in self.nodes.all() {
            let node = &self.nodes[at];
            match node.up.overdue(now, node.due()) {
                Some(Overdue::Silence(Goodbye { reason, text })) => self.hang_up(at, reason, &text),
                Some(Overdue::Ping) => self.ask_for_lease(now, at),
                None => {}
            }
        }
    }

    fn status(&self) -> Vec<machine::Table> {
        let row = [
            ("client", self.client.0.into()),
            ("caught_up", u64::from(self.is_caught_up()).into()),
            ("commits_under_way", self.under_way.count().into()),
            ("changes", self.applied.into()),
            ("nodes", self.nodes.count().into()),
        ];
        let (columns, cells): (Vec<_>, Vec<Cell>) = row.into_iter().map(|(name, cell)| (name.to_owned(), cell)).unzip();
        vec![machine::Table { name: "watcher".to_owned(), columns, rows: vec![cells] }]
    }

    /// Its first node stays its home: the sessions with the others are by their numbers.
    fn way(&mut self, _: Time, upstream: UpstreamId) -> Option<String> {
        let home = &self.nodes[At::HOME].address;
        (upstream == UpstreamId::ONLY && !home.is_empty()).then(|| home.clone())
    }

    /// A node that is refused for good by another process at its address may be there again.
    fn tries_again(&self, upstream: UpstreamId, reason: GoodbyeReason) -> bool {
        upstream != UpstreamId::ONLY || !reason.is_final()
    }
}

#[cfg(test)]
mod several;
#[cfg(test)]
mod tests;
