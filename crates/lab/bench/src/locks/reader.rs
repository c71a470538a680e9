//! A Web server of the experiment: a member, and the visitors who read its only file.
//!
//! Reads that need not wait are counted between two events of the member, not simulated one by one.

use super::arrivals::Arrivals;
use machine::{DiskDone, Machine, Output, Parcel, Port};
use spread::{Member, Opened, Visit};
use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use tree::ChunkHash;
use types::Time;

/// The trees of revisions with a file that its writer had not closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfinished(Arc<Mutex<BTreeSet<ChunkHash>>>);

impl Unfinished {
    pub(super) fn add(&self, root: ChunkHash) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(root);
    }

    fn has(&self, root: ChunkHash) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&root)
    }
}

/// The reads at one or more servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    pub(super) all: u64,
    /// The number of reads that waited, and the sum of their waits in nanoseconds.
    pub(super) waited: u64,
    pub(super) wait_ns: u64,
    /// Reads of a file that its writer had not closed.
    pub(super) unfinished: u64,
}

impl Reads {
    pub(super) fn add(&mut self, more: Self) {
        self.all += more.all;
        self.waited += more.waited;
        self.wait_ns += more.wait_ns;
        self.unfinished += more.unfinished;
    }
}

/// A Web server.
#[derive(Debug)]
pub(super) struct Reader {
    member: Member,
    arrivals: Arrivals,
    unfinished: Unfinished,
    /// Whether a read need not wait, since the last event.
    is_ready: bool,
    /// The arrivals of the reads that wait.
    waiting: Vec<Time>,
    reads: Reads,
}

impl Reader {
    pub(super) fn new(member: Member, arrivals: Arrivals, unfinished: Unfinished) -> Self {
        Self { member, arrivals, unfinished, is_ready: false, waiting: Vec::new(), reads: Reads::default() }
    }

    /// Takes the reads since the last time.
    pub(super) fn take(&mut self, now: Time) -> Reads {
        self.count(now);
        mem::take(&mut self.reads)
    }

    /// Passes an event to the member.
    fn pass(&mut self, now: Time, event: impl FnOnce(&mut Member)) {
        self.count(now);
        event(&mut self.member);
        self.look(now);
    }

    /// Counts the reads until now that need not have waited.
    fn count(&mut self, now: Time) {
        let Some(current) = self.member.current().filter(|_| self.is_ready) else { return };
        let before = self.reads.all;
        while self.arrivals.next() <= now {
            self.reads.all += 1;
            self.arrivals.step();
        }
        let more = self.reads.all - before;
        if self.unfinished.has(current.root) {
            self.reads.unfinished += more;
        }
        if more > 0 {
            // The member has to know that it is read.
            self.member.open(now, Visit::default());
        }
    }

    /// Answers the reads that wait, as far as the member can.
    fn look(&mut self, now: Time) {
        let waiting = mem::take(&mut self.waiting);
        self.waiting = waiting.into_iter().filter(|arrived| !self.answer(now, *arrived)).collect();
        self.is_ready = self.waiting.is_empty() && self.member.is_ready(now);
    }

    /// Answers a read, if the member can.
    fn answer(&mut self, now: Time, arrived: Time) -> bool {
        match self.member.open(now, Visit { since: Some(arrived), ..Visit::default() }) {
            Opened::View { revision, .. } => {
                self.reads.all += 1;
                self.reads.unfinished += u64::from(self.unfinished.has(revision.root));
                self.reads.waited += u64::from(now > arrived);
                self.reads.wait_ns += now.since(arrived).as_nanos() as u64;
                true
            }
            _ => false,
        }
    }
}

impl Machine for Reader {
    fn start(&mut self, now: Time) {
        self.pass(now, |member| member.start(now));
    }

    fn connected(&mut self, now: Time, port: Port) {
        self.pass(now, |member| member.connected(now, port));
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        self.pass(now, |member| member.disconnected(now, port));
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        self.pass(now, |member| member.handle(now, port, message));
    }

    fn disk(&mut self, now: Time, done: DiskDone) {
        self.pass(now, |member| member.disk(now, done));
    }

    fn stop(&mut self, why: &str) {
        self.member.stop(why);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.member.poll_output()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let arrival = Some(self.arrivals.next()).filter(|_| !self.is_ready);
        [self.member.poll_timeout(), arrival].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.count(now);
        if self.member.poll_timeout().is_some_and(|due| due <= now) {
            self.member.handle_timeout(now);
        }
        while !self.is_ready && self.arrivals.next() <= now {
            let arrived = self.arrivals.next();
            self.arrivals.step();
            if !self.answer(now, arrived) {
                self.waiting.push(arrived);
            }
        }
        self.look(now);
    }
}
