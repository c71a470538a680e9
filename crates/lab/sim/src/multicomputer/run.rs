//! One run, and what came of it.

use super::application::Tally;
use super::costs::{Message, Messages};
use super::disks::{DiskEvent, DiskQueues, Job};
use super::links::{Links, Parcel, Rank};
use super::meeting;
use super::node::{Input, Node, Turn};
use super::rounds::{Part, Parts, Rounds};
use super::{Hardware, Load, Sequencer};
use crate::queue::Queue;
use core::time::Duration;
use machine::UpstreamId;
use std::collections::VecDeque;
use types::{PageId, Time};

/// The measurements of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last transaction was over, in seconds.
    pub last_s: f64,
    /// When the last one of a node was, in the mean over the nodes, in seconds.
    pub mean_s: f64,
    /// The time of a transaction in the mean, in seconds.
    pub transaction_s: f64,
    /// The parts of that time.
    pub parts: TransactionParts,
    /// How long a coordinator waited for the sequencer of another node, in the mean, in seconds; zero if none did.
    pub sequencer_s: f64,
    /// The parts of that wait.
    pub sequencer_parts: SequencerParts,
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

/// The time of a transaction in the mean, in seconds each. Each part ends as the message that ends it is taken up. The
/// rest of the time is the application's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransactionParts {
    /// Until pages came.
    pub pages_s: f64,
    /// Until all masters had prepared it and it had its counts.
    pub counts_s: f64,
    /// Until its record was durable.
    pub log_s: f64,
    /// Until the application had the answer.
    pub decide_s: f64,
}

/// The wait for the sequencer in the mean, in seconds each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SequencerParts {
    /// The question and its answer: the processors at both ends, the way between them, and the bytes.
    pub messages_s: f64,
    /// Until other messages had left or arrived.
    pub links_s: f64,
    /// Until a processor had done other things.
    pub processors_s: f64,
    /// The sequencer's own work, and that for messages which came together with the question.
    pub work_s: f64,
}

/// How long everything that is on its way when the last transaction is over may take.
const SETTLES: Duration = Duration::from_secs(10);

/// All that can happen.
#[derive(Debug)]
enum Event {
    /// A node's processor has handed messages to its link.
    Handed(usize, Parcel, Rank),
    /// A node's link can carry more.
    Free(usize),
    /// The first byte of messages of this node is at the link of the other.
    First(usize, Parcel),
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
    rounds: Rounds,
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
        rounds: Rounds::default(),
        messages: Messages::default(),
        batches: 0,
        message_bytes: 0,
    };
    world.meet(nodes);
    world.work(nodes);
    world.settle();
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

    /// Masters apply the last commits, of which applications have the answer by then. The messages of that are counted;
    /// the time of the processors is not.
    fn settle(&mut self) {
        let busy: Vec<_> = self.processors.iter().map(|processor| processor.busy).collect();
        self.until_quiet(self.now + SETTLES);
        self.processors.iter_mut().zip(busy).for_each(|(processor, busy)| processor.busy = busy);
    }

    fn until_quiet(&mut self, deadline: Time) {
        while self.step(deadline) {}
    }

    /// The next event happens. Returns whether there is one until then.
    fn step(&mut self, deadline: Time) -> bool {
        let Some((at, event)) = self.queue.pop_until(deadline) else { return false };
        self.now = at;
        match event {
            Event::Handed(from, parcel, rank) => {
                if self.links.hand(from, parcel, rank) {
                    self.carry(from);
                }
            }
            Event::Free(from) => self.carry(from),
            Event::First(from, Parcel { to, messages, bytes }) => {
                let [begins, arrived] = self.links.arrive(at, to, bytes);
                self.rounds.spend(Part::Links, begins, &messages);
                self.rounds.spend(Part::Messages, arrived, &messages);
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
        let rank = if matches!(input, Input::Compute) { Rank::Application } else { Rank::Server };
        if let Input::Arrived(_, messages) = &input {
            self.rounds.spend(Part::Processors, now, messages);
            self.rounds.spend(Part::Messages, now + hears, messages);
            self.rounds.end(messages);
        }
        let turn = self.nodes[number].take(now, input, hardware, self.load);
        let took = self.carry_out(number, hears, rank, turn);
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
    fn carry_out(&mut self, number: usize, hears: Duration, rank: Rank, turn: Turn) -> Duration {
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
            self.rounds.begin(begins, &messages);
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
            self.rounds.spend(Part::Messages, self.now + took, &messages);
            self.queue.push(self.now + took, Event::Handed(number, Parcel { to, messages, bytes }, rank));
        }
        took
    }

    /// A node's link is free: it carries what comes next.
    fn carry(&mut self, from: usize) {
        let Some((parcel, first, free)) = self.links.carry(self.now, from) else { return };
        self.rounds.spend(Part::Links, self.now, &parcel.messages);
        self.rounds.spend(Part::Messages, first, &parcel.messages);
        self.queue.push(first, Event::First(from, parcel));
        self.queue.push(free, Event::Free(from));
    }

    /// Puts the next events of the disks in line.
    fn await_disks(&mut self) {
        while let Some((at, event)) = self.disks.poll() {
            self.queue.push(at, Event::Disk(event));
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

    /// Every write that was committed is there, once.
    fn check(&self) {
        let pages = (0..self.load.pages).map(|number| PageId::new(0, number));
        let there: u64 = pages.map(|page| self.nodes[self.nodes[0].master_of(page)].sum(page)).sum();
        assert_eq!(there, self.tally().writes, "the writes that are there are those that have committed");
    }

    fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for Tally { commits, aborts, retries, writes, spent, fetching, committing } in
            self.nodes.iter().flat_map(|node| &node.applications).map(|application| application.tally)
        {
            sum.commits += commits;
            sum.aborts += aborts;
            sum.retries += retries;
            sum.writes += writes;
            sum.spent += spent;
            sum.fetching += fetching;
            sum.committing += committing;
        }
        sum
    }

    fn transaction_parts(&self) -> TransactionParts {
        let Tally { commits, aborts, fetching, committing, .. } = self.tally();
        let sum = |of: fn(&Node) -> Duration| self.nodes.iter().map(of).sum::<Duration>();
        let (prepared, logged) = (sum(|node| node.prepared), sum(|node| node.logged));
        let mean_s = |time: Duration| time.as_secs_f64() / (commits + aborts).max(1) as f64;
        TransactionParts {
            pages_s: mean_s(fetching),
            counts_s: mean_s(prepared),
            log_s: mean_s(logged),
            decide_s: mean_s(committing.saturating_sub(prepared + logged)),
        }
    }

    fn sequencer_parts(&self) -> SequencerParts {
        let mean_s = |part: Part| self.rounds.mean_s(|parts| parts.of(part));
        SequencerParts {
            messages_s: mean_s(Part::Messages),
            links_s: mean_s(Part::Links),
            processors_s: mean_s(Part::Processors),
            work_s: mean_s(Part::Work),
        }
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
            parts: self.transaction_parts(),
            sequencer_s: self.rounds.mean_s(Parts::sum),
            sequencer_parts: self.sequencer_parts(),
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
