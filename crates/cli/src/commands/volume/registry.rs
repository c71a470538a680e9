//! The registry of a store, as a command has it that only asks.

use std::time::Duration;
use volumes::registry::{RegistryError, StoreRegistry, host_name};

/// A store that is not there is looked for so long: one that is being started again is found.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// The registry in the store at this address: it is said soon that nobody listens there.
pub(super) fn to_ask(address: &str) -> Result<StoreRegistry, RegistryError> {
    StoreRegistry::connect_within(address, &host_name(), LOOK_WITHIN)
}
