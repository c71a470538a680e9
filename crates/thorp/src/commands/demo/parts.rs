//! The demo on OO7: engineers walk through composite parts, and every third walk swaps the coordinates of all two
//! hundred atomic parts of one.
//!
//! Beside each composite part lies a journal, to which a writer appends in the same transaction. A swap turns the sign
//! of the sum of all `x - y`; so the sum and the length of the journal together show, at every visit, whether two
//! hundred changes and one entry took effect as a whole.

use super::Subject;
use crate::Result;
use crate::crew::{Crew, Job};
use crate::history::Step;
use crate::output;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use thorp::{Anywhere, Db, Ref, wait_for};
use workloads::Random;
use workloads::oo7::{Assembly, CompositePart, Module, Size, Traversal, build, traverse};

/// The module's number in its store.
const MODULE: u32 = 1;

/// The seed of the module.
const SEED: u64 = 7;

/// Every other walk is through one of so few parts, so that the clients meet.
const HOT_PARTS: usize = 12;

/// The share of walks that write.
const WRITERS: f64 = 1.0 / 3.0;

type Journal = Ref<Vec<u64>>;

/// The composite parts of a module and their journals.
pub(super) struct Parts {
    module: Ref<Module>,
    composites: Vec<(Ref<CompositePart>, Journal)>,
    /// The sum of each part as its first visitor saw it, as if its journal had been empty.
    balances: Mutex<HashMap<u64, i64>>,
    /// Visits that saw another sum.
    torn: AtomicU64,
}

impl Parts {
    /// Builds a medium module with journals.
    pub(super) fn build(db: &Db) -> Result<Self> {
        let bar = output::bar("build OO7 medium", Size::MEDIUM.composite_parts.into());
        let module = wait_for(build(db, MODULE, Size::MEDIUM, SEED, |progress| bar.set_position(progress.done)))?;
        bar.finish_and_clear();
        let parts = db.transact(|tx| {
            let (mut parts, mut assemblies) = (Vec::new(), vec![tx.get(module)?.root]);
            while let Some(assembly) = assemblies.pop() {
                match tx.get(assembly)? {
                    Assembly::Complex(complex) => assemblies.extend(complex.below),
                    Assembly::Base(base) => parts.extend(base.parts),
                }
            }
            parts.sort();
            parts.dedup();
            parts.into_iter().map(|part| Ok((part, tx.create(Anywhere, &Vec::new())?))).collect()
        })?;
        Ok(Self { module, composites: parts, balances: Mutex::default(), torn: AtomicU64::new(0) })
    }

    /// Walks through a part, as one transaction: what was in its journal before.
    fn walk(&self, db: &Db, key: u64, append: Option<u64>) -> thorp::Result<Vec<u64>> {
        let (part, journal) = self.composites[key as usize];
        let traversal = if append.is_some() { Traversal::T2b } else { Traversal::T1 };
        let walk = db.transact_async(async |mut tx| {
            let entries = tx.get(journal).await?;
            let visited = traverse(&mut tx, self.module, part, traversal).await?;
            if let Some(number) = append {
                let longer: Vec<u64> = entries.iter().copied().chain([number]).collect();
                tx.put(journal, &longer).await?;
            }
            Ok((entries, visited.balance))
        });
        let (entries, balance) = wait_for(walk)?;
        self.check(key, entries.len(), balance);
        Ok(entries)
    }

    /// Whether as many swaps are to be seen as the journal has entries, or at least an odd number of them for an odd one.
    fn check(&self, key: u64, entries: usize, balance: i64) {
        let unswapped = if entries.is_multiple_of(2) { balance } else { -balance };
        let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        if *balances.entry(key).or_insert(unswapped) != unswapped {
            self.torn.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Job for Parts {
    fn plan(&self, crew: &Crew, random: &mut Random) -> Vec<Step> {
        let among = if random.chance(0.5) { HOT_PARTS } else { self.composites.len() };
        Step::visit(random.below(among) as u64, random.chance(WRITERS).then(|| crew.number()))
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<()> {
        Step::carry_out_visit(steps, |key, append| self.walk(db, key, append))
    }
}

impl Subject for Parts {
    fn describe(&self) -> String {
        let Size { atomic_parts, connections, .. } = Size::MEDIUM;
        let parts = self.composites.len();
        format!(
            "OO7 medium: {parts} composite parts in use, {atomic_parts} atomic parts each, {connections} connections."
        )
    }

    fn inspect(&self, db: &Db) -> Result<(HashMap<u64, Vec<u64>>, u64)> {
        let visited: Vec<u64> = self.balances.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        let journals = visited.into_iter().map(|key| Ok((key, self.walk(db, key, None)?)));
        Ok((journals.collect::<Result<_>>()?, self.torn.load(Ordering::Relaxed)))
    }
}
