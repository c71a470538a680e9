//! A holder's place in the registry: its pulse, with the room that it has, and the registry's word on the volumes of which it
//! has copies.

use super::HostedHolder;
use crate::registry::{PULSE, Registrant, Registry, RegistryError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use volume::Member;

/// How often to look at the registry, unless it says that something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The names under which a holder is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderNames {
    /// Its own, for people.
    pub name: String,
    /// The number of its failure domain: what dies with it. See [`crate::registry::domain`].
    pub domain: u64,
    /// Where owners reach it.
    pub address: String,
}

/// A place in the registry, which is given up when this is dropped.
pub(super) struct Membership {
    holder: Arc<HostedHolder>,
    registry: Arc<dyn Registry>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Membership {
    pub(super) fn begin(
        holder: Arc<HostedHolder>,
        registry: Arc<dyn Registry>,
        names: HolderNames,
    ) -> Result<Self, RegistryError> {
        registry.enter(&registrant(&holder, &names))?;
        holder.asked_registry(true);
        let ends = Arc::new(AtomicBool::new(false));
        let (of, asked, end) = (holder.clone(), registry.clone(), ends.clone());
        let thread = thread::Builder::new().name("holder-pulse".to_owned());
        let thread = thread.spawn(move || keep(&of, &*asked, &names, &end));
        let thread =
            thread.map_err(|error| RegistryError::Unreachable(format!("no thread can be started: {error}")))?;
        Ok(Self { holder, registry, ends, thread: Some(thread) })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // One that panicked has let the pulse end, too.
            let _ = thread.join();
        }
        // One that cannot be asked finds out by the silence.
        let _ = self.registry.leave(self.holder.partition);
    }
}

fn registrant(holder: &HostedHolder, names: &HolderNames) -> Registrant {
    let status = holder.status();
    let (free, copies) = (status.free, status.volumes as u64);
    let member = Member { partition: holder.partition, domain: names.domain, free, copies };
    let HolderNames { name, address, .. } = names.clone();
    Registrant { member, address, name, is_disk_full: status.is_disk_full }
}

fn keep(holder: &HostedHolder, registry: &dyn Registry, names: &HolderNames, ends: &AtomicBool) {
    let mut entered = Instant::now();
    let mut idle = None;
    while !ends.load(SeqCst) {
        if entered.elapsed() >= PULSE {
            // A registry that cannot be asked is asked again.
            holder.asked_registry(registry.enter(&registrant(holder, names)).is_ok());
            entered = Instant::now();
        }
        for volume in holder.volumes() {
            if let Ok(view) = registry.view(volume) {
                holder.registered(volume, &view);
            }
        }
        // One at a time of those of which it has none: most are there, and will have copies again.
        idle = holder.idle_after(idle);
        if let Some(volume) = idle
            && let Err(RegistryError::NoSuchVolume(_)) = registry.view(volume)
        {
            holder.unregistered(volume);
        }
        registry.wait(LOOK_EVERY);
    }
}
