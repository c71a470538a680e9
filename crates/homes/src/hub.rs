//! A hub: it orders the updates of an origin, and releases each when no home answers for what the update changes.
//!
//! ```text
//!   update --Mark to all--> marking --all homes have, or answer no more--> released --visible--> (Unmark to all) gone
//! ```
//! 1. An update is released when each home has marked it or has no lease by this hub's clock (**ReleaseAfterAll**,
//!    **WaitForLease**). A home that joins meanwhile is one of them.
//! 2. It is unmarked when it is visible to all (**MarkUntilVisible**), as its updater says.
//! 3. A home is told everything in one order, renewals of its lease among it (**RenewInOrder**); a lease is counted here
//!    from when it is said, and longer than at the home (**AllowDrift**).
//! 4. A hub that begins anew knows of no home, no mark and no release of the hub before it. It releases nothing until the
//!    leases that the other may have given are over (**HubWaits**), and keeps everything marked until what the other may
//!    have released is visible (**StarUntilVisible**).
//! 5. An updater that is gone with an update under way may come again, and says the update again. One that was not
//!    released lapses with its session, as its updater was not told to go on; one that was stays marked for as long as an
//!    updater is given.

use crate::rule::Rule;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use node::{Machine, Output, Port, Waiter};
use protocol::homes::{
    Dependency, FromHub, Introduce, Join, Lease, Mark, Marked, Released, Renew, Reset, ToHub, Unmark, Update, UpdateId,
    Visible,
};
use protocol::{Cell, Parcel};
use types::limits::{DEPENDENCIES_PER_UPDATE_MAX, LEASE_DRIFT_PERMILLE};
use types::{Broken, GoodbyeReason, Time};

/// Homes of one hub.
const HOMES_MAX: usize = 1024;

/// Updates that one updater may have under way.
const UPDATES_PER_UPDATER_MAX: usize = 4096;

/// The settings of a hub.
#[derive(Clone, Copy, Debug)]
pub struct HubConfig {
    /// How long a home answers for its table without having heard of its hub. A home that dies holds the updates of the
    /// origin up for as long.
    pub lease: Duration,
    /// How long an update stays marked whose updater is gone before it has said that the update is visible.
    pub updater_patience: Duration,
    /// Whether there may have been another hub of this origin, whose homes may still answer. A hub whose homes are all in
    /// its own process comes after none.
    pub may_succeed: bool,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(2),
            updater_patience: Duration::from_secs(60),
            may_succeed: true,
            broken: Broken::NONE,
        }
    }
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    /// Before this nothing is released.
    opens_at: Time,
    homes: BTreeMap<u64, Holder>,
    updaters: BTreeMap<u64, Updater>,
    /// The other ends, as they have introduced themselves.
    peers: BTreeMap<Port, Peer>,
    updates: BTreeMap<UpdateId, UnderWay>,
    /// Those of them that are not released, and those that end by themselves.
    waiting: BTreeSet<UpdateId>,
    ending: BTreeSet<(Time, UpdateId)>,
    last: UpdateId,
    released: u64,
    is_over: bool,
    /// When it was last looked what is due.
    checked_at: Time,
    outputs: VecDeque<Output>,
}

/// A home, as its hub knows it.
#[derive(Debug)]
struct Holder {
    port: Option<Port>,
    /// When its lease is over.
    until: Time,
}

#[derive(Debug)]
struct Updater {
    port: Option<Port>,
    /// Its updates under way, by its own numbers for them.
    updates: BTreeMap<u64, UpdateId>,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Home(u64),
    Updater(u64),
}

#[derive(Debug)]
struct UnderWay {
    dependencies: Vec<Dependency>,
    by: By,
    /// The homes that have marked it.
    marked: BTreeSet<u64>,
    /// It is unmarked at this time, whatever its updater says.
    ends_at: Option<Time>,
}

/// The source of an update.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The process of the hub: the application is woken.
    Here,
    /// An updater, and its number for it.
    Updater(u64, u64),
    /// The hub before this one.
    Earlier,
}

impl Hub {
    /// A hub that knows of nobody.
    pub fn new(config: HubConfig) -> Self {
        let (homes, updaters, peers, updates, waiting, ending, outputs) = Default::default();
        let (opens_at, checked_at) = (Time::ZERO, Time::ZERO);
        let (last, released) = (UpdateId(0), 0);
        Self {
            config,
            opens_at,
            homes,
            updaters,
            peers,
            updates,
            waiting,
            ending,
            last,
            released,
            is_over: false,
            checked_at,
            outputs,
        }
    }

    /// An update of these dependencies is about to become visible: it may when it is released, of which a caller of
    /// [`Waiter`] `update.0` is told. More than an update may name are everything.
    pub fn update(&mut self, now: Time, dependencies: Vec<Dependency>) -> UpdateId {
        let update = self.next();
        self.begin(now, update, By::Here, dependencies);
        update
    }

    /// Whether an update is released. One that is not known any more has been.
    pub fn is_released(&self, update: UpdateId) -> bool {
        !self.waiting.contains(&update)
    }

    /// Whether it has ended: nothing is released any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// An update of this process is visible to every new reader, or has not taken place.
    pub fn visible(&mut self, update: UpdateId) {
        self.unmark(update);
    }

    /// Everything is visible that the hub before this one may have released.
    pub fn caught_up(&mut self) {
        let earlier = self.updates.iter().find(|(_, under_way)| matches!(under_way.by, By::Earlier));
        if let Some((&update, _)) = earlier {
            self.unmark(update);
        }
    }

    fn next(&mut self) -> UpdateId {
        self.last.0 += 1;
        self.last
    }

    fn begin(&mut self, now: Time, update: UpdateId, by: By, mut dependencies: Vec<Dependency>) {
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
            dependencies = Vec::from([Dependency::ALL]);
        }
        let mark = Mark { update, dependencies: dependencies.clone() };
        self.say_all(&mark);
        self.updates.insert(update, UnderWay { dependencies, by, marked: BTreeSet::new(), ends_at: None });
        self.waiting.insert(update);
        self.release(now, update);
    }

    /// Releases an update if nobody answers for what it changes any more.
    fn release(&mut self, now: Time, update: UpdateId) {
        let Some(under_way) = self.updates.get(&update) else { return };
        let broken = self.config.broken;
        let holds = |(life, home): (&u64, &Holder)| {
            let is_leased = now < home.until && (home.port.is_some() || !broken.is(Rule::WaitForLease));
            is_leased && !under_way.marked.contains(life)
        };
        let is_free = now >= self.opens_at && !self.homes.iter().any(holds);
        let is_due = is_free || broken.is(Rule::ReleaseAfterAll);
        if !is_due || !self.waiting.remove(&update) {
            return;
        }
        self.released += 1;
        match under_way.by {
            By::Here => self.outputs.push_back(Output::Wake(Waiter(update.0))),
            By::Updater(life, id) => {
                if let Some(port) = self.updaters.get(&life).and_then(|updater| updater.port) {
                    self.say(port, Released { id });
                }
            }
            By::Earlier => {}
        }
        if broken.is(Rule::MarkUntilVisible) {
            self.unmark(update);
        }
    }

    fn release_all(&mut self, now: Time) {
        for update in self.waiting.iter().copied().collect::<Vec<_>>() {
            self.release(now, update);
        }
    }

    fn unmark(&mut self, update: UpdateId) {
        let Some(under_way) = self.updates.remove(&update) else { return };
        self.waiting.remove(&update);
        if let Some(at) = under_way.ends_at {
            self.ending.remove(&(at, update));
        }
        if let By::Updater(life, id) = under_way.by
            && let Some(updater) = self.updaters.get_mut(&life)
        {
            updater.updates.remove(&id);
            if updater.port.is_none() && updater.updates.is_empty() {
                self.updaters.remove(&life);
            }
        }
        self.say_all(&Unmark { update });
    }

    /// An update ends at this time, or not by itself.
    fn end_at(&mut self, update: UpdateId, at: Option<Time>) {
        let under_way = self.updates.get_mut(&update).expect("only an update that is under way ends");
        if let Some(earlier) = core::mem::replace(&mut under_way.ends_at, at) {
            self.ending.remove(&(earlier, update));
        }
        self.ending.extend(at.map(|at| (at, update)));
    }

    /// A home begins anew with all marks that are outstanding.
    fn join(&mut self, now: Time, port: Port, Join { life, asked }: Join) {
        self.homes.retain(|_, home| home.port.is_some() || now < home.until);
        if self.homes.len() >= HOMES_MAX && !self.homes.contains_key(&life) {
            let text = String::from("a hub has at most 1024 homes");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::Full, text));
        }
        let home = self.homes.entry(life).or_insert(Holder { port: None, until: Time::ZERO });
        // Its messages that are still to come on an earlier session are about marks of before.
        if let Some(earlier) = home.port.replace(port) {
            self.peers.remove(&earlier);
        }
        self.peers.insert(port, Peer::Home(life));
        self.say(port, Reset);
        let outstanding: Vec<_> = self
            .updates
            .iter_mut()
            .map(|(&update, under_way)| {
                under_way.marked.remove(&life);
                Mark { update, dependencies: under_way.dependencies.clone() }
            })
            .collect();
        if !self.config.broken.is(Rule::JoinWithMarks) {
            for mark in outstanding {
                self.say(port, mark);
            }
        }
        self.lease(now, port, life, asked);
    }

    /// Gives a home its lease, behind all that it was told before.
    fn lease(&mut self, now: Time, port: Port, life: u64, asked: Time) {
        let Some(home) = self.homes.get_mut(&life) else { return };
        let drift = if self.config.broken.is(Rule::AllowDrift) { 0 } else { LEASE_DRIFT_PERMILLE };
        let lease = self.config.lease;
        home.until = home.until.max(now + lease + lease * drift / 1000);
        self.say(port, Lease { asked, lease_ms: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX) });
    }

    fn introduce(&mut self, now: Time, port: Port, Introduce { life }: Introduce) {
        if let Some(earlier) = self.updaters.get(&life).and_then(|updater| updater.port) {
            self.peers.remove(&earlier);
            self.updater_is_gone(now, life, earlier);
        }
        self.peers.insert(port, Peer::Updater(life));
        let updater = self.updaters.entry(life).or_insert_with(|| Updater { port: None, updates: BTreeMap::new() });
        updater.port = Some(port);
    }

    fn updated(&mut self, now: Time, port: Port, life: u64, Update { id, dependencies }: Update) {
        let updater = &self.updaters[&life];
        if let Some(&update) = updater.updates.get(&id) {
            // The updater is here again, and says itself when the update is visible. It may not have heard of the release.
            self.end_at(update, None);
            if !self.waiting.contains(&update) {
                self.say(port, Released { id });
            }
            return;
        }
        if updater.updates.len() >= UPDATES_PER_UPDATER_MAX {
            let text = String::from("an updater has at most 4096 updates under way");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::TooMuch, text));
        }
        let update = self.next();
        self.updaters.get_mut(&life).expect("just looked at").updates.insert(id, update);
        self.begin(now, update, By::Updater(life, id), dependencies);
    }

    /// An updater's session is gone.
    fn updater_is_gone(&mut self, now: Time, life: u64, port: Port) {
        let Some(updater) = self.updaters.get_mut(&life).filter(|updater| updater.port == Some(port)) else { return };
        updater.port = None;
        for update in updater.updates.values().copied().collect::<Vec<_>>() {
            if self.waiting.contains(&update) {
                self.unmark(update);
            } else {
                self.end_at(update, Some(now + self.config.updater_patience));
            }
        }
        // The last update that ends takes a gone updater with it; this one may have had none.
        if self.updaters.get(&life).is_some_and(|updater| updater.updates.is_empty()) {
            self.updaters.remove(&life);
        }
    }

    fn say_all(&mut self, message: &(impl Into<FromHub> + Clone)) {
        for port in self.homes.values().filter_map(|home| home.port) {
            self.outputs.push_back(Output::Send(port, Parcel::new(message.clone().into()), None));
        }
    }

    fn say(&mut self, port: Port, message: impl Into<FromHub>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
    }
}

impl Machine for Hub {
    fn start(&mut self, now: Time) {
        if !self.config.may_succeed {
            return;
        }
        if !self.config.broken.is(Rule::HubWaits) {
            let lease = self.config.lease;
            self.opens_at = now + lease + lease * LEASE_DRIFT_PERMILLE / 1000;
        }
        if !self.config.broken.is(Rule::StarUntilVisible) {
            let update = self.next();
            self.begin(now, update, By::Earlier, Vec::from([Dependency::ALL]));
            self.end_at(update, Some(now + self.config.updater_patience));
        }
    }

    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, now: Time, port: Port) {
        match self.peers.remove(&port) {
            Some(Peer::Home(life)) => {
                if let Some(home) = self.homes.get_mut(&life).filter(|home| home.port == Some(port)) {
                    home.port = None;
                }
                self.release_all(now);
            }
            Some(Peer::Updater(life)) => self.updater_is_gone(now, life, port),
            None => {}
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        let Ok(message) = message.open() else { return };
        match (message, self.peers.get(&port).copied()) {
            (ToHub::Join(join), None) => self.join(now, port, join),
            (ToHub::Introduce(introduce), None) => self.introduce(now, port, introduce),
            (ToHub::Renew(Renew { asked }), Some(Peer::Home(life))) => self.lease(now, port, life, asked),
            (ToHub::Marked(Marked { update }), Some(Peer::Home(life))) => {
                if let Some(under_way) = self.updates.get_mut(&update) {
                    under_way.marked.insert(life);
                    self.release(now, update);
                }
            }
            (ToHub::Update(update), Some(Peer::Updater(life))) => self.updated(now, port, life, update),
            (ToHub::Visible(Visible { id }), Some(Peer::Updater(life))) => {
                let update = self.updaters.get(&life).and_then(|updater| updater.updates.get(&id)).copied();
                if let Some(update) = update {
                    self.unmark(update);
                }
            }
            (ToHub::Goodbye(_), _) => {}
            (message, _) => {
                let text =
                    alloc::format!("expected Join or Introduce first, and then what belongs to it; got {message:?}");
                self.outputs.push_back(Output::End(port, GoodbyeReason::Protocol, text));
            }
        }
    }

    /// Those that wait for a release find that there is none to be had.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        let here = self.updates.iter().filter(|(_, under_way)| matches!(under_way.by, By::Here));
        self.outputs.extend(here.map(|(update, _)| Output::Wake(Waiter(update.0))));
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let end = self.ending.first().map(|&(at, _)| at);
        if self.waiting.is_empty() {
            return end;
        }
        // The leases that were over when it was last looked hold nothing up.
        let leases = self.homes.values().map(|home| home.until).chain([self.opens_at]);
        leases.filter(|&at| at > self.checked_at).chain(end).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.checked_at = now;
        while let Some(&(at, update)) = self.ending.first()
            && at <= now
        {
            self.unmark(update);
        }
        self.release_all(now);
    }

    fn status(&self) -> Vec<protocol::Table> {
        let row = [
            ("homes", self.homes.values().filter(|home| home.port.is_some()).count().into()),
            ("updates_under_way", self.updates.len().into()),
            ("updates_released", self.released.into()),
        ];
        let (columns, cells): (Vec<_>, Vec<Cell>) =
            row.into_iter().map(|(name, cell)| (String::from(name), cell)).unzip();
        Vec::from([protocol::Table { name: String::from("hub"), columns, rows: Vec::from([cells]) }])
    }
}
