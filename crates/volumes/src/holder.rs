//! A holder: it gives room on its disk to the owners of volumes, which keep copies of their dirty writes there.
//!
//! | to change | see |
//! |---|---|
//! | what it promises, counts, refuses | `volume::Holder`, the machine |
//! | how that is hosted: positions in the log, and what of it is moved | `machine.rs`, `places.rs` |
//! | the log's bytes | `record.rs` |
//! | the log's threads | `disk.rs` |
//! | what a folder is | `folder.rs` |

mod disk;
mod folder;
mod machine;
mod places;
mod record;
#[cfg(test)]
mod tests;

use crate::holder::disk::HolderDisk;
use folder::Folder;
use machine::HolderMachine;
use net::{Host, HostEnd, ListenConfig, ListenError, Machines, Runtime, Shared};
use node::{Driver, RoleId};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use vfs::FileError;
use volume::{PartitionId, View, VolumeId};

pub use folder::{FolderError, HOLDER_ROOM_MAX, HOLDER_ROOM_MIN};

/// How long the machine of an owner may be unheard of. The room that it has reserved is free then.
const SILENCE: Duration = Duration::from_secs(15);

/// How a holder is started.
#[derive(Clone, Debug)]
pub struct HolderSettings {
    /// Its folder, which is made if it is not there.
    pub dir: PathBuf,
    /// The bytes that its files may take. Half of that is promised to owners: the rest is for what is not freed yet.
    pub room: u64,
    /// Where owners, and hosts that take over, come.
    pub listen: SocketAddr,
    /// Whether others than this machine may reach that address.
    pub insecure: bool,
}

/// Why a holder is not started.
#[derive(Debug)]
pub enum HolderError {
    /// Its folder cannot be used.
    Folder(FolderError),
    /// Its address cannot be had.
    Listen(ListenError),
}

impl fmt::Display for HolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HolderError {}

impl From<FolderError> for HolderError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<FileError> for HolderError {
    fn from(error: FileError) -> Self {
        Self::Folder(error.into())
    }
}

/// How a holder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderStatus {
    /// The bytes that copies take.
    pub used: u64,
    /// The bytes that are left for owners.
    pub free: u64,
    /// The volumes of which it has copies.
    pub volumes: usize,
}

/// A holder in this process. When it is dropped it stops at once; what it has counted is on its disk.
pub struct HolderServer {
    host: Arc<Host>,
    role: RoleId,
    machine: Shared<HolderMachine>,
    driver: Arc<dyn Driver>,
    disk: Arc<HolderDisk>,
    partition: PartitionId,
    address: SocketAddr,
}

impl HolderServer {
    /// Opens the folder, and takes owners.
    ///
    /// # Errors
    /// The folder or the address cannot be used.
    pub fn start(settings: &HolderSettings, runtime: &Runtime) -> Result<Self, HolderError> {
        let Folder { holder, places, log, partition, window, lock } = Folder::open(&settings.dir, settings.room)?;
        // Twice what two owners may send at once, each copy of which may take up to two blocks for one.
        let free_wanted = (4 * window).min(settings.room / 2);
        let disk = Arc::new(HolderDisk::start(log, free_wanted, settings.room, lock)?);
        let mut machines = Machines::new();
        let machine = HolderMachine::new(holder, places, disk.room());
        let (role, machine) = machines.add_with_disk(machine, disk.clone());
        let host = Host::start(machines, runtime);
        let config = ListenConfig {
            insecure: settings.insecure,
            codec: wire::volumes::HOLDER,
            silence: Some(SILENCE),
            ..ListenConfig::new(settings.listen)
        };
        let address = host.listen(role, config).map_err(HolderError::Listen)?;
        let driver = host.driver(role);
        Ok(Self { host, role, machine, driver, disk, partition, address })
    }

    /// Its partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Where owners come.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it stands.
    pub fn status(&self) -> HolderStatus {
        self.look(|holder| HolderStatus {
            used: holder.used(),
            free: holder.free_room(),
            volumes: holder.volumes().count(),
        })
    }

    /// The volumes of which it has copies.
    pub fn volumes(&self) -> Vec<VolumeId> {
        self.look(|holder| holder.volumes().collect())
    }

    /// The registry's word on a volume: copies that nobody counts are dropped.
    pub fn registered(&self, volume: VolumeId, view: &View) {
        self.call(|machine| machine.registered(volume, view));
    }

    /// Owners are to move what it keeps. It is done when [`HolderStatus::used`] is zero.
    pub fn leave(&self) {
        self.call(HolderMachine::leave);
    }

    /// Has it end in good order: sessions are ended, and the log closed.
    pub fn stopper(&self) -> impl FnOnce() + Send + Sync + Clone + 'static {
        let (host, role) = (Arc::downgrade(&self.host), self.role);
        move || {
            if let Some(host) = host.upgrade() {
                host.close(role);
            }
        }
    }

    /// Waits until it has ended, for at most so long; `None` if it has not ended until then.
    pub fn wait_end_within(&self, within: Duration) -> Option<HostEnd> {
        let end = self.host.wait_end_within(within)?;
        if end == HostEnd::Closed {
            self.disk.mark();
        }
        Some(end)
    }

    fn look<T>(&self, look: impl FnOnce(&volume::Holder) -> T) -> T {
        look(self.machine.lock().unwrap_or_else(PoisonError::into_inner).look().holder())
    }

    fn call(&self, call: impl FnOnce(&mut HolderMachine)) {
        call(self.machine.lock().unwrap_or_else(PoisonError::into_inner).machine());
        self.driver.settle();
    }
}

impl fmt::Debug for HolderServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, address, .. } = self;
        f.debug_struct("HolderServer").field("partition", partition).field("address", address).finish_non_exhaustive()
    }
}
