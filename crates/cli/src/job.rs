//! The jobs of clients in the demo and the torture: transactions that read lists and append to them, with all else that
//! belongs to such a visit.

mod design;
mod journal;
mod lists;
mod parts;

pub(crate) use design::Design;
pub(crate) use lists::Lists;
pub(crate) use parts::Parts;

use crate::Result;
use crate::history::Step;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};
use thorp::Db;
use workloads::Random;

/// The job that a store was prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobName {
    /// Lists, and nothing else.
    Lists,
    /// Composite parts of OO7.
    Parts,
    /// A design.
    Design,
}

impl JobName {
    /// The job, in a store that was prepared for it.
    pub(crate) fn find(self, db: &Db) -> Result<Box<dyn Job>> {
        Ok(match self {
            Self::Lists => Box::new(Lists::find(db)?),
            Self::Parts => Box::new(Parts::find(db)?),
            Self::Design => Box::new(Design::find(db)?),
        })
    }
}

/// How a client is to work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Transactions after which it rests; without end, if there is none.
    pub(crate) transactions: Option<u64>,
    /// The lists that it visits.
    pub(crate) keys: Range<u64>,
    /// The share of visits that append.
    pub(crate) writes: f64,
    /// The seed of everything that it draws: the same again for the same seed.
    pub(crate) seed: u64,
    /// How long it pauses after each transaction, in milliseconds; nothing for one whose connection is never idle.
    pub(crate) pause_ms: Option<Range<u64>>,
    /// The large values that it visits too.
    pub(crate) heavy: Option<Heavy>,
}

impl Work {
    /// Visits to lists without end and without a pause, and to nothing large.
    pub(crate) fn new(keys: Range<u64>, writes: f64, seed: u64) -> Self {
        Self { transactions: None, keys, writes, seed, pause_ms: None, heavy: None }
    }
}

/// Visits to lists that have a large value each, which changes whenever its list does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heavy {
    /// The lists.
    pub(crate) keys: Range<u64>,
    /// The share of all visits.
    pub(crate) share: f64,
    /// How large a value may be, in blocks of [`Lists::BLOCK_BYTES`].
    pub(crate) blocks: Range<u64>,
}

/// How long an application waited for its calls, in what it did last.
#[derive(Debug)]
pub(crate) struct Calls {
    longest: Duration,
    since: Instant,
}

impl Calls {
    /// The first call begins.
    pub(crate) fn begin() -> Self {
        Self { longest: Duration::ZERO, since: Instant::now() }
    }

    /// A call is over, and the next one begins. The time between two calls is the application's own and short.
    pub(crate) fn next(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.since);
        self.since = now;
    }

    /// How long the longest took.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

/// Numbers that nobody else appends.
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Those of one client.
    pub(crate) fn of(client: u32) -> Self {
        Self(u64::from(client) << 32)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// A job.
pub(crate) trait Job {
    /// The next transaction's steps, reads not filled in yet.
    fn plan(&self, work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step>;

    /// Runs them as one transaction, with all else that belongs to it, and fills the reads in. Returns how many things
    /// are not as the lists say: somebody's transaction shows half done.
    fn carry_out(&self, db: &Db, steps: &mut [Step], calls: &mut Calls) -> thorp::Result<u64>;
}

/// Reads lists, and gives what is in them, and how much is not as they say.
pub(crate) fn inspect(job: &dyn Job, keys: BTreeSet<u64>, db: &Db) -> Result<(HashMap<u64, Vec<u64>>, u64)> {
    let (mut lists, mut half_done) = (HashMap::new(), 0);
    for key in keys {
        let mut steps = [Step::Read { key, found: None }];
        half_done += job.carry_out(db, &mut steps, &mut Calls::begin())?;
        let [Step::Read { found, .. }] = steps else { unreachable!("the steps are read, not changed") };
        lists.insert(key, found.unwrap_or_default());
    }
    Ok((lists, half_done))
}
