//! Clients that work on a store while somebody kills it, and take down what they did.

use crate::history::{Ending, History, Step};
use crate::{Error, Result};
use bench::Sample;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thorp::Db;
use workloads::Random;

/// What the clients do.
pub(crate) trait Job: Sync {
    /// The next transaction's steps on the recorded lists, reads not filled in yet.
    fn plan(&self, crew: &Crew, random: &mut Random) -> Vec<Step>;

    /// Runs them as one transaction, with whatever else belongs to it, and fills the reads in.
    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<()>;
}

/// What the clients and the one who kills share.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    /// What they did.
    pub(crate) history: History,
    numbers: AtomicU64,
    processes: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    round: u64,
    commits_of_round: u64,
    failed: bool,
    stop: bool,
}

/// What one client came by.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Latencies of acknowledged transactions, retries included.
    pub(crate) committed: Sample,
    /// Transactions given up, certainly without effect.
    pub(crate) refused: u64,
    /// Transactions of which nobody knows.
    pub(crate) unknown: u64,
}

impl Tally {
    /// Adds another client's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.committed.extend(&other.committed);
        self.refused += other.refused;
        self.unknown += other.unknown;
    }
}

impl Crew {
    /// A number that nobody else appends.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Which round it is, from zero.
    pub(crate) fn round(&self) -> u64 {
        self.state().round
    }

    /// Waits until this round has had so many commits acknowledged, for at most so long, or until a client has failed.
    pub(crate) fn wait(&self, commits: u64, at_most: Duration) {
        let wanted = |state: &mut State| state.commits_of_round < commits && !state.failed;
        drop(self.changed.wait_timeout_while(self.state(), at_most, wanted));
    }

    /// Begins the next round.
    pub(crate) fn next_round(&self) {
        let mut state = self.state();
        state.round += 1;
        state.commits_of_round = 0;
    }

    /// The clients stop after their current transactions.
    pub(crate) fn stop(&self) {
        self.state().stop = true;
    }

    /// One client: works until it is told to stop.
    ///
    /// # Errors
    /// One that has nothing to do with the store being killed again and again.
    pub(crate) fn work(&self, db: &Db, job: &dyn Job, seed: u64) -> Result<Tally> {
        let outcome = self.work_on(db, job, seed);
        if outcome.is_err() {
            self.state().failed = true;
            self.changed.notify_all();
        }
        outcome
    }

    fn work_on(&self, db: &Db, job: &dyn Job, seed: u64) -> Result<Tally> {
        let (mut random, mut tally, mut process) = (Random::new(seed), Tally::default(), self.process());
        while !self.state().stop {
            let mut steps = job.plan(self, &mut random);
            self.history.begin(process, &steps);
            let mut latency = Sample::default();
            let outcome = latency.time(|| job.carry_out(db, &mut steps));
            let ending = ending(&outcome);
            self.history.end(process, &steps, ending);
            match ending {
                Ending::Committed => {
                    tally.committed.extend(&latency);
                    self.acknowledged();
                }
                Ending::Refused => tally.refused += 1,
                Ending::Unknown => {
                    tally.unknown += 1;
                    process = self.process();
                }
            }
            outcome.or_else(|error| if is_passing(&error) { Ok(()) } else { Err(Error::from(error)) })?;
        }
        Ok(tally)
    }

    fn process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    fn acknowledged(&self) {
        self.state().commits_of_round += 1;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an outcome means for the history.
fn ending(outcome: &thorp::Result<()>) -> Ending {
    match outcome {
        Ok(()) => Ending::Committed,
        Err(thorp::Error::Contended { .. } | thorp::Error::Refused(_) | thorp::Error::Doomed) => Ending::Refused,
        Err(_) => Ending::Unknown,
    }
}

/// Whether a client may meet this error while its store is killed again and again.
fn is_passing(error: &thorp::Error) -> bool {
    use thorp::Error;
    matches!(error, Error::Contended { .. } | Error::Refused(_) | Error::Doomed | Error::OutcomeUnknown(_))
}
