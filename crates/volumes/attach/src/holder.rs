//! A holder: it gives room on its disk to the owners of volumes, which keep copies of their dirty writes there.
//!
//! | to change | see |
//! |---|---|
//! | what it promises, counts, refuses | `machines::Holder`, the machine |
//! | how that is hosted: positions in the log, and what of it is moved | `machine.rs`, `places.rs` |
//! | the log's bytes | `record.rs` |
//! | the log's threads | `disk.rs` |
//! | what a folder is; why one is none | `folder.rs`, `marker.rs`; `error.rs` |
//! | which of its copies and earlier states is the holder; whether its log has lost its end | `life.rs`; `end.rs` |
//! | what it tells the registry, and hears from it | `membership.rs` |
//! | how it brings home what a silent host has left | `rescue.rs` |
//! | how an operator asks what it has | `survey.rs` |

mod disk;
mod end;
mod error;
mod folder;
mod life;
mod machine;
mod marker;
mod membership;
mod places;
mod record;
mod rescue;
mod survey;
#[cfg(test)]
pub(crate) mod tests;

use self::machine::HolderMachine;
use ::machine::RoleId;
use disk::{HolderDisk, Size, disk_free};
use folder::Folder;
use machines::{Epoch, PartitionId, View, VolumeId};
use membership::Membership;
use net::{Handle, Host, HostEnd, ListenConfig, ListenError, Machines, Runtime};
use registry::{Life, Registry, RegistryError};
use rescue::Rescue;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfs::FileError;

pub use error::{FolderError, HOLDER_ROOM_MAX, HOLDER_ROOM_MIN};
pub use folder::Dropped;
pub use life::Lives;
pub use membership::HolderNames;
pub use rescue::{RescueSettings, RescueWord};
pub use survey::held_volumes;

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
    /// The registry does not take it.
    Registry(RegistryError),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for HolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Registry(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for HolderError {}

impl From<FolderError> for HolderError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<RegistryError> for HolderError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
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
    /// The bytes that its files may take.
    pub room: u64,
    /// The bytes that they take.
    pub file_bytes: u64,
    /// The bytes that are free on its disk, if that says so.
    pub disk_free: Option<u64>,
    /// Whether its disk has no room for more files, and copies take a part of those that it has.
    pub is_disk_full: bool,
    /// The bytes of copies that it can keep: half of its room, or of what its disk has for it.
    pub keeps: u64,
    /// Whether copies take this much of that that owners go to other holders, if there are any with room.
    pub is_nearly_full: bool,
}

impl HolderStatus {
    /// The bytes that its disk has not, of those that its files may yet take.
    pub fn lacks(&self) -> Option<u64> {
        let lacks = (self.room - self.file_bytes.min(self.room)).saturating_sub(self.disk_free?);
        (lacks > 0).then_some(lacks)
    }
}

/// A holder in this process. When it is dropped it stops at once; everything that it has counted is on its disk.
pub struct HolderServer {
    hosted: Arc<HostedHolder>,
    membership: Mutex<Option<Membership>>,
    rescue: Mutex<Option<Rescue>>,
}

/// Whether the registry answers the heartbeats of a holder.
#[derive(Clone, Copy, Debug)]
enum Heard {
    Never,
    Since(Instant),
    NotSince(Instant),
}

/// A holder on its host.
struct HostedHolder {
    host: Arc<Host>,
    role: RoleId,
    machine: Handle<HolderMachine>,
    disk: Arc<HolderDisk>,
    partition: PartitionId,
    life: Life,
    address: SocketAddr,
    /// The epochs that the registry should be asked for, until somebody does.
    to_ask: Mutex<Option<Receiver<(VolumeId, Epoch)>>>,
    /// Since when the registry has answered each heartbeat, or none.
    registry: Mutex<Heard>,
    room: u64,
    dir: PathBuf,
}

impl HolderServer {
    /// Opens the folder, and takes owners, without a registry that knows of its lives: copies of the folder are not
    /// told apart.
    ///
    /// # Errors
    /// The folder or the address cannot be used.
    pub fn start(settings: &HolderSettings, runtime: &Runtime) -> Result<Self, HolderError> {
        Self::start_in(Folder::open(&settings.dir, settings.room, None)?, settings, runtime)
    }

    /// The same when the registry says that the folder is no older state and no copy of another one. See
    /// [`HolderServer::register`] for the rest.
    ///
    /// # Errors
    /// The folder or the address cannot be used, or the registry cannot be asked.
    pub fn start_known(
        settings: &HolderSettings,
        mut lives: Lives<'_>,
        runtime: &Runtime,
    ) -> Result<Self, HolderError> {
        Self::start_in(Folder::open(&settings.dir, settings.room, Some(&mut lives))?, settings, runtime)
    }

    /// Looks whether there can be a holder with these settings, before it is started.
    ///
    /// # Errors
    /// Its room is out of bounds, or the directory above its own is missing.
    pub fn check(settings: &HolderSettings) -> Result<(), HolderError> {
        Ok(Folder::check(&settings.dir, settings.room)?)
    }

    /// Makes a folder again, as another partition without copies. `drops` is notified of those that it has, if it is
    /// one.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn make_anew(settings: &HolderSettings, drops: &mut dyn FnMut(Dropped)) -> Result<(), HolderError> {
        Ok(Folder::make_anew(&settings.dir, settings.room, drops)?)
    }

    fn start_in(folder: Folder, settings: &HolderSettings, runtime: &Runtime) -> Result<Self, HolderError> {
        let Folder { holder, places, log, end, partition, life, is_known, window, lock } = folder;
        // Twice what two owners may send at once, each copy of which may take up to two blocks for one.
        let size = Size { free_wanted: 4 * window, bytes_max: settings.room };
        let disk = Arc::new(HolderDisk::start(log, end, lock, size, &settings.dir)?);
        let mut machines = Machines::new();
        let (asks, to_ask) = channel();
        let machine = HolderMachine::new(holder, places, disk.room()).asking(is_known.then_some(asks));
        let (role, machine) = machines.add_with_disk(machine, disk.clone());
        let host = Host::start(machines, runtime);
        let config = ListenConfig {
            insecure: settings.insecure,
            silence: Some(SILENCE),
            ..ListenConfig::new(machines::messages::holder::HOLDER, settings.listen)
        };
        let address = host.listen(role, config).map_err(HolderError::Listen)?;
        let machine = Handle::new(machine, host.driver(role));
        let hosted = Arc::new(HostedHolder {
            host,
            role,
            machine,
            disk,
            partition,
            life,
            address,
            to_ask: Mutex::new(Some(to_ask)),
            registry: Mutex::new(Heard::Never),
            room: settings.room,
            dir: settings.dir.clone(),
        });
        Ok(Self { hosted, membership: Mutex::default(), rescue: Mutex::default() })
    }

    /// Its partition.
    pub fn partition(&self) -> PartitionId {
        self.hosted.partition
    }

    /// Where owners come.
    pub fn address(&self) -> SocketAddr {
        self.hosted.address
    }

    /// Registers it, so that owners find it, until it is stopped. The registry's word on volumes tells it which copies
    /// nobody counts any more.
    ///
    /// # Errors
    /// The registry refuses it, or cannot be asked now.
    pub fn register(&self, registry: Arc<dyn Registry>, names: HolderNames) -> Result<(), HolderError> {
        let membership = Membership::begin(self.hosted.clone(), registry, names)?;
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) = Some(membership);
        Ok(())
    }

    /// Has it bring home, by itself, what silent hosts have left of volumes, until it is stopped. `say` learns of each.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn rescue(
        &self,
        settings: RescueSettings,
        say: impl Fn(VolumeId, RescueWord) + Send + Sync + 'static,
    ) -> Result<(), HolderError> {
        let rescue = Rescue::begin(self.hosted.clone(), settings, say).map_err(HolderError::Thread)?;
        *self.rescue.lock().unwrap_or_else(PoisonError::into_inner) = Some(rescue);
        Ok(())
    }

    /// How it stands.
    pub fn status(&self) -> HolderStatus {
        self.hosted.status()
    }

    /// The time since the registry stopped answering its heartbeats, if it does not answer.
    pub fn registry_silence(&self) -> Option<Duration> {
        if let Heard::NotSince(since) = *self.hosted.registry() { Some(since.elapsed()) } else { None }
    }

    /// The volumes of which it has copies.
    pub fn volumes(&self) -> Vec<VolumeId> {
        self.hosted.volumes()
    }

    /// The volumes of which it has copies, and the bytes of these.
    pub fn copies(&self) -> Vec<(VolumeId, u64)> {
        self.hosted.look(|holder| holder.copies().collect())
    }

    /// Owners are to move what it keeps. It is done when [`HolderStatus::used`] is zero.
    pub fn leave(&self) {
        self.hosted.call(HolderMachine::leave);
    }

    /// Stops it in good order: the registry does not name it any more, and its log is closed. Its copies stay, and
    /// count again when it is started again.
    pub fn stop(&self) {
        drop(self.rescue.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.membership.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.hosted.host.close(self.hosted.role);
        self.hosted.host.wait_end();
        self.hosted.disk.mark();
    }

    /// Returns why it has failed, if it has.
    pub fn failed(&self) -> Option<String> {
        if let Some(HostEnd::Failed(why)) = self.hosted.host.end() { Some(why) } else { None }
    }

    /// Waits until it has failed, for at most so long; gives why.
    pub fn wait_failed_within(&self, within: Duration) -> Option<String> {
        match self.hosted.host.wait_end_within(within) {
            Some(HostEnd::Failed(why)) => Some(why),
            _ => None,
        }
    }
}

impl HostedHolder {
    fn status(&self) -> HolderStatus {
        self.look(|holder| HolderStatus {
            used: holder.used(),
            free: holder.free_room(),
            volumes: holder.volumes().count(),
            room: self.room,
            file_bytes: self.disk.bytes(),
            disk_free: disk_free(&self.dir),
            // A log that keeps hardly anything has all the room that its files can give, though it would like more.
            is_disk_full: self.disk.is_full() && holder.used() > holder.room() / 16,
            keeps: holder.room(),
            is_nearly_full: holder.is_nearly_full(),
        })
    }

    /// Looks how much its disk has. Gives whether it is nearly full.
    fn look_at_disk(&self) -> bool {
        let bytes = self.disk.bytes_within_reach();
        self.call(|machine| machine.disk_has(bytes));
        self.look(machines::Holder::is_nearly_full)
    }

    fn volumes(&self) -> Vec<VolumeId> {
        self.look(|holder| holder.volumes().collect())
    }

    fn registry_since(&self) -> Option<Instant> {
        if let Heard::Since(since) = *self.registry() { Some(since) } else { None }
    }

    fn registry(&self) -> MutexGuard<'_, Heard> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The registry was asked to take a heartbeat, and has done so or not.
    fn asked_registry(&self, is_taken: bool) {
        let mut heard = self.registry();
        *heard = match *heard {
            Heard::Since(since) if is_taken => Heard::Since(since),
            Heard::NotSince(since) if !is_taken => Heard::NotSince(since),
            _ if is_taken => Heard::Since(Instant::now()),
            _ => Heard::NotSince(Instant::now()),
        };
    }

    fn take_to_ask(&self) -> Option<Receiver<(VolumeId, Epoch)>> {
        self.to_ask.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn asked(&self, volume: VolumeId, registered: Option<Epoch>) {
        self.call(|machine| machine.asked(volume, registered));
    }

    fn registered(&self, volume: VolumeId, view: &View) {
        self.call(|machine| machine.registered(volume, view));
    }

    fn idle_after(&self, after: Option<VolumeId>) -> Option<VolumeId> {
        self.look(|holder| holder.idle_after(after))
    }

    fn unregistered(&self, volume: VolumeId) {
        self.call(|machine| machine.unregistered(volume));
    }

    fn look<T>(&self, look: impl FnOnce(&machines::Holder) -> T) -> T {
        self.machine.look(|machine| look(machine.holder()))
    }

    fn call(&self, call: impl FnOnce(&mut HolderMachine)) {
        self.machine.call(call);
    }
}

impl fmt::Debug for HolderServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostedHolder { partition, address, .. } = &*self.hosted;
        f.debug_struct("HolderServer").field("partition", partition).field("address", address).finish_non_exhaustive()
    }
}
