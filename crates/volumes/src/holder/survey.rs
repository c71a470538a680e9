//! The volumes that a holder knows, as an operator asks it. No epoch begins by that.

use crate::links::{Link, Listener, News};
use net::Runtime;
use protocol::volumes::{FromHolder, HeldVolume, ListVolumes, PartitionId, VolumeId, Volumes};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use types::limits::VOLUMES_PER_HOLDER_MAX;

/// Tells that there is news.
struct Tells(Mutex<Sender<()>>);

impl Listener for Tells {
    fn news(&self, _: PartitionId) {
        // Nobody hears it: it was given up.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(());
    }
}

/// Asks the holder at this address, for so long at the most. Gives its partition and the volumes that it knows; nothing if it
/// does not answer.
pub fn held_volumes(address: &str, runtime: &Runtime, within: Duration) -> Option<(PartitionId, Vec<HeldVolume>)> {
    let (sender, news) = channel();
    let listener: Arc<dyn Listener> = Arc::new(Tells(Mutex::new(sender)));
    let weak: Weak<dyn Listener> = Arc::downgrade(&listener);
    // The holder that is there says which partition it is.
    let link = Link::open(PartitionId(0), address.to_owned(), runtime, weak);
    let held = ask(&link, &news, Instant::now() + within);
    link.close();
    held
}

fn ask(link: &Link, news: &Receiver<()>, until: Instant) -> Option<(PartitionId, Vec<HeldVolume>)> {
    let mut held = Vec::new();
    loop {
        for word in link.line().take() {
            let from = match word {
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
            link.line().push(ListVolumes { from }.into());
        }
        link.settle();
        news.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
    }
}
