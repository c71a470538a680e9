//! A watcher's session with its store, and the lease that it has there, decided.
//!
//! ```text
//!   Down --Hello, Resume--> Greeting --Welcome--> Resuming --Resumed/Ping--> Live --Leased--> Live, leased
//!    ^                                                                          |                |
//!    +------------------- the link is gone: everything is marked ---------------+----------------+
//! ```
//! 1. The lease counts from when it was asked for, and shorter by how much slower this clock may be. It continues when
//!    the session ends: the store waits for it.
//! 2. It is asked for again at a third of its length. One that is given when the one before is over does not follow on
//!    it: the store may have continued in between without a word.
//! 3. A watcher that leaves hangs up, and asks for no lease any more: commits would wait for one whose promises nobody
//!    gives.
//! 4. A watcher keeps nothing over sessions, so it need not know the store again that it finds.

use crate::rule::Rule;
use crate::under_way::{Effect, UnderWay};
use machine::{Cell, Goodbye, Machine, Output, Parcel, Port, Waiter};
use messages::{
    Intent, Leased, Overdue, Phase, Ping, Pong, Promise, Resume, ToClient, ToServer, Upstream, WATCH, Welcome,
};
use std::collections::VecDeque;
use std::time::Duration;
use types::limits::{COMMITS_PER_SESSION_MAX, LEASE_DRIFT_PERMILLE, SESSIONS_MAX};
use types::{Broken, ClientId, GoodbyeReason, Time, TxnId, Version};

/// The caller that carries out what a watcher wants done waits under this number.
pub const EFFECTS: Waiter = Waiter(0);

/// Commits under way whose changes are marked one by one.
const MARKED_MAX: usize = 1 << 16;

/// Commits that a store may have under way at a time, and so everything that it may report: if its watcher hung up on
/// fewer, the store would tell the next session of as many.
const COMMITS_MAX: usize = SESSIONS_MAX * COMMITS_PER_SESSION_MAX;

/// Things that may wait to be done: some for each commit, and some before everything is marked in their place.
const EFFECTS_MAX: usize = 4 * MARKED_MAX;

/// How often a store that gives no lease is asked for one.
const ASK_EVERY: Duration = Duration::from_secs(1);

const LEAVES: &str = "the watcher is done";

/// How a watcher stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no session, or no lease any more: the store continues without a word when the last one is over.
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
    /// The last ping in this session, and whether a lease has come for it.
    asked: Option<(u64, Time)>,
    is_given: bool,
    /// None has come for the one before.
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
        Self::without(client, MARKED_MAX, Broken::NONE)
    }

    /// The same without a rule, which marks the changes of this many commits one by one.
    pub fn without(client: ClientId, marked_max: usize, broken: Broken<Rule>) -> Self {
        let outputs = VecDeque::from([Output::Wake(EFFECTS)]);
        let (up, lease, under_way) = (Upstream::default(), Lease::default(), UnderWay::new(marked_max, broken));
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

    /// The spaces whose changes it learns of.
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

    /// Everything should be marked, and stay so: it hangs up for good.
    pub fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.hang_up(GoodbyeReason::Done, LEAVES);
            self.under_way.lost();
            self.wake();
        }
    }

    /// Whether nothing should be had of it any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn promise(&mut self, txns: impl IntoIterator<Item = TxnId>) {
        if self.up.is_live() {
            txns.into_iter().for_each(|txn| self.say(Promise { txn }));
        }
    }

    fn wake(&mut self) {
        if self.under_way.has_effects() {
            self.outputs.push_back(Output::Wake(EFFECTS));
        }
    }

    fn say(&mut self, message: impl Into<ToServer>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }

    fn hang_up(&mut self, reason: GoodbyeReason, text: &str) {
        self.up.close();
        (self.lease.asked, self.lease.ask_at) = (None, None);
        self.outputs.push_back(Output::End(Port::SERVER, reason, text.to_owned()));
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
        let lease = &mut self.lease;
        lease.is_refused = lease.asked.is_some() && !lease.is_given;
        lease.last_nonce += 1;
        (lease.asked, lease.is_given, lease.ask_at) = (Some((lease.last_nonce, now)), false, None);
        self.up.pinged(now);
        self.say(Ping { nonce: self.lease.last_nonce });
    }

    fn leased(&mut self, now: Time, leased: Leased) {
        let is_answer = |&(nonce, _): &(u64, Time)| nonce == leased.nonce;
        let Some((_, asked)) = self.lease.asked.filter(is_answer) else { return };
        let length = Duration::from_millis(leased.lease_ms.into());
        let until = asked + length * 1000 / (1000 + LEASE_DRIFT_PERMILLE);
        let follows = now < self.lease.until;
        self.lease.until = self.lease.until.max(until);
        (self.lease.is_given, self.lease.is_refused, self.lease.spaces) = (true, false, leased.spaces);
        self.lease.ask_at = Some(asked + length / 3);
        self.under_way.leased(self.lease.until, follows);
    }

    /// The store has answered, and says what lease it gives, if any: the answer may pass that on a slow line.
    fn answered(&mut self, nonce: u64) {
        if let Some((_, asked)) = self.lease.asked.filter(|(asked, _)| *asked == nonce) {
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
            (Phase::Resuming, ToClient::Resumed(_)) => {
                self.up.joined(now);
                self.ask_for_lease(now);
            }
            (Phase::Resuming | Phase::Live, ToClient::Invalidations(invalidations)) => {
                self.applied += invalidations.items.len() as u64;
                invalidations.items.iter().for_each(|invalidation| self.under_way.applied(invalidation.txn));
            }
            (Phase::Live, ToClient::Intent(intent)) => self.intent(&intent),
            (Phase::Live, ToClient::Leased(leased)) => self.leased(now, leased),
            (Phase::Live, ToClient::Pong(pong)) => self.answered(pong.nonce),
            (Phase::Resuming | Phase::Live, ToClient::Ping(ping)) => self.say(Pong { nonce: ping.nonce }),
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
        if self.is_leaving {
            return self.hang_up(GoodbyeReason::Done, LEAVES);
        }
        // It may be another store by now.
        self.up.forget_store();
        let hello = self.up.open(now, self.client, WATCH);
        self.say(hello);
        self.say(Resume {
            horizon: Version::ZERO.into(),
            pages: Vec::new(),
            grants: Vec::new(),
            last: true,
            missed: 0,
        });
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
            if self.under_way.effects() > EFFECTS_MAX && self.up.is_up() {
                self.hang_up(GoodbyeReason::TooMuch, "the hub does not keep up with the commits that it is told of");
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
        self.up.next_due(self.due())
    }

    fn handle_timeout(&mut self, now: Time) {
        match self.up.overdue(now, self.due()) {
            Some(Overdue::Silence(Goodbye { reason, text })) => self.hang_up(reason, &text),
            Some(Overdue::Ping) => self.ask_for_lease(now),
            None => {}
        }
    }

    fn status(&self) -> Vec<machine::Table> {
        let row = [
            ("client", self.client.0.into()),
            ("caught_up", u64::from(self.is_caught_up()).into()),
            ("commits_under_way", self.under_way.count().into()),
            ("changes", self.applied.into()),
        ];
        let (columns, cells): (Vec<_>, Vec<Cell>) = row.into_iter().map(|(name, cell)| (name.to_owned(), cell)).unzip();
        vec![machine::Table { name: "watcher".to_owned(), columns, rows: vec![cells] }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::{Lineage, Resumed, SessionLimits};
    use types::{ClusterId, Incarnation, NodeId, Sharding};

    fn ms(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    /// A watcher that has asked for its first lease, at that time.
    fn asked(now: Time, features: u64) -> Watcher {
        let mut watcher = Watcher::new(ClientId(7));
        watcher.connected(now, Port::SERVER);
        let welcome = Welcome {
            features,
            cluster: ClusterId(1),
            node: NodeId(0),
            incarnation: Incarnation(1),
            lineage: Lineage::default(),
            sharding: Sharding::ONE,
            through: Version::ZERO.into(),
            limits: SessionLimits { silence_ms: 10_000, ..SessionLimits::UNTOLD },
        };
        watcher.hear(now, welcome.into());
        watcher.hear(now, Resumed { through: Version::ZERO.into(), dropped: Vec::new() }.into());
        watcher
    }

    fn leased(nonce: u64) -> ToClient {
        Leased { nonce, lease_ms: 1020, spaces: vec![0] }.into()
    }

    /// An answer to a ping passes what is before it on a line.
    #[test]
    fn a_lease_may_come_before_its_answer_and_after_it() {
        for order in [[0, 1], [1, 0]] {
            let mut watcher = asked(ms(1000), WATCH);
            let messages = [leased(1), Pong { nonce: 1 }.into()];
            for at in order {
                watcher.hear(ms(1100), messages[at].clone());
            }
            assert_eq!(watcher.standing(ms(1999)), Standing::CatchingUp);
            assert_eq!(watcher.standing(ms(2000)), Standing::Apart, "it counts from the asking, and drifts");
            assert_eq!(watcher.poll_timeout(), Some(ms(1340)));
        }
    }

    #[test]
    fn a_store_that_gives_none_is_asked_again_and_told_of() {
        let mut watcher = asked(ms(1000), WATCH);
        watcher.hear(ms(1001), Pong { nonce: 1 }.into());
        assert_eq!((watcher.standing(ms(1001)), watcher.poll_timeout()), (Standing::Apart, Some(ms(2000))));
        watcher.handle_timeout(ms(2000));
        assert_eq!(watcher.standing(ms(2000)), Standing::NotLeased);
        watcher.hear(ms(2001), leased(1));
        assert_eq!(watcher.standing(ms(2001)), Standing::NotLeased, "of a ping before");
        watcher.hear(ms(2001), leased(2));
        assert_eq!(watcher.standing(ms(2001)), Standing::CatchingUp);
    }

    /// The commits that are told before a lease are announced before it, and a lease that was over is no lease.
    #[test]
    fn a_home_has_more_of_a_lease_behind_what_it_has_to_mark() {
        let mut watcher = asked(ms(1000), WATCH);
        let effects = |watcher: &mut Watcher| std::iter::from_fn(|| watcher.poll_effect()).collect::<Vec<_>>();
        let star = vec![coherence::Dependency::ALL];
        assert_eq!(effects(&mut watcher), [Effect::Update(1, star.clone())]);
        watcher.hear(ms(1000), leased(1));
        watcher.released(1);
        assert_eq!(effects(&mut watcher), [Effect::Lease(ms(2000)), Effect::Visible(1)]);
        assert_eq!(watcher.standing(ms(1999)), Standing::Watching);

        let pages = vec![(types::PageId::new(0, 3), [5].into_iter().collect())];
        let txn = TxnId { client: ClientId(1), number: 1 };
        watcher.handle_timeout(ms(1340));
        watcher.hear(ms(1341), Intent { txn, pages: pages.clone() }.into());
        watcher.hear(ms(1341), Intent { txn, pages }.into());
        watcher.hear(ms(1341), leased(2));
        let names = ["thorp:0/3", "thorp:0/3.5"].map(|name| coherence::Dependency::new(name).unwrap()).to_vec();
        assert_eq!(effects(&mut watcher), [Effect::Update(2, names), Effect::Lease(ms(2340))]);

        // The process slept: the store may have continued without a word.
        watcher.handle_timeout(ms(1680));
        watcher.hear(ms(2341), leased(3));
        assert_eq!(effects(&mut watcher), [Effect::Update(3, star), Effect::Lease(ms(2680))]);
    }

    /// Else the store would give it leases for which commits wait, and nobody would promise.
    #[test]
    fn a_watcher_that_leaves_asks_for_no_lease_any_more() {
        let mut watcher = asked(ms(1000), WATCH);
        watcher.hear(ms(1000), leased(1));
        while watcher.poll_output().is_some() {}
        let said = |watcher: &mut Watcher| std::iter::from_fn(|| watcher.poll_output()).collect::<Vec<_>>();
        let is_end = |output: &Output| matches!(output, Output::End(Port::SERVER, GoodbyeReason::Done, _));
        watcher.leave();
        assert_eq!(said(&mut watcher).iter().filter(|output| is_end(output)).count(), 1);
        assert_eq!((watcher.poll_timeout(), watcher.standing(ms(1001))), (None, Standing::Apart));
        watcher.disconnected(ms(1002), Port::SERVER);
        watcher.connected(ms(1100), Port::SERVER);
        let again = said(&mut watcher);
        assert!(again.iter().any(is_end) && !again.iter().any(|it| matches!(it, Output::Send(..))), "{again:?}");
        assert_eq!(watcher.poll_timeout(), None);
    }

    /// A store may report as much as it likes: so much of it waits to be done.
    #[test]
    fn a_hub_that_hangs_does_not_fill_the_watcher() {
        let mut watcher = asked(ms(1000), WATCH);
        watcher.hear(ms(1000), leased(1));
        while watcher.poll_output().is_some() {}
        let intent = |number, slot| {
            let txn = TxnId { client: ClientId(1), number };
            Intent { txn, pages: vec![(types::PageId::new(0, 3), [slot].into_iter().collect())] }
        };
        for number in 0..=EFFECTS_MAX as u64 {
            let message = ToClient::from(intent(1, (number % 1024) as u16));
            watcher.handle(ms(1001), Port::SERVER, Parcel::new(message));
            watcher.under_way.applied(TxnId { client: ClientId(1), number: 1 });
        }
        let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
        let ends = said.iter().filter(|it| matches!(it, Output::End(_, GoodbyeReason::TooMuch, _))).count();
        assert_eq!(ends, 1);
    }

    /// Rule StarWhenMany: a store with many writers reports more commits than are marked one by one, in each session
    /// again.
    #[test]
    fn more_commits_than_are_marked_have_everything_marked() {
        let mut watcher = asked(ms(1000), WATCH);
        watcher.hear(ms(1000), leased(1));
        watcher.released(1);
        while watcher.poll_effect().is_some() || watcher.poll_output().is_some() {}
        let txn = |number| TxnId { client: ClientId(1), number };
        let tell = |watcher: &mut Watcher, number: usize| {
            let page = types::PageId::new(0, number as u32);
            let intent = Intent { txn: txn(number as u64), pages: vec![(page, [5].into_iter().collect())] };
            watcher.handle(ms(1001), Port::SERVER, Parcel::new(ToClient::from(intent)));
        };
        let promised = |watcher: &mut Watcher| {
            let is_end = |output: &Output| matches!(output, Output::End(..));
            let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
            assert!(!said.iter().any(is_end), "it does not hang up");
            said.iter().filter(|output| matches!(output, Output::Send(..))).count()
        };
        for number in 0..MARKED_MAX + 3 {
            tell(&mut watcher, number);
        }
        let updates: Vec<_> = std::iter::from_fn(|| watcher.poll_effect()).collect();
        let star = 2 + MARKED_MAX as u64;
        assert_eq!(updates.len(), MARKED_MAX + 1);
        assert_eq!(updates.last(), Some(&Effect::Update(star, vec![coherence::Dependency::ALL])));
        assert_eq!(promised(&mut watcher), 0);
        watcher.released(star);
        assert_eq!((promised(&mut watcher), watcher.standing(ms(1001))), (3, Standing::CatchingUp));
        tell(&mut watcher, MARKED_MAX + 3);
        assert_eq!(promised(&mut watcher), 1, "everything is marked already");
        for number in MARKED_MAX..MARKED_MAX + 4 {
            assert_eq!((watcher.poll_effect(), watcher.is_caught_up()), (None, false));
            watcher.under_way.applied(txn(number as u64));
        }
        assert_eq!((watcher.poll_effect(), watcher.is_caught_up()), (Some(Effect::Visible(star)), true));
    }

    #[test]
    fn a_redirector_is_no_store_to_watch() {
        let mut watcher = asked(ms(1000), messages::GROUP);
        let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
        let is_end = |output: &Output| matches!(output, Output::End(_, GoodbyeReason::Protocol, text) if text.contains("own address"));
        assert!(said.iter().any(is_end), "{said:?}");
    }
}
