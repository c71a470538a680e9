//! The errors of a home elsewhere, whose texts say what to do.

use machines::WentBack;
use machines::messages::holder::{Epoch, VolumeId};
use machines::messages::home::NotDone;
use std::fmt;
use std::time::Duration;
use vfs::FileError;

/// Why a home elsewhere did not do it.
#[derive(Debug)]
pub enum FarError {
    /// The address is none.
    Address(String),
    /// The volume cannot have this size.
    Size(u64),
    /// There is no session with it, and why.
    Away(String),
    /// The server at this address is none of homes, and what shows that.
    NoHomes(String, String),
    /// The session was lost: it is unknown whether it was done.
    Lost(String),
    /// The answers at this address are no home's.
    NotHome(String),
    /// It has no such volume.
    NoVolume(String, VolumeId),
    /// It has one already.
    Exists(String, VolumeId),
    /// The volume is another host's, under this epoch.
    Ended(Epoch),
    /// It is not as it was left.
    WentBack(String, WentBack),
    /// Something else is under way there.
    Busy(String),
    /// It was written to so long ago.
    Recent(Duration),
    /// Its files do not allow it.
    Failed(String, String),
    /// It could not read.
    NotRead(String),
    /// The own data for it cannot be read.
    File(FileError),
    /// Nobody wants any more what was waited for.
    GivenUp,
    /// This process cannot talk to it any more.
    Host(String),
}

impl FarError {
    /// The home at this address has refused something for a volume.
    pub(super) fn refused(why: NotDone, address: String, volume: VolumeId) -> Self {
        match why {
            NotDone::Ended(epoch) => Self::Ended(epoch),
            NotDone::Busy => Self::Busy(address),
            NotDone::NoVolume => Self::NoVolume(address, volume),
            NotDone::Exists => Self::Exists(address, volume),
            NotDone::GivenUp => Self::Lost(address),
            NotDone::Recent(seconds) => Self::Recent(Duration::from_secs(seconds)),
            NotDone::Failed(text) => Self::Failed(address, text),
        }
    }
}

impl fmt::Display for FarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(why) => write!(f, "the address of home is none: {why}"),
            Self::Size(size) => write!(
                f,
                "a volume cannot have {size} bytes: expected a whole number of blocks of 4096 bytes, at least one and at most {}",
                u32::MAX
            ),
            Self::Away(why) => write!(f, "home is unreachable: {why}"),
            Self::NoHomes(address, text) => write!(
                f,
                "the server at {address} keeps no homes of volumes, for which `thorp serve` is started with \
                 --volumes: {text}"
            ),
            Self::Lost(address) => write!(f, "the session with home at {address} was lost"),
            Self::NotHome(address) => {
                write!(
                    f,
                    "home at {address} says what none can: expected a size of whole blocks, and a window for parts"
                )
            }
            Self::NoVolume(address, volume) => {
                write!(
                    f,
                    "home at {address} has no volume {:016x}: was it removed, or is it at another home?",
                    volume.0
                )
            }
            Self::Exists(address, volume) => {
                write!(f, "home at {address} has a volume {:016x} already: draw another number", volume.0)
            }
            Self::Ended(epoch) => write!(f, "the volume is another host's since, under epoch {}", epoch.0),
            Self::WentBack(address, back) => write!(f, "home at {address} is not as it was left: {back}"),
            Self::Busy(address) => write!(f, "something else is under way at home at {address}: try again"),
            Self::Recent(ago) => write!(f, "it was written to {} s ago: somebody may be at it", ago.as_secs()),
            Self::Failed(address, text) => write!(f, "home at {address}: {text}"),
            Self::NotRead(address) => write!(f, "home at {address} cannot read: look at its disk"),
            Self::File(error) => error.fmt(f),
            Self::GivenUp => f.write_str("interrupted while home was waited for"),
            Self::Host(why) => write!(f, "this process cannot reach home any more: {why}"),
        }
    }
}

impl std::error::Error for FarError {}

impl From<FileError> for FarError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
