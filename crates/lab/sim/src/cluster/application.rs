//! Applications: transactions on the calls of a real client, which has a session with every node.

use super::history::{Committed, FreshRead};
use super::scenario::Scenario;
use crate::rng::Rng;
use crate::violation::{Check, Violation, ensure};
use bytes::Bytes;
use client::{Client, Config, Created, Read, TxnError, TxnHandle, Write};
use messages::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use types::{Broken, ClientId, ObjectId, PageId, Refusal, Time, TxnId, Version};

/// A transaction that runs, or waits for its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    handle: TxnHandle,
    /// The name that its values have. The client numbers commits, and not attempts.
    pub(crate) name: TxnId,
    begun: u64,
    to_read: Vec<ObjectId>,
    /// The writers of what it has read.
    reads: BTreeMap<ObjectId, Option<TxnId>>,
    to_write: BTreeSet<ObjectId>,
    /// Its writes, and whether it creates another object.
    writes: BTreeSet<ObjectId>,
    creates: bool,
    /// Whether the transaction has to see everything that was acknowledged before it began.
    is_fresh: bool,
    is_committing: bool,
}

/// One application and its client.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) client: Client,
    id: ClientId,
    attempts: u64,
    /// Transactions that it is still to commit.
    pub(crate) left: u32,
    /// When it began with what it has not got through yet.
    since: Option<u64>,
    pub(crate) running: Option<Running>,
    /// Whether the transaction waits to be woken.
    is_waiting: bool,
    /// The objects that it has created.
    created: Vec<ObjectId>,
    /// The last read, if that has to be fresh.
    fresh_read: Option<FreshRead>,
}

/// A transaction that has committed, and how many steps that took from the first attempt on.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) name: TxnId,
    pub(crate) committed: Committed,
    pub(crate) took: u64,
}

impl Application {
    pub(crate) fn new(number: usize, scenario: &Scenario, broken: Broken) -> Self {
        let id = ClientId(number as u64 + 1);
        let cache_bytes_limit = scenario.cache_bytes_limit;
        let config = Config { cache_bytes_limit, grant_pages: 2, follows: false, broken, ..Config::default() };
        Self {
            client: Client::new(config, id),
            id,
            attempts: 0,
            left: scenario.transactions,
            since: None,
            running: None,
            is_waiting: false,
            created: Vec::new(),
            fresh_read: None,
        }
    }

    /// Wakes the transaction that waits.
    pub(crate) fn wake(&mut self) {
        self.is_waiting = false;
    }

    /// Takes the last read, if that has to be fresh.
    pub(crate) fn take_fresh_read(&mut self) -> Option<FreshRead> {
        self.fresh_read.take()
    }

    /// Whether it has committed everything.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.running.is_none()
    }

    /// Begins a transaction, or takes its next step. Returns a transaction that has committed.
    pub(crate) fn go_on(
        &mut self,
        now: Time,
        step: u64,
        scenario: &Scenario,
        rng: &mut Rng,
    ) -> Result<Option<Done>, Violation> {
        if self.is_waiting || self.is_done() {
            return Ok(None);
        }
        let Some(running) = &mut self.running else {
            self.begin(step, scenario, rng);
            return Ok(None);
        };
        if running.is_committing {
            return self.ask(step);
        }
        match self.advance(now) {
            Ok(()) => Ok(None),
            Err(TxnError::Doomed) => {
                let running = self.running.take().expect("it runs");
                self.client.abort(now, running.handle);
                Ok(None)
            }
            Err(error) => Err(impossible(&format!("{:?} hears {error:?}", self.running))),
        }
    }

    fn begin(&mut self, step: u64, scenario: &Scenario, rng: &mut Rng) {
        self.attempts += 1;
        self.since.get_or_insert(step);
        let mut objects = BTreeSet::new();
        if scenario.touches_all {
            let pages = (0..scenario.pages).map(|number| PageId::new(0, number));
            objects.extend(pages.flat_map(|page| (0..scenario.slots).map(move |slot| ObjectId::new(page, slot))));
        }
        let most = if scenario.touches_all { 0 } else { rng.between(1, scenario.objects_max) };
        for _ in 0..most {
            let is_own = !self.created.is_empty() && rng.chance(scenario.create_permille);
            let page = PageId::new(0, rng.below(scenario.pages.into()) as u32);
            let drawn = ObjectId::new(page, rng.below(scenario.slots.into()) as u16);
            objects.insert(if is_own { rng.pick(&self.created) } else { drawn });
        }
        let reads_only = rng.chance(scenario.read_only_permille);
        let to_write: BTreeSet<_> =
            objects.iter().copied().filter(|_| !reads_only && rng.chance(scenario.write_permille)).collect();
        let mut to_read: Vec<_> = objects.into_iter().collect();
        for at in (1..to_read.len()).rev() {
            to_read.swap(at, rng.index(at + 1));
        }
        let is_fresh = scenario.fresh_permille > 0 && rng.chance(scenario.fresh_permille);
        self.running = Some(Running {
            handle: if is_fresh { self.client.begin_fresh() } else { self.client.begin() },
            name: TxnId { client: self.id, number: self.attempts },
            begun: step,
            to_read,
            reads: BTreeMap::new(),
            to_write,
            writes: BTreeSet::new(),
            creates: !reads_only && rng.chance(scenario.create_permille),
            is_fresh,
            is_committing: false,
        });
    }

    /// Reads or writes the next object, creates one, or asks to commit.
    fn advance(&mut self, now: Time) -> Result<(), TxnError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let value = value_of(running.name);
        if let Some(&object) = running.to_read.last() {
            let writer = match self.client.read(now, running.handle, object)? {
                Read::Wait => {
                    self.is_waiting = true;
                    return Ok(());
                }
                Read::Absent => None,
                Read::Value(value) => Some(txn_of(value)),
            };
            running.reads.insert(object, writer);
            self.fresh_read = running.is_fresh.then_some(FreshRead { begun: running.begun, object, writer });
            running.to_read.pop();
        } else if let Some(&object) = running.to_write.first() {
            match self.client.write(now, running.handle, object, value)? {
                Write::Wait => self.is_waiting = true,
                Write::Full => drop(running.to_write.pop_first()),
                Write::Done => running.writes.extend(running.to_write.pop_first()),
            }
        } else if running.creates {
            match self.client.create(now, running.handle, 0, None, value)? {
                Created::Wait => self.is_waiting = true,
                Created::Object(object) => {
                    running.writes.insert(object);
                    running.creates = false;
                }
            }
        } else {
            self.client.commit(now, running.handle)?;
            running.is_committing = true;
        }
        Ok(())
    }

    /// Asks for the outcome.
    fn ask(&mut self, step: u64) -> Result<Option<Done>, Violation> {
        let Some(running) = &self.running else { return Ok(None) };
        let outcome = self.client.outcome(running.handle);
        let outcome = outcome.map_err(|error| impossible(&format!("{running:?} asks, and hears {error:?}")))?;
        let Some(outcome) = outcome else {
            self.is_waiting = true;
            return Ok(None);
        };
        let Some(running) = self.running.take() else { return Ok(None) };
        let pages = match outcome {
            Outcome::Committed { pages } => pages,
            Outcome::Refused(Refusal::Stale(_) | Refusal::Busy | Refusal::Closing | Refusal::Lapsed(_)) => {
                return Ok(None);
            }
            outcome => return Err(impossible(&format!("{running:?} hears {outcome:?}"))),
        };
        let moved = |object: &ObjectId| pages.iter().find(|moved| moved.page == object.page);
        let version = |object: &ObjectId| moved(object).map(|moved| moved.version).unwrap_or_default();
        let writes: BTreeMap<_, _> = running.writes.iter().map(|object| (*object, version(object))).collect();
        answered(writes.values().all(|version| *version > Version::ZERO), &running, &pages)?;
        let drawn = |object: &ObjectId| running.reads.contains_key(object);
        self.created.extend(running.writes.iter().copied().filter(|object| !drawn(object)));
        self.left -= 1;
        let took = step - self.since.take().unwrap_or(step);
        let (begun, reads) = (running.begun, running.reads);
        Ok(Some(Done { name: running.name, committed: Committed { begun, acknowledged: step, reads, writes }, took }))
    }
}

fn answered(is_so: bool, running: &Running, pages: &[messages::Advance]) -> Check {
    ensure(is_so, "answers", || format!("{running:?} is told to have moved {pages:?}"))
}

fn impossible(text: &str) -> Violation {
    Violation { checker: "calls", text: text.into() }
}

/// The value that a transaction writes: its name.
fn value_of(txn: TxnId) -> Bytes {
    let mut value = Vec::with_capacity(16);
    value.extend(txn.client.0.to_le_bytes());
    value.extend(txn.number.to_le_bytes());
    value.into()
}

/// The transaction that has written a value.
pub(crate) fn txn_of(value: &[u8]) -> TxnId {
    let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    TxnId { client: ClientId(number(0)), number: number(8) }
}
