//! A volume as the registry and home have it, beside what its owner has acknowledged: whether anything is lost is read off these.

use crate::fleet::Copy;
use std::time::Duration;
use volume::{Entry, Epoch, Extent, FlushEpoch, HostId, Registered, Stamp, View, VolumeId};

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
    /// Whether it was acknowledged before any holder had it.
    is_ahead: bool,
}

/// The number of a host in the registry.
pub(crate) fn host_id(host: usize) -> HostId {
    HostId(host as u64)
}

impl Replicated {
    pub(crate) fn new(volume: VolumeId, copies: u8, lease_s: f64, is_ahead: bool) -> Self {
        let entry = Registered::new(1 << 40, copies, Duration::from_secs_f64(lease_s));
        let (mark, acknowledged) = (Stamp::ZERO, Stamp::ZERO);
        Self { volume, view: View { revision: 1, entry }, mark, acknowledged, is_home: true, is_ahead }
    }

    /// The copies of a write that its acknowledgement tells of.
    pub(crate) fn copies(&self) -> usize {
        usize::from(self.view.entry.copies)
    }

    /// A host attaches it, when nobody has it and everything is home.
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

    /// The owner takes a write, unless one is dirty already, and acknowledges it when it has all of its copies.
    pub(crate) fn write(&mut self) {
        if self.is_home {
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

    /// The owner has written home all that was dirty.
    pub(crate) fn write_back(&mut self) {
        self.install(&[self.acknowledged], self.acknowledged);
    }

    /// Whether home lacks what was acknowledged.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.is_home
    }

    /// Whether holders have what home lacks.
    pub(crate) fn is_at_holders(&self) -> bool {
        self.is_dirty() && !self.is_ahead
    }

    /// Whether home claims to have what was acknowledged, and has not.
    pub(crate) fn is_lost(&self) -> bool {
        !self.is_home && self.mark >= self.acknowledged
    }
}
