//! The relay of a group, in the process of its redirector.

use crate::error::FilesError;
use crate::records::draw;
use machine::{Port, RoleId};
use net::{Beside, Host, Machines, Runtime, UpstreamConfig};
use spread::messages::{FILE_SERVER, SUBSCRIBER};
use spread::{RelayConfig, Relays};
use std::sync::Arc;
use std::time::Duration;
use types::Broken;
use types::limits::SESSIONS_MAX;

/// A member whose machine is silent for this long is considered gone.
const SILENCE: Duration = Duration::from_secs(30);

/// The relay of a group: members follow sites through it, and each chunk crosses the line to the store once.
#[derive(Debug)]
pub struct SiteRelay {
    host: Arc<Host>,
    role: RoleId,
}

impl SiteRelay {
    /// Starts a relay of the store at these addresses, which keeps so many bytes of chunks. It has threads of its own:
    /// its chunks are large, and the messages of the redirector are not.
    ///
    /// # Errors
    /// Addresses that cannot be parsed, and threads that cannot be started.
    pub fn start(store: &str, cache_bytes: usize) -> Result<Self, FilesError> {
        let upstream = UpstreamConfig::parse(SUBSCRIBER, store);
        let upstream = upstream.map_err(|error| FilesError::Server(store.to_owned(), error.to_string()))?;
        let config = RelayConfig { life: draw()?, cache_bytes, broken: Broken::NONE };
        let mut machines = Machines::new();
        let (role, _) = machines.add(Relays::new(config, upstream.addresses));
        let runtime = Runtime::start_apart().map_err(FilesError::Thread)?;
        Ok(Self { host: Host::start(machines, &runtime), role })
    }

    /// The machine, for a listener at whose address sessions of others are taken, too: so many of its own at a time.
    pub fn beside(&self, sessions_max: usize) -> Beside {
        let sessions_max = sessions_max.min(SESSIONS_MAX);
        Beside {
            host: self.host.clone(),
            role: self.role,
            codec: FILE_SERVER,
            port: Port::Session,
            sessions_max,
            silence: Some(SILENCE),
        }
    }
}
