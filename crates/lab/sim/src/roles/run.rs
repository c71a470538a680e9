//! One run from its seed to its verdict: each application commits its transactions, and at the end nothing may be left.

use super::application::Application;
use super::history::{Committed, History};
use super::node::{Message, Node, Wish};
use super::scenario::Scenario;
use crate::rng::Rng;
use crate::run::{Report, guarded};
use crate::trace::Trace;
use crate::violation::{Check, ensure};
use messages::{CommitReply, Outcome};
use sequencer::Sequencer;
use std::collections::{BTreeMap, VecDeque};
use types::{Broken, Epoch, SessionId, Time};

/// The step after which nothing more goes wrong, and the last one by which everything must be over.
const STORM_STEPS: u64 = 50_000;
const STEPS_MAX: u64 = 300_000;

/// The end of a link: a node, or a sequencer by its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Node(usize),
    Sequencer(usize),
}

/// The nodes, and what is under way.
#[derive(Debug)]
struct World {
    scenario: Scenario,
    rng: Rng,
    broken: Broken,
    step: u64,
    trace: Trace,
    nodes: Vec<Node>,
    /// All sequencers there ever were. The terms of all but the last are over.
    sequencers: Vec<Sequencer>,
    applications: Vec<Application>,
    /// The session of each application, which is another one each time.
    sessions: BTreeMap<SessionId, usize>,
    links: BTreeMap<(End, End), VecDeque<Message>>,
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
        let mut world = Self {
            broken,
            step: 0,
            trace: Trace::new(readable),
            nodes: (0..scenario.nodes).map(|number| Node::new(&scenario, number, broken)).collect(),
            sequencers: vec![Sequencer::new(Epoch(1), broken)],
            applications: (0..scenario.applications).map(|number| Application::new(number, &scenario)).collect(),
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            history: History::default(),
            waits: Vec::new(),
            rng,
            scenario,
        };
        for application in 0..world.applications.len() {
            world.connect(application);
        }
        world
    }

    fn now(&self) -> Time {
        Time(self.step * 10_000)
    }

    fn is_stormy(&self) -> bool {
        self.step < STORM_STEPS
    }

    fn connect(&mut self, application: usize) {
        let session = SessionId(1000 + self.step * 16 + application as u64);
        self.sessions.retain(|_, of| *of != application);
        self.sessions.insert(session, application);
        self.nodes[self.applications[application].coordinator].coordinator.connected(session);
    }

    fn session(&self, application: usize) -> SessionId {
        *self.sessions.iter().find(|(_, of)| **of == application).expect("each has one").0
    }

    fn live(&mut self) -> Check {
        while !self.is_over() {
            self.step += 1;
            ensure(self.step < STEPS_MAX, "liveness", || {
                let left: Vec<_> = self.applications.iter().map(|of| (of.left, &of.running)).collect();
                format!("nothing rests: {left:?}, {:?}", self.links)
            })?;
            self.happen()?;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            ensure(node.rests(), "liveness", || {
                format!("something is left at n{number}: {:?}", node.master.prepared().collect::<Vec<_>>())
            })?;
        }
        self.history.check()?;
        for (object, writer) in self.history.newest() {
            let found = self.nodes[self.scenario.master_of(object.page)].values.get(&object).map(|value| value.writer);
            ensure(found == Some(writer), "durability", || {
                format!("{object:?} is {found:?}'s, and {writer:?} wrote it last")
            })?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let idle = |application: &Application| application.left == 0 && application.running.is_none();
        let is_quiet = self.links.values().all(VecDeque::is_empty) && !self.nodes.iter().any(Node::is_logging);
        is_quiet && self.applications.iter().all(idle)
    }

    /// One thing happens.
    fn happen(&mut self) -> Check {
        if self.is_stormy() && self.rng.below(1_000_000) < self.scenario.elect_ppm {
            self.elect();
        }
        if self.is_stormy() && self.rng.below(1_000_000) < self.scenario.leave_ppm {
            self.come_back();
        }
        match self.rng.index(10) {
            0..6 => self.deliver()?,
            6 => {
                let node = self.rng.index(self.nodes.len());
                self.nodes[node].flush();
                self.settle(node)?;
            }
            _ => {
                let application = self.rng.index(self.applications.len());
                self.go_on(application)?;
            }
        }
        // Time passes for those who wait for it.
        if self.step.is_multiple_of(64) {
            (0..self.nodes.len()).try_for_each(|node| self.settle(node))?;
        }
        Ok(())
    }

    /// Another sequencer serves. Each coordinator learns of it at some time, and then asks again.
    fn elect(&mut self) {
        let epoch = Epoch(self.sequencers.len() as u32 + 1);
        self.sequencers.push(Sequencer::new(epoch, self.broken));
        self.trace.event(self.now(), &[1], || format!("{epoch:?} begins"));
    }

    /// A client is gone, and back at once on another session, where it asks for its outcome.
    fn come_back(&mut self) {
        let application = self.rng.index(self.applications.len());
        let (gone, node) = (self.session(application), self.applications[application].coordinator);
        self.trace.event(self.now(), &[2, application as u64], || format!("a{application} is back"));
        self.nodes[node].coordinator.disconnected(gone);
        self.connect(application);
        self.ask(application);
    }

    /// Sends the request of an application again: its coordinator knows it, or takes it up.
    fn ask(&mut self, application: usize) {
        let (session, of) = (self.session(application), &self.applications[application]);
        if let Some(request) = of.request().filter(|_| of.running.as_ref().is_some_and(|running| running.is_asked)) {
            self.nodes[of.coordinator].coordinator.commit(session, request);
        }
    }

    /// A link delivers its next message.
    fn deliver(&mut self) -> Check {
        let busy: Vec<_> = self.links.iter().filter(|(_, queue)| !queue.is_empty()).map(|(&link, _)| link).collect();
        if busy.is_empty() {
            return Ok(());
        }
        let (from, to) = self.rng.pick(&busy);
        if let (End::Node(from), End::Node(to)) = (from, to)
            && self.is_stormy()
            && self.scenario.slow[from * self.scenario.nodes + to]
            && !self.rng.chance(30)
        {
            return Ok(());
        }
        let Some(message) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return Ok(()) };
        self.trace.event(self.now(), &[3], || format!("{from:?} to {to:?}: {message:?}"));
        match (from, to) {
            (End::Node(from), End::Sequencer(number)) => {
                if let Message::Sequence(sequence) = message {
                    let placed = self.sequencers[number].handle(sequence);
                    self.send(End::Sequencer(number), End::Node(from), Message::Placed(placed));
                }
                Ok(())
            }
            (End::Node(from) | End::Sequencer(from), End::Node(to)) => {
                let now = self.now();
                self.nodes[to].handle(now, from, message)?;
                self.settle(to)
            }
            (End::Sequencer(_), End::Sequencer(_)) => unreachable!("they do not know each other"),
        }
    }

    fn send(&mut self, from: End, to: End, message: Message) {
        self.links.entry((from, to)).or_default().push_back(message);
    }

    /// Sends what a node wants said.
    fn settle(&mut self, number: usize) -> Check {
        // A transaction without a place is asked for again: the answer may have been an old sequencer's.
        if self.rng.chance(2) {
            self.nodes[number].coordinator.sequence_again();
        }
        let now = self.now();
        loop {
            let wishes = self.nodes[number].wishes(now);
            if wishes.is_empty() {
                return Ok(());
            }
            for wish in wishes {
                match wish {
                    Wish::Tell(to, message) => self.send(End::Node(number), End::Node(to), message),
                    Wish::Sequence(sequence) => {
                        let newest = self.sequencers.len() - 1;
                        let is_behind =
                            newest > 0 && self.is_stormy() && self.rng.chance(self.scenario.deposed_permille);
                        let sequencer = if is_behind { self.rng.index(newest) } else { newest };
                        self.send(End::Node(number), End::Sequencer(sequencer), Message::Sequence(sequence));
                    }
                    Wish::Reply(to, reply) => self.reply(to, &reply)?,
                }
            }
        }
    }

    /// An application learns of its outcome.
    fn reply(&mut self, to: SessionId, reply: &CommitReply) -> Check {
        let Some(&number) = self.sessions.get(&to) else { return Ok(()) };
        self.trace.event(self.now(), &[4, number as u64], || format!("a{number}: {:?}", reply.outcome));
        let application = &mut self.applications[number];
        let Some(running) = application.running.take_if(|running| running.txn == reply.txn) else { return Ok(()) };
        match &reply.outcome {
            Outcome::Committed { pages } => {
                application.left -= 1;
                self.waits.extend(application.since.take().map(|since| self.step - since));
                let version = |object: &types::ObjectId| {
                    pages.iter().find(|moved| moved.page == object.page).map(|moved| moved.version).unwrap_or_default()
                };
                let writes: BTreeMap<_, _> = running.writes.iter().map(|object| (*object, version(object))).collect();
                ensure(writes.values().all(|version| *version > types::Version::ZERO), "answers", || {
                    format!("{:?} wrote {:?}, and is told to have moved {pages:?}", running.txn, running.writes)
                })?;
                let reads = running.reads.iter().map(|(object, (writer, _))| (*object, *writer)).collect();
                let (begun, acknowledged) = (running.begun, self.step);
                self.history.committed.insert(running.txn, Committed { begun, acknowledged, reads, writes });
                Ok(())
            }
            Outcome::Refused(_) => Ok(()),
            Outcome::Unknown => ensure(false, "unknown", || format!("{:?} has an outcome", running.txn)),
        }
    }

    /// An application begins a transaction, reads the next object, or commits.
    fn go_on(&mut self, number: usize) -> Check {
        let application = &mut self.applications[number];
        match &mut application.running {
            None if application.left > 0 => application.begin(self.step, &self.scenario, &mut self.rng),
            Some(running) if !running.to_read.is_empty() => {
                let object = running.to_read.pop().expect("just seen");
                let node = &self.nodes[self.scenario.master_of(object.page)];
                let writer = node.values.get(&object).map(|value| value.writer);
                running.reads.insert(object, (writer, node.evidence(&self.scenario, object.page)));
            }
            Some(running) if !running.is_asked => {
                running.is_asked = true;
                let node = application.coordinator;
                self.ask(number);
                self.settle(node)?;
            }
            _ => {}
        }
        Ok(())
    }
}
