//! Lists and nothing else: as fast as can be, and in each other's way.

use super::{Job, Numbers, Work};
use crate::Result;
use crate::history::Step;
use thorp::{Anywhere, Db, Ref, Tx};
use workloads::Random;

/// The name that the lists go by.
const NAME: &str = "torture/lists";

type List = Ref<Vec<u64>>;

/// The lists.
pub(crate) struct Lists(Vec<List>);

impl Lists {
    /// Makes so many empty ones.
    pub(crate) fn create(db: &Db, count: u64) -> Result<Self> {
        let create = |tx: &mut Tx| {
            let lists = (0..count).map(|_| tx.create(Anywhere, &Vec::new())).collect::<thorp::Result<Vec<List>>>()?;
            let all = tx.create(Anywhere, &lists)?;
            tx.set_root(NAME, all)?;
            Ok(lists)
        };
        Ok(Self(db.transact(create)?))
    }

    /// Those that were made.
    pub(super) fn find(db: &Db) -> Result<Self> {
        let find = |tx: &mut Tx| match tx.root::<Vec<List>>(NAME)? {
            Some(lists) => tx.get(lists).map(Some),
            None => Ok(None),
        };
        Ok(Self(db.transact(find)?.ok_or("the store holds no lists")?))
    }

    fn step(&self, tx: &mut Tx, step: &mut Step) -> thorp::Result<()> {
        let list = self.0[step.key() as usize];
        match step {
            Step::Read { found, .. } => *found = Some(tx.get(list)?),
            Step::Append { value, .. } => {
                let mut values = tx.get(list)?;
                values.push(*value);
                tx.put(list, &values)?;
            }
        }
        Ok(())
    }
}

impl Job for Lists {
    /// One to three steps.
    fn plan(&self, work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step> {
        let count = (work.keys.end - work.keys.start) as usize;
        let mut step = |random: &mut Random| {
            let key = work.keys.start + random.below(count) as u64;
            if random.chance(work.writes) {
                Step::Append { key, value: numbers.next() }
            } else {
                Step::Read { key, found: None }
            }
        };
        (0..=random.below(3)).map(|_| step(random)).collect()
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<u64> {
        db.transact(|tx| steps.iter_mut().try_for_each(|step| self.step(tx, step)))?;
        Ok(0)
    }
}
