//! Homes of volumes for owners in other processes: a directory of volumes, and the server that takes sessions of
//! owners.
//!
//! | file | what it is |
//! |---|---|
//! | `machine` | sessions, their windows, and what volumes they have open |
//! | `volume` | one volume: write-backs, epochs, other commands |
//! | `disk` | the threads that do the work on files |
//! | `inventory` | all homes that there are, and the end of those that nobody has open |
//! | `files` | the files of one volume |
//! | `entry` | the one that says how it is in the registry |

#[cfg(test)]
mod crashes;
mod disk;
mod entry;
mod files;
mod inventory;
mod machine;
mod volume;

use self::machine::Homes;
pub use self::machine::VOLUME_HOMES;
use crate::home::{CheckProgress, Checks};
use crate::place::boot;
use ::machine::{Port, RoleId};
use disk::HomeDisk;
use net::{Beside, Host, HostEnd, ListenConfig, ListenError, Machines, Runtime};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use types::limits::VOLUME_SESSIONS_MAX;
use vfs::{Directory, Doing, FileError, Files, Lock, Locking, lock_holder, make_directory};

const LOCK_NAME: &str = "lock";

/// An owner whose machine is silent for this long is considered gone.
const SILENCE: Duration = Duration::from_secs(30);

/// Why homes cannot be served.
#[derive(Debug)]
pub enum HomesError {
    /// A file of theirs cannot be used.
    File(FileError),
    /// Another process serves them.
    InUse(PathBuf, Option<u32>),
    /// A thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for HomesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::InUse(dir, holder) => {
                let by = holder.map(|id| format!(" (process {id})")).unwrap_or_default();
                write!(f, "{} is served by another process{by}: end that, or give another directory", dir.display())
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for HomesError {}

impl From<FileError> for HomesError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The homes of the volumes in a directory, for owners in this process or elsewhere.
#[derive(Debug)]
pub struct HomeServer {
    host: Arc<Host>,
    _lock: Lock,
}

impl HomeServer {
    /// Opens the directory, which is made if it is not there.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn start(dir: &Path, runtime: &Runtime) -> Result<Self, HomesError> {
        Self::start_told(dir, runtime, CheckProgress::default())
    }

    /// Does the same, with a listener for the progress of homes that are compared with their checksums.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn start_told(dir: &Path, runtime: &Runtime, progress: CheckProgress) -> Result<Self, HomesError> {
        make_directory(dir)?;
        let files: Arc<dyn Files> = Arc::new(Directory::new(dir));
        let lock = files.lock(LOCK_NAME, Locking::Signed).doing("lock", || files.path(LOCK_NAME))?;
        let lock = lock.ok_or_else(|| HomesError::InUse(dir.to_owned(), lock_holder(&dir.join(LOCK_NAME))))?;
        let disk = HomeDisk::start(files, Checks::new(boot(), progress)).map_err(HomesError::Thread)?;
        let mut machines = Machines::new();
        machines.add_with_disk(Homes::new(disk.damaged()), disk);
        Ok(Self { host: Host::start(machines, runtime), _lock: lock })
    }

    /// Takes sessions of owners at an address; gives it with its port.
    ///
    /// # Errors
    /// They cannot be taken there.
    pub fn listen(&self, address: SocketAddr, insecure: bool) -> Result<SocketAddr, ListenError> {
        let config = ListenConfig {
            insecure,
            sessions_max: VOLUME_SESSIONS_MAX,
            silence: Some(SILENCE),
            ..ListenConfig::new(machines::messages::home::HOME, address)
        };
        self.host.listen(RoleId::ONLY, config)
    }

    /// The machine, for a listener at whose address sessions of others are taken, too: so many of its own at a time.
    pub fn beside(&self, sessions_max: usize) -> Beside {
        let (host, codec) = (self.host.clone(), machines::messages::home::HOME);
        Beside {
            host,
            role: RoleId::ONLY,
            codec,
            port: Port::Session,
            sessions_max: sessions_max.min(VOLUME_SESSIONS_MAX),
            silence: Some(SILENCE),
        }
    }

    /// How it has ended, if it has: it does so by a panic only.
    pub fn end(&self) -> Option<HostEnd> {
        self.host.end()
    }
}
