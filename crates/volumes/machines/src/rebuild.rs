//! The registry's entry of a volume, made again of what home and holders know: the registry was lost, or was restored
//! from an older copy.
//!
//! 1. Its epoch is beyond every one that home, a holder or a cache has learned of, and its revision beyond all that
//!    were lost: an owner that lives is ended by it, and so is a takeover that is under way.
//! 2. Its owner is the last one that home has learned of: a takeover waits for the length of its lease. A host that has
//!    fenced home and was never known to be the owner counts as one that takes over: it has not everything that the
//!    owner before has.
//! 3. Its holders are those that home was notified of, unless all of that epoch is home, and those that have copies of
//!    what is not. There may have been others: the next takeover needs the lists of all of them.

use crate::messages::holder::{Epoch, HeldVolume, PartitionId, Stamp};
use crate::registry::{HostId, REVISIONS_LOST_MAX, Registered, View};
use alloc::vec::Vec;
use core::time::Duration;

/// The findings about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// Its size at home.
    pub size: u64,
    /// The newest epoch that home has learned of, and its owner's number.
    pub epoch: Epoch,
    /// See `epoch`.
    pub owner: u64,
    /// Everything up to here is home.
    pub mark: Stamp,
    /// The registry's entry, as home has kept it.
    pub kept: Option<View>,
    /// The entry as it is in the registry.
    pub standing: Option<View>,
    /// The holders' words.
    pub held: Vec<(PartitionId, HeldVolume)>,
    /// The newest epoch that a cache is of.
    pub cache_epoch: Epoch,
}

impl Findings {
    /// Whether what is in the registry is behind what others know.
    pub fn is_back(&self) -> bool {
        let Some(View { revision, entry }) = &self.standing else { return false };
        entry.epoch < self.newest_epoch() || *revision < self.newest_revision()
    }

    /// The entry, for a volume with this many copies and this lease where home was not told of that.
    pub fn rebuild(&self, copies: u8, lease: Duration) -> View {
        let kept = self.kept.as_ref().or(self.standing.as_ref()).map(|it| &it.entry);
        let (copies, lease) = kept.map_or((copies, lease), |it| (it.copies, it.lease));
        let epoch = self.newest_epoch().next();
        let owner = (self.epoch > Epoch(0)).then_some(HostId(self.owner));
        let was_owner = self.kept.as_ref().is_some_and(|it| it.entry.epoch >= self.epoch);
        let entry = Registered {
            epoch,
            owner,
            is_taking: owner.is_some() && !was_owner,
            heartbeat: 1,
            holders: self.holders(),
            is_rebuilt: true,
            written: Stamp::begin(epoch),
            ..Registered::new(self.size, copies, lease)
        };
        View { revision: self.newest_revision() + REVISIONS_LOST_MAX, entry }
    }

    fn newest_epoch(&self) -> Epoch {
        let views = [&self.kept, &self.standing].into_iter().flatten().map(|it| it.entry.epoch);
        let held = self.held.iter().map(|(_, it)| it.epoch);
        views.chain(held).fold(self.epoch.max(self.cache_epoch), Epoch::max)
    }

    fn newest_revision(&self) -> u64 {
        let views = [&self.kept, &self.standing].into_iter().flatten().map(|it| it.revision);
        views.chain(self.held.iter().map(|(_, it)| it.revision)).max().unwrap_or(0)
    }

    fn holders(&self) -> Vec<PartitionId> {
        // Of an epoch that was brought home as a whole by the next one no copy counts.
        let is_needed = |it: &&View| it.entry.epoch >= self.epoch || self.mark != Stamp::begin(self.epoch);
        let known = [&self.kept, &self.standing].into_iter().flatten().filter(is_needed);
        let has_some = |it: &&(PartitionId, HeldVolume)| it.1.last > self.mark;
        let held = self.held.iter().filter(has_some).map(|(partition, _)| *partition);
        let mut holders: Vec<_> = known.flat_map(|it| it.entry.holders.iter().copied()).chain(held).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::holder::{FlushEpoch, Sequence, VolumeId};
    use alloc::vec;

    const LEASE: Duration = Duration::from_secs(6);

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(1) }
    }

    fn view(epoch: u64, revision: u64, holders: &[u64]) -> View {
        let holders = holders.iter().copied().map(PartitionId).collect();
        let entry = Registered { epoch: Epoch(epoch), holders, ..Registered::new(4096, 3, LEASE) };
        View { revision, entry }
    }

    fn held(partition: u64, epoch: u64, revision: u64, last: Stamp) -> (PartitionId, HeldVolume) {
        let held = HeldVolume { volume: VolumeId(7), epoch: Epoch(epoch), revision, last, bytes: 1 };
        (PartitionId(partition), held)
    }

    fn findings() -> Findings {
        let (held, cache_epoch) = (vec![held(1, 4, 9, stamp(4, 5)), held(2, 4, 8, stamp(4, 2))], Epoch(0));
        let (kept, mark) = (Some(view(4, 7, &[1, 3])), stamp(4, 2));
        Findings { size: 8192, epoch: Epoch(4), owner: 77, mark, kept, standing: None, held, cache_epoch }
    }

    #[test]
    fn a_lost_entry_is_made_again_beyond_all_that_is_known() {
        let View { revision, entry } = findings().rebuild(2, Duration::from_secs(1));
        assert_eq!((entry.epoch, entry.owner, entry.is_rebuilt), (Epoch(5), Some(HostId(77)), true));
        assert_eq!((entry.size, entry.copies, entry.lease), (8192, 3, LEASE));
        assert_eq!(entry.holders, [1, 3].map(PartitionId), "all of the other one's copies are home");
        assert_eq!(revision, 9 + REVISIONS_LOST_MAX);
        let of_cache = Findings { cache_epoch: Epoch(9), ..findings() }.rebuild(2, LEASE);
        assert_eq!(of_cache.entry.epoch, Epoch(10));
        let untold = Findings { kept: None, ..findings() }.rebuild(2, Duration::from_secs(1)).entry;
        assert_eq!((untold.copies, untold.lease), (2, Duration::from_secs(1)));
        assert_eq!(untold.holders, [PartitionId(1)]);
    }

    #[test]
    fn holders_of_an_epoch_that_is_home_are_not_needed() {
        let brought = Findings { epoch: Epoch(5), mark: Stamp::begin(Epoch(5)), ..findings() };
        assert_eq!(brought.rebuild(2, LEASE).entry.holders, []);
        // The host that has fenced home has not brought it home.
        let begun = Findings { epoch: Epoch(5), ..findings() }.rebuild(2, LEASE).entry;
        assert_eq!((begun.holders, begun.is_taking), ([1, 3].map(PartitionId).to_vec(), true));
        assert!(!findings().rebuild(2, LEASE).entry.is_taking, "home was told of it as the owner");
        let unused = Findings { epoch: Epoch(0), mark: Stamp::ZERO, kept: None, held: vec![], ..findings() };
        let unused = unused.rebuild(2, LEASE).entry;
        assert_eq!((unused.epoch, unused.owner, unused.holders), (Epoch(1), None, vec![]));
    }

    #[test]
    fn a_registry_that_has_gone_back_is_told_by_its_epoch_and_its_revision() {
        let standing = |view| Findings { standing: Some(view), ..findings() };
        assert!(!findings().is_back(), "there is none");
        assert!(!standing(view(4, 9, &[1])).is_back());
        assert!(standing(view(3, 9, &[1])).is_back() && standing(view(4, 8, &[1])).is_back());
        assert!(standing(view(4, 20, &[4])).rebuild(2, LEASE).revision > 20);
    }
}
