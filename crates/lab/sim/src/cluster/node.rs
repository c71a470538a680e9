//! One node: a store, its disk, and what it says to others.

use super::scenario::Scenario;
use crate::disk::StoreDisk;
use crate::drive::{Disk, Operation, Started};
use crate::layout::Stored;
use crate::rng::Rng;
use crate::violation::{Check, ensure};
use bytes::Bytes;
use core::time::Duration;
use machine::{Opaque, Port};
use messages::{CommitReply, Hello, Resume, ToClient, ToNode};
use std::collections::BTreeMap;
use store::{Checkpoint, Config, Output, Store};
use types::{
    Broken, ClientId, GoodbyeReason, Incarnation, NodeId, ObjectId, ObjectPage, PageId, SessionId, Shard, SlotChange,
    Time, TxnId, Vector, Version,
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
}

/// A wish of a node: a message on a link, or an answer to an application.
#[derive(Debug)]
pub(crate) enum Wish {
    Say(Port, ToNode),
    Reply(SessionId, CommitReply),
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
            broken,
            ..Config::default()
        };
        let checkpoint = Checkpoint { next_pages: vec![(0, scenario.pages)], ..Checkpoint::default() };
        let stored = Stored { home: BTreeMap::new(), checkpoint };
        let disk = StoreDisk::holding(scenario.disk.clone(), sharding, &stored).of_several();
        let (operations, process) = (Vec::new(), None);
        let (id, incarnation) = (config.node, Incarnation(0));
        Self { id, config, disk, operations, process, is_closing: false, incarnation }
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
        self.is_closing = false;
        self.process.insert(store)
    }

    /// The process dies, and the power fails: of what was on its way to the disk some is there.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.process = None;
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

    /// An application has a session of its own from now on.
    pub(crate) fn connect(&mut self, now: Time, session: SessionId, client: ClientId, epoch: u64) {
        let Some(store) = &mut self.process else { return };
        store.connected(now, session);
        store.handle(now, session, Hello { features: 0, cluster: None, client, epoch }.into());
        let resume = Resume { horizon: Vector::new(), pages: vec![], grants: vec![], last: true, missed: 0 };
        store.handle(now, session, resume.into());
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
        let mut wishes = Vec::new();
        while let Some(output) = store.poll_output() {
            match output {
                Output::Say(port, message) => wishes.push(Wish::Say(port, message)),
                Output::EndLink(port, why) => {
                    ensure(false, "links", || format!("{:?} ends {port:?}: {}", self.id, why.text))?;
                }
                Output::OpenLink(..) | Output::CloseLink(_) => unreachable!("links are opened by the seed"),
                Output::Disk(work) => {
                    let started = self.disk.submit(Opaque::new(work), rng)?;
                    self.operations.extend(started.map(|Started { operation, .. }| operation));
                }
                Output::Send { to, message: ToClient::CommitReply(reply), .. } => wishes.push(Wish::Reply(to, reply)),
                Output::Send { .. } | Output::AwaitRoom(_) => {}
                Output::Closed => wishes.push(Wish::End),
                Output::End { reason: GoodbyeReason::Done, .. } if self.is_closing => {}
                Output::End { text, .. } => ensure(false, "sessions", || format!("a session ends: {text}"))?,
            }
        }
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

    /// A page's evidence for a reader of now: everything through here is in its values.
    pub(crate) fn evidence(&self, scenario: &Scenario, page: PageId) -> Version {
        let shard = scenario.sharding.of(page);
        self.process.as_ref().map(|store| store.applied().of(shard)).unwrap_or_default()
    }

    /// Whether a page can be read here: its shard is served.
    pub(crate) fn serves(&self, shard: Shard) -> bool {
        self.process.as_ref().is_some_and(|store| store.serves(shard))
    }

    /// Returns what is left here that should be over, if anything is.
    pub(crate) fn left(&self, scenario: &Scenario) -> Option<String> {
        let Some(store) = &self.process else { return Some("it is down".into()) };
        let own = (0..scenario.sharding.shards().get()).map(Shard);
        let unopened: Vec<_> = own.filter(|shard| scenario.node_of(*shard) == usize::from(self.id.0)).collect();
        if let Some(shard) = unopened.into_iter().find(|shard| !store.serves(*shard)) {
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

/// The value that a transaction writes: its name.
pub(crate) fn value_of(txn: TxnId) -> Bytes {
    let mut value = Vec::with_capacity(16);
    value.extend(txn.client.0.to_le_bytes());
    value.extend(txn.number.to_le_bytes());
    value.into()
}

fn txn_of(value: &[u8]) -> TxnId {
    let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    TxnId { client: ClientId(number(0)), number: number(8) }
}

/// A violation only if something is there.
pub(crate) fn nothing_left(left: Option<String>, number: usize) -> Check {
    ensure(left.is_none(), "liveness", || format!("n{number}: {}", left.unwrap_or_default()))
}
