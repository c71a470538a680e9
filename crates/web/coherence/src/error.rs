//! Why a site, or the way to a hub, does not start.

use fabric::FabricError;
use net::{AddressError, ListenError};
use std::error::Error;
use std::fmt;
use std::io;

/// Why a site does not start.
#[derive(Debug)]
pub enum SiteError {
    /// The addresses of its hub are none.
    Address(AddressError),
    /// Its hub, or its home, cannot listen.
    Listen(ListenError),
    /// Its table cannot be read by libfabric, or that of another cannot.
    Fabric(FabricError),
    /// The system gives no memory, or no thread.
    System(io::Error),
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Fabric(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl Error for SiteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Listen(error) => Some(error),
            Self::Fabric(error) => Some(error),
            Self::System(error) => Some(error),
        }
    }
}
