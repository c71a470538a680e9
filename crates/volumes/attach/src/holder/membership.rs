//! A holder's place in the registry: its heartbeat, with the room that it has, and the registry's word on the volumes
//! of which it has copies.

use super::HostedHolder;
use crate::extents::BLOCK;
use machines::{Epoch, Member, VolumeId};
use registry::{self, HEARTBEAT, Registrant, Registry, RegistryError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often to look at the registry, unless it says that something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often the registry is asked for an epoch, so far apart. A peer that is told no comes again.
const ASKED_MAX: u32 = 4;
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The names under which a holder is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderNames {
    /// Its own, for people.
    pub name: String,
    /// Its failure domain: what dies with it.
    pub domain: String,
    /// Where owners reach it.
    pub address: String,
}

/// A place in the registry, which is given up when this is dropped.
pub(super) struct Membership {
    holder: Arc<HostedHolder>,
    registry: Arc<dyn Registry>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Membership {
    pub(super) fn begin(
        holder: Arc<HostedHolder>,
        registry: Arc<dyn Registry>,
        names: HolderNames,
    ) -> Result<Self, RegistryError> {
        holder.look_at_disk();
        registry.enter(&registrant(&holder, &names))?;
        holder.asked_registry(true);
        let ends = Arc::new(AtomicBool::new(false));
        let (of, asked, end) = (holder.clone(), registry.clone(), ends.clone());
        let mut membership = Self { holder, registry, ends, threads: Vec::new() };
        membership.spawn("holder-heartbeat", move || keep(&of, &*asked, &names, &end))?;
        if let Some(to_ask) = membership.holder.take_to_ask() {
            let (of, asked, end) = (membership.holder.clone(), membership.registry.clone(), membership.ends.clone());
            membership.spawn("holder-ask", move || ask(&of, &*asked, &to_ask, &end))?;
        }
        Ok(membership)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), RegistryError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let why = |error| RegistryError::Unreachable(format!("no thread can be started: {error}"));
        self.threads.push(thread.map_err(why)?);
        Ok(())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            // One that panicked has let the heartbeat end, too.
            let _ = thread.join();
        }
        // One that cannot be asked finds out by the silence. Of one that was replaced, another process is in the
        // registry.
        if !self.holder.disk.has_ended() {
            let _ = self.registry.leave(self.holder.partition);
        }
    }
}

fn registrant(holder: &HostedHolder, names: &HolderNames) -> Registrant {
    let status = holder.status();
    let (free, copies) = (status.free, status.used / BLOCK as u64);
    let is_nearly_full = status.is_nearly_full;
    let HolderNames { name, domain, address } = names.clone();
    let number = registry::domain(&domain);
    let member = Member { partition: holder.partition, domain: number, free, copies, is_nearly_full };
    Registrant { member, life: holder.life, address, name, domain, is_disk_full: status.is_disk_full }
}

/// Asks for epochs that peers say: a change of the registry may be on its way here.
fn ask(holder: &HostedHolder, registry: &dyn Registry, to_ask: &Receiver<(VolumeId, Epoch)>, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        let (volume, epoch) = match to_ask.recv_timeout(LOOK_EVERY) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let registered = || registry.view(volume).ok().map(|view| view.entry.epoch);
        let mut found = registered();
        for _ in 1..ASKED_MAX {
            if found.is_none_or(|it| it >= epoch) {
                break;
            }
            thread::sleep(ASK_AGAIN);
            found = registered();
        }
        holder.asked(volume, found);
    }
}

fn keep(holder: &HostedHolder, registry: &dyn Registry, names: &HolderNames, ends: &AtomicBool) {
    let mut entered = Instant::now();
    let (mut idle, mut was_nearly_full) = (None, false);
    while !ends.load(SeqCst) {
        // Owners are to learn of that before there is no room.
        let is_nearly_full = holder.look_at_disk();
        if entered.elapsed() >= HEARTBEAT || is_nearly_full != was_nearly_full {
            was_nearly_full = is_nearly_full;
            // A registry that cannot be asked is asked again.
            let heartbeat = registry.enter(&registrant(holder, names));
            if let Err(error @ RegistryError::Replaced(_)) = &heartbeat {
                return holder.disk.end(&error.to_string());
            }
            holder.asked_registry(heartbeat.is_ok());
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
