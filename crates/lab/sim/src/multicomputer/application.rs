//! An application: one transaction after the other, each of operations on different pages. A write adds one to an
//! object, so that the objects' values say how many writes have committed.

use super::load::{Load, Operation};
use crate::rng::Rng;
use bytes::Bytes;
use client::{Client, Read, TxnError, TxnHandle, Write};
use core::time::Duration;
use messages::Outcome;
use types::{ObjectId, PageId, SlotNo, Time};

/// Counts of an application's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) commits: u64,
    pub(super) aborts: u64,
    /// Attempts that were refused. As objects are isolated, there should be none.
    pub(super) retries: u64,
    /// Writes that have committed.
    pub(super) writes: u64,
    /// The time of all transactions together.
    pub(super) spent: Duration,
    /// The part of it in which they waited for pages, and in which they committed.
    pub(super) fetching: Duration,
    pub(super) committing: Duration,
}

/// The pages that a call has touched, and those that it has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) pages: u64,
    pub(super) copies: u64,
}

/// A transaction that runs.
#[derive(Debug)]
struct Running {
    txn: TxnHandle,
    operations: Vec<Operation>,
    /// How many of the operations are done, and in the pages of how many the changes are found.
    done: usize,
    found: usize,
    aborts: bool,
    /// Since when it commits.
    commits_since: Option<Time>,
    begun: Time,
}

/// An application.
#[derive(Debug)]
pub(super) struct Application {
    number: u32,
    /// The objects that are its node's, one of each page.
    slot: SlotNo,
    left: u64,
    running: Option<Running>,
    is_waiting: bool,
    /// Since when it waits for a page.
    fetches_since: Option<Time>,
    pub(super) tally: Tally,
}

impl Application {
    /// An application with this many transactions to run.
    pub(super) fn new(number: u32, slot: SlotNo, left: u64) -> Self {
        Self { number, slot, left, running: None, is_waiting: false, fetches_since: None, tally: Tally::default() }
    }

    /// Whether it has done everything.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.running.is_none()
    }

    /// Wakes it, if it waits with this transaction.
    pub(super) fn wake(&mut self, txn: TxnHandle) {
        self.is_waiting &= self.running.as_ref().is_none_or(|running| running.txn != txn);
    }

    /// Whether it has something to do now.
    pub(super) fn has_work(&self) -> bool {
        !self.is_waiting && !self.is_done()
    }

    /// Takes its next step, which touches one page at most: what comes in at its node need not wait for longer.
    pub(super) fn step(&mut self, now: Time, client: &mut Client, load: &Load, rng: &mut Rng) -> Touched {
        let mut touched = Touched::default();
        if let Some(since) = self.fetches_since.take() {
            self.tally.fetching += now.since(since);
        }
        let Some(running) = &mut self.running else {
            let (operations, aborts) = (load.draw(self.number, rng), load.aborts(rng));
            let txn = client.begin();
            self.left -= 1;
            self.running =
                Some(Running { txn, operations, done: 0, found: 0, aborts, commits_since: None, begun: now });
            return touched;
        };
        let goes_on = if running.commits_since.is_some() {
            Ok(self.ask(now, client))
        } else {
            running.advance(now, self.slot, client, &mut touched)
        };
        match goes_on {
            Ok(goes_on) => {
                self.is_waiting = !goes_on;
                let fetches = self.running.as_ref().is_some_and(|running| running.commits_since.is_none());
                self.fetches_since = (fetches && !goes_on).then_some(now);
            }
            Err(TxnError::Doomed) => self.again(now, client),
            Err(error) => panic!("nothing fails, and {:?} hears {error:?}", self.running),
        }
        self.abort_if_due(now, client);
        touched
    }

    /// Aborts a transaction that is meant to be, when it has done everything.
    fn abort_if_due(&mut self, now: Time, client: &mut Client) {
        let is_due = |running: &mut Running| running.aborts && running.done == running.operations.len();
        if let Some(running) = self.running.take_if(is_due) {
            client.abort(now, running.txn);
            self.tally.aborts += 1;
            self.tally.spent += now.since(running.begun);
        }
    }

    /// Asks for the outcome. Returns whether there is one.
    fn ask(&mut self, now: Time, client: &mut Client) -> bool {
        let Some(running) = &self.running else { return true };
        match client.outcome(running.txn).expect("nothing fails") {
            None => return false,
            Some(Outcome::Committed { .. }) => {
                self.tally.commits += 1;
                self.tally.writes += running.operations.iter().filter(|operation| operation.writes).count() as u64;
                self.tally.spent += now.since(running.begun);
                self.tally.committing += running.commits_since.map_or(Duration::ZERO, |since| now.since(since));
                self.running = None;
            }
            Some(_) => self.again(now, client),
        }
        true
    }

    /// Begins the same transaction again.
    fn again(&mut self, now: Time, client: &mut Client) {
        self.tally.retries += 1;
        if let Some(running) = &mut self.running {
            client.abort(now, running.txn);
            (running.txn, running.done, running.found) = (client.begin(), 0, 0);
            running.commits_since = None;
        }
    }
}

impl Running {
    /// Does the next operation, finds what differs in a page, or commits. Returns whether it need not wait.
    fn advance(
        &mut self,
        now: Time,
        slot: SlotNo,
        client: &mut Client,
        touched: &mut Touched,
    ) -> Result<bool, TxnError> {
        let Some(operation) = self.operations.get(self.done) else {
            if let Some(operation) = self.operations.get(self.found) {
                self.found += 1;
                touched.copies += u64::from(operation.writes);
            } else {
                client.commit(now, self.txn)?;
                self.commits_since = Some(now);
            }
            return Ok(true);
        };
        let object = ObjectId::new(PageId::new(0, operation.page), slot);
        touched.pages += 1;
        let value = match client.read(now, self.txn, object)? {
            Read::Wait => return Ok(false),
            Read::Value(value) => number_of(value),
            Read::Absent => panic!("{object:?} is on no page"),
        };
        if operation.writes {
            touched.copies += 1;
            match client.write(now, self.txn, object, value_of(value + 1))? {
                Write::Wait => return Ok(false),
                Write::Done => {}
                Write::Full => panic!("the page of {object:?} has no room for eight bytes in place of eight"),
            }
        }
        self.done += 1;
        Ok(true)
    }
}

/// An object's value that says this number.
pub(super) fn value_of(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

/// The number that an object's value says.
pub(super) fn number_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}
