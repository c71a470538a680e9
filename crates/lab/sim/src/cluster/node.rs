//! One node: a store, its disk, and what it says to others.

use super::application::txn_of;
use super::scenario::Scenario;
use crate::disk::StoreDisk;
use crate::drive::{Disk, Operation, Started};
use crate::layout::Stored;
use crate::rng::Rng;
use crate::violation::{Check, ensure};
use core::time::Duration;
use machine::{Goodbye, Opaque, Port};
use messages::{ToClient, ToNode};
use std::collections::{BTreeMap, VecDeque};
use store::{Checkpoint, Config, DiskDone, Output, Store};
use types::{
    Broken, GoodbyeReason, Incarnation, NodeId, ObjectId, ObjectPage, Position, SessionId, Shard, SlotChange, Time,
    TxnId,
};

/// One node. Its disk outlives its process.
#[derive(Debug)]
pub(crate) struct Node {
    id: NodeId,
    config: Config,
    disk: StoreDisk,
    /// The disk's operations that are under way.
    operations: Vec<Operation>,
    /// The process, if it is up, and which one it is.
    process: Option<Store>,
    is_closing: bool,
    pub(crate) incarnation: Incarnation,
    /// Messages that wait for the log, and those behind them on the same session.
    held: BTreeMap<SessionId, VecDeque<(Position, Wish)>>,
    durable: Position,
}

/// A wish of a node: a message on a link, or to a client.
#[derive(Debug)]
pub(crate) enum Wish {
    Say(Port, ToNode),
    Send(SessionId, ToClient),
    /// A session ends.
    Hangup(SessionId),
    /// The process may stop.
    End,
}

impl Node {
    pub(crate) fn new(scenario: &Scenario, number: usize, broken: Broken) -> Self {
        let sharding = scenario.sharding;
        let config = Config {
            node: NodeId(number as u16),
            members: (0..scenario.nodes as u16).map(NodeId).collect(),
            sharding,
            mob_bytes_limit: scenario.mob_bytes_limit,
            invalidation_delay: Duration::ZERO,
            silence: Duration::from_secs(3600),
            leased_spaces: if scenario.grouped.lease_ms > 0 { vec![0] } else { Vec::new() },
            lease: Duration::from_millis(scenario.grouped.lease_ms),
            broken,
            ..Config::default()
        };
        let checkpoint = Checkpoint { next_pages: vec![(0, scenario.pages)], ..Checkpoint::default() };
        let stored = Stored { home: BTreeMap::new(), checkpoint };
        let disk = StoreDisk::holding(scenario.disk.clone(), sharding, &stored).of_several();
        let (operations, process) = (Vec::new(), None);
        let (id, incarnation) = (config.node, Incarnation(0));
        let (held, durable) = (BTreeMap::new(), Position(0));
        Self { id, config, disk, operations, process, is_closing: false, incarnation, held, durable }
    }

    /// Whether its process is up.
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// The store, if its process is up.
    pub(crate) fn store(&mut self) -> Option<&mut Store> {
        self.process.as_mut()
    }

    /// A process starts over what is on the disk.
    pub(crate) fn start(&mut self, now: Time) -> &mut Store {
        let (opened, records) = self.disk.open();
        self.incarnation = opened.incarnation;
        let mut store = Store::new(self.config.clone(), opened);
        for (position, record) in records {
            store.recover(position, record);
        }
        store.start(now);
        (self.is_closing, self.durable) = (false, Position(0));
        self.process.insert(store)
    }

    /// The process dies, and the power fails: of what was on its way to the disk some is there.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.process = None;
        self.held.clear();
        self.operations.clear();
        self.disk.lose_power(rng);
    }

    /// Its operator stops it.
    pub(crate) fn close(&mut self, now: Time) {
        if let Some(store) = &mut self.process {
            self.is_closing = true;
            store.close(now);
        }
    }

    /// Whether an operation of the disk is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.operations.is_empty()
    }

    /// An operation of the disk comes to its end.
    pub(crate) fn work(&mut self, now: Time, rng: &mut Rng) {
        if self.operations.is_empty() {
            return;
        }
        let operation = self.operations.swap_remove(rng.index(self.operations.len()));
        let (done, started) = self.disk.finish(operation, rng);
        self.operations.extend(started.map(|Started { operation, .. }| operation));
        for done in done {
            if let (Some(store), Ok(done)) = (&mut self.process, done.open()) {
                if let DiskDone::Durable { through, .. } = &done {
                    self.durable = *through;
                }
                store.disk(now, done);
            }
        }
    }

    /// Everything that the store wants said. Its disk begins with what it is given.
    ///
    /// # Errors
    /// If it ends a session, or misuses its disk.
    pub(crate) fn wishes(&mut self, now: Time, rng: &mut Rng) -> Result<Vec<Wish>, crate::violation::Violation> {
        let Some(store) = &mut self.process else { return Ok(Vec::new()) };
        if store.poll_timeout().is_some_and(|due| due <= now) {
            store.handle_timeout(now);
        }
        let (mut wishes, mut rooms) = (Vec::new(), Vec::new());
        while let Some(output) = store.poll_output() {
            match output {
                Output::Say(port, message) => wishes.push(Wish::Say(port, message)),
                Output::EndLink(port, why) => {
                    ensure(false, "links", || format!("{:?} ends {port:?}: {}", self.id, why.text))?;
                }
                // The seed opens links.
                Output::OpenLink(..) | Output::CloseLink(_) => {}
                Output::Disk(work) => {
                    let started = self.disk.submit(Opaque::new(work), rng)?;
                    self.operations.extend(started.map(|Started { operation, .. }| operation));
                }
                Output::Send { to, message, after } => {
                    let after = after.unwrap_or_default();
                    match self.held.get_mut(&to) {
                        Some(held) => held.push_back((after, Wish::Send(to, message))),
                        None if after <= self.durable => wishes.push(Wish::Send(to, message)),
                        None => drop(self.held.insert(to, [(after, Wish::Send(to, message))].into())),
                    }
                }
                Output::AwaitRoom(session) => rooms.push(session),
                Output::Closed => wishes.push(Wish::End),
                Output::End { session, reason, text } => {
                    let is_expected = self.is_closing || is_expected(reason);
                    ensure(is_expected, "sessions", || format!("{:?} ends a session: {text}", self.id))?;
                    self.held.remove(&session);
                    wishes.push(Wish::Send(session, Goodbye { reason, text }.into()));
                    wishes.push(Wish::Hangup(session));
                }
            }
        }
        // Earlier messages have left, as far as this node goes.
        if let Some(store) = &mut self.process {
            for session in rooms {
                store.has_room(session);
            }
        }
        for held in self.held.values_mut() {
            while held.front().is_some_and(|(after, _)| *after <= self.durable) {
                wishes.extend(held.pop_front().map(|(_, wish)| wish));
            }
        }
        self.held.retain(|_, held| !held.is_empty());
        Ok(wishes)
    }

    /// The last writer of an object, as the master has it.
    pub(crate) fn writer(&self, object: ObjectId) -> Option<TxnId> {
        let store = self.process.as_ref()?;
        let is_it = |change: &&SlotChange| change.slot == object.slot;
        if let Some(change) = store.changes(object.page).iter().find(is_it) {
            return change.value.as_ref().map(|value| txn_of(value));
        }
        let (_, image) = self.disk.home().get(&object.page)?;
        let image = ObjectPage::parse(image.clone()).expect("the store has written it");
        image.get(object.slot).map(txn_of)
    }

    /// Returns what is left here that should be over, if anything is.
    pub(crate) fn left(&self, own: impl Iterator<Item = Shard>) -> Option<String> {
        let Some(store) = &self.process else { return Some("it is down".into()) };
        if let Some(shard) = own.into_iter().find(|shard| !store.serves(*shard)) {
            return Some(format!("{shard:?} is not served: {:?}", store.opening().collect::<Vec<_>>()));
        }
        let prepared: Vec<_> = store.prepared().collect();
        if !prepared.is_empty() {
            return Some(format!("prepared are {prepared:?}"));
        }
        // A place that is kept for a client is given up in its time.
        let waits: Vec<_> = store.in_turn().filter(|of| matches!(of, store::InTurn::Commit(_))).collect();
        (!waits.is_empty()).then(|| format!("in line are {waits:?}"))
    }
}

/// A node ends sessions when it is not open, or another redirector leads the group.
fn is_expected(reason: GoodbyeReason) -> bool {
    matches!(reason, GoodbyeReason::CutOff | GoodbyeReason::Superseded)
}

/// A violation only if something is there.
pub(crate) fn nothing_left(left: Option<String>, number: usize) -> Check {
    ensure(left.is_none(), "liveness", || format!("n{number}: {}", left.unwrap_or_default()))
}
