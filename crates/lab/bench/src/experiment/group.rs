//! A group on real sockets: a redirector of this process, and members that connect to it over TCP.

use super::null_request::Tapped;
use crate::Result;
use fixtures::lasting_address;
use net::{Host, ListenConfig, Machines, Runtime, UpstreamConfig};
use objects::Db;
use redirector::Redirector;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::ClientId;

/// How long the redirector may take to reach its store.
const UPSTREAM_WITHIN: Duration = Duration::from_secs(5);

/// A redirector, and the threads that it runs on.
pub(crate) struct Group {
    /// Lives as long as the group.
    _host: Arc<Host>,
    address: SocketAddr,
    /// Ends last: the host's tasks are its.
    _runtime: Runtime,
}

impl Group {
    /// Starts a redirector of the store at an address.
    pub(crate) fn start(store: SocketAddr) -> Result<Self> {
        let runtime = Runtime::start_relay()?;
        let id = ClientId(RandomState::new().hash_one(()));
        // Its members are told where it is, so it has to know that before it is there. Groups of one store have names
        // of their own.
        let address = lasting_address()?;
        let group = format!("experiment-{address}-{}", id.0);
        let config = redirector::Config { group, address: address.to_string(), ..redirector::Config::default() };
        let mut machines = Machines::new();
        let (redirector, _) = machines.add(Redirector::new(config, id));
        let host = Host::start(machines, &runtime);
        host.listen(redirector, ListenConfig::new(messages::SERVER, address))?;
        host.connect(redirector, UpstreamConfig::new(messages::CLIENT, store.to_string()));
        host.wait_connected(redirector, UPSTREAM_WITHIN)?;
        Ok(Self { _host: host, address, _runtime: runtime })
    }

    /// Where members connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A member that fetches on demand alone.
    pub(crate) fn member(&self) -> Result<Db> {
        Self::member_at(self.address)
    }

    /// The same with something between it and its redirector that null requests are put in at.
    pub(crate) fn tapped_member(&self) -> Result<Tapped> {
        Tapped::connect(self.address, Self::member_at)
    }

    fn member_at(address: SocketAddr) -> Result<Db> {
        Ok(Db::builder().prefetch_pages(0).read_ahead(false).connect(address)?)
    }
}
