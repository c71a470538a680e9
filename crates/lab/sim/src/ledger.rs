//! The committed history: what the store's disk has made durable, in the order of its log.
//!
//! The ledger is the truth that everything else is held against. It is told by the virtual disk, at the moment a
//! commit record becomes durable, and by nobody else: a role cannot talk its way around it.

use crate::value::{self, Stamp};
use crate::violation::{Check, Violation, ensure};
use std::collections::BTreeMap;
use store::CommitRecord;
use types::{Horizon, Map, ObjectId, PageId, Shard, Sharding, SlotNo, SlotSet, TxnId, Vector, Version};

/// A commit's rank in the history: the number of commits in the log through it. The counts of one shard are in this
/// order; those of two shards cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub(crate) usize);

/// The state of a slot from some commit on: the write it holds, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) rank: Rank,
    pub(crate) version: Version,
    pub(crate) stamp: Option<Stamp>,
}

/// One page's way from version to version.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageHistory {
    versions: Vec<(Version, SlotSet)>,
    slots: BTreeMap<SlotNo, Vec<Change>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    sharding: Sharding,
    /// The last count of each shard.
    counts: Vector,
    /// The commits in the order of their ranks, and their counts.
    commits: Vec<(TxnId, Vector)>,
    ranks: Map<TxnId, Rank>,
    by_count: Map<(Shard, Version), TxnId>,
    pages: BTreeMap<PageId, PageHistory>,
}

impl Ledger {
    /// The ledger of a store with nothing in it.
    pub(crate) fn new(sharding: Sharding) -> Self {
        let (counts, commits, ranks, by_count, pages) = Default::default();
        Self { sharding, counts, commits, ranks, by_count, pages }
    }

    /// A commit has become durable: its counts are the next ones of the shards that it writes to, and of no others.
    pub(crate) fn commit(&mut self, record: &CommitRecord) -> Check {
        let mut next = Vector::new();
        for shard in record.deltas.iter().map(|delta| self.sharding.of(delta.page)) {
            next.raise(shard, self.counts.of(shard).next());
        }
        ensure(record.counts == next, "counts", || {
            format!("{:?} is logged with counts {:?}, and follows {:?}", record.txn, record.counts, self.counts)
        })?;
        self.commits.push((record.txn, next.clone()));
        let (rank, before) = (self.rank(), self.ranks.len());
        self.ranks.insert(record.txn, rank);
        ensure(self.ranks.len() > before, "durability", || format!("{:?} was committed twice", record.txn))?;
        self.by_count.extend(next.counts().iter().map(|&count| (count, record.txn)));
        self.counts.join(&next);
        for delta in &record.deltas {
            let version = next.of(self.sharding.of(delta.page));
            let page = self.pages.entry(delta.page).or_default();
            page.versions.push((version, delta.slots()));
            for change in &delta.changes {
                let object = ObjectId::new(delta.page, change.slot);
                let stamp = change.value.as_ref().map(|value| stamp_of(object, value)).transpose()?;
                page.slots.entry(change.slot).or_default().push(Change { rank, version, stamp });
            }
        }
        Ok(())
    }

    /// The ledger as it was at this rank.
    pub(crate) fn through(&self, through: Rank) -> Self {
        let mut ledger = Self::new(self.sharding);
        for (txn, counts) in &self.commits[..through.0] {
            ledger.commits.push((*txn, counts.clone()));
            ledger.ranks.insert(*txn, ledger.rank());
            ledger.by_count.extend(counts.counts().iter().map(|&count| (count, *txn)));
            ledger.counts.join(counts);
        }
        for (&page, history) in &self.pages {
            let history = history.through(through, ledger.horizon().of(page));
            if !history.versions.is_empty() {
                ledger.pages.insert(page, history);
            }
        }
        ledger
    }

    /// The rank of the last commit.
    pub(crate) fn rank(&self) -> Rank {
        Rank(self.commits.len())
    }

    /// The last count of each shard.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        Horizon { counts: &self.counts, sharding: self.sharding }
    }

    /// The rank of a transaction, if it is committed.
    pub(crate) fn rank_of(&self, txn: TxnId) -> Option<Rank> {
        self.ranks.get(&txn).copied()
    }

    /// The counts of a transaction, if it is committed.
    pub(crate) fn counts_of(&self, txn: TxnId) -> Option<Horizon<'_>> {
        let Rank(rank) = self.rank_of(txn)?;
        Some(Horizon { counts: &self.commits[rank - 1].1, sharding: self.sharding })
    }

    /// The transaction that brought the page to this version.
    pub(crate) fn txn_at(&self, page: PageId, version: Version) -> Option<TxnId> {
        self.by_count.get(&(self.sharding.of(page), version)).copied()
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
    /// The page as it was at this rank, given its version there.
    fn through(&self, rank: Rank, version: Version) -> Self {
        let versions = self.versions.iter().filter(|(at, _)| *at <= version).cloned();
        let until = |changes: &[Change]| changes.iter().filter(|change| change.rank <= rank).copied().collect();
        let slots = self.slots.iter().map(|(&slot, changes)| (slot, until(changes)));
        Self {
            versions: versions.collect(),
            slots: slots.filter(|(_, changes): &(_, Vec<_>)| !changes.is_empty()).collect(),
        }
    }

    /// The page's version when its shard's count was `through`.
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

/// The state of a slot when its shard's count was `through`.
pub(crate) fn at(changes: &[Change], through: Version) -> Option<Stamp> {
    let later = changes.partition_point(|change| change.version <= through);
    later.checked_sub(1).and_then(|last| changes[last].stamp)
}

/// The state of a slot at a rank.
pub(crate) fn at_rank(changes: &[Change], rank: Rank) -> Option<Stamp> {
    let later = changes.partition_point(|change| change.rank <= rank);
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
