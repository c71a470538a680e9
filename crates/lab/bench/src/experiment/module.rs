//! The experiments' module, and what its transactions read of it: the model's parameters, counted before anything runs.
//!
//! A transaction walks down the assemblies to one composite part and traverses that; each way is as likely as another.
//! So each page has a chance to be read by a transaction, and `n` transactions read a page of chance `c` with
//! probability 1 - (1 - c)^n. Of a thousand transactions of one client that is about four fifths of the module.

use super::worker::PATIENCE;
use crate::Result;
use objects::{AsyncTx, PageId, Ref};
use sim::{Layout, Simulation, Stored};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::rc::Rc;
use workloads::oo7::{Assembly, CompositePart, Module, Size, build};

/// An OO7 module in a store that was closed.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) stored: Stored,
    pub(crate) module: Ref<Module>,
    pub(crate) shape: Shape,
}

impl Built {
    /// Builds the module in virtual time.
    pub(crate) fn new(size: Size) -> Result<Self> {
        let mut simulation = Simulation::laid_out(1, &Layout { clients: 1, ..Layout::default() });
        let (node, driver) = simulation.door(1);
        let db = objects::over(node, driver, PATIENCE);
        let built = Rc::new(RefCell::new(None));
        let found = built.clone();
        simulation.spawn(1, async move {
            let done = async {
                let module = build(&db, 1, size, 7, |_| {}).await?;
                let shape = db.transact_async(async |mut tx| Shape::count(&mut tx, module).await);
                Ok::<_, objects::Error>((module, shape.await?))
            };
            *found.borrow_mut() = Some(done.await);
        });
        let stored = simulation.run_and_close().map_err(|violation| violation.to_string())?;
        let (module, shape) = built.take().ok_or("the module was not built")??;
        Ok(Self { stored, module, shape })
    }
}

/// The pages of a module that transactions read.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Of each page that any transaction reads, the chance that one does.
    pages: Vec<f64>,
    /// The same of each composite part.
    parts: Vec<f64>,
    /// Pages that a transaction reads, and pages that one changes which writes, in the mean.
    pub(crate) read_pages: f64,
    pub(crate) written_pages: f64,
}

/// The pages of a composite part: those that a traversal reads, and those of them that it changes if it writes.
struct PagesOfPart {
    read: BTreeSet<PageId>,
    written: usize,
}

impl PagesOfPart {
    async fn count(tx: &mut AsyncTx, part: Ref<CompositePart>) -> objects::Result<Self> {
        let (mut read, mut written) = (BTreeSet::from([part.id().page]), BTreeSet::new());
        for atomic in tx.get(part).await?.parts {
            written.insert(atomic.id().page);
            read.extend(tx.get(atomic).await?.to.iter().map(|connection| connection.id().page));
        }
        read.extend(&written);
        Ok(Self { read, written: written.len() })
    }
}

impl Shape {
    /// Goes every way down the assemblies, and counts how many of them come by each page.
    async fn count(tx: &mut AsyncTx, module: Ref<Module>) -> objects::Result<Self> {
        let mut to_go = vec![(BTreeSet::from([module.id().page]), tx.get(module).await?.root)];
        let mut known: BTreeMap<Ref<CompositePart>, PagesOfPart> = BTreeMap::new();
        let (mut pages, mut parts) = (BTreeMap::<PageId, u64>::new(), BTreeMap::<Ref<CompositePart>, u64>::new());
        let (mut ways, mut written) = (0, 0);
        while let Some((mut above, assembly)) = to_go.pop() {
            above.insert(assembly.id().page);
            let base = match tx.get(assembly).await? {
                Assembly::Complex(complex) => {
                    to_go.extend(complex.below.into_iter().map(|below| (above.clone(), below)));
                    continue;
                }
                Assembly::Base(base) => base,
            };
            for part in base.parts {
                let own = match known.entry(part) {
                    Entry::Occupied(own) => own.into_mut(),
                    Entry::Vacant(new) => new.insert(PagesOfPart::count(tx, part).await?),
                };
                above.union(&own.read).for_each(|&page| *pages.entry(page).or_default() += 1);
                *parts.entry(part).or_default() += 1;
                written += own.written;
                ways += 1;
            }
        }
        let chance = |count: u64| count as f64 / f64::from(ways);
        let pages: Vec<f64> = pages.into_values().map(chance).collect();
        let parts = parts.into_values().map(chance).collect();
        Ok(Self { read_pages: pages.iter().sum(), pages, parts, written_pages: written as f64 / f64::from(ways) })
    }

    /// The fetches of a client that has nothing cached, for each of its first `transactions`, in the mean, in a group
    /// of `members` that all do the same.
    pub(crate) fn cold(&self, members: usize, transactions: u32) -> Fetched {
        let (own, all) = (f64::from(transactions), f64::from(transactions) * members as f64);
        Fetched {
            pages: seen(&self.pages, own) / own,
            from_store: seen(&self.pages, all) / all,
            fresh: seen(&self.parts, all) / all,
        }
    }
}

/// How many of those with these chances come up in this many transactions.
fn seen(chances: &[f64], transactions: f64) -> f64 {
    chances.iter().map(|chance| 1.0 - (1.0 - chance).powf(transactions)).sum()
}

/// The pages that a transaction with cold caches has to fetch, in the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// Pages: the paper's r.
    pub(crate) pages: f64,
    /// Of them those that nobody in the group has had before.
    pub(crate) from_store: f64,
    /// The share of transactions that fetch from the store.
    pub(crate) fresh: f64,
}

impl Fetched {
    /// Round trips to the store. A free commit is that of a transaction which has just heard from the store.
    pub(crate) fn round_trips(self, are_commits_free: bool) -> f64 {
        self.from_store + 1.0 - if are_commits_free { self.fresh } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_seen_as_often_as_their_chances_say() {
        // Two parts of one page each, below one assembly's page; one part is drawn three times as often.
        let shape =
            Shape { pages: vec![1.0, 0.75, 0.25], parts: vec![0.75, 0.25], read_pages: 2.0, written_pages: 1.0 };
        let one = shape.cold(1, 1);
        assert!((one.pages - 2.0).abs() < 1e-9 && (one.round_trips(false) - 3.0).abs() < 1e-9);
        assert!((one.round_trips(true) - 2.0).abs() < 1e-9, "the one transaction fetches, so its commit is free");
        let two = shape.cold(2, 1);
        // Of two transactions: the first page once, the others 15/16 and 7/16 times.
        assert!((two.from_store - (1.0 + 15.0 / 16.0 + 7.0 / 16.0) / 2.0).abs() < 1e-9);
        assert!((two.pages - one.pages).abs() < 1e-9);
    }
}
