//! The registry of volumes and of the members that give room for copies, as hosts ask it.
//!
//! | to change | see |
//! |---|---|
//! | a registry in this process | `memory.rs` |
//! | a registry in a store; its objects | `store.rs`, `step.rs`; `entries.rs` |
//! | which members live | `heartbeats.rs` |
//!
//! A member's *heartbeat* is a word to the registry now and then. One that is silent for [`SILENCE`] is no member any
//! more, by the clock of whoever looks: no clocks of two machines are compared.

mod entries;
mod heartbeats;
mod memory;
mod step;
mod store;

pub use memory::MemoryRegistry;
pub use store::StoreRegistry;

use machines::{Change, Epoch, Member, PartitionId, Restore, View, VolumeId};
use std::fmt;
use std::time::{Duration, SystemTime};
use types::NodeId;
use vfs::FileError;
use vfs::random;

pub use machines::Life;

/// How often a member is to [`Registry::enter`].
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// A member that has not entered for longer is considered gone.
pub const SILENCE: Duration = Duration::from_secs(7);

/// The members of a registry.
pub const MEMBERS_MAX: usize = 256;

/// The volumes of a registry.
pub const VOLUMES_MAX: usize = 256;

/// The name of a volume or a member, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A member's address, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 256;

/// The registry of volumes and of the members that give room, as hosts ask it. Calls block: each party has a thread for
/// them, and a handle of its own.
pub trait Registry: Send + Sync + fmt::Debug {
    /// The entry of a volume.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchVolume`], or why it could not be asked.
    fn view(&self, volume: VolumeId) -> Result<View, RegistryError>;

    /// Changes the entry of a volume, if it still is at the revision that the change expects.
    ///
    /// # Errors
    /// The entry as it stands otherwise; or `None` if the registry could not be asked, and nobody knows.
    #[expect(clippy::result_large_err, reason = "the entry as it stands is no error of the registry, but its answer")]
    fn change(&self, volume: VolumeId, change: Change) -> Result<View, Option<View>>;

    /// Puts the entry of a volume back in a registry that was restored from an older copy, if it stands there as the
    /// change expects.
    ///
    /// # Errors
    /// As [`Registry::change`].
    #[expect(clippy::result_large_err, reason = "the entry as it stands is no error of the registry, but its answer")]
    fn restore(&self, volume: VolumeId, restore: Restore) -> Result<View, Option<View>>;

    /// A volume with its name, its entry, and what is known for people, as it was known last.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchVolume`], or why it could not be asked.
    fn named(&self, volume: VolumeId) -> Result<Volume, RegistryError>;

    /// The holders of a volume by their names, as they were known last, also those that are no members any more.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchVolume`], or why it could not be asked.
    fn holders(&self, volume: VolumeId) -> Result<Vec<HolderName>, RegistryError>;

    /// The members that have had a heartbeat lately.
    ///
    /// # Errors
    /// Why it could not be asked.
    fn members(&self) -> Result<Vec<Registrant>, RegistryError>;

    /// The life of a member, as the registry has it; `None` if it has never learned of it, or has forgotten it: then no
    /// volume counts on it.
    ///
    /// # Errors
    /// Why it could not be asked.
    fn life(&self, partition: PartitionId) -> Result<Option<Lived>, RegistryError>;

    /// A member begins another life, if the registry still has this one: of two copies of a holder's directory one is
    /// refused. A registry that has forgotten it, or has an earlier life, as it was restored itself, takes it as it is.
    ///
    /// # Errors
    /// [`RegistryError::Replaced`], or why it could not be asked; it may have done it all the same then.
    fn begin(&self, partition: PartitionId, from: Life, to: Life) -> Result<(), RegistryError>;

    /// A member joins, or says again what it has: its heartbeat.
    ///
    /// # Errors
    /// [`RegistryError::Registrant`], [`RegistryError::TooManyMembers`], [`RegistryError::Replaced`], or why it could
    /// not be asked.
    fn enter(&self, member: &Registrant) -> Result<(), RegistryError>;

    /// A member leaves. One that is not there has left already. Its life is remembered while a volume counts on it.
    ///
    /// # Errors
    /// Why it could not be asked.
    fn leave(&self, partition: PartitionId) -> Result<(), RegistryError>;

    /// Where the home of a volume is reached: an address, or several of a store of one node.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchVolume`], [`RegistryError::NoSuchNode`], or why it could not be asked.
    fn home_address(&self, volume: VolumeId) -> Result<String, RegistryError>;

    /// Returns when something may have changed since the last call of this handle, or after this time.
    fn wait(&self, within: Duration);
}

/// A node of the store, which may keep homes of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeNode {
    /// Its number in the store.
    pub node: NodeId,
    /// Where it is reached: an address, or several of a store of one node.
    pub address: String,
}

/// The last life of a member that the registry knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lived {
    /// The life.
    pub life: Life,
    /// Counts its heartbeat.
    pub heartbeat: u64,
    /// It has ended in good order.
    pub is_gone: bool,
}

/// A member, as it is in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Its partition, its failure domain, and its room.
    pub member: Member,
    /// The life that it is in.
    pub life: Life,
    /// Where owners reach it.
    pub address: String,
    /// Its name, for people.
    pub name: String,
    /// The name of its failure domain, for people; empty for a member of an earlier version.
    pub domain: String,
    /// Whether its disk has no room for what it was told to take; for people, as its free room says what it takes.
    pub is_disk_full: bool,
}

/// A holder's name and address, as they were known last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderName {
    /// Its partition.
    pub partition: PartitionId,
    /// Its name, for people.
    pub name: String,
    /// Where owners reached it.
    pub address: String,
    /// The name of its failure domain; empty if that is unknown.
    pub domain: String,
}

impl From<&Registrant> for HolderName {
    fn from(it: &Registrant) -> Self {
        let Registrant { member, address, name, domain, .. } = it.clone();
        Self { partition: member.partition, name, address, domain }
    }
}

impl HolderName {
    /// Its failure domain, if that does not go by the same name, with a comma behind.
    fn in_domain(&self) -> String {
        let Self { name, domain, .. } = self;
        if domain.is_empty() || domain == name { String::new() } else { format!("{domain}, ") }
    }

    /// Its name for a list, with its failure domain if that goes by another name: holders of one host have the same
    /// name.
    pub fn short(&self) -> String {
        let Self { name, domain, .. } = self;
        if domain.is_empty() || domain == name { name.clone() } else { format!("{name} ({domain})") }
    }
}

impl fmt::Display for HolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}{:016x}), last at {}", self.name, self.in_domain(), self.partition.0, self.address)
    }
}

/// A takeover that continued without lists that were missing: writes that only these had are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneWithout {
    /// The epoch that it began.
    pub epoch: Epoch,
    /// When, by the clock there; for people.
    pub at: Option<SystemTime>,
    /// The holders whose lists they were, by their names as far as these are known; if there are none, it was the log
    /// of the owner before.
    pub lists: Vec<String>,
}

/// A volume of a store, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its entry.
    pub view: View,
    /// Where its owner is, for people; empty if it has none.
    pub place: String,
    /// Its holders, as they were known last.
    pub holders: Vec<HolderName>,
    /// When its owner gave its last heartbeat, by the clock there; for people.
    pub said_at: Option<SystemTime>,
    /// The last takeover that continued without lists.
    pub gone_without: Option<GoneWithout>,
}

/// A member of a store's registry, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enlisted {
    /// The member, which may be silent.
    pub registrant: Registrant,
    /// Counts its words.
    pub heartbeat: u64,
    /// When it gave the last one, by its clock; for people.
    pub said_at: Option<SystemTime>,
}

/// Whether a member may have this name, or this address.
fn is_text(text: &str, bytes_max: usize) -> bool {
    !text.is_empty() && text.len() <= bytes_max && !text.chars().any(|it| it.is_control() || it.is_whitespace())
}

/// Whether a failure domain may have this name. Members of earlier versions tell none.
fn is_domain(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

impl Registrant {
    /// Refuses what cannot are in a registry.
    ///
    /// # Errors
    /// [`RegistryError::Registrant`].
    pub fn check(&self) -> Result<(), RegistryError> {
        if !is_domain(&self.domain) {
            return Err(RegistryError::Domain(self.domain.clone()));
        }
        if is_text(&self.address, ADDRESS_BYTES_MAX) && is_text(&self.name, NAME_BYTES_MAX) {
            return Ok(());
        }
        Err(RegistryError::Registrant(format!("{:?} at {:?}", self.name, self.address)))
    }
}

/// The number of a failure domain, by its name: FNV-1a, so that every host has the same one.
pub fn domain(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A number for a new volume, which nobody else draws.
///
/// # Errors
/// The system gives none.
pub fn draw_volume() -> Result<VolumeId, FileError> {
    random().map(VolumeId)
}

/// The name of this host, in which no spaces are.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_of_name = |it: &char| !it.is_whitespace() && !it.is_control();
    let name: String = name.chars().filter(is_of_name).take(NAME_BYTES_MAX / 4).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Why the registry has not done something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryError {
    /// It has no such volume.
    NoSuchVolume(VolumeId),
    /// No node of this number has an address, and it keeps the home of a volume.
    NoSuchNode(NodeId),
    /// A member's name or address is none.
    Registrant(String),
    /// A failure domain cannot have this name.
    Domain(String),
    /// It has as many members as it takes.
    TooManyMembers,
    /// A holder with a copy of this member's directory, or with a newer state of it, has been started since.
    Replaced(PartitionId),
    /// It has no volume of this name.
    NoSuchName(String),
    /// This is not a name of a volume.
    Name(String),
    /// It has a volume of this name.
    NameTaken(String),
    /// It has as many volumes as it takes.
    TooManyVolumes,
    /// The volume of this name is attached, at this place, or its copies are not written back.
    Attached(String, String),
    /// The entry of this name has changed since it was looked at.
    Changed(String),
    /// There is something in the store that no registry has ever written.
    Damaged(String),
    /// It could not be asked, and may be asked again.
    Unreachable(String),
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchVolume(volume) => {
                write!(
                    f,
                    "the registry has no volume {:016x}: it was removed, or is in another store; or the registry was lost, \
                     and `thorp volume registry rebuild` makes it again",
                    volume.0
                )
            }
            Self::NoSuchNode(node) => write!(
                f,
                "the store has no address of its node {}, which keeps the volume's home: `thorp cluster status` shows \
                 the nodes",
                node.0
            ),
            Self::Registrant(what) => write!(
                f,
                "the member {what} cannot be registered: a name has 1 to {NAME_BYTES_MAX} bytes, an address 1 to \
                 {ADDRESS_BYTES_MAX}, without spaces"
            ),
            Self::Domain(name) => write!(
                f,
                "invalid failure domain {name:?}: expected at most {NAME_BYTES_MAX} bytes, without control characters"
            ),
            Self::TooManyMembers => {
                write!(f, "the registry has {MEMBERS_MAX} members, and takes no more: end some that are not needed")
            }
            Self::Replaced(partition) => write!(
                f,
                "holder {:016x} was started again elsewhere, from a copy of its directory: this one counts no more",
                partition.0
            ),
            Self::NoSuchName(name) => {
                write!(f, "there is no volume '{name}': `thorp volume list` shows those there are, `create` makes one")
            }
            Self::Name(name) => write!(
                f,
                "'{name}' is not a name of a volume: it begins with a letter of ASCII, and has at most {NAME_BYTES_MAX} of \
                 these, digits, '-', '_' and '.'"
            ),
            Self::NameTaken(name) => write!(f, "there is a volume '{name}' already: choose another name"),
            Self::TooManyVolumes => {
                write!(
                    f,
                    "the registry has {VOLUMES_MAX} volumes, and takes no more: remove some, or use another store"
                )
            }
            Self::Attached(name, place) if place.is_empty() => {
                write!(f, "not all of '{name}' is home: attach it, and detach it")
            }
            Self::Attached(name, place) => write!(f, "'{name}' is attached at {place}: detach it there first"),
            Self::Changed(name) => {
                write!(
                    f,
                    "the entry of '{name}' has changed in the meantime: look again what there is, and decide again"
                )
            }
            Self::Damaged(what) => {
                write!(
                    f,
                    "the registry is damaged ({what}): another program may have written to its spaces in the store"
                )
            }
            Self::Unreachable(why) => write!(f, "the registry cannot be asked: {why}"),
        }
    }
}

impl std::error::Error for RegistryError {}
