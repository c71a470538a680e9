//! The way to machines of other processes.

use crate::error::SiteError;
use net::UplinkConfig;
use std::hash::{BuildHasher, RandomState};

/// The way to a hub elsewhere.
pub(crate) fn uplink(hub: &str) -> Result<UplinkConfig, SiteError> {
    let uplink = UplinkConfig::parse(hub).map_err(SiteError::Address)?;
    Ok(UplinkConfig { codec: wire::homes::HOME, ..uplink })
}

/// The number of a life. The standard library's hasher is the nearest randomness: each is keyed anew.
pub(crate) fn drawn() -> u64 {
    RandomState::new().hash_one(())
}
