//! What the clients of the demo and of the torture do: transactions that read lists and append to them, with whatever
//! else belongs to such a visit.

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
use thorp::Db;
use workloads::Random;

/// What a store was prepared for.
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
    /// What it draws: the same again for the same seed.
    pub(crate) seed: u64,
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

    /// Runs them as one transaction, with whatever else belongs to it, and fills the reads in. Gives how many things
    /// are not as the lists say: somebody's transaction shows half done.
    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<u64>;
}

/// Reads lists, and gives what is in them, and how much is not as they say.
pub(crate) fn inspect(job: &dyn Job, keys: BTreeSet<u64>, db: &Db) -> Result<(HashMap<u64, Vec<u64>>, u64)> {
    let (mut lists, mut half_done) = (HashMap::new(), 0);
    for key in keys {
        let mut steps = [Step::Read { key, found: None }];
        half_done += job.carry_out(db, &mut steps)?;
        let [Step::Read { found, .. }] = steps else { unreachable!("the steps are read, not changed") };
        lists.insert(key, found.unwrap_or_default());
    }
    Ok((lists, half_done))
}
