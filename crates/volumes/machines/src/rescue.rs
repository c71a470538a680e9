//! The order in which a volume's holders look after it when its host is silent.
//!
//! The first holder in the registry begins, and the next one when that one would have claimed the volume by then.

use crate::messages::holder::PartitionId;
use crate::registry::{Registered, wait_for_lease};
use core::time::Duration;
use types::Broken;

/// A host that is silent for longer is considered gone, unless a holder is told otherwise.
pub const RESCUE_AFTER: Duration = Duration::from_secs(30);

/// The holders of a volume begin so far apart, and by how long each of them waits for the lease.
const APART: Duration = Duration::from_secs(5);

impl Registered {
    /// The silence of its host for which a holder waits before it takes the volume over, where the first holder waits
    /// for `after`. `None` if the volume has no host, or counts no copies at this holder: with one copy that is in its
    /// host's log, and no list is enough.
    pub fn rescue_after(&self, partition: PartitionId, after: Duration) -> Option<Duration> {
        self.owner.filter(|_| self.copies > 1)?;
        let turn = self.holders.iter().position(|it| *it == partition)? as u32;
        Some(after + (APART + wait_for_lease(self.lease, Broken::NONE)) * turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::HostId;
    use alloc::vec;

    #[test]
    fn a_holder_has_its_turn_where_copies_count() {
        let mut entry = Registered::new(1 << 20, 2, Duration::from_secs(10));
        entry.holders = vec![PartitionId(1), PartitionId(2)];
        let after = |entry: &Registered, partition| {
            entry.rescue_after(PartitionId(partition), RESCUE_AFTER).map(|it| it.as_millis())
        };
        assert_eq!(after(&entry, 1), None, "nobody has it");
        entry.owner = Some(HostId(9));
        assert_eq!([1, 2, 3].map(|it| after(&entry, it)), [Some(30_000), Some(45_200), None]);
        entry.copies = 1;
        assert_eq!(after(&entry, 1), None, "its only copy is its host's");
    }
}
