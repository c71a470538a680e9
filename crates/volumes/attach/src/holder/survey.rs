//! The volumes that a holder knows, as an operator asks it. No epoch begins by that.

use crate::links::{Asking, News};
use machines::messages::holder::{FromHolder, HeldVolume, ListVolumes, PartitionId, VolumeId, Volumes};
use net::Runtime;
use std::time::{Duration, Instant};
use types::limits::VOLUMES_PER_HOLDER_MAX;

/// Asks the holder at this address, for this long at the most. Returns its partition and the volumes that it knows;
/// nothing if it does not answer.
pub fn held_volumes(address: &str, runtime: &Runtime, within: Duration) -> Option<(PartitionId, Vec<HeldVolume>)> {
    let (mut asking, until) = (Asking::open(address.to_owned(), runtime), Instant::now() + within);
    let mut held = Vec::new();
    loop {
        let from = match asking.hear(until)? {
            News::Up => {
                held.clear();
                VolumeId(0)
            }
            News::Heard(FromHolder::Volumes(Volumes { partition, volumes, is_last })) => {
                let next = volumes.last().and_then(|last| last.volume.0.checked_add(1));
                held.extend(volumes);
                match next.filter(|_| !is_last && held.len() < VOLUMES_PER_HOLDER_MAX) {
                    Some(next) => VolumeId(next),
                    None => return Some((partition, held)),
                }
            }
            News::Down | News::Heard(_) => continue,
        };
        asking.say([ListVolumes { from }.into()]);
    }
}
