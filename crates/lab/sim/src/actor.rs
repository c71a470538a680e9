//! The application: runs transactions over a few hot objects, straight on the client's calls, and remembers what it
//! saw and what it was told.

use crate::history::{AttemptId, History, impossible};
use crate::ledger;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::value::{self, Stamp};
use crate::violation::{Check, Violation};
use client::{Client, Created, Read, TxnError, TxnHandle, Write};
use core::time::Duration;
use messages::Outcome;
use std::collections::VecDeque;
use types::{ObjectId, PageId, Time};

/// The behaviour of one seed's applications.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Hot pages, from page 0, and hot slots of each.
    pub(crate) pages: u32,
    pub(crate) slots: u16,
    /// How often, in a thousand, an object is drawn from the first page alone.
    pub(crate) first_page_permille: u32,
    pub(crate) steps_max: u64,
    pub(crate) read_only_permille: u32,
    /// Of the steps of a transaction that writes: how many write, delete, create; the rest read.
    pub(crate) write_permille: u32,
    pub(crate) delete_permille: u32,
    pub(crate) create_permille: u32,
    /// How often, in a thousand, an object is one that was created and is known of, and of how many of the latest.
    pub(crate) created_permille: u32,
    pub(crate) created_latest: usize,
    pub(crate) abort_permille: u32,
    /// How often a transaction says first what it will read.
    pub(crate) ahead_permille: u32,
    /// How often a transaction is aborted whose commit has been asked for.
    pub(crate) abandon_permille: u32,
    /// How often a value is a large one, and how large at most.
    pub(crate) large_permille: u32,
    pub(crate) large_bytes: u64,
    pub(crate) think: Duration,
    pub(crate) rest: Duration,
}

/// The next step of a thread of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Takes its next step after this time.
    After(Duration),
    /// Waits until its transaction is woken.
    Woken,
    /// Nothing more to do.
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read(ObjectId),
    Write(ObjectId, Stamp, usize),
    Delete(ObjectId),
    Create(Option<ObjectId>, Stamp, usize),
    Commit,
    Abort,
}

#[derive(Debug)]
enum State {
    Resting,
    Running { handle: TxnHandle, attempt: AttemptId, steps: VecDeque<Step> },
    Committing { handle: TxnHandle, attempt: AttemptId },
}

/// One thread of an application: one transaction at a time.
#[derive(Debug)]
pub(crate) struct Thread {
    state: State,
    /// It reads just these, and is done when that is committed.
    audit: Option<Vec<ObjectId>>,
    /// Begins nothing new.
    retired: bool,
    /// Retires once a transaction of it that writes is acknowledged.
    pub(crate) last_one: bool,
    /// It waits to be woken.
    pub(crate) waiting: bool,
}

/// The surroundings that a step needs beside the thread.
pub(crate) struct Stage<'a> {
    pub(crate) now: Time,
    pub(crate) client: &'a mut Client,
    pub(crate) history: &'a mut History,
    pub(crate) habits: &'a Habits,
    /// How long the application waits for an answer.
    pub(crate) patience: Duration,
    pub(crate) created: &'a mut Vec<ObjectId>,
    pub(crate) rng: &'a mut Rng,
    pub(crate) trace: &'a mut Trace,
    pub(crate) process: usize,
}

impl Stage<'_> {
    /// The attempt continues where the client is now.
    fn go_on(&mut self, attempt: AttemptId) {
        let branch = self.history.branch_of(self.client.life());
        self.history.is_on(attempt, branch);
    }

    /// Puts down what an attempt does.
    fn tell(&mut self, attempt: AttemptId, what: impl FnOnce() -> String) {
        let process = self.process;
        self.trace.event(self.now, &[20, u64::from(attempt)], || format!("process {process}: t{attempt} {}", what()));
    }
}

impl Thread {
    pub(crate) fn new(audit: Option<Vec<ObjectId>>) -> Self {
        Self { state: State::Resting, audit, retired: false, last_one: false, waiting: false }
    }

    /// It runs nothing, and begins nothing new.
    pub(crate) fn is_done(&self) -> bool {
        self.retired && matches!(self.state, State::Resting)
    }

    /// The running transaction's handle.
    pub(crate) fn handle(&self) -> Option<TxnHandle> {
        match self.state {
            State::Resting => None,
            State::Running { handle, .. } | State::Committing { handle, .. } => Some(handle),
        }
    }

    /// The running transaction, unless its commit has been asked for.
    pub(crate) fn running(&self) -> Option<(TxnHandle, AttemptId)> {
        match self.state {
            State::Running { handle, attempt, .. } => Some((handle, attempt)),
            State::Resting | State::Committing { .. } => None,
        }
    }

    /// Takes one step.
    pub(crate) fn step(&mut self, stage: &mut Stage<'_>) -> Result<Next, Violation> {
        self.waiting = false;
        let next = match &self.state {
            State::Resting if self.retired => Next::Done,
            State::Resting => self.begin(stage),
            State::Running { .. } => self.run(stage)?,
            State::Committing { handle, attempt } => self.ask(stage, *handle, *attempt)?,
        };
        self.waiting = next == Next::Woken;
        Ok(next)
    }

    fn begin(&mut self, stage: &mut Stage<'_>) -> Next {
        let attempt = stage.history.begin();
        stage.go_on(attempt);
        let handle = stage.client.begin();
        let steps = match &self.audit {
            Some(objects) => objects.iter().map(|&object| Step::Read(object)).chain([Step::Commit]).collect(),
            None => plan(stage, attempt, self.last_one),
        };
        if stage.rng.chance(stage.habits.ahead_permille) {
            fetch_ahead(stage, &steps);
        }
        self.state = State::Running { handle, attempt, steps };
        Next::After(stage.rng.around(stage.habits.think))
    }

    /// Takes the transaction's next step, which is its next one again if it must wait.
    fn run(&mut self, stage: &mut Stage<'_>) -> Result<Next, Violation> {
        let State::Running { handle, attempt, steps } = &mut self.state else {
            unreachable!("only called when running")
        };
        let (handle, attempt) = (*handle, *attempt);
        let step = *steps.front().expect("the last step ends the transaction");
        stage.go_on(attempt);
        let taken = take(stage, handle, attempt, step);
        stage.tell(attempt, || format!("{step:?}: {taken:?}"));
        match taken {
            Ok(Taken::Wait) => Ok(Next::Woken),
            Ok(Taken::Done) => {
                steps.pop_front();
                Ok(Next::After(stage.rng.around(stage.habits.think)))
            }
            Ok(Taken::Asked) => {
                self.state = State::Committing { handle, attempt };
                self.ask(stage, handle, attempt)
            }
            Ok(Taken::Aborted) | Err(Stop::Refused(_)) => {
                stage.client.abort(stage.now, handle);
                stage.history.dropped(attempt);
                Ok(self.rest(stage))
            }
            Err(Stop::Violation(violation)) => Err(violation),
        }
    }

    /// Asks what became of the commit.
    fn ask(&mut self, stage: &mut Stage<'_>, handle: TxnHandle, attempt: AttemptId) -> Result<Next, Violation> {
        stage.go_on(attempt);
        match stage.client.outcome(handle) {
            // A client that gives up now never hears the outcome.
            Ok(None) if stage.rng.chance(stage.habits.abandon_permille) => {
                stage.tell(attempt, || "is abandoned".into());
                stage.client.abort(stage.now, handle);
                Ok(self.rest(stage))
            }
            Ok(None) => Ok(Next::Woken),
            Ok(Some(outcome)) => {
                stage.tell(attempt, || format!("hears {outcome:?}"));
                stage.history.answered(stage.now, attempt, &outcome, stage.patience)?;
                self.learn(stage, attempt, &outcome);
                Ok(self.rest(stage))
            }
            Err(TxnError::Unreachable | TxnError::Refused(..)) => {
                stage.history.never_sent(attempt)?;
                Ok(self.rest(stage))
            }
            Err(error) => Err(impossible(format!("t{attempt} asks for its outcome and hears {error:?}"))),
        }
    }

    fn learn(&mut self, stage: &mut Stage<'_>, attempt: AttemptId, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Committed { .. }) {
            return;
        }
        let writes = &stage.history.attempt(attempt).writes;
        self.retired |= self.audit.is_some() || (self.last_one && !writes.is_empty());
        let hot = |object: &ObjectId| object.page.number < stage.habits.pages && object.slot < stage.habits.slots;
        let new = writes.iter().filter(|(object, stamp)| stamp.is_some() && !hot(object)).map(|(&object, _)| object);
        stage.created.extend(new);
    }

    fn rest(&mut self, stage: &mut Stage<'_>) -> Next {
        self.state = State::Resting;
        Next::After(stage.rng.around(stage.habits.rest))
    }
}

/// The outcome of a step.
#[derive(Debug)]
enum Taken {
    Done,
    Wait,
    Asked,
    Aborted,
}

/// Why a transaction stops in the middle.
#[derive(Debug)]
enum Stop {
    /// The client says that it cannot continue, and why: for the trace.
    Refused(#[expect(dead_code, reason = "shown in the trace")] TxnError),
    Violation(Violation),
}

impl From<TxnError> for Stop {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Ended | TxnError::TooLarge => {
                Self::Violation(impossible(format!("a running transaction: {error:?}")))
            }
            error => Self::Refused(error),
        }
    }
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

fn take(stage: &mut Stage<'_>, handle: TxnHandle, attempt: AttemptId, step: Step) -> Result<Taken, Stop> {
    let now = stage.now;
    match step {
        Step::Read(object) => match stage.client.read(now, handle, object)? {
            Read::Wait => Ok(Taken::Wait),
            Read::Absent => Ok(saw(stage.history.read(attempt, object, None))?),
            Read::Value(bytes) => {
                let stamp = ledger::stamp_of(object, bytes)?;
                Ok(saw(stage.history.read(attempt, object, Some(stamp)))?)
            }
        },
        Step::Write(object, stamp, padding) => {
            let value = value::encode(Some(object), stamp, padding);
            let wrote = stage.client.write(now, handle, object, value)?;
            Ok(written(stage.history, attempt, object, Some(stamp), wrote))
        }
        Step::Delete(object) => {
            let wrote = stage.client.delete(now, handle, object)?;
            Ok(written(stage.history, attempt, object, None, wrote))
        }
        Step::Create(near, stamp, padding) => {
            let value = value::encode(None, stamp, padding);
            match stage.client.create(now, handle, 0, near, value)? {
                Created::Wait => Ok(Taken::Wait),
                Created::Object(object) => Ok(saw(stage.history.create(attempt, object, stamp))?),
            }
        }
        Step::Commit => {
            let txn = stage.client.commit(now, handle)?;
            stage.history.asked(now, attempt, txn)?;
            Ok(Taken::Asked)
        }
        Step::Abort => Ok(Taken::Aborted),
    }
}

/// Returns which pages are about to be read, before any of them is.
fn fetch_ahead(stage: &mut Stage<'_>, steps: &VecDeque<Step>) {
    let page = |step: &Step| match step {
        Step::Read(object) | Step::Write(object, ..) | Step::Delete(object) => Some(object.page),
        Step::Create(..) | Step::Commit | Step::Abort => None,
    };
    let pages: Vec<_> = steps.iter().filter_map(page).collect();
    stage.client.fetch_ahead(stage.now, &pages);
}

fn saw(check: Check) -> Result<Taken, Violation> {
    check.map(|()| Taken::Done)
}

fn written(history: &mut History, attempt: AttemptId, object: ObjectId, stamp: Option<Stamp>, wrote: Write) -> Taken {
    match wrote {
        Write::Wait => return Taken::Wait,
        Write::Done => history.write(attempt, object, stamp),
        Write::Full => {}
    }
    Taken::Done
}

/// Draws the steps of a transaction; one that is to show that there is progress writes.
fn plan(stage: &mut Stage<'_>, attempt: AttemptId, progress: bool) -> VecDeque<Step> {
    let habits = stage.habits;
    let read_only = !progress && stage.rng.chance(habits.read_only_permille);
    let mut steps = VecDeque::new();
    for write in 0..stage.rng.between(1, habits.steps_max) as u32 {
        let object = draw_object(stage);
        let stamp = Stamp { attempt, write };
        let dice = if read_only { 1000 } else { stage.rng.below(1000) as u32 };
        let [write, delete, create] = [habits.write_permille, habits.delete_permille, habits.create_permille];
        if dice < write {
            // Most writes follow a read of the same object, as in life; the others are blind.
            if stage.rng.chance(600) {
                steps.push_back(Step::Read(object));
            }
            steps.push_back(Step::Write(object, stamp, padding(stage)));
        } else if dice < write + delete {
            steps.extend([Step::Read(object), Step::Delete(object)]);
        } else if dice < write + delete + create {
            let near = stage.rng.chance(500).then_some(object);
            steps.push_back(Step::Create(near, stamp, padding(stage)));
        } else {
            steps.push_back(Step::Read(object));
        }
    }
    let end = if stage.rng.chance(habits.abort_permille) { Step::Abort } else { Step::Commit };
    steps.push_back(end);
    steps
}

fn padding(stage: &mut Stage<'_>) -> usize {
    let large = stage.rng.chance(stage.habits.large_permille);
    stage.rng.below(if large { stage.habits.large_bytes } else { 24 } + 1) as usize
}

fn draw_object(stage: &mut Stage<'_>) -> ObjectId {
    if !stage.created.is_empty() && stage.rng.chance(stage.habits.created_permille) {
        let latest = stage.created.len().saturating_sub(stage.habits.created_latest);
        return stage.rng.pick(&stage.created[latest..]);
    }
    let first = stage.rng.chance(stage.habits.first_page_permille);
    let number = if first { 0 } else { stage.rng.below(u64::from(stage.habits.pages)) as u32 };
    ObjectId::new(PageId::new(0, number), stage.rng.below(u64::from(stage.habits.slots)) as u16)
}
