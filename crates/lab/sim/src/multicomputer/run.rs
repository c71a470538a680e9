//! One run, and what came of it.

use super::application::Tally;
use super::costs::{Message, Messages};
use super::disks::{DiskEvent, DiskQueues, Job};
use super::links::Links;
use super::meeting;
use super::node::{Input, Node, Turn};
use super::{Hardware, Load, Sequencer};
use crate::queue::Queue;
use core::time::Duration;
use machine::UpstreamId;
use messages::ToNode;
use std::collections::{BTreeMap, VecDeque};
use types::{PageId, Time, TxnId};

/// The measurements of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last transaction was over, in seconds.
    pub last_s: f64,
    /// When the last one of a node was, in the mean over the nodes, in seconds.
    pub mean_s: f64,
    /// The time of a transaction in the mean, in seconds.
    pub transaction_s: f64,
    /// How long a coordinator waited for the sequencer of another node, in the mean, in seconds; zero if none did.
    pub sequencer_s: f64,
    /// Transactions that have committed.
    pub commits: u64,
    /// The transactions that the application aborted.
    pub aborts: u64,
    /// Attempts of a transaction that were refused.
    pub retries: u64,
    /// Messages between nodes.
    pub messages: Messages,
    /// Batches of messages that left together on a connection, which cost as much as one.
    pub batches: u64,
    /// The bytes of all messages between nodes.
    pub message_bytes: u64,
    /// Pages that were read from disks.
    pub pages_read: u64,
    /// Pages that were written back.
    pub pages_written: u64,
    /// The share of the time that the processors were busy, from 0 to 1.
    pub processors_busy: f64,
    /// The same of the sequencer's node.
    pub sequencer_busy: f64,
}

/// All that can happen.
#[derive(Debug)]
enum Event {
    /// The first byte of messages is at the link of a node. They are from this one, and have so many bytes.
    First {
        to: usize,
        from: usize,
        messages: Vec<Message>,
        bytes: u64,
    },
    /// They have arrived.
    Arrived {
        to: usize,
        from: usize,
        messages: Vec<Message>,
    },
    Disk(DiskEvent),
    Timer(usize),
    /// A node's processor is free, and something waits for it.
    Work(usize),
}

/// A node's processor: it does one thing at a time, and what comes in before what the applications do.
#[derive(Debug, Default)]
struct Processor {
    waiting: VecDeque<Input>,
    free: Time,
    busy: Duration,
    /// [`Event::Work`] is on its way.
    is_awaited: bool,
    timer: Option<Time>,
    /// When the last transaction of the node was over.
    done: Option<Time>,
}

/// The nodes, and everything that is on its way.
#[derive(Debug)]
struct World<'a> {
    hardware: &'a Hardware,
    load: &'a Load,
    now: Time,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    sequencer: usize,
    processors: Vec<Processor>,
    links: Links,
    disks: DiskQueues,
    /// Nothing takes any time yet.
    is_free: bool,
    /// When coordinators have begun to ask the sequencer.
    asked: BTreeMap<TxnId, Time>,
    waited: Duration,
    answers: u64,
    messages: Messages,
    batches: u64,
    message_bytes: u64,
}

/// Runs a load on this many nodes.
///
/// # Panics
/// If anything fails, or a write that was committed is not there at the end.
pub fn run(nodes: usize, sequencer: Sequencer, hardware: &Hardware, load: &Load) -> Outcome {
    let mut world = World {
        hardware,
        load,
        now: Time::ZERO,
        queue: Queue::new(),
        nodes: meeting::nodes(nodes, load.pages, sequencer, hardware),
        sequencer: if sequencer == Sequencer::Alone { nodes } else { 0 },
        processors: Vec::new(),
        links: Links::new(nodes + 1, hardware),
        disks: DiskQueues::new(nodes + 1, hardware),
        is_free: true,
        asked: BTreeMap::new(),
        waited: Duration::ZERO,
        answers: 0,
        messages: Messages::default(),
        batches: 0,
        message_bytes: 0,
    };
    world.meet(nodes);
    world.work(nodes);
    world.check();
    world.outcome(nodes)
}

impl World<'_> {
    /// Nodes and clients find each other, which takes no time.
    fn meet(&mut self, clients: usize) {
        let all = self.nodes.len();
        self.processors.resize_with(all, Processor::default);
        for node in &mut self.nodes {
            meeting::link_all(node, all);
        }
        for number in 0..all {
            self.put(number, Input::Timer);
        }
        self.until_quiet(Time::ZERO);
        for client in 0..clients {
            meeting::connect_to(&mut self.nodes, client, UpstreamId::ONLY, client);
            self.put(client, Input::Timer);
        }
        self.until_quiet(Time::ZERO);
        self.is_free = false;
        for processor in &mut self.processors {
            processor.busy = Duration::ZERO;
        }
    }

    /// The applications do their work.
    fn work(&mut self, clients: usize) {
        for number in 0..clients {
            self.nodes[number].give_work(self.load);
            self.put(number, Input::Timer);
        }
        while self.processors[..clients].iter().any(|processor| processor.done.is_none()) {
            assert!(self.step(Time(u64::MAX)), "transactions wait, and nothing is on its way");
        }
    }

    fn until_quiet(&mut self, deadline: Time) {
        while self.step(deadline) {}
    }

    /// The next event happens. Returns whether there is one until then.
    fn step(&mut self, deadline: Time) -> bool {
        let Some((at, event)) = self.queue.pop_until(deadline) else { return false };
        self.now = at;
        match event {
            Event::First { to, from, messages, bytes } => {
                let arrived = self.links.arrive(at, to, bytes);
                self.queue.push(arrived, Event::Arrived { to, from, messages });
            }
            Event::Arrived { to, from, messages } => self.put(to, Input::Arrived(from, messages)),
            Event::Disk(DiskEvent::At(disk)) => {
                self.disks.happen(at, disk);
                self.await_disks();
            }
            Event::Disk(DiskEvent::Ended(node, operation)) => self.put(node, Input::Disk(operation)),
            Event::Timer(node) => {
                self.processors[node].timer = None;
                self.put(node, Input::Timer);
            }
            Event::Work(node) => self.turn(node),
        }
        true
    }

    /// Something waits for a node's processor.
    fn put(&mut self, number: usize, input: Input) {
        let processor = &mut self.processors[number];
        processor.waiting.push_back(input);
        if !processor.is_awaited {
            processor.is_awaited = true;
            self.queue.push(processor.free.max(self.now), Event::Work(number));
        }
    }

    /// A node's processor does what has waited longest.
    fn turn(&mut self, number: usize) {
        let (now, hardware) = (self.now, self.hardware);
        let input = self.processors[number].waiting.pop_front().unwrap_or(Input::Compute);
        let hears = if matches!(input, Input::Arrived(..)) { hardware.message } else { Duration::ZERO };
        let turn = self.nodes[number].take(now, input, hardware, self.load);
        for txn in &turn.placed {
            if let Some(asked) = self.asked.remove(txn) {
                self.waited += (now + hears).since(asked);
                self.answers += 1;
            }
        }
        let took = self.carry_out(number, hears, turn);
        let processor = &mut self.processors[number];
        processor.free = now + took;
        processor.busy += took;
        processor.is_awaited = !processor.waiting.is_empty() || self.nodes[number].has_work();
        if processor.is_awaited {
            self.queue.push(processor.free, Event::Work(number));
        }
        // An application has its answer when the processor has got that far.
        if !self.is_free && processor.done.is_none() && self.nodes[number].is_done() {
            processor.done = Some(processor.free);
        }
        self.set_timer(number);
    }

    /// Sends and starts what a node wants. Returns how long that and all before takes its processor.
    fn carry_out(&mut self, number: usize, hears: Duration, turn: Turn) -> Duration {
        let hardware = self.hardware;
        for (upstream, addresses) in turn.opens {
            let to = meeting::connect(&mut self.nodes, number, upstream, &addresses);
            // Both have something to say.
            self.put(to, Input::Timer);
            self.put(number, Input::Timer);
        }
        let computes = Duration::from_secs_f64(turn.instructions as f64 / hardware.instructions_per_second);
        let mut took = if self.is_free { Duration::ZERO } else { hears + computes };
        for Job { node, operation, requests } in turn.disk {
            let requests = if self.is_free { Vec::new() } else { requests };
            self.disks.submit(self.now + took, Job { node, operation, requests });
        }
        self.await_disks();
        for (to, messages) in turn.leaving {
            let begins = self.now + took;
            self.note_questions(begins, &messages);
            if self.is_free {
                self.queue.push(begins, Event::Arrived { to, from: number, messages });
                continue;
            }
            took += hardware.message;
            let bytes = messages.iter().map(|message| message.bytes(hardware)).sum();
            for message in &messages {
                self.messages.count(message);
            }
            self.batches += 1;
            self.message_bytes += bytes;
            let first = self.links.leave(self.now + took, number, bytes);
            self.queue.push(first, Event::First { to, from: number, messages, bytes });
        }
        took
    }

    /// Puts the next events of the disks in line.
    fn await_disks(&mut self) {
        while let Some((at, event)) = self.disks.poll() {
            self.queue.push(at, Event::Disk(event));
        }
    }

    /// Remembers when the sequencer was asked.
    fn note_questions(&mut self, now: Time, messages: &[Message]) {
        for message in messages {
            if let Message::Node(ToNode::Sequence(sequence)) = message {
                self.asked.insert(sequence.txn, now);
            }
        }
    }

    fn set_timer(&mut self, number: usize) {
        let Some(due) = self.nodes[number].poll_timeout() else { return };
        let processor = &mut self.processors[number];
        let due = due.max(processor.free);
        if processor.timer.is_none_or(|timer| due < timer) {
            processor.timer = Some(due);
            self.queue.push(due, Event::Timer(number));
        }
    }

    /// Every write that was committed is there, once: masters have applied a transaction before its application has
    /// the answer.
    fn check(&self) {
        let pages = (0..self.load.pages).map(|number| PageId::new(0, number));
        let there: u64 = pages.map(|page| self.nodes[self.nodes[0].master_of(page)].sum(page)).sum();
        assert_eq!(there, self.tally().writes, "the writes that are there are those that have committed");
    }

    fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for Tally { commits, aborts, retries, writes, spent } in
            self.nodes.iter().flat_map(|node| &node.applications).map(|application| application.tally)
        {
            sum.commits += commits;
            sum.aborts += aborts;
            sum.retries += retries;
            sum.writes += writes;
            sum.spent += spent;
        }
        sum
    }

    fn outcome(&self, clients: usize) -> Outcome {
        let done = || self.processors[..clients].iter().filter_map(|processor| processor.done);
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let last_s = done().map(seconds).fold(0.0, f64::max);
        let Tally { commits, aborts, retries, spent, .. } = self.tally();
        let busy = |processor: &Processor| processor.busy.as_secs_f64() / last_s.max(f64::MIN_POSITIVE);
        Outcome {
            last_s,
            mean_s: done().map(seconds).sum::<f64>() / clients as f64,
            transaction_s: spent.as_secs_f64() / (commits + aborts).max(1) as f64,
            sequencer_s: self.waited.as_secs_f64() / self.answers.max(1) as f64,
            commits,
            aborts,
            retries,
            messages: self.messages,
            batches: self.batches,
            message_bytes: self.message_bytes,
            pages_read: self.nodes.iter().map(|node| node.pages_read).sum(),
            pages_written: self.nodes.iter().map(|node| node.pages_written).sum(),
            processors_busy: self.processors[..clients].iter().map(busy).sum::<f64>() / clients as f64,
            sequencer_busy: self.processors.get(self.sequencer).map_or(0.0, busy),
        }
    }
}
