//! The committed history: what the store's disk has made durable, in the order of its counts.
//!
//! The ledger is the truth that everything else is held against. It is told by the virtual disk, at the moment a
//! commit record becomes durable, and by nobody else: a role cannot talk its way around it.

use crate::value::{self, Stamp};
use crate::violation::{Check, Violation, ensure};
use std::collections::BTreeMap;
use store::CommitRecord;
use types::{Map, ObjectId, PageId, SlotNo, SlotSet, TxnId, Version};

/// The state of a slot at some count: the write it holds, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) version: Version,
    pub(crate) stamp: Option<Stamp>,
}

/// One page's way from version to version.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageHistory {
    versions: Vec<(Version, SlotSet)>,
    slots: BTreeMap<SlotNo, Vec<Change>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    count: Version,
    commits: Map<TxnId, Version>,
    txns: Vec<TxnId>,
    pages: BTreeMap<PageId, PageHistory>,
}

impl Ledger {
    /// A commit has become durable: its count is the next one.
    pub(crate) fn commit(&mut self, record: &CommitRecord) -> Check {
        self.count = self.count.next();
        ensure(record.count == self.count, "counts", || {
            format!("{:?} is logged with count {:?}, and follows {} others", record.txn, record.count, self.txns.len())
        })?;
        let twice = self.commits.insert(record.txn, self.count);
        ensure(twice.is_none(), "durability", || format!("{:?} was committed twice", record.txn))?;
        self.txns.push(record.txn);
        for delta in &record.deltas {
            let page = self.pages.entry(delta.page).or_default();
            page.versions.push((self.count, delta.slots()));
            for change in &delta.changes {
                let object = ObjectId::new(delta.page, change.slot);
                let stamp = change.value.as_ref().map(|value| stamp_of(object, value)).transpose()?;
                page.slots.entry(change.slot).or_default().push(Change { version: self.count, stamp });
            }
        }
        Ok(())
    }

    /// The ledger as it was when its count was `through`.
    pub(crate) fn through(&self, through: Version) -> Self {
        let is_in = |version: &Version| *version <= through;
        let commits = self.commits.iter().filter(|(_, version)| is_in(version)).map(|(&txn, &version)| (txn, version));
        let pages = self.pages.iter().map(|(&page, history)| (page, history.through(through)));
        Self {
            count: through,
            commits: commits.collect(),
            txns: self.txns[..through.0 as usize].to_vec(),
            pages: pages.filter(|(_, history)| !history.versions.is_empty()).collect(),
        }
    }

    /// How many transactions have written.
    pub(crate) fn count(&self) -> Version {
        self.count
    }

    /// The count of a transaction, if it is committed.
    pub(crate) fn version_of(&self, txn: TxnId) -> Option<Version> {
        self.commits.get(&txn).copied()
    }

    /// The transaction with this count.
    pub(crate) fn txn_at(&self, version: Version) -> Option<TxnId> {
        self.txns.get((version.0 as usize).checked_sub(1)?).copied()
    }

    /// Everything that was ever written to a page.
    pub(crate) fn page(&self, page: PageId) -> Option<&PageHistory> {
        self.pages.get(&page)
    }

    /// The pages that were ever written to.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageId, &PageHistory)> {
        self.pages.iter().map(|(&page, history)| (page, history))
    }

    /// The states of the object, and when each began.
    pub(crate) fn changes(&self, object: ObjectId) -> &[Change] {
        self.pages.get(&object.page).map_or(&[], |page| page.changes(object.slot))
    }

    /// The object's state after the last commit.
    pub(crate) fn newest(&self, object: ObjectId) -> Option<Stamp> {
        self.changes(object).last().and_then(|change| change.stamp)
    }

    /// Whether the object ever was `stamp`.
    pub(crate) fn ever_was(&self, object: ObjectId, stamp: Option<Stamp>) -> bool {
        stamp.is_none() || self.changes(object).iter().any(|change| change.stamp == stamp)
    }
}

impl PageHistory {
    fn through(&self, through: Version) -> Self {
        let versions = self.versions.iter().filter(|(version, _)| *version <= through).cloned();
        let until = |changes: &[Change]| changes.iter().filter(|change| change.version <= through).copied().collect();
        let slots = self.slots.iter().map(|(&slot, changes)| (slot, until(changes)));
        Self {
            versions: versions.collect(),
            slots: slots.filter(|(_, changes): &(_, Vec<_>)| !changes.is_empty()).collect(),
        }
    }

    /// The page's version when the master's count was `through`.
    pub(crate) fn version_at(&self, through: Version) -> Version {
        let later = self.versions.partition_point(|(version, _)| *version <= through);
        later.checked_sub(1).map_or(Version::ZERO, |last| self.versions[last].0)
    }

    /// The slots that changed at exactly this count.
    pub(crate) fn slots_at(&self, version: Version) -> Option<&SlotSet> {
        let at = self.versions.binary_search_by_key(&version, |(version, _)| *version).ok()?;
        Some(&self.versions[at].1)
    }

    /// The slots that were ever written.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (SlotNo, &[Change])> {
        self.slots.iter().map(|(&slot, changes)| (slot, &changes[..]))
    }

    fn changes(&self, slot: SlotNo) -> &[Change] {
        self.slots.get(&slot).map_or(&[], |changes| changes)
    }
}

/// The state of a slot when the master's count was `through`.
pub(crate) fn at(changes: &[Change], through: Version) -> Option<Stamp> {
    let later = changes.partition_point(|change| change.version <= through);
    later.checked_sub(1).and_then(|last| changes[last].stamp)
}

/// Whether a slot that shows `seen` reflects every change through `through`.
pub(crate) fn reflects(changes: &[Change], seen: Option<Stamp>, through: Version) -> bool {
    let later = changes.partition_point(|change| change.version <= through);
    let unwritten = later == 0 && seen.is_none();
    unwritten || changes[later.saturating_sub(1)..].iter().any(|change| change.stamp == seen)
}

/// The write of a value, which there must be.
pub(crate) fn stamp_of(object: ObjectId, value: &[u8]) -> Result<Stamp, Violation> {
    let stamp = value::decode(object, value);
    stamp.ok_or_else(|| Violation {
        checker: "values",
        text: format!("{object:?} holds {} bytes that nobody wrote there", value.len()),
    })
}

/// Checks that a commit is the one that its application asked for.
pub(crate) fn same_writes(record: &CommitRecord, writes: &BTreeMap<ObjectId, Option<Stamp>>) -> Check {
    let mut logged = BTreeMap::new();
    for delta in &record.deltas {
        for change in &delta.changes {
            let object = ObjectId::new(delta.page, change.slot);
            let stamp = change.value.as_ref().map(|value| stamp_of(object, value)).transpose()?;
            logged.insert(object, stamp);
        }
    }
    ensure(logged == *writes, "durability", || {
        format!("{:?} wrote {writes:?}, and the log holds {logged:?}", record.txn)
    })
}
