//! The way to machines of other processes.

use crate::error::SiteError;
use machine::RoleId;
use net::{ConnectError, Host, UpstreamConfig, UpstreamState};
use std::hash::{BuildHasher, RandomState};

/// The way to a hub elsewhere.
pub(crate) fn upstream(hub: &str) -> Result<UpstreamConfig, SiteError> {
    UpstreamConfig::parse(homes::messages::hub::HOME, hub).map_err(SiteError::Address)
}

/// Why a machine's server is not reached, if that is so; also before it was.
pub(crate) fn trouble(host: &Host, role: RoleId) -> Option<ConnectError> {
    match host.server_state(role) {
        UpstreamState::Down(why) | UpstreamState::Over(why) => Some(why),
        UpstreamState::Connecting | UpstreamState::Up(_) => None,
    }
}

/// The number of a life. The standard library's hasher is the nearest randomness: each is keyed again.
pub(crate) fn drawn() -> u64 {
    RandomState::new().hash_one(())
}
