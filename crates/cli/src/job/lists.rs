//! Lists, as fast as can be and in each other's way. Some have a large value beside them, which changes whenever its
//! list does: every visit of one sees whether both changed as a whole.

use super::{Calls, Heavy, Job, Numbers, Work};
use crate::Result;
use crate::history::Step;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::ops::Range;
use thorp::{Anywhere, Db, Ref, Tx};
use workloads::Random;

/// The name that the lists go by.
const NAME: &str = "torture/lists";

/// Where a number that was appended says how many blocks the value beside its list has. Below are a client's number and
/// its count, above is the sign of the checker's numbers.
const BLOCKS_SHIFT: u32 = 48;

/// The lists that one transaction makes.
const CREATED_AT_ONCE: usize = 256;

/// The length of one line of a value: the number that was appended with it, and the line's own.
const LINE_BYTES: usize = 32;

/// A list, and the value beside it if it is a heavy one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct List {
    numbers: Ref<Vec<u64>>,
    value: Option<Ref<String>>,
}

/// The lists.
pub(crate) struct Lists(Vec<List>);

impl Lists {
    /// Values consist of this many bytes, once or several times.
    pub(crate) const BLOCK_BYTES: usize = 4096;

    /// Makes so many empty ones without and, after them, with a value.
    pub(crate) fn create(db: &Db, light: u64, heavy: u64) -> Result<Self> {
        let create = |tx: &mut Tx, is_heavy: bool| {
            let value = if is_heavy { Some(tx.create(Anywhere, &String::new())?) } else { None };
            Ok(List { numbers: tx.create(Anywhere, &Vec::new())?, value })
        };
        let create = |tx: &mut Tx| {
            let lists = (0..light + heavy).map(|key| create(tx, key >= light)).collect::<thorp::Result<Vec<List>>>()?;
            let all = tx.create(Anywhere, &lists)?;
            tx.set_root(NAME, all)?;
            Ok(lists)
        };
        Ok(Self(db.transact(create)?))
    }

    /// Makes `count` empty lists, on the nodes of a store in turn. Each client has another node as its home.
    pub(crate) fn create_on(homes: &[Db], count: u64) -> Result<Self> {
        let per_home = count.div_ceil(homes.len() as u64);
        let mut lists = vec![None; homes.len() * per_home as usize];
        for (home, db) in homes.iter().enumerate() {
            for first in (0..per_home).step_by(CREATED_AT_ONCE) {
                let these = first..per_home.min(first + CREATED_AT_ONCE as u64);
                let create = |tx: &mut Tx| {
                    let list = |_| Ok(List { numbers: tx.create(Anywhere, &Vec::new())?, value: None });
                    these.clone().map(list).collect::<thorp::Result<Vec<_>>>()
                };
                for (number, list) in these.clone().zip(db.transact(create)?) {
                    lists[number as usize * homes.len() + home] = Some(list);
                }
            }
        }
        let lists: Vec<List> = lists.into_iter().flatten().collect();
        let name = |tx: &mut Tx| {
            let all = tx.create(Anywhere, &lists)?;
            tx.set_root(NAME, all)
        };
        homes[0].transact(name)?;
        Ok(Self(lists))
    }

    /// Those that were made.
    pub(super) fn find(db: &Db) -> Result<Self> {
        let find = |tx: &mut Tx| match tx.root::<Vec<List>>(NAME)? {
            Some(lists) => tx.get(lists).map(Some),
            None => Ok(None),
        };
        Ok(Self(db.transact(find)?.ok_or("the store holds no lists")?))
    }

    /// Takes a step. Returns how many values are not those of their list.
    fn step(&self, tx: &mut Tx, step: &mut Step, calls: &mut Calls) -> thorp::Result<u64> {
        let list = self.0[step.key() as usize];
        let mut numbers = tx.get(list.numbers)?;
        calls.next();
        let mut half_done = 0;
        if let Some(value) = list.value {
            half_done += u64::from(!is_value_of(&tx.get(value)?, numbers.last().copied()));
            calls.next();
        }
        match step {
            Step::Read { found, .. } => *found = Some(numbers),
            Step::Append { value: number, .. } => {
                numbers.push(*number);
                tx.put(list.numbers, &numbers)?;
                if let Some(value) = list.value {
                    tx.put(value, &value_of(*number))?;
                }
            }
        }
        calls.next();
        Ok(half_done)
    }
}

impl Job for Lists {
    /// One to three steps, or a single one to a heavy list.
    fn plan(&self, work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step> {
        if let Some(heavy) = work.heavy.as_ref().filter(|heavy| random.chance(heavy.share)) {
            return vec![heavy_step(heavy, work.writes, numbers, random)];
        }
        let mut step = |random: &mut Random| {
            let key = draw(&work.keys, random);
            if random.chance(work.writes) {
                Step::Append { key, value: numbers.next() }
            } else {
                Step::Read { key, found: None }
            }
        };
        (0..=random.below(3)).map(|_| step(random)).collect()
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step], calls: &mut Calls) -> thorp::Result<u64> {
        let half_done = db.transact(|tx| {
            // Before this it was the commit of the try before.
            calls.next();
            steps.iter_mut().map(|step| self.step(tx, step, calls)).sum::<thorp::Result<u64>>()
        });
        calls.next();
        half_done
    }
}

fn heavy_step(heavy: &Heavy, writes: f64, numbers: &mut Numbers, random: &mut Random) -> Step {
    let key = draw(&heavy.keys, random);
    if !random.chance(writes) {
        return Step::Read { key, found: None };
    }
    // As many small ones as large ones, by how often the size doubles.
    let most = draw(&heavy.blocks, random);
    let blocks = draw(&(heavy.blocks.start..most + 1), random);
    Step::Append { key, value: blocks << BLOCKS_SHIFT | numbers.next() }
}

fn draw(range: &Range<u64>, random: &mut Random) -> u64 {
    range.start + random.below((range.end - range.start) as usize) as u64
}

/// The value that stands beside a list when this was appended to it last: no two of its lines are the same, and none is
/// another value's.
fn value_of(number: u64) -> String {
    let bytes = (number >> BLOCKS_SHIFT) as usize * Lists::BLOCK_BYTES;
    let mut value = String::with_capacity(bytes);
    for line in 0..bytes / LINE_BYTES {
        write!(value, "{number:016x}{line:016x}").expect("a string takes what is written");
    }
    value
}

/// Whether a value is that of a list whose last number is this; an empty list has an empty one.
fn is_value_of(value: &str, last: Option<u64>) -> bool {
    value == last.map(value_of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_the_number_beside_it() {
        let [one, other] = [3 << BLOCKS_SHIFT | 7, 3 << BLOCKS_SHIFT | 8];
        assert_eq!(value_of(one).len(), 3 * Lists::BLOCK_BYTES);
        assert!(is_value_of(&value_of(one), Some(one)) && is_value_of("", None));
        assert!(!is_value_of(&value_of(other), Some(one)), "another's");
        assert!(!is_value_of("", Some(one)) && !is_value_of(&value_of(one), None), "list and value parted");
        let mut half = value_of(one);
        half.replace_range(Lists::BLOCK_BYTES.., &value_of(other)[Lists::BLOCK_BYTES..]);
        assert!(!is_value_of(&half, Some(one)), "the second half is another's");
    }

    #[test]
    fn a_heavy_visit_is_one_that_the_work_asks_for() {
        let db = Db::in_memory().unwrap();
        let lists = Lists::create(&db, 4, 2).unwrap();
        let heavy = Some(Heavy { keys: 4..6, share: 0.5, blocks: 1..9 });
        let work = Work { heavy, ..Work::new(0..4, 0.5, 1) };
        let (mut numbers, mut random) = (Numbers::of(3), Random::new(1));
        let mut sizes = Vec::new();
        for _ in 0..200 {
            let mut steps = lists.plan(&work, &mut numbers, &mut random);
            for step in &steps {
                let Step::Append { key, value } = *step else { continue };
                assert_eq!(key >= 4, value >> BLOCKS_SHIFT > 0, "{step:?}");
                sizes.extend((key >= 4).then_some(value >> BLOCKS_SHIFT));
            }
            assert_eq!(lists.carry_out(&db, &mut steps, &mut Calls::begin()).unwrap(), 0);
        }
        assert!(sizes.len() > 20 && sizes.iter().all(|size| (1..9).contains(size)), "{sizes:?}");
    }
}
