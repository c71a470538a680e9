//! The promise in virtual time: a real store, of one node or of three whose shards move, with a writer and an
//! application as its clients, that on some days is a member of a group which reads under a lease, a watcher with its
//! hub or two of them, homes with caches beside them, which go from one hub to the other; crashes, cut lines, slow
//! lines. A response names what its transaction has read, and each answer has everything that a writer was told is
//! done, or that anybody had been shown, before the request came.

mod stored;

use client::Client;
use homes::{Home, HomeConfig, Hub, HubConfig, Proof, Table, Ticket, UpdateId};
use machine::{Machine, Node, RoleId};
use redirector::Redirector;
use sim::{Family, Line, Processes};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stored::job::{Counts, Job, go_on, raise};
use stored::nodes::Nodes;
use stored::{Disk, Stored};
use storewatch::{Effect, Rule, Watcher};
use types::{Broken, ClientId, NodeId, Sharding};

const STORE: Family = Family { client: messages::CLIENT, server: messages::SERVER };
const HUB: Family = Family { client: homes::messages::hub::HOME, server: homes::messages::hub::HUB };
const HUB_ROLE: RoleId = RoleId(1);
const HOMES: [&str; 2] = ["home 0", "home 1"];
/// On some days there is the first one alone.
const WATCHERS: [&str; 2] = ["watcher", "another watcher"];
/// The nodes of a store; the first is all there is of a store of one.
const NODES: [&str; 3] = ["store", "second node", "third node"];
const PAIRS: [(&str, &str); 10] = [
    (WATCHERS[0], "store"),
    (WATCHERS[1], "store"),
    ("writer", "store"),
    ("origin", "store"),
    ("origin", "group"),
    ("group", "store"),
    (HOMES[0], WATCHERS[0]),
    (HOMES[1], WATCHERS[0]),
    (HOMES[0], WATCHERS[1]),
    (HOMES[1], WATCHERS[1]),
];
const NEAR: Duration = Duration::from_micros(100);
const OBJECTS: u64 = 3;
const KEYS: u64 = 3;
const STEPS: u32 = 300;

/// Each shard has one page.
fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(NODES.len() as u16).expect("not zero"), NonZeroU32::MIN)
}

/// The rule that is taken out, if any: of the watcher, the hub or the store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Without {
    watcher: Broken<Rule>,
    hub: Broken<homes::Rule>,
    store: Broken<types::Rule>,
}

#[derive(Clone, Debug)]
struct Entry {
    proof: Proof,
    body: Counts,
}

/// A response on its way from the application.
#[derive(Debug)]
struct Fill {
    cache: usize,
    key: u64,
    must: Counts,
    ticket: Option<Ticket>,
    job: Job,
}

struct Day {
    world: Processes,
    /// The nodes of a store of several.
    nodes: Option<Nodes>,
    lease: Duration,
    keys: BTreeMap<u64, BTreeSet<u64>>,
    must: Counts,
    tables: Vec<Arc<Table>>,
    entries: [BTreeMap<u64, Entry>; 2],
    fill: Option<Fill>,
    write: Option<Job>,
    watchers: &'static [&'static str],
    /// Each watcher's updates at its hub, and whether it was notified of their release.
    updates: [BTreeMap<u64, (UpdateId, bool)>; WATCHERS.len()],
    /// The processes that are down.
    down: BTreeSet<&'static str>,
    apart: BTreeSet<(&'static str, &'static str)>,
    stopped: BTreeSet<&'static str>,
    harms: u64,
    /// The writer begins nothing more.
    rests: bool,
    hits: u32,
    commits: u32,
}

fn alone(machine: impl Machine) -> Node {
    let mut node = Node::new();
    node.add(machine);
    node
}

impl Day {
    /// A day of a store of this many nodes.
    fn new(seed: u64, without: Without, nodes: usize) -> Self {
        let mut day = Self::begin(seed, without, &NODES[..nodes]);
        if let Some(mut nodes) = day.nodes.take() {
            (0..NODES.len()).for_each(|node| nodes.start(&mut day.world, node));
            day.nodes = Some(nodes);
        }
        day
    }

    fn begin(seed: u64, without: Without, nodes: &'static [&'static str]) -> Self {
        let mut world = Processes::new(seed, Line { delay: NEAR, rate: None });
        let lease = Duration::from_millis([20, 60][world.draw(2) as usize]);
        let store_lease = Duration::from_millis([20, 40][world.draw(2) as usize]);
        let are_several = nodes.len() > 1;
        for (number, name) in nodes.iter().enumerate() {
            let disk = if are_several { Disk::of_several(OBJECTS as u32) } else { Disk::default() };
            let disk = Arc::new(Mutex::new(disk));
            let members = if are_several { (0..nodes.len() as u16).map(NodeId).collect() } else { Vec::new() };
            world.add(name, move |_| {
                let config = store::Config {
                    node: NodeId(number as u16),
                    members: members.clone(),
                    sharding: if are_several { sharding() } else { Sharding::ONE },
                    leased_spaces: vec![0],
                    lease: store_lease,
                    silence: Duration::from_millis(300),
                    broken: without.store,
                    ..store::Config::default()
                };
                alone(Stored::open(config, disk.clone()))
            });
            world.listen((name, RoleId::ONLY), messages::SERVER);
        }
        world.add("group", |_| {
            let (group, address, store) = ("site".into(), "group:1".into(), vec!["store:1".into()]);
            let config = redirector::Config { group, address, store, ..redirector::Config::default() };
            alone(Redirector::new(config, ClientId(500)))
        });
        world.connect(("group", RoleId::ONLY), ("store", RoleId::ONLY), STORE);
        let server = ["store", "group"][world.draw(2) as usize];
        for (number, name, server) in [(1, "writer", "store"), (2, "origin", server)] {
            let config = client::Config { patience: Duration::from_millis(100), ..client::Config::default() };
            world.add(name, move |_| alone(Client::new(config.clone(), ClientId(number))));
            world.connect((name, RoleId::ONLY), (server, RoleId::ONLY), STORE);
        }
        let lives = Rc::new(RefCell::new(0u64));
        let watchers = &WATCHERS[..=world.draw(2) as usize];
        // On some days each commit is one more than are marked one by one.
        let marked_max = if seed % 4 == 3 { 0 } else { usize::MAX };
        for watcher in watchers {
            let lives = lives.clone();
            world.add(watcher, move |_| {
                *lives.borrow_mut() += 1;
                let life = *lives.borrow();
                let mut node = alone(Watcher::without(ClientId(1000 + life), marked_max, without.watcher));
                let succeeds = (life > 1).then_some(lease);
                let config = HubConfig { lease, succeeds, within_source: true, ..HubConfig::default() };
                node.add(Hub::new(HubConfig { broken: without.hub, ..config }));
                node
            });
            world.connect((watcher, RoleId::ONLY), ("store", RoleId::ONLY), STORE);
        }
        for home in HOMES {
            let lives = lives.clone();
            world.add(home, move |_| {
                *lives.borrow_mut() += 1;
                let life = *lives.borrow() << 32;
                alone(Home::new(HomeConfig { slots: 4, ..HomeConfig::new(life) }))
            });
            world.connect((home, RoleId::ONLY), (WATCHERS[0], HUB_ROLE), HUB);
        }
        let tables = HOMES.map(|home| world.look::<Home>(home).unwrap().table()).into();
        let mut draw = |bound| world.draw(bound);
        let mut some = || (0..=draw(2)).map(|_| draw(OBJECTS)).collect();
        let keys = (0..KEYS).map(|key| (key, some())).collect();
        let harms = [0, 3, 10][draw(3) as usize];
        Self {
            world,
            lease,
            nodes: are_several.then(|| Nodes::new(nodes)),
            keys,
            must: Counts::new(),
            tables,
            entries: Default::default(),
            fill: None,
            write: None,
            watchers,
            updates: Default::default(),
            down: BTreeSet::new(),
            apart: BTreeSet::new(),
            stopped: BTreeSet::new(),
            harms,
            rests: false,
            hits: 0,
            commits: 0,
        }
    }

    fn draw(&mut self, bound: u64) -> u64 {
        self.world.draw(bound)
    }

    fn pass(&mut self, length: Duration) {
        let length = self.draw(length.as_micros() as u64 + 1);
        self.world.run_for(Duration::from_micros(length));
    }

    fn step(&mut self) -> Result<(), String> {
        if let Some(nodes) = &mut self.nodes {
            nodes.serve(&mut self.world);
        }
        if self.draw(4) > 0 {
            self.serve_watchers();
        }
        match self.draw(100) {
            0..20 => self.write(),
            20..45 => self.fill()?,
            45..75 => self.look()?,
            75..80 => self.pass(Duration::from_millis(5)),
            80 => self.pass(self.lease),
            at if at < 81 + self.harms => self.harm(),
            _ => {}
        }
        self.pass(Duration::from_micros(300));
        Ok(())
    }

    fn serve_watchers(&mut self) {
        for at in 0..self.watchers.len() {
            self.serve_watcher(at);
        }
    }

    /// The thread beside a watcher does what that wants done, in its order.
    fn serve_watcher(&mut self, at: usize) {
        let name = self.watchers[at];
        if self.stopped.contains(name) {
            return;
        }
        let (world, updates) = (&mut self.world, &mut self.updates[at]);
        while let Some(effect) = world.call(name, |watcher: &mut Watcher, _| watcher.poll_effect()).flatten() {
            match effect {
                Effect::Update(number, names) => {
                    let update = world.call(name, |hub: &mut Hub, now| hub.update(now, names)).unwrap();
                    updates.insert(number, (update, false));
                }
                Effect::Visible(number) => {
                    let (update, _) = updates.remove(&number).expect("it was announced");
                    world.call(name, |hub: &mut Hub, _| hub.visible(update));
                }
                Effect::Lease(until) => {
                    world.call(name, |hub: &mut Hub, now| hub.source_lease(now, until));
                }
            }
        }
        for (number, (update, is_told)) in updates.iter_mut() {
            let is_released = world.call(name, |hub: &mut Hub, _| hub.is_released(*update));
            if is_released == Some(true) && !*is_told {
                *is_told = true;
                world.call(name, |watcher: &mut Watcher, _| watcher.released(*number));
            }
        }
        if world.look::<Watcher>(name).is_some_and(Watcher::is_caught_up) {
            world.call(name, |hub: &mut Hub, _| hub.caught_up());
        }
    }

    /// A writer gets a step further; one that is told that it is done has changed all of its objects.
    fn write(&mut self) {
        if self.write.is_none() {
            if self.rests {
                return;
            }
            let count = 1 + self.draw(2);
            let objects = (0..count).map(|_| self.draw(OBJECTS)).collect();
            self.write = Some(Job { objects, is_spread: self.nodes.is_some(), writes: true, ..Job::default() });
        }
        let job = self.write.as_mut().expect("just begun");
        if go_on(&mut self.world, "writer", job) {
            let job = self.write.take().expect("just done");
            self.commits += 1;
            raise(&mut self.must, &job.seen);
        }
    }

    /// A request that has come is answered from the cache, or asks the application.
    fn look(&mut self) -> Result<(), String> {
        let (cache, key) = (self.draw(2) as usize, self.draw(KEYS));
        let must = self.must.clone();
        if self.draw(3) == 0 {
            self.pass(Duration::from_micros(300));
        }
        let now = self.world.now();
        if let Some(entry) = self.entries[cache].get(&key).cloned()
            && self.tables[cache].is_current(&entry.proof, || now)
        {
            self.hits += 1;
            return self.answer(key, &must, &entry.body, "a hit");
        }
        if self.fill.is_none() {
            let (ticket, objects) = (self.tables[cache].ticket(now), self.keys[&key].clone());
            let job = Job { objects, is_spread: self.nodes.is_some(), ..Job::default() };
            self.fill = Some(Fill { cache, key, must, ticket, job });
        }
        Ok(())
    }

    /// The application gets a step further, and when it has the response that is stored, if it may be.
    fn fill(&mut self) -> Result<(), String> {
        let Some(fill) = &mut self.fill else { return Ok(()) };
        if !go_on(&mut self.world, "origin", &mut fill.job) {
            return Ok(());
        }
        if self.draw(2) == 0 {
            self.pass(Duration::from_millis(2));
        }
        let Fill { cache, key, must, ticket, job } = self.fill.take().expect("just looked at");
        let store = |home: &mut Home, now| home.store(now, ticket?, &job.names).ok();
        if let Some(proof) = self.world.call(HOMES[cache], store).flatten() {
            let entry = Entry { proof, body: job.seen.clone() };
            if let Some(earlier) = self.entries[cache].insert(key, entry) {
                self.world.call(HOMES[cache], |home: &mut Home, _| home.free(earlier.proof));
            }
        }
        self.answer(key, &must, &job.seen, "a fill")
    }

    fn answer(&mut self, key: u64, must: &Counts, body: &Counts, how: &str) -> Result<(), String> {
        for number in &self.keys[&key] {
            let (has, needs) = (body[number], must.get(number).copied().unwrap_or_default());
            if has < needs {
                return Err(format!("key {key} by {how} shows change {has} of object {number}, and {needs} was done"));
            }
        }
        raise(&mut self.must, body);
        Ok(())
    }

    fn harm(&mut self) {
        if self.nodes.is_some() && self.draw(2) == 0 {
            return self.harm_nodes();
        }
        let watcher = self.watchers[self.draw(self.watchers.len() as u64) as usize];
        match self.draw(14) {
            0 => self.toggle(watcher),
            10 if self.stopped.insert(watcher) => self.world.stop(watcher),
            10 | 11 => self.go_on(watcher),
            12 | 13 => {
                let home = HOMES[self.draw(2) as usize];
                self.world.connect_elsewhere((home, RoleId::ONLY), (watcher, HUB_ROLE));
            }
            1 => self.toggle("store"),
            2 => self.toggle(HOMES[0]),
            3 => self.pass(3 * self.lease),
            _ => {
                let pairs = self.pairs();
                let pair = pairs[self.draw(pairs.len() as u64) as usize];
                match self.draw(4) {
                    0 => self.world.cut(pair.0, pair.1),
                    1 if !self.apart.remove(&pair) => {
                        self.apart.insert(pair);
                        self.world.part(pair.0, pair.1);
                    }
                    1 => self.world.mend(pair.0, pair.1),
                    at => {
                        let delay = if at == 2 { NEAR } else { self.lease / 2 };
                        self.world.set_line(pair.0, pair.1, Line { delay, rate: None });
                    }
                }
            }
        }
    }

    /// Shards move, nodes end, links between them are lost, and some learn late of what the others know.
    fn harm_nodes(&mut self) {
        let count = NODES.len() as u64;
        let [one, other] = [self.draw(count), self.draw(count)];
        match self.draw(10) {
            8 | 9 => self.nodes.iter_mut().for_each(|nodes| nodes.turn_slow(one)),
            0 => self.toggle(NODES[one as usize]),
            1 => self.nodes.iter_mut().for_each(|nodes| nodes.turn_deaf(one)),
            2 => self.nodes.iter_mut().for_each(|nodes| nodes.cut(&mut self.world, one as usize, other as usize)),
            3 => self.world.cut(WATCHERS[0], NODES[one as usize]),
            _ => self.nodes.iter_mut().for_each(|nodes| nodes.begin_or_end_move(one, other)),
        }
    }

    /// The pairs of processes that have a line: on some days there is one watcher.
    fn pairs(&self) -> Vec<(&'static str, &'static str)> {
        let is_there = |name| !WATCHERS.contains(&name) || self.watchers.contains(&name);
        PAIRS.into_iter().filter(|(one, other)| is_there(*one) && is_there(*other)).collect()
    }

    /// A watcher that was stopped runs on.
    fn go_on(&mut self, watcher: &'static str) {
        self.world.go_on(watcher);
        self.stopped.remove(watcher);
    }

    fn toggle(&mut self, name: &'static str) {
        if self.down.remove(name) {
            self.world.start(name);
            if let (Some(nodes), Some(at)) = (&mut self.nodes, NODES.iter().position(|node| *node == name)) {
                nodes.start(&mut self.world, at);
            }
            if let Some(at) = HOMES.iter().position(|home| *home == name) {
                self.tables[at] = self.world.look::<Home>(name).unwrap().table();
            }
            return;
        }
        self.world.crash(name);
        if let (Some(nodes), Some(at)) = (&mut self.nodes, NODES.iter().position(|node| *node == name)) {
            nodes.crashed(&mut self.world, at);
        }
        self.down.insert(name);
        if let Some(at) = WATCHERS.iter().position(|watcher| *watcher == name) {
            self.go_on(name);
            self.updates[at].clear();
        }
    }

    /// Nothing goes wrong any more: commits end, and what is stored is used.
    fn calm(&mut self) -> Result<(), String> {
        for name in std::mem::take(&mut self.down) {
            self.down.insert(name);
            self.toggle(name);
        }
        for watcher in self.watchers {
            self.go_on(watcher);
        }
        for (one, other) in self.pairs() {
            self.world.mend(one, other);
            self.world.set_line(one, other, Line { delay: NEAR, rate: None });
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.calm();
        }
        let (commits, hits) = (self.commits, self.hits);
        self.harms = 0;
        for _ in 0..4000 {
            self.serve_watchers();
            self.step()?;
            self.rests = self.commits > commits + 2;
            if self.rests && self.hits > hits + 2 {
                return Ok(());
            }
        }
        let standing = |name: &&str| self.world.look::<Watcher>(name).map(|watcher| watcher.standing(self.world.now()));
        let standing: Vec<_> = self.watchers.iter().map(standing).collect();
        let nodes = self.nodes.as_ref().map(|nodes| nodes.describe(&mut self.world));
        let (commits, hits) = (self.commits - commits, self.hits - hits);
        Err(format!("{commits} commits and {hits} hits in the end: {standing:?} {nodes:?}"))
    }
}

/// The commits and the hits of a day, or the answer that was stale.
fn day(seed: u64, without: Without, nodes: usize) -> Result<(u32, u32), String> {
    let mut day = Day::new(seed, without, nodes);
    for _ in 0..STEPS {
        day.step()?;
    }
    let done = (day.commits, day.hits);
    day.calm()?;
    Ok(done)
}

fn no_answer_lacks_what_was_done(nodes: usize, days: u64) {
    let (mut commits, mut hits) = (0, 0);
    for seed in 0..days {
        let (some, used) = day(seed, Without::default(), nodes).unwrap_or_else(|stale| panic!("seed {seed}: {stale}"));
        (commits, hits) = (commits + some, hits + used);
    }
    println!("{nodes} nodes: {commits} commits, {hits} hits");
    let days = days as u32;
    assert!(commits > 3 * days && hits > 2 * days, "{commits} commits, {hits} hits");
}

#[test]
fn no_answer_lacks_what_was_done_before_it_was_asked_for() {
    no_answer_lacks_what_was_done(1, 1000);
}

/// Nodes are killed and shards move.
#[test]
fn no_answer_lacks_what_was_done_at_another_node() {
    no_answer_lacks_what_was_done(NODES.len(), 300);
}

#[test]
fn one_seed_is_one_run() {
    for nodes in [1, NODES.len()] {
        assert_eq!(day(7, Without::default(), nodes), day(7, Without::default(), nodes));
    }
}

/// Every rule is noticed by some day, of a store of one node or of several.
#[track_caller]
fn is_missed(without: Without, nodes: usize) {
    let is_stale = |why: &String| why.contains("shows change");
    let caught = (0..10_000).find_map(|seed| Some((seed, day(seed, without, nodes).err().filter(is_stale)?)));
    let (seed, stale) = caught.unwrap_or_else(|| panic!("nothing notices {without:?}"));
    println!("{without:?}, {nodes} nodes: seed {seed}: {stale}");
}

#[test]
fn each_rule_is_missed() {
    let of_watcher = [Rule::PromiseReleased, Rule::UnmarkWhenVisible, Rule::StarWhenLost, Rule::StarWhenMany]
        .map(|rule| Without { watcher: Broken::rule(rule), ..Without::default() });
    let of_hub = [homes::Rule::LeaseWithinSource].map(|rule| Without { hub: Broken::rule(rule), ..Without::default() });
    let of_store = [types::Rule::PromiseOnce, types::Rule::WarnLeased, types::Rule::LeasesOutliveSession]
        .map(|rule| Without { store: Broken::rule(rule), ..Without::default() });
    of_watcher.into_iter().chain(of_hub).chain(of_store).for_each(|without| is_missed(without, 1));
}

/// The unit tests of the watcher and of the store take out those that few days put to the test.
#[test]
fn the_rule_of_all_leases_is_missed() {
    let without = Without { watcher: Broken::rule(Rule::LeaseOfEveryNode), ..Without::default() };
    is_missed(without, NODES.len());
}
