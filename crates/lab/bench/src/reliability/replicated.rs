//! A volume as the registry and home have it, beside what its owner has acknowledged: whether anything is lost is read
//! off these.

use crate::reliability::answer::Promise;
use crate::reliability::fleet::Copy;
use machines::{Entry, Epoch, Extent, FlushEpoch, HostId, PartitionId, Registered, Stamp, View, VolumeId};
use std::time::Duration;

/// A volume. Its dirty data stands for one write: all of it is lost together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Replicated {
    pub(crate) volume: VolumeId,
    /// The registry's word on it.
    pub(crate) view: View,
    /// Home says that everything up to here is there.
    mark: Stamp,
    /// The last write that was acknowledged.
    acknowledged: Stamp,
    /// Whether home has it.
    is_home: bool,
    /// The holders that have everything that is dirty, the fastest first, and how many of them had the write when it
    /// was acknowledged.
    whole: Vec<PartitionId>,
    at_answer: usize,
}

/// The number of a host in the registry.
pub(crate) fn host_id(host: usize) -> HostId {
    HostId(host as u64)
}

impl Replicated {
    pub(crate) fn new(volume: VolumeId, promise: Promise, lease_s: f64) -> Self {
        let Promise { copies, holders: at_answer } = promise;
        let entry = Registered::new(1 << 40, copies, Duration::from_secs_f64(lease_s));
        let (mark, acknowledged) = (Stamp::ZERO, Stamp::ZERO);
        let (view, whole) = (View { revision: 1, entry }, Vec::new());
        Self { volume, view, mark, acknowledged, is_home: true, whole, at_answer }
    }

    /// The copies of a write that its acknowledgement reports.
    pub(crate) fn copies(&self) -> usize {
        usize::from(self.view.entry.copies)
    }

    /// A host attaches it, when nobody has it and everything is written back.
    pub(crate) fn attach(&mut self, host: usize) {
        self.view.revision += 1;
        let entry = &mut self.view.entry;
        (entry.epoch, entry.owner) = (entry.epoch.next(), Some(host_id(host)));
        (self.mark, self.acknowledged) = (Stamp::begin(entry.epoch), Stamp::begin(entry.epoch));
    }

    /// The owner's copies are at these holders.
    pub(crate) fn hold(&mut self, holders: &[Copy]) {
        self.view.revision += 1;
        self.view.entry.holders = holders.iter().map(|it| it.partition).collect();
    }

    /// The owner takes a write with these holders, unless one is dirty already, and acknowledges it.
    pub(crate) fn write(&mut self, holders: &[Copy]) {
        if self.is_home {
            self.fill(holders);
            let Stamp { epoch, sequence, .. } = self.acknowledged;
            let sequence = sequence.next();
            self.acknowledged = Stamp { epoch, sequence, flush: FlushEpoch(sequence.0) };
            self.is_home = false;
        }
    }

    /// The write that was acknowledged last, as a log or a list has it.
    pub(crate) fn acknowledged(&self) -> Entry {
        Entry { stamp: self.acknowledged, extent: Extent { offset: 0, len: 1 } }
    }

    /// The epoch in which that was.
    pub(crate) fn epoch(&self) -> Epoch {
        self.acknowledged.epoch
    }

    pub(crate) fn mark(&self) -> Stamp {
        self.mark
    }

    /// A write-back has come home: these writes, and the word that they are all up to here.
    pub(crate) fn install(&mut self, written: &[Stamp], through: Stamp) {
        self.is_home |= written.contains(&self.acknowledged);
        self.mark = self.mark.max(through);
    }

    /// The owner has written home everything that was dirty.
    pub(crate) fn write_back(&mut self) {
        self.install(&[self.acknowledged], self.acknowledged);
    }

    /// Whether home lacks what was acknowledged.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.is_home
    }

    /// The owner's writes go to these holders alone from now on: no others have everything that is dirty any more.
    pub(crate) fn write_on(&mut self, holders: &[Copy]) {
        self.whole.retain(|whole| holders.iter().any(|it| it.partition == *whole));
    }

    /// These holders have everything that is dirty.
    pub(crate) fn fill(&mut self, holders: &[Copy]) {
        self.whole = holders.iter().map(|it| it.partition).collect();
    }

    /// How many of these holders have everything that is dirty.
    pub(crate) fn whole(&self, holders: &[Copy]) -> usize {
        holders.iter().filter(|it| !self.is_dirty() || self.whole.contains(&it.partition)).count()
    }

    /// Whether this holder has what home lacks.
    pub(crate) fn is_at(&self, holder: PartitionId) -> bool {
        self.is_dirty() && self.whole.iter().take(self.at_answer).any(|it| *it == holder)
    }

    /// Whether home claims to have what was acknowledged, and has not.
    pub(crate) fn is_lost(&self) -> bool {
        !self.is_home && self.mark >= self.acknowledged
    }
}
