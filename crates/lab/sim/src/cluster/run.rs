//! One run from its seed to its verdict: each application commits its transactions, and at the end nothing may be left.

use super::application::{Application, Done, txn_of};
use super::groups::{self, Group};
use super::history::History;
use super::lines::{LineId, Lines};
use super::node::{Node, Wish, nothing_left};
use super::scenario::Scenario;
use crate::rng::Rng;
use crate::run::{Report, guarded};
use crate::trace::Trace;
use crate::violation::{Check, Violation, ensure};
use machine::{Port, UpstreamId};
use messages::{Openings, ToNode};
use std::collections::{BTreeMap, VecDeque};
use store::{ClosedShard, Store};
use types::{Broken, Epoch, GoodbyeReason, Incarnation, NodeId, ObjectId, Opening, SessionId, Shard, Time, Version};

/// The step after which nothing more goes wrong. From there on, some application gets further within so many steps.
const STORM_STEPS: u64 = 50_000;
const STEPS_MAX: u64 = 300_000;

/// Steps in which every node and client is called again.
const QUIET_STEPS: u64 = 256;

/// The content of a link, with the port of the node that hears it.
#[derive(Clone, Debug)]
enum Packet {
    Message(Port, ToNode),
    /// The link is up.
    Linked(Port),
    /// The link is lost.
    Lost(Port),
}

/// The facts that all nodes look up in one place: who has which shard, and who is the sequencer.
#[derive(Debug)]
struct Registry {
    openings: Vec<Opening>,
    /// The node of each shard.
    nodes: Vec<usize>,
    /// The shards that move, and to which node.
    moves: BTreeMap<Shard, usize>,
    /// How often any of this has changed.
    revision: u64,
    /// The shards that were closed in order, and at which count.
    closed: BTreeMap<Shard, Version>,
    epoch: Epoch,
    sequencer: usize,
    /// The life in which it was elected.
    elected: Incarnation,
}

impl Registry {
    /// The shards of a node.
    fn shards_of(&self, node: usize) -> impl Iterator<Item = Shard> + '_ {
        (0..).map(Shard).zip(&self.nodes).filter(move |(_, at)| **at == node).map(|(shard, _)| shard)
    }

    fn node_of(&self, shard: Shard) -> usize {
        self.nodes[usize::from(shard.0)]
    }

    /// A shard has its next opening. Returns its number.
    fn open(&mut self, shard: Shard, node: usize) -> Opening {
        self.revision += 1;
        self.nodes[usize::from(shard.0)] = node;
        self.closed.remove(&shard);
        let opening = &mut self.openings[usize::from(shard.0)];
        opening.0 += 1;
        *opening
    }
}

/// The nodes, and what is under way.
#[derive(Debug)]
struct World {
    scenario: Scenario,
    rng: Rng,
    step: u64,
    trace: Trace,
    nodes: Vec<Node>,
    registry: Registry,
    /// The epoch of the sequencer that each node knows.
    known_epochs: Vec<Epoch>,
    /// The revision of the registry that each node has looked up.
    known_revisions: Vec<u64>,
    applications: Vec<Application>,
    groups: Vec<Group>,
    lines: Lines,
    /// The pairs of nodes that have a link, and its number.
    linked: BTreeMap<(usize, usize), SessionId>,
    /// How many links there ever were.
    links: u64,
    packets: BTreeMap<(usize, usize), VecDeque<Packet>>,
    history: History,
    /// How many steps each commit has taken, from its first attempt on.
    waits: Vec<u64>,
}

/// Has sixteen applications at two nodes change the same two objects. Returns how many steps each commit took, from its
/// first attempt on, in order.
///
/// # Panics
/// If a check fails.
pub fn opposite_roles(seed: u64) -> Vec<u64> {
    let mut world = World::of(Scenario::of_opposite_roles(), Rng::new(seed), Broken::NONE, false);
    world.live().expect("nothing goes wrong");
    world.waits.sort_unstable();
    world.waits
}

/// Runs one seed.
pub(crate) fn run_seed(seed: u64, broken: Broken, readable: bool) -> Report {
    let mut world = World::new(seed, broken, readable);
    let scenario = format!("{:?}", world.scenario);
    let verdict = guarded(|| world.live());
    let commits = world.history.committed.len() as u64;
    let mut trace = world.trace;
    trace.event(Time(world.step), &[8, commits], || "the end");
    let (hash, mut lines) = (trace.hash(), trace.into_lines());
    if readable {
        lines.insert(0, scenario);
    }
    Report { seed, commits, unknown: 0, hash, violation: verdict.err(), trace: lines }
}

impl World {
    fn new(seed: u64, broken: Broken, readable: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        Self::of(scenario, rng, broken, readable)
    }

    fn of(scenario: Scenario, rng: Rng, broken: Broken, readable: bool) -> Self {
        let shards = usize::from(scenario.sharding.shards().get());
        let registry = Registry {
            openings: vec![Opening(0); shards],
            nodes: (0..shards as u16).map(|shard| scenario.first_node_of(Shard(shard))).collect(),
            moves: BTreeMap::new(),
            revision: 0,
            closed: BTreeMap::new(),
            epoch: Epoch(0),
            sequencer: 0,
            elected: Incarnation(0),
        };
        let mut world = Self {
            step: 0,
            trace: Trace::new(readable),
            nodes: (0..scenario.nodes).map(|number| Node::new(&scenario, number, broken)).collect(),
            registry,
            known_epochs: vec![Epoch(0); scenario.nodes],
            known_revisions: vec![0; scenario.nodes],
            applications: (0..scenario.applications).map(|of| Application::new(of, &scenario, broken)).collect(),
            groups: (0..scenario.grouped.groups).map(|number| Group::new(number, &scenario, broken)).collect(),
            lines: Lines::default(),
            linked: BTreeMap::new(),
            links: 0,
            packets: BTreeMap::new(),
            history: History::default(),
            waits: Vec::new(),
            rng,
            scenario,
        };
        for node in 0..world.nodes.len() {
            world.start(node);
        }
        for application in 0..world.applications.len() {
            world.lines.open((application, UpstreamId::ONLY), application % world.scenario.nodes);
        }
        for group in 0..world.groups.len() {
            world.begin_group(group);
        }
        world.elect(0);
        for (one, other) in world.pairs() {
            world.link(one, other);
        }
        world
    }

    fn now(&self) -> Time {
        Time(self.step * 10_000)
    }

    fn is_stormy(&self) -> bool {
        self.step < STORM_STEPS
    }

    /// Whether it is time for what happens so often in a million steps.
    fn happens(&mut self, ppm: u64) -> bool {
        self.rng.below(1_000_000) < ppm
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let nodes = self.nodes.len();
        (0..nodes).flat_map(|one| (one + 1..nodes).map(move |other| (one, other))).collect()
    }

    fn live(&mut self) -> Check {
        self.rest("at the end")?;
        self.history.check()?;
        self.check_values("at the end")?;
        // Invalidations that wait for a reply to go with have left by then.
        for _ in 0..QUIET_STEPS * (1 + self.groups.len() as u64) {
            self.step += 1;
            self.happen()?;
        }
        self.rest("at the end")?;
        self.check_caches()?;
        // Nothing that was acknowledged is in memory alone.
        for node in 0..self.nodes.len() {
            self.crash(node)?;
        }
        self.rest("after the last loss of power")?;
        self.check_values("after the last loss of power")
    }

    /// Goes on until everything has come to rest. A slow disk may take its time; what ends a run is that no application
    /// gets further for long.
    fn rest(&mut self, when: &str) -> Check {
        let (mut most, mut left) = (self.step + STEPS_MAX, u32::MAX);
        while !self.is_over() {
            self.step += 1;
            let still_left = self.applications.iter().map(|of| of.left).sum();
            if still_left < left {
                (most, left) = (self.step + STEPS_MAX, still_left);
            }
            ensure(self.step < most, "liveness", || {
                let left: Vec<_> =
                    self.applications.iter().map(|of| (of.left, of.client.is_live(), &of.running)).collect();
                let nodes: Vec<_> = (0..self.nodes.len()).map(|node| self.left(node)).collect();
                let groups: Vec<_> = self.groups.iter().map(Group::left).collect();
                let (packets, moves) = (&self.packets, &self.registry.moves);
                format!("nothing rests {when}: {left:?}, {nodes:?}, {groups:?}, {packets:?}, {moves:?}")
            })?;
            self.happen()?;
        }
        (0..self.nodes.len()).try_for_each(|number| nothing_left(self.left(number), number))
    }

    /// Returns a description of unfinished work at a node, if there is any.
    fn left(&self, number: usize) -> Option<String> {
        self.nodes[number].left(self.registry.shards_of(number))
    }

    fn check_values(&self, when: &str) -> Check {
        for (object, writer) in self.history.newest() {
            let master = self.registry.node_of(self.scenario.sharding.of(object.page));
            let found = self.nodes[master].writer(object);
            ensure(found == Some(writer), "durability", || {
                format!("{when} {object:?} is {found:?}'s, and {writer:?} wrote it last")
            })?;
        }
        Ok(())
    }

    /// A client's cache has the values that were written last: at rest it has learned of everything.
    fn check_caches(&self) -> Check {
        let newest = self.history.newest();
        let applications = (0..).zip(&self.applications).map(|(number, of)| (format!("a{number}"), of.client.cache()));
        let groups = self.groups.iter().enumerate();
        let standby = groups.filter_map(|(number, group)| Some((groups::address(number), group.cache()?)));
        for (name, cache) in applications.chain(standby) {
            for (page, frame) in cache.frames() {
                for slot in (0..self.scenario.slots).filter(|&slot| !frame.is_hole(slot)) {
                    let object = ObjectId::new(page, slot);
                    let cached = frame.page().get(slot).map(txn_of);
                    ensure(cached == newest.get(&object).copied(), "caches", || {
                        format!("{name} has {object:?} as {cached:?} wrote it, and {:?} has since", newest.get(&object))
                    })?;
                }
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let idle = |application: &Application| application.is_done() && application.client.is_live();
        let is_quiet = self.packets.values().all(VecDeque::is_empty) && self.lines.busy().is_empty();
        let is_still = is_quiet && !self.nodes.iter().any(Node::is_busy);
        let is_whole = (0..self.nodes.len()).all(|node| self.left(node).is_none()) && self.registry.moves.is_empty();
        let are_idle = self.groups.iter().all(|group| group.left().is_none());
        is_still
            && are_idle
            && self.applications.iter().all(idle)
            && self.linked.len() == self.pairs().len()
            && is_whole
    }

    /// One thing happens.
    fn happen(&mut self) -> Check {
        if self.is_stormy() {
            self.trouble()?;
        }
        self.mend()?;
        match self.rng.index(10) {
            0..6 => self.deliver()?,
            6 => {
                let (node, now) = (self.rng.index(self.nodes.len()), self.now());
                if !self.rng.chance(self.scenario.disk_idle_permille) {
                    self.nodes[node].work(now, &mut self.rng);
                    self.settle(node)?;
                }
            }
            _ => {
                let application = self.rng.index(self.applications.len());
                self.go_on(application)?;
            }
        }
        // Time passes for those who wait for it.
        if self.step.is_multiple_of(64) {
            (0..self.nodes.len()).try_for_each(|node| self.settle(node))?;
            (0..self.applications.len()).try_for_each(|application| self.settle_client(application))?;
            (0..self.groups.len()).try_for_each(|group| self.settle_group(group))?;
        }
        Ok(())
    }

    /// Something goes wrong, now and then.
    fn trouble(&mut self) -> Check {
        let Scenario { leave_ppm, elect_ppm, crash_ppm, close_ppm, cut_ppm, move_ppm, .. } = self.scenario;
        let kill_ppm = self.scenario.grouped.kill_ppm;
        if move_ppm > 0 && self.happens(move_ppm) {
            self.begin_or_end_move();
        }
        if self.happens(elect_ppm) {
            let node = self.rng.index(self.nodes.len());
            self.elect(node);
        }
        if self.happens(leave_ppm) {
            let up = self.lines.up(None);
            if !up.is_empty() {
                let line = self.rng.pick(&up);
                self.lose(line)?;
            }
        }
        if kill_ppm > 0 && self.happens(kill_ppm) {
            let group = self.rng.index(self.groups.len());
            self.kill_group(group)?;
        }
        if self.happens(crash_ppm) {
            let node = self.rng.index(self.nodes.len());
            self.crash(node)?;
        }
        if close_ppm > 0 && self.happens(close_ppm) {
            let (node, now) = (self.rng.index(self.nodes.len()), self.now());
            self.trace.event(now, &[9, node as u64], || format!("n{node} is closed"));
            self.nodes[node].close(now);
            self.settle(node)?;
        }
        if self.happens(cut_ppm) {
            let node = self.rng.index(self.nodes.len());
            let other = self.rng.index(self.nodes.len());
            self.cut(node.min(other), node.max(other));
        }
        Ok(())
    }

    /// Nodes, links and knowledge of the sequencer come back, at some time.
    fn mend(&mut self) -> Check {
        let return_ppm = if self.is_stormy() { self.scenario.return_ppm } else { 100_000 };
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_up() && self.happens(return_ppm) {
                self.start(node);
                self.settle(node)?;
            }
            let is_behind = self.known_revisions[node] != self.registry.revision;
            if is_behind && self.nodes[node].is_up() && self.happens(return_ppm) {
                self.look_up(node);
                self.settle(node)?;
            }
            let may_end = |store: &Store| store.arrived().next().is_some() || store.closed_to_move().next().is_some();
            if self.nodes[node].store().is_some_and(|store| may_end(store)) && self.happens(return_ppm) {
                self.end_moves(node);
                self.settle(node)?;
            }
            let is_behind = self.known_epochs[node] < self.registry.epoch;
            if is_behind && self.nodes[node].is_up() && self.happens(return_ppm) {
                self.learn_of_sequencer(node);
                self.settle(node)?;
            }
        }
        let Registry { sequencer, elected, .. } = self.registry;
        if self.nodes[sequencer].incarnation != elected && self.happens(return_ppm) {
            let node = self.rng.index(self.nodes.len());
            self.elect(node);
        }
        for (one, other) in self.pairs() {
            if !self.linked.contains_key(&(one, other)) && self.happens(return_ppm) {
                self.link(one, other);
            }
        }
        for group in 0..self.groups.len() {
            if !self.groups[group].is_up() && self.happens(return_ppm) {
                self.begin_group(group);
            }
        }
        for (line, node) in self.lines.down() {
            let has_ways = self.scenario.group_of(line.0).is_some() && line.1 == UpstreamId::ONLY;
            if (has_ways || self.nodes[node].is_up()) && self.happens(return_ppm) {
                self.connect(line)?;
            }
        }
        Ok(())
    }

    /// A node begins another life: it opens its shards, and learns where the others are.
    fn start(&mut self, number: usize) {
        let now = self.now();
        self.trace.event(now, &[5, number as u64], || format!("n{number} starts"));
        let store = self.nodes[number].start(now);
        let mut openings = Openings::new();
        for shard in self.registry.shards_of(number).collect::<Vec<_>>() {
            let closed = self.registry.closed.get(&shard).copied();
            let opening = self.registry.open(shard, number);
            match closed {
                Some(count) => store.open_closed(now, shard, opening, count),
                None => openings.push((shard, opening)),
            }
        }
        if !openings.is_empty() {
            store.open(now, &openings);
        }
        store.follow_sequencer(now, NodeId(self.registry.sequencer as u16));
        self.known_epochs[number] = self.registry.epoch;
        self.look_up(number);
        if let Some(store) = self.nodes[number].store() {
            for node in 0..self.scenario.nodes {
                store.node_is_at(now, NodeId(node as u16), 0, &address(node));
            }
        }
    }

    /// The power of a node fails. The others learn of it at some time.
    fn crash(&mut self, number: usize) -> Check {
        if !self.nodes[number].is_up() {
            return Ok(());
        }
        self.trace.event(self.now(), &[6, number as u64], || format!("n{number} crashes"));
        self.nodes[number].crash(&mut self.rng);
        for other in (0..self.nodes.len()).filter(|&other| other != number) {
            self.cut(number.min(other), number.max(other));
            self.packets.remove(&(other, number));
        }
        for line in self.lines.up(Some(number)) {
            self.lines.lose(line);
            self.is_disconnected(line);
            if line.0 >= self.applications.len() {
                self.settle_caller(line.0)?;
            }
        }
        Ok(())
    }

    /// Two nodes have a link, if both are up and know that they have lost the last one.
    fn link(&mut self, one: usize, other: usize) {
        let is_idle = |queue: Option<&VecDeque<Packet>>| queue.is_none_or(VecDeque::is_empty);
        let knows = is_idle(self.packets.get(&(one, other))) && is_idle(self.packets.get(&(other, one)));
        if knows && self.nodes[one].is_up() && self.nodes[other].is_up() {
            self.links += 1;
            let link = SessionId(self.links);
            self.linked.insert((one, other), link);
            for (from, to) in [(one, other), (other, one)] {
                self.packets.entry((from, to)).or_default().push_back(Packet::Linked(port(to, from, link)));
            }
        }
    }

    /// The link of two nodes is lost, with everything on its way.
    fn cut(&mut self, one: usize, other: usize) {
        if let Some(link) = self.linked.remove(&(one, other)) {
            self.trace
                .event(self.now(), &[7, one as u64, other as u64], || format!("n{one} and n{other} lose their link"));
            for (from, to) in [(one, other), (other, one)] {
                self.packets.insert((from, to), VecDeque::from([Packet::Lost(port(to, from, link))]));
            }
        }
    }

    /// A sequencer serves in another epoch. Its own node knows, and the others learn of it.
    fn elect(&mut self, number: usize) {
        let now = self.now();
        let incarnation = self.nodes[number].incarnation;
        if let Some(store) = self.nodes[number].store() {
            self.registry.epoch = Epoch(self.registry.epoch.0 + 1);
            (self.registry.sequencer, self.registry.elected) = (number, incarnation);
            let epoch = self.registry.epoch;
            self.trace.event(now, &[1, number as u64], || format!("{epoch:?} begins at n{number}"));
            store.sequence(now, epoch);
            self.known_epochs[number] = epoch;
        }
    }

    /// A node looks up where the shards are, and which of them move.
    fn look_up(&mut self, number: usize) {
        let now = self.now();
        let Some(store) = self.nodes[number].store() else { return };
        let registry = &self.registry;
        let all = (0..).map(Shard).zip(&registry.openings);
        let known = all.filter(|&(shard, opening)| registry.node_of(shard) != number && *opening > Opening(0));
        let id = |node: usize| NodeId(node as u16);
        let places: Vec<_> = known.map(|(shard, &opening)| (shard, id(registry.node_of(shard)), opening)).collect();
        store.place(now, &places);
        let (leaving, coming): (Vec<_>, Vec<_>) =
            registry.moves.iter().partition(|(shard, _)| registry.node_of(**shard) == number);
        let coming = coming.into_iter().filter(|(_, to)| **to == number);
        let from: Vec<_> = coming.map(|(&shard, _)| (shard, id(registry.node_of(shard)))).collect();
        let to: Vec<_> = leaving.into_iter().map(|(&shard, &to)| (shard, id(to))).collect();
        store.set_outgoing(now, &to);
        store.set_incoming(now, &from);
        self.known_revisions[number] = registry.revision;
    }

    /// A shard begins to move, or one that moves stays where it is.
    fn begin_or_end_move(&mut self) {
        let shard = Shard(self.rng.below(self.registry.nodes.len() as u64) as u16);
        let to = self.rng.index(self.nodes.len());
        let (from, now) = (self.registry.node_of(shard), self.now());
        self.registry.revision += 1;
        if self.registry.moves.remove(&shard).is_none() && to != from {
            self.registry.moves.insert(shard, to);
        }
        let place = [13, u64::from(shard.0), from as u64, to as u64];
        self.trace.event(now, &place, || format!("{shard:?} moves from n{from} to n{to}, or no longer"));
    }

    /// A node takes the next opening of shards that have arrived there, or that were closed there to move and do not.
    fn end_moves(&mut self, number: usize) {
        let now = self.now();
        let is_up: Vec<_> = self.nodes.iter().map(Node::is_up).collect();
        let Some(store) = self.nodes[number].store() else { return };
        for (shard, opening, count) in store.arrived().collect::<Vec<_>>() {
            let is_as_seen = self.registry.openings[usize::from(shard.0)] == opening;
            if is_as_seen && self.registry.moves.get(&shard) == Some(&number) {
                self.registry.moves.remove(&shard);
                let next = self.registry.open(shard, number);
                let place = [14, u64::from(shard.0), number as u64];
                self.trace.event(now, &place, || format!("{shard:?} has moved to n{number}"));
                store.open_closed(now, shard, next, count);
            }
        }
        for ClosedShard { shard, opening, count, .. } in store.closed_to_move().collect::<Vec<_>>() {
            let to = self.registry.moves.get(&shard);
            let is_as_seen = self.registry.openings[usize::from(shard.0)] == opening;
            if is_as_seen && self.registry.node_of(shard) == number && to.is_none_or(|&to| !is_up[to]) {
                let next = self.registry.open(shard, number);
                let place = [15, u64::from(shard.0), number as u64];
                self.trace.event(now, &place, || format!("{shard:?} stays at n{number}"));
                store.open_closed(now, shard, next, count);
            }
        }
    }

    /// A node has closed: its shards are closed in order.
    fn end(&mut self, number: usize) -> Check {
        let closed = self.nodes[number].store().map(|store| store.closed_shards()).unwrap_or_default();
        self.registry.closed.extend(closed);
        self.crash(number)
    }

    fn learn_of_sequencer(&mut self, number: usize) {
        let (now, at) = (self.now(), NodeId(self.registry.sequencer as u16));
        if let Some(store) = self.nodes[number].store() {
            store.follow_sequencer(now, at);
            self.known_epochs[number] = self.registry.epoch;
        }
    }

    /// A client or a redirector reaches a node, or a member its redirector.
    fn connect(&mut self, line: LineId) -> Check {
        let (now, (caller, upstream)) = (self.now(), line);
        let way = if upstream == UpstreamId::ONLY { self.way_of(caller) } else { None };
        if let (Some(at), Some(line)) = (way, self.lines.get(line)) {
            line.node = at;
        }
        let Some(at) = self.lines.get(line).map(|line| line.node) else { return Ok(()) };
        let is_up = if self.is_group(at) { self.groups[at - self.nodes.len()].is_up() } else { self.nodes[at].is_up() };
        if is_up && let Some(session) = self.lines.begin(line) {
            self.trace.event(now, &[10, caller as u64, at as u64], || format!("a{caller} reaches n{at}"));
            match self.nodes.get_mut(at) {
                Some(node) => node.store().expect("it is up").connected(now, session),
                None => self.groups[at - self.nodes.len()].redirector().expect("it is up").connected(now, session),
            }
            if let Some(application) = self.applications.get_mut(caller) {
                application.client.connected(now, upstream);
            } else {
                let redirector = self.groups[caller - self.applications.len()].redirector();
                redirector.expect("its lines end with it").upstream_connected(now, upstream);
            }
        }
        self.settle_server(at)?;
        self.settle_caller(caller)
    }

    /// The server at the end of a line: a node, or behind these a group's redirector.
    fn is_group(&self, server: usize) -> bool {
        server >= self.nodes.len()
    }

    /// The server that a client or redirector looks for next, if that has changed.
    fn way_of(&mut self, caller: usize) -> Option<usize> {
        let now = self.now();
        let group = self.scenario.group_of(caller);
        let way = match self.applications.get_mut(caller) {
            Some(application) => application.client.way(now),
            None => self.groups[caller - self.applications.len()].way(now, UpstreamId::ONLY),
        };
        if let Some(way) = way {
            let nodes = (0..self.nodes.len()).find(|&node| way == address(node));
            let found = (0..self.groups.len()).find(|&group| way == groups::address(group));
            return nodes.or(found.map(|group| self.nodes.len() + group));
        }
        // As configured: a member knows its redirector and a node, and a redirector knows all nodes.
        match group {
            Some(group) if self.rng.chance(700) => Some(self.nodes.len() + group),
            Some(_) => Some(caller % self.nodes.len()),
            None if caller >= self.applications.len() => Some(self.rng.index(self.nodes.len())),
            None => None,
        }
    }

    fn settle_server(&mut self, server: usize) -> Check {
        if self.is_group(server) { self.settle_group(server - self.nodes.len()) } else { self.settle(server) }
    }

    fn settle_caller(&mut self, caller: usize) -> Check {
        match caller.checked_sub(self.applications.len()) {
            None => self.settle_client(caller),
            Some(group) => self.settle_group(group),
        }
    }

    /// The caller's end of a line that was lost learns of it.
    fn is_disconnected(&mut self, (caller, upstream): LineId) {
        let now = self.now();
        match self.applications.get_mut(caller) {
            Some(application) => application.client.disconnected(upstream),
            None => {
                if let Some(redirector) = self.groups[caller - self.applications.len()].redirector() {
                    redirector.upstream_disconnected(now, upstream);
                }
            }
        }
    }

    /// A redirector begins, and knows where the nodes are.
    fn begin_group(&mut self, number: usize) {
        self.trace.event(self.now(), &[13, number as u64], || format!("g{number} begins"));
        self.groups[number].start();
        let node = self.rng.index(self.nodes.len());
        self.lines.open((self.applications.len() + number, UpstreamId::ONLY), node);
    }

    /// A redirector is killed, and leaves nothing.
    fn kill_group(&mut self, number: usize) -> Check {
        self.trace.event(self.now(), &[14, number as u64], || format!("g{number} is killed"));
        self.groups[number].kill();
        for line in self.lines.up(Some(self.nodes.len() + number)) {
            self.lose(line)?;
        }
        for line in self.lines.all_of(self.applications.len() + number) {
            self.lose(line)?;
            self.lines.close(line);
        }
        Ok(())
    }

    /// Sends what a redirector wants said.
    fn settle_group(&mut self, number: usize) -> Check {
        let (now, caller) = (self.now(), self.applications.len() + number);
        for wish in self.groups[number].wishes(now)? {
            match wish {
                groups::Wish::ToMember(to, message) => {
                    if let Some(line) = self.lines.of(self.nodes.len() + number, to) {
                        line.to_client.push_back(message);
                    }
                }
                groups::Wish::End(session) => {
                    if let Some(line) = self.lines.of(self.nodes.len() + number, session) {
                        line.is_ending = true;
                    }
                }
                groups::Wish::ToNode(to, message) => {
                    if let Some(line) = self.lines.get((caller, to)).filter(|line| line.session.is_some()) {
                        line.to_node.push_back(message);
                    }
                }
                groups::Wish::Open(upstream, way) => {
                    let at = (0..self.nodes.len()).find(|&node| way == address(node));
                    let at = at.ok_or_else(|| broke(&format!("g{number} looks for a node at {way}")))?;
                    self.lines.open((caller, upstream), at);
                }
                groups::Wish::Close(upstream) => {
                    self.lose((caller, upstream))?;
                    self.lines.close((caller, upstream));
                }
                groups::Wish::Hangup(upstream) => self.lose((caller, upstream))?,
            }
        }
        Ok(())
    }

    /// A connection of a client is lost, with everything on its way.
    fn lose(&mut self, line: LineId) -> Check {
        let (now, caller) = (self.now(), line.0);
        if let Some((at, session)) = self.lines.lose(line) {
            self.trace.event(now, &[2, caller as u64, at as u64], || format!("a{caller} and n{at} part"));
            if self.is_group(at) {
                if let Some(redirector) = self.groups[at - self.nodes.len()].redirector() {
                    redirector.disconnected(now, session);
                }
            } else if let Some(store) = self.nodes[at].store() {
                store.disconnected(now, session);
            }
            self.is_disconnected(line);
            self.settle_server(at)?;
        }
        self.settle_caller(caller)
    }

    /// Sends what a client wants said.
    fn settle_client(&mut self, number: usize) -> Check {
        let now = self.now();
        let application = &mut self.applications[number];
        if application.client.poll_timeout().is_some_and(|due| due <= now) {
            application.client.handle_timeout(now);
        }
        while let Some(output) = self.applications[number].client.poll_output() {
            match output {
                client::Output::Send(to, message) => {
                    if let Some(line) = self.lines.get((number, to)).filter(|line| line.session.is_some()) {
                        line.to_node.push_back(message);
                    }
                }
                client::Output::Open(upstream, addresses) => {
                    let at = (0..self.nodes.len()).find(|&node| addresses == [address(node)]);
                    let at = at.ok_or_else(|| broke(&format!("a{number} looks for a node at {addresses:?}")))?;
                    self.lines.open((number, upstream), at);
                }
                client::Output::Close(upstream) => {
                    self.lose((number, upstream))?;
                    self.lines.close((number, upstream));
                }
                client::Output::Wake(_) => self.applications[number].wake(),
                client::Output::Hangup { upstream, reason, .. }
                    if matches!(reason, GoodbyeReason::Done | GoodbyeReason::Silent)
                        && self.scenario.group_of(number).is_some() =>
                {
                    self.lose((number, upstream))?;
                }
                client::Output::Hangup { text, .. } => return Err(broke(&format!("a{number} hangs up: {text}"))),
                other => return Err(broke(&format!("a{number} has no group: {other:?}"))),
            }
        }
        Ok(())
    }

    /// A link delivers what is next on it.
    fn deliver(&mut self) -> Check {
        let busy: Vec<_> = self.packets.iter().filter(|(_, queue)| !queue.is_empty()).map(|(&link, _)| link).collect();
        let lines = self.lines.busy();
        if busy.is_empty() && lines.is_empty() {
            return Ok(());
        }
        let at = self.rng.index(busy.len() + lines.len());
        if let Some(line) = at.checked_sub(busy.len()) {
            return self.deliver_on(lines[line]);
        }
        let (from, to) = busy[at];
        if self.is_stormy() && self.scenario.slow[from * self.scenario.nodes + to] && !self.rng.chance(30) {
            return Ok(());
        }
        let Some(packet) = self.packets.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return Ok(()) };
        let now = self.now();
        self.trace.event(now, &[3, from as u64, to as u64], || format!("n{from} to n{to}: {packet:?}"));
        let Some(store) = self.nodes[to].store() else { return Ok(()) };
        match packet {
            Packet::Message(port, message) => store.hear_link(now, port, message),
            Packet::Linked(port) => store.link_is_up(port),
            Packet::Lost(port) => store.link_is_down(now, port),
        }
        self.settle(to)
    }

    /// A connection delivers what is next on it, in one of its directions.
    fn deliver_on(&mut self, id: LineId) -> Check {
        let (now, (caller, upstream)) = (self.now(), id);
        let to_node = self.rng.chance(500);
        let nodes = self.nodes.len();
        let Some(line) = self.lines.get(id) else { return Ok(()) };
        let (at, Some(session)) = (line.node, line.session) else { return Ok(()) };
        if to_node && let Some(message) = line.to_node.pop_front() {
            self.trace.event(now, &[11, caller as u64, at as u64], || format!("a{caller} to n{at}: {message:?}"));
            if at >= nodes {
                if let Some(redirector) = self.groups[at - nodes].redirector() {
                    redirector.handle(now, session, message);
                }
            } else if let Some(store) = self.nodes[at].store() {
                store.handle(now, session, message);
            }
            return self.settle_server(at);
        }
        if !to_node && let Some(message) = line.to_client.pop_front() {
            self.trace.event(now, &[12, at as u64, caller as u64], || format!("n{at} to a{caller}: {message:?}"));
            match self.applications.get_mut(caller) {
                Some(application) => application.client.handle(now, upstream, message),
                None => {
                    if let Some(redirector) = self.groups[caller - self.applications.len()].redirector() {
                        redirector.from_store(now, upstream, message);
                    }
                }
            }
            return self.settle_caller(caller);
        }
        if !to_node && line.is_ending { self.lose(id) } else { Ok(()) }
    }

    /// Puts a message on the link that a node has at this port, unless it is lost.
    fn say(&mut self, from: usize, at: Port, message: ToNode) {
        let is_it = |(&(one, other), &link): (&(usize, usize), &SessionId)| {
            let to = if one == from { other } else { one };
            ((one == from || other == from) && port(from, to, link) == at).then_some((to, link))
        };
        if let Some((to, link)) = self.linked.iter().find_map(is_it) {
            self.packets.entry((from, to)).or_default().push_back(Packet::Message(port(to, from, link), message));
        }
    }

    /// Sends what a node wants said.
    fn settle(&mut self, number: usize) -> Check {
        loop {
            let now = self.now();
            let wishes = self.nodes[number].wishes(now, &mut self.rng)?;
            if wishes.is_empty() {
                return Ok(());
            }
            for wish in wishes {
                match wish {
                    Wish::Say(at, message) => self.say(number, at, message),
                    Wish::Send(to, message) => {
                        if let Some(line) = self.lines.of(number, to) {
                            line.to_client.push_back(message);
                        }
                    }
                    Wish::Hangup(session) => {
                        if let Some(line) = self.lines.of(number, session) {
                            line.is_ending = true;
                        }
                    }
                    Wish::End => self.end(number)?,
                }
            }
        }
    }

    /// An application takes its next step.
    fn go_on(&mut self, number: usize) -> Check {
        let (now, step) = (self.now(), self.step);
        let done = self.applications[number].go_on(now, step, &self.scenario, &mut self.rng)?;
        if let Some(read) = self.applications[number].take_fresh_read() {
            self.history.check_fresh(&read)?;
        }
        if let Some(Done { name, committed, took }) = done {
            self.trace.event(now, &[4, number as u64], || format!("a{number}: {name:?} has committed"));
            self.waits.push(took);
            self.history.committed.insert(name, committed);
        }
        self.settle_client(number)
    }
}

/// Where a node is.
fn address(node: usize) -> String {
    format!("n{node}")
}

fn broke(text: &str) -> Violation {
    Violation { checker: "clients", text: text.into() }
}

/// The port at which a node has this link to a peer. The node with the higher number has opened it.
fn port(node: usize, other: usize, link: SessionId) -> Port {
    if node > other { Port::Upstream(UpstreamId(other as u64)) } else { Port::FromNode(link) }
}
