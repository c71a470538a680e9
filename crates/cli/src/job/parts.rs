//! Walks through composite parts of OO7; those that write swap the coordinates of all two hundred atomic parts of one.
//!
//! A swap turns the sign of the sum of all `x - y`; so the sum and the length of the part's journal together show, at
//! every visit, whether two hundred changes and one entry took effect as a whole.

use super::journal::{self, Journal};
use super::{Calls, Job, Numbers, Work};
use crate::Result;
use crate::history::Step;
use crate::output;
use serde::{Deserialize, Serialize};
use thorp::{Db, Ref, wait_for};
use workloads::Random;
use workloads::oo7::{CompositePart, Module, Size, Traversal, build, composite_parts, traverse};

/// The name that the parts go by.
const NAME: &str = "demo/parts";

/// The module's number in its store.
const MODULE: u32 = 1;

/// The seed of the module.
const SEED: u64 = 7;

/// Journals are made so many at a time.
const BATCH: usize = 25;

/// The composite parts of a module that an assembly has, and the journal of each: the sum when it was empty.
#[derive(Serialize, Deserialize)]
pub(crate) struct Parts {
    module: Ref<Module>,
    composites: Vec<(Ref<CompositePart>, Ref<Journal<i64>>)>,
}

impl Parts {
    /// Builds a medium module with journals.
    pub(crate) fn build(db: &Db) -> Result<Self> {
        let bar = output::bar("build OO7 medium", Size::MEDIUM.composite_parts.into());
        let module = wait_for(build(db, MODULE, Size::MEDIUM, SEED, |progress| bar.set_position(progress.done)))?;
        bar.finish_and_clear();
        let mut composites = Vec::new();
        let used = wait_for(db.transact_async(async |mut tx| composite_parts(&mut tx, module).await))?;
        for batch in used.chunks(BATCH) {
            let made = db.transact_async(async |mut tx| {
                let mut made = Vec::new();
                for &part in batch {
                    let balance = traverse(&mut tx, module, part, Traversal::T1).await?.balance;
                    made.push((part, Journal::create(&mut tx, part, balance).await?));
                }
                Ok(made)
            });
            composites.extend(wait_for(made)?);
        }
        let parts = Self { module, composites };
        journal::name(db, NAME, &parts)?;
        Ok(parts)
    }

    /// Those that were built.
    pub(super) fn find(db: &Db) -> Result<Self> {
        journal::found(db, NAME)
    }

    /// The description of it, for a person.
    pub(crate) fn describe(&self) -> String {
        let Size { atomic_parts, connections, .. } = Size::MEDIUM;
        let parts = self.composites.len();
        format!(
            "OO7 medium: {parts} composite parts in use, {atomic_parts} atomic parts each, {connections} connections."
        )
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.composites.len() as u64
    }

    /// Walks through a part, as one transaction: what was in its journal before, and whether it is as the journal says.
    fn walk(&self, db: &Db, key: u64, append: Option<u64>) -> thorp::Result<(Vec<u64>, u64)> {
        let (part, at) = self.composites[key as usize];
        let traversal = if append.is_some() { Traversal::T2b } else { Traversal::T1 };
        wait_for(db.transact_async(async |mut tx| {
            let journal = tx.get(at).await?;
            let balance = traverse(&mut tx, self.module, part, traversal).await?.balance;
            let even = journal.entries.len().is_multiple_of(2);
            let half_done = balance != if even { journal.origin } else { -journal.origin };
            Ok((journal.append(&mut tx, at, append).await?, half_done.into()))
        }))
    }
}

impl Job for Parts {
    fn plan(&self, work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step> {
        journal::plan(work, numbers, random)
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step], calls: &mut Calls) -> thorp::Result<u64> {
        let half_done = journal::carry_out(steps, |key, append| self.walk(db, key, append));
        calls.next();
        half_done
    }
}
