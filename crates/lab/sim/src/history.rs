//! The deeds of the applications and the answers to them, beside what is durably so.

use crate::branches::{BranchId, Branches};
use crate::check;
use crate::check::unknown::Reasons;
use crate::ledger::{self, Ledger, Rank};
use crate::value::{self, Stamp};
use crate::violation::{Check, Violation, ensure};
use core::time::Duration;
use messages::{Advance, Outcome};
use std::collections::BTreeMap;
use store::CommitRecord;
use types::limits::LIVES_KEPT;
use types::{ClientId, Delta, Life, Map, ObjectId, PageId, Sharding, SlotChange, Time, TxnId, Vector, Version};

/// One attempt at a transaction, by its place in [`History`].
pub(crate) type AttemptId = u32;

/// The end of an attempt, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It runs, or its client died before it asked to commit.
    Running,
    /// It was aborted, or doomed, before it asked to commit.
    Dropped,
    /// Its commit was asked for, and no answer has come yet.
    Asked(TxnId),
    /// The application was told that it is committed.
    Committed,
    /// The application was told that it is refused.
    Refused,
    /// The application was told that nobody knows.
    Unknown,
}

/// One attempt at a transaction, as its application sees it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Every transaction that was acknowledged before this one began has its place at or before these, by branch.
    floors: Vec<Rank>,
    /// The branches that its client was on while it ran, in order.
    branches: Vec<BranchId>,
    /// The first read of each object that the attempt had not written itself.
    pub(crate) reads: BTreeMap<ObjectId, Option<Stamp>>,
    /// The last write to each object.
    pub(crate) writes: BTreeMap<ObjectId, Option<Stamp>>,
    pub(crate) fate: Fate,
    /// When its commit was asked for, by its process's clock.
    asked_at: Time,
}

/// All attempts of a run, and the ledgers.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) branches: Branches,
    attempts: Vec<Attempt>,
    asked: Map<TxnId, AttemptId>,
    acknowledged: u64,
    unknown: u64,
    /// The store has forgotten an outcome that a client might still have asked for.
    pub(crate) has_forgotten: bool,
}

impl History {
    /// The history of a store with nothing in it.
    pub(crate) fn new(sharding: Sharding) -> Self {
        let (attempts, asked, acknowledged, unknown, has_forgotten) = Default::default();
        Self { branches: Branches::new(sharding), attempts, asked, acknowledged, unknown, has_forgotten }
    }

    /// The history begins with one commit, by a client of its own, that gives each page its first object.
    pub(crate) fn found(&mut self, pages: u32) -> Result<CommitRecord, Violation> {
        let txn = TxnId { client: ClientId(1), number: 1 };
        let id = self.begin();
        let deltas = (0..pages).map(|number| {
            let object = ObjectId::new(PageId::new(0, number), 0);
            let stamp = Stamp { attempt: id, write: number };
            self.write(id, object, Some(stamp));
            let change = SlotChange { slot: 0, value: Some(value::encode(Some(object), stamp, 0)) };
            Delta { page: object.page, changes: vec![change] }
        });
        let deltas: Vec<_> = deltas.collect();
        let mut counts = Vector::new();
        for delta in &deltas {
            counts.raise(self.ledger().horizon().sharding.of(delta.page), Version::ZERO.next());
        }
        let record = CommitRecord { txn, counts, answered: 1, deltas };
        self.asked(Time::ZERO, id, txn)?;
        self.durable(&record)?;
        self.branches.acknowledged(0, self.ledger().rank());
        self.attempts[id as usize].fate = Fate::Committed;
        Ok(record)
    }

    /// The history of the store as it is now.
    pub(crate) fn ledger(&self) -> &Ledger {
        self.branches.ledger(self.branches.newest())
    }

    /// The branch that a client is on which knows of this life of the store's as the latest. A client that knows of
    /// none has learned of nothing.
    pub(crate) fn branch_of(&self, life: Option<Life>) -> Option<BranchId> {
        self.branches.of_life(life?)
    }

    /// A new attempt begins.
    pub(crate) fn begin(&mut self) -> AttemptId {
        self.attempts.push(Attempt {
            floors: self.branches.floors(),
            branches: Vec::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            fate: Fate::Running,
            asked_at: Time::ZERO,
        });
        self.attempts.len() as AttemptId - 1
    }

    pub(crate) fn attempt(&self, attempt: AttemptId) -> &Attempt {
        &self.attempts[attempt as usize]
    }

    /// The attempt continues at a client that is on this branch.
    pub(crate) fn is_on(&mut self, id: AttemptId, branch: Option<BranchId>) {
        let branches = &mut self.attempts[id as usize].branches;
        if branches.last() != branch.as_ref() {
            branches.extend(branch);
        }
    }

    /// Transactions that were acknowledged as committed, read-only ones included.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Transactions whose outcome is unknown to those who asked for it.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The attempt has read `seen`: its own write, or what some committed transaction left.
    pub(crate) fn read(&mut self, id: AttemptId, object: ObjectId, seen: Option<Stamp>) -> Check {
        let attempt = &mut self.attempts[id as usize];
        if let Some(own) = attempt.writes.get(&object) {
            return ensure(*own == seen, "own_writes", || {
                format!("t{id} wrote {own:?} to {object:?} and reads {seen:?}")
            });
        }
        let first = *attempt.reads.entry(object).or_insert(seen);
        ensure(first == seen, "stable_reads", || format!("t{id} read {first:?} in {object:?}, and now {seen:?}"))?;
        let branch = attempt.branches.last().copied().unwrap_or(self.branches.newest());
        let ledger = self.branches.ledger(branch);
        check::no_visible_abort::value(ledger, object, seen)?;
        check::one_moment::reads(ledger, attempt)
    }

    /// The attempt has written.
    pub(crate) fn write(&mut self, id: AttemptId, object: ObjectId, stamp: Option<Stamp>) {
        self.attempts[id as usize].writes.insert(object, stamp);
    }

    /// The attempt has created an object: the slot was free, and nobody else's.
    pub(crate) fn create(&mut self, id: AttemptId, object: ObjectId, stamp: Stamp) -> Check {
        let attempt = &mut self.attempts[id as usize];
        let seen = attempt.writes.get(&object).copied().flatten().or(attempt.reads.get(&object).copied().flatten());
        ensure(seen.is_none(), "creation", || format!("t{id} creates {object:?} where it has seen {seen:?}"))?;
        if !attempt.writes.contains_key(&object) {
            attempt.reads.insert(object, None);
        }
        attempt.writes.insert(object, Some(stamp));
        Ok(())
    }

    /// The attempt was given up before its commit was asked for.
    pub(crate) fn dropped(&mut self, id: AttemptId) {
        self.attempts[id as usize].fate = Fate::Dropped;
    }

    /// The attempt's commit is asked for.
    pub(crate) fn asked(&mut self, now: Time, id: AttemptId, txn: TxnId) -> Check {
        let twice = self.asked.insert(txn, id);
        let attempt = &mut self.attempts[id as usize];
        (attempt.fate, attempt.asked_at) = (Fate::Asked(txn), now);
        ensure(twice.is_none(), "identity", || format!("{txn:?} is the identity of t{id} and of t{twice:?}"))
    }

    /// The application, which is so patient, has its answer.
    pub(crate) fn answered(&mut self, now: Time, id: AttemptId, outcome: &Outcome, patience: Duration) -> Check {
        let Fate::Asked(txn) = self.attempts[id as usize].fate else {
            return ensure(false, "durability", || format!("t{id} was answered without a question: {outcome:?}"));
        };
        let attempt = &self.attempts[id as usize];
        let fate = match outcome {
            Outcome::Committed { pages } => {
                let (branch, place) = self.place(attempt, txn, pages)?;
                self.branches.acknowledged(branch, place);
                self.acknowledged += 1;
                Fate::Committed
            }
            Outcome::Refused(refusal) => {
                // A client that has forgotten a branch since was told on that, or that all is void on the newest.
                let branches = attempt.branches.iter().copied().chain([self.branches.newest()]);
                let judged = branches.map(|id| check::durability::refused(self.branches.ledger(id), txn, refusal));
                judged.reduce(Result::or).expect("there is one branch at least")?;
                Fate::Refused
            }
            Outcome::Unknown => {
                let (waited, forgotten) = (now.since(attempt.asked_at), self.has_forgotten);
                let restored = self.branches.newest() > 0;
                let outlived = self.branches.lives() > LIVES_KEPT;
                check::unknown::told(txn, Reasons { waited, patience, restored, outlived, forgotten })?;
                self.unknown += 1;
                Fate::Unknown
            }
        };
        self.attempts[id as usize].fate = fate;
        Ok(())
    }

    /// The place of an attempt that is acknowledged, on one of the branches that its client was on. It may have been
    /// answered on one before it came to the next.
    fn place(&self, attempt: &Attempt, txn: TxnId, pages: &[Advance]) -> Result<(BranchId, Rank), Violation> {
        let newest = [self.branches.newest()];
        let branches = if attempt.branches.is_empty() { &newest[..] } else { &attempt.branches };
        let places = branches.iter().rev().map(|&branch| {
            let floor = self.branches.floor(branch, &attempt.floors);
            let place = check::durability::acknowledged(self.branches.ledger(branch), attempt, floor, txn, pages)?;
            Ok((branch, place))
        });
        places.reduce(Result::or).expect("there is one branch at least")
    }

    /// The application was told that its commit was never sent.
    pub(crate) fn never_sent(&mut self, id: AttemptId) -> Check {
        let Fate::Asked(txn) = self.attempts[id as usize].fate else { return Ok(()) };
        self.attempts[id as usize].fate = Fate::Refused;
        ensure(!self.branches.is_committed_anywhere(txn), "durability", || {
            format!("{txn:?} is told to have no effect, and is committed")
        })
    }

    /// A commit record has become durable: this is its commit point, and its place is behind all before it.
    pub(crate) fn durable(&mut self, record: &CommitRecord) -> Check {
        let Some(&id) = self.asked.get(&record.txn) else {
            return ensure(false, "durability", || format!("{:?} is in the log, and nobody asked for it", record.txn));
        };
        let attempt = &self.attempts[id as usize];
        ensure(attempt.fate != Fate::Refused, "durability", || {
            format!("{:?} was refused, and is in the log", record.txn)
        })?;
        ledger::same_writes(record, &attempt.writes)?;
        check::history::update(self.ledger(), record.txn, attempt)?;
        self.branches.newest_ledger().commit(record)
    }
}

/// An error that stands for "this cannot be".
pub(crate) fn impossible(text: String) -> Violation {
    Violation { checker: "application", text }
}
