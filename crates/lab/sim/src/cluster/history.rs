//! The committed transactions, and whether there is a strict serial order of them.
//!
//! The counts of a shard order the writes of each of its slots. A transaction comes after the writers of what it has
//! read, before those who wrote it next, and after everything that was acknowledged before it began. If these edges
//! make a circle, there is no such order.

use crate::violation::{Check, ensure};
use std::collections::BTreeMap;
use types::{ObjectId, TxnId, Version};

/// A transaction that has committed.
#[derive(Debug)]
pub(crate) struct Committed {
    /// The steps at which it began, and was acknowledged.
    pub(crate) begun: u64,
    pub(crate) acknowledged: u64,
    /// The writer of each value that it has read; none if the slot was never written.
    pub(crate) reads: BTreeMap<ObjectId, Option<TxnId>>,
    /// Its writes, and the version that they got.
    pub(crate) writes: BTreeMap<ObjectId, Version>,
}

/// A read of a transaction that has to see everything which was acknowledged before it began.
#[derive(Debug)]
pub(crate) struct FreshRead {
    pub(crate) begun: u64,
    pub(crate) object: ObjectId,
    pub(crate) writer: Option<TxnId>,
}

/// All that have committed.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) committed: BTreeMap<TxnId, Committed>,
}

impl History {
    /// The last writer of each object.
    pub(crate) fn newest(&self) -> BTreeMap<ObjectId, TxnId> {
        let newest = self.writers().into_iter();
        newest.filter_map(|(object, writers)| Some((object, *writers.last_key_value()?.1))).collect()
    }

    /// Checks that a read is of everything that was acknowledged before its transaction began. A commit whose
    /// client has no answer yet may have any version.
    pub(crate) fn check_fresh(&self, read: &FreshRead) -> Check {
        let version = |of: &Committed| of.writes.get(&read.object).copied();
        let seen = match read.writer {
            None => Some(Version::ZERO),
            Some(writer) => self.committed.get(&writer).and_then(version),
        };
        let before = self.committed.values().filter(|of| of.acknowledged < read.begun).filter_map(version).max();
        let is_fresh = seen.is_none_or(|seen| before.is_none_or(|before| before <= seen));
        ensure(is_fresh, "fresh", || format!("{read:?} is of {seen:?}, and {before:?} was acknowledged before"))
    }

    fn writers(&self) -> BTreeMap<ObjectId, BTreeMap<Version, TxnId>> {
        let mut writers: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (&txn, of) in &self.committed {
            for (&object, &version) in &of.writes {
                writers.entry(object).or_default().insert(version, txn);
            }
        }
        writers
    }

    /// Checks that they are strictly serializable.
    pub(crate) fn check(&self) -> Check {
        let edges = self.edges()?;
        // Those without a predecessor go first, one after another. A circle never gets its turn.
        let mut before: BTreeMap<TxnId, usize> = self.committed.keys().map(|&txn| (txn, 0)).collect();
        for &next in edges.values().flatten() {
            *before.entry(next).or_default() += 1;
        }
        let mut free: Vec<_> = before.iter().filter(|(_, count)| **count == 0).map(|(&txn, _)| txn).collect();
        let mut placed = 0;
        while let Some(txn) = free.pop() {
            placed += 1;
            for next in edges.get(&txn).into_iter().flatten() {
                let count = before.get_mut(next).expect("each has committed");
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
        ensure(placed == self.committed.len(), "history", || {
            let circle = circle(&edges, |txn| before[&txn] > 0);
            let circle: Vec<_> = circle.iter().map(|txn| (txn, &self.committed[txn])).collect();
            format!("each of these comes before the next, and the last before the first: {circle:?}")
        })
    }

    fn edges(&self) -> Result<BTreeMap<TxnId, Vec<TxnId>>, crate::violation::Violation> {
        let (writers, mut edges) = (self.writers(), BTreeMap::<TxnId, Vec<TxnId>>::new());
        let mut edge = |from: TxnId, to: TxnId| {
            if from != to {
                edges.entry(from).or_default().push(to);
            }
        };
        for of_slot in writers.values() {
            of_slot.values().zip(of_slot.values().skip(1)).for_each(|(&one, &next)| edge(one, next));
        }
        for (&txn, of) in &self.committed {
            for (object, &seen) in &of.reads {
                let of_slot = writers.get(object);
                let version = match seen {
                    None => Version::ZERO,
                    Some(writer) => {
                        let known = self.committed.get(&writer).and_then(|of| of.writes.get(object));
                        ensure(known.is_some(), "durability", || {
                            format!("{txn:?} has read in {object:?} what {writer:?} wrote, and that is not committed")
                        })?;
                        edge(writer, txn);
                        known.copied().unwrap_or_default()
                    }
                };
                let mut later = of_slot.into_iter().flat_map(|of_slot| of_slot.range(version.next()..));
                if let Some((_, &next)) = later.find(|(_, next)| **next != txn) {
                    edge(txn, next);
                }
            }
            for (&earlier, of_earlier) in &self.committed {
                if of_earlier.acknowledged < of.begun {
                    edge(earlier, txn);
                }
            }
        }
        Ok(edges)
    }
}

/// A circle among the transactions that have no place. Each of them comes after another one.
fn circle(edges: &BTreeMap<TxnId, Vec<TxnId>>, is_stuck: impl Fn(TxnId) -> bool) -> Vec<TxnId> {
    let mut earlier: BTreeMap<TxnId, TxnId> = BTreeMap::new();
    for (&from, next) in edges.iter().filter(|(from, _)| is_stuck(**from)) {
        earlier.extend(next.iter().map(|&to| (to, from)));
    }
    let Some((_, &first)) = earlier.first_key_value() else { return Vec::new() };
    let mut path = vec![first];
    loop {
        let Some(&next) = path.last().and_then(|last| earlier.get(last)) else { return path };
        if let Some(at) = path.iter().position(|&txn| txn == next) {
            let mut circle = path.split_off(at);
            circle.reverse();
            return circle;
        }
        path.push(next);
    }
}
