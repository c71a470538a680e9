//! A node: a store and a client in one process, the applications that use it, and the node's part of the pages.

use super::application::{Application, Touched, number_of};
use super::costs::Message;
use super::disks::{File, Job, Request};
use super::{Hardware, Load};
use crate::disk::StoreDisk;
use crate::drive::{Disk, Operation, Started};
use crate::rng::Rng;
use client::Client;
use core::mem;
use core::time::Duration;
use machine::{Opaque, Port, UpstreamId};
use messages::{ToClient, ToServer};
use std::collections::{BTreeMap, VecDeque};
use store::{DiskDone, DiskWork, Record, Store};
use types::{ObjectPage, PageId, Position, SessionId, Sharding, SlotNo, Time, TxnId};

/// The bytes of a page on a disk.
pub(super) const PAGE_BYTES: u64 = 4096;

/// An event at a node.
#[derive(Debug)]
pub(super) enum Input {
    /// Messages of one connection have arrived, which the node has with this one.
    Arrived(usize, Vec<Message>),
    Disk(Operation),
    /// Something may be due, or left to be said.
    Timer,
    /// An application takes its next step.
    Compute,
}

/// The work of a node for an event.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) instructions: u64,
    /// The messages for each connection, in the order in which they leave.
    pub(super) leaving: Vec<(usize, Vec<Message>)>,
    pub(super) disk: Vec<Job>,
    /// Connections that the client wants.
    pub(super) opens: Vec<(UpstreamId, Vec<String>)>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: usize,
    /// How many nodes have pages.
    masters: usize,
    sharding: Sharding,
    pub(super) store: Store,
    pub(super) client: Client,
    pub(super) applications: Vec<Application>,
    disk: StoreDisk,
    /// Messages that wait for the log, and those behind them on the same session.
    held: BTreeMap<SessionId, VecDeque<(Position, ToClient)>>,
    durable: Position,
    /// The connections of the client: where they lead, and those that lead to each node.
    upstreams: BTreeMap<UpstreamId, usize>,
    leading_to: BTreeMap<usize, UpstreamId>,
    /// When the client has something to do by itself, as long as nothing has happened to it since.
    client_due: Option<Time>,
    is_client_changed: bool,
    /// The bytes of the log: how many there are, and those that no flush has taken yet.
    log_bytes: u64,
    appended: u64,
    /// Commits of the own client until their records are appended, and records until they are durable.
    preparing: BTreeMap<TxnId, Time>,
    logging: VecDeque<(Position, Time)>,
    pub(super) prepared: Duration,
    pub(super) logged: Duration,
    /// Pages that were read from the disk, and written back to it.
    pub(super) pages_read: u64,
    pub(super) pages_written: u64,
    rng: Rng,
}

impl Node {
    /// A node whose store has been started over this disk.
    pub(super) fn new(
        number: usize,
        masters: usize,
        sharding: Sharding,
        disk: StoreDisk,
        ends: (Store, Client),
    ) -> Self {
        let (store, client) = ends;
        Self {
            number,
            masters,
            sharding,
            store,
            client,
            applications: Vec::new(),
            disk,
            held: BTreeMap::new(),
            durable: Position(0),
            upstreams: BTreeMap::new(),
            leading_to: BTreeMap::new(),
            client_due: None,
            is_client_changed: false,
            log_bytes: 0,
            appended: 0,
            preparing: BTreeMap::new(),
            logging: VecDeque::new(),
            prepared: Duration::ZERO,
            logged: Duration::ZERO,
            pages_read: 0,
            pages_written: 0,
            rng: Rng::new(number as u64),
        }
    }

    /// Gives the node its applications, which begin when the processor has time.
    pub(super) fn give_work(&mut self, load: &Load) {
        let (nodes, number) = (self.masters, self.number);
        self.rng = Rng::new(load.seed << 16 | number as u64);
        let application = |of: u32| Application::new(of, number as SlotNo, load.transactions_of(nodes, number, of));
        self.applications = (0..load.at_once).map(application).collect();
    }

    /// A connection of the client is up.
    pub(super) fn connected(&mut self, upstream: UpstreamId, to: usize) {
        self.upstreams.insert(upstream, to);
        self.leading_to.insert(to, upstream);
        self.client.connected(Time::ZERO, upstream);
        self.is_client_changed = true;
    }

    /// Whether all of its applications are done.
    pub(super) fn is_done(&self) -> bool {
        self.applications.iter().all(Application::is_done)
    }

    /// An event happens.
    pub(super) fn take(&mut self, now: Time, input: Input, hardware: &Hardware, load: &Load) -> Turn {
        let mut turn = Turn::default();
        match input {
            Input::Timer => {}
            Input::Compute => self.compute(now, hardware, load, &mut turn),
            Input::Arrived(from, messages) => {
                for message in messages {
                    self.hear(now, from, message, hardware, &mut turn);
                }
            }
            Input::Disk(operation) => self.disk_done(now, operation, hardware, &mut turn),
        }
        self.settle(now, hardware, &mut turn);
        turn
    }

    /// When something is due by itself.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.store.poll_timeout(), self.client_due].into_iter().flatten().min()
    }

    /// The node that has a page.
    pub(super) fn master_of(&self, page: PageId) -> usize {
        usize::from(self.sharding.of(page).0) % self.masters
    }

    fn hear(&mut self, now: Time, from: usize, message: Message, hardware: &Hardware, turn: &mut Turn) {
        turn.instructions += message.instructions(hardware, |page| self.master_of(page) == self.number);
        match message {
            Message::Node(message) => self.store.hear_link(now, link(self.number, from), message),
            Message::Server(message) => {
                if let ToServer::Commit(request) = &message {
                    self.preparing.entry(request.txn).or_insert(now);
                }
                self.store.handle(now, session(from), message);
            }
            Message::Client(message) => {
                self.is_client_changed = true;
                self.client.handle(now, self.leading_to[&from], message);
            }
        }
    }

    /// Whether an application has something to do.
    pub(super) fn has_work(&self) -> bool {
        self.applications.iter().any(Application::has_work)
    }

    /// The first application that has something to do takes its next step.
    fn compute(&mut self, now: Time, hardware: &Hardware, load: &Load, turn: &mut Turn) {
        let Some(at) = self.applications.iter().position(Application::has_work) else { return };
        let Touched { pages, copies } = self.applications[at].step(now, &mut self.client, load, &mut self.rng);
        turn.instructions += pages * hardware.page_instructions + copies * hardware.copy_instructions;
        self.is_client_changed = true;
        // The others come first then.
        self.applications.rotate_left(at + 1);
    }

    /// Carries out everything that the store and the client want done.
    fn settle(&mut self, now: Time, hardware: &Hardware, turn: &mut Turn) {
        if self.store.poll_timeout().is_some_and(|due| due <= now) {
            self.store.handle_timeout(now);
        }
        if self.client_due.is_some_and(|due| due <= now) {
            self.is_client_changed = true;
            self.client.handle_timeout(now);
        }
        loop {
            let mut has_done = self.settle_store(now, hardware, turn);
            has_done |= self.settle_client(now, hardware, turn);
            if !has_done {
                break;
            }
        }
        if mem::take(&mut self.is_client_changed) {
            self.client_due = self.client.poll_timeout();
        }
    }

    fn settle_store(&mut self, now: Time, hardware: &Hardware, turn: &mut Turn) -> bool {
        let mut has_done = false;
        while let Some(output) = self.store.poll_output() {
            has_done = true;
            match output {
                store::Output::Say(port, message) => {
                    turn.leaves(peer(port), Message::Node(message));
                }
                store::Output::Send { to, message, after } => self.send(now, to, message, after, hardware, turn),
                store::Output::Disk(work) => self.submit(now, work, hardware, turn),
                store::Output::AwaitRoom(session) => self.store.has_room(session),
                // Links are there from the beginning.
                store::Output::OpenLink(..) | store::Output::CloseLink(_) => {}
                store::Output::End { text, .. } => panic!("node {} ends a session: {text}", self.number),
                store::Output::EndLink(_, why) => panic!("node {} ends a link: {}", self.number, why.text),
                store::Output::Closed => panic!("node {} has closed", self.number),
            }
        }
        has_done
    }

    /// A message for a client, once the log is durable through `after`.
    fn send(
        &mut self,
        now: Time,
        to: SessionId,
        message: ToClient,
        after: Option<Position>,
        hardware: &Hardware,
        turn: &mut Turn,
    ) {
        let after = after.unwrap_or_default();
        match self.held.get_mut(&to) {
            Some(held) => held.push_back((after, message)),
            None if after <= self.durable => self.tell(now, to, message, hardware, turn),
            None => drop(self.held.insert(to, [(after, message)].into())),
        }
    }

    /// A message for a client leaves.
    fn tell(&mut self, now: Time, to: SessionId, message: ToClient, hardware: &Hardware, turn: &mut Turn) {
        let (to, message) = (client_of(to), Message::Client(message));
        if to == self.number {
            self.hear(now, to, message, hardware, turn);
        } else {
            turn.leaves(to, message);
        }
    }

    fn settle_client(&mut self, now: Time, hardware: &Hardware, turn: &mut Turn) -> bool {
        let mut has_done = false;
        while let Some(output) = self.client.poll_output() {
            has_done = true;
            match output {
                client::Output::Send(upstream, message) => {
                    let (to, message) = (self.upstreams[&upstream], Message::Server(message));
                    if to == self.number {
                        self.hear(now, to, message, hardware, turn);
                    } else {
                        turn.leaves(to, message);
                    }
                }
                client::Output::Wake(txn) => {
                    self.applications.iter_mut().for_each(|application| application.wake(txn));
                }
                client::Output::Open(upstream, addresses) => turn.opens.push((upstream, addresses)),
                other => panic!("nothing fails, and client {} wants {other:?}", self.number),
            }
        }
        has_done
    }

    /// The disk takes work.
    fn submit(&mut self, now: Time, work: DiskWork, hardware: &Hardware, turn: &mut Turn) {
        let (mut pages, mut writes) = (Vec::new(), false);
        match &work {
            DiskWork::Append(position, record) => {
                self.appended += record_bytes(record, hardware);
                self.note_appended(now, *position, record);
            }
            DiskWork::Read(wanted) => {
                self.pages_read += wanted.len() as u64;
                pages.clone_from(wanted);
            }
            DiskWork::Install(images, _) => {
                self.pages_written += images.len() as u64;
                (pages, writes) = (images.iter().map(|image| image.page).collect(), true);
            }
            DiskWork::Free(_) | DiskWork::MakeRoom(_) | DiskWork::ReadLog => {}
        }
        let started = self.disk.submit(Opaque::new(work), &mut self.rng).expect("the store uses it well");
        let request = |page: PageId| {
            let offset = u64::from(page.number) * PAGE_BYTES;
            Request { file: File::Pages, offset, bytes: PAGE_BYTES, writes }
        };
        let requests = pages.into_iter().map(request).collect();
        self.start(started, requests, hardware, turn);
    }

    /// Remembers that a commit has got its record.
    fn note_appended(&mut self, now: Time, position: Position, record: &Record) {
        if let Record::Commit(commit) = record
            && let Some(since) = self.preparing.remove(&commit.txn)
        {
            self.prepared += now.since(since);
            self.logging.push_back((position, now));
        }
    }

    /// An operation of the disk begins.
    fn start(&mut self, started: Option<Started>, mut requests: Vec<Request>, hardware: &Hardware, turn: &mut Turn) {
        let Some(Started { operation, .. }) = started else { return };
        if operation == Operation::Flush {
            let bytes = mem::take(&mut self.appended);
            let (file, offset) = (File::Log(self.number), self.log_bytes);
            self.log_bytes += bytes;
            requests = vec![Request { file, offset, bytes, writes: true }];
        }
        turn.instructions += requests.len() as u64 * hardware.disk_instructions;
        turn.disk.push(Job { node: self.number, operation, requests });
    }

    fn disk_done(&mut self, now: Time, operation: Operation, hardware: &Hardware, turn: &mut Turn) {
        let (done, started) = self.disk.finish(operation, &mut self.rng);
        self.disk.became_durable.clear();
        self.start(started, Vec::new(), hardware, turn);
        for done in done {
            let done = done.open().expect("it is a store's disk");
            if let DiskDone::Durable { through, .. } = &done {
                self.durable = *through;
                while let Some(&(position, since)) = self.logging.front()
                    && position <= self.durable
                {
                    self.logging.pop_front();
                    self.logged += now.since(since);
                }
            }
            self.store.disk(now, done);
        }
        // The log's durability lets messages go, before those that this makes possible.
        for (session, mut held) in mem::take(&mut self.held) {
            while held.front().is_some_and(|(after, _)| *after <= self.durable) {
                let (_, message) = held.pop_front().expect("just seen");
                self.tell(now, session, message, hardware, turn);
            }
            if !held.is_empty() {
                self.held.insert(session, held);
            }
        }
    }

    /// The sum of all numbers in a page, as its master has them.
    pub(super) fn sum(&self, page: PageId) -> u64 {
        let Some((_, image)) = self.disk.home().get(&page) else { return 0 };
        let image = ObjectPage::parse(image.clone()).expect("the store has written it");
        let changes = self.store.changes(page);
        let image = image.with(&changes).expect("it has room");
        image.objects().filter(|(_, value)| value.len() == 8).map(|(_, value)| number_of(value)).sum()
    }
}

impl Turn {
    /// A message leaves on the connection with this node, behind those that leave there already.
    fn leaves(&mut self, to: usize, message: Message) {
        let is_same = |(other, messages): &&mut (usize, Vec<Message>)| {
            *other == to
                && messages.first().is_some_and(|first| mem::discriminant(first) == mem::discriminant(&message))
        };
        match self.leaving.iter_mut().find(is_same) {
            Some((_, messages)) => messages.push(message),
            None => self.leaving.push((to, vec![message])),
        }
    }
}

/// The session that a node's client has with any node.
pub(super) fn session(client: usize) -> SessionId {
    SessionId(client as u64 + 1)
}

/// The client of a session.
fn client_of(SessionId(session): SessionId) -> usize {
    session as usize - 1
}

/// The port at which a node has its link to another. The node with the higher number has opened it.
pub(super) fn link(node: usize, other: usize) -> Port {
    if node > other { Port::Upstream(UpstreamId(other as u64)) } else { Port::FromNode(session(other)) }
}

/// The node behind such a port.
fn peer(port: Port) -> usize {
    match port {
        Port::Upstream(UpstreamId(other)) => other as usize,
        Port::FromNode(session) => client_of(session),
        other => panic!("{other:?} is not a link"),
    }
}

/// The bytes of a record in the log, where each delta has at least as many as the hardware says.
fn record_bytes(record: &Record, hardware: &Hardware) -> u64 {
    let Record::Commit(commit) = record else { return record.bytes_bound() };
    let lacks = |value_bytes: usize| hardware.delta_bytes_min.saturating_sub(value_bytes as u64);
    record.bytes_bound() + commit.deltas.iter().map(|delta| lacks(delta.value_bytes())).sum::<u64>()
}
