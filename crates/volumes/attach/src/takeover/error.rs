//! Why a volume is not taken over.

use machines::Epoch;
use registry::RegistryError;
use std::fmt;
use vfs::FileError;

/// Why a volume is not taken over.
#[derive(Debug)]
pub enum TakeOverError {
    /// The registry.
    Registry(RegistryError),
    /// Its owner, or another host that takes it over, has shown a heartbeat.
    Lives,
    /// Another host was first, under this epoch.
    Lost(Epoch),
    /// Home went back in the meantime.
    HomeWentBack(String),
    /// The registry was restored from an older copy: home or a holder knows of this epoch, and the registry of that
    /// one.
    RegistryBack(Epoch, Epoch),
    /// The own log cannot be read.
    Own(FileError),
    /// It was told to stop.
    Stopped,
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for TakeOverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(error) => error.fmt(f),
            Self::Lives => write!(f, "the volume is attached at another host, which lives: detach it there first"),
            Self::Lost(epoch) => {
                write!(f, "another host has taken the volume over, under epoch {}: it is attached there", epoch.0)
            }
            Self::HomeWentBack(why) => {
                write!(f, "{why}; the volume is not taken over: try again, which goes by home as it is now")
            }
            Self::RegistryBack(known, found) => write!(
                f,
                "the registry has gone back, as if its store had been put back from an older copy: attachment {} is the last \
                 that it knows of, and {} is known elsewhere, so it may name holders that have not everything; `thorp volume \
                 registry rebuild` makes the entry again of what home and holders know",
                found.0, known.0
            ),
            Self::Own(error) => {
                write!(
                    f,
                    "this host's log has what is not home, and it cannot be read: {error}; mend its disk, or attach the \
                     volume with another cache: with two copies or more holders have it, too"
                )
            }
            Self::Stopped => {
                write!(f, "the volume is not taken over: it was told to stop; the next attachment continues with it")
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for TakeOverError {}

impl From<RegistryError> for TakeOverError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl From<FileError> for TakeOverError {
    fn from(error: FileError) -> Self {
        Self::Own(error)
    }
}
