//! Applications: transactions that read the masters' pages one by one, at different moments, and commit.

use super::node::value_of;
use super::scenario::Scenario;
use crate::rng::Rng;
use messages::{CommitRequest, PageReads};
use std::collections::{BTreeMap, BTreeSet};
use types::{ClientId, Delta, Incarnation, ObjectId, PageId, SlotChange, SlotSet, TxnId, Version};

/// A transaction that runs, or waits for its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) txn: TxnId,
    pub(crate) begun: u64,
    /// The objects that it is still to read.
    pub(crate) to_read: Vec<ObjectId>,
    /// The writers of what it has read, and its evidence.
    pub(crate) reads: BTreeMap<ObjectId, (Option<TxnId>, Version)>,
    pub(crate) writes: BTreeSet<ObjectId>,
    /// The life of its coordinator that it was sent to, once it was.
    pub(crate) sent_to: Option<Incarnation>,
}

/// One application, at its coordinator.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) coordinator: usize,
    pub(crate) client: ClientId,
    number: u64,
    /// Transactions that it is still to run.
    pub(crate) left: u32,
    /// When it began with what it has not got through yet.
    pub(crate) since: Option<u64>,
    pub(crate) running: Option<Running>,
}

impl Application {
    pub(crate) fn new(number: usize, scenario: &Scenario) -> Self {
        Self {
            coordinator: number % scenario.nodes,
            client: ClientId(number as u64 + 1),
            number: 0,
            left: scenario.transactions,
            since: None,
            running: None,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self, step: u64, scenario: &Scenario, rng: &mut Rng) {
        self.number += 1;
        self.since.get_or_insert(step);
        let mut objects = BTreeSet::new();
        if scenario.touches_all {
            let pages = (0..scenario.pages).map(|number| PageId::new(0, number));
            objects.extend(pages.flat_map(|page| (0..scenario.slots).map(move |slot| ObjectId::new(page, slot))));
        }
        let most = if scenario.touches_all { 0 } else { rng.between(1, scenario.objects_max) };
        for _ in 0..most {
            let page = PageId::new(0, rng.below(scenario.pages.into()) as u32);
            objects.insert(ObjectId::new(page, rng.below(scenario.slots.into()) as u16));
        }
        let reads_only = rng.chance(scenario.read_only_permille);
        let writes: BTreeSet<_> =
            objects.iter().copied().filter(|_| !reads_only && rng.chance(scenario.write_permille)).collect();
        let mut to_read: Vec<_> = objects.into_iter().collect();
        for at in (1..to_read.len()).rev() {
            to_read.swap(at, rng.index(at + 1));
        }
        let txn = TxnId { client: self.client, number: self.number };
        self.running = Some(Running { txn, begun: step, to_read, reads: BTreeMap::new(), writes, sent_to: None });
    }

    /// The request of the transaction that runs.
    pub(crate) fn request(&self) -> Option<CommitRequest> {
        let running = self.running.as_ref()?;
        let mut pages: BTreeMap<PageId, (Version, BTreeMap<u16, Version>)> = BTreeMap::new();
        for (object, (_, evidence)) in &running.reads {
            let (least, slots) = pages.entry(object.page).or_insert((*evidence, BTreeMap::new()));
            *least = (*least).min(*evidence);
            slots.insert(object.slot, *evidence);
        }
        // A later read has higher evidence.
        let reads = pages.into_iter().map(|(page, (evidence, slots))| PageReads {
            page,
            evidence,
            exceptions: slots.iter().filter(|(_, of)| **of > evidence).map(|(&slot, &of)| (slot, of)).collect(),
            slots: slots.into_keys().collect::<SlotSet>(),
        });
        let mut writes: BTreeMap<PageId, Vec<SlotChange>> = BTreeMap::new();
        for object in &running.writes {
            let change = SlotChange { slot: object.slot, value: Some(value_of(running.txn)) };
            writes.entry(object.page).or_default().push(change);
        }
        let mut deltas: Vec<_> = writes.into_iter().map(|(page, changes)| Delta { page, changes }).collect();
        deltas.sort_unstable_by_key(|delta| delta.page);
        Some(CommitRequest {
            txn: running.txn,
            incarnation: running.sent_to?,
            answered: running.txn.number,
            reads: reads.collect(),
            writes: deltas,
        })
    }
}
