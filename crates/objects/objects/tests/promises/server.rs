//! A server in this process.

use crate::scratch::Scratch;
use database::{LocalStore, Recovered};
use net::{Host, ListenConfig, Listener, Machines, Runtime, UpstreamConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::ClientId;

pub(crate) struct Server {
    pub(crate) store: LocalStore,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a store with a log so small that a small test goes round it.
    pub(crate) fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, 1 << 20)
    }

    pub(crate) fn start_with(scratch: &Scratch, segment_bytes: usize) -> Self {
        let config = disk::Config { segment_bytes, ..disk::Config::default() };
        let recovered = Recovered::read(scratch.path(), &config, store::Config::default(), |_| {}).unwrap();
        let store = recovered.start(None, &Runtime::start().unwrap());
        let config = ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into());
        let address = store.host().listen(store.role(), config).unwrap();
        Self { store, address }
    }
}

/// A redirector in this process.
pub(crate) struct Redirector {
    /// Kept for as long as it is needed.
    _host: Arc<Host>,
    pub(crate) address: SocketAddr,
}

impl Redirector {
    /// Starts the redirector of a group; members wait until it leads.
    pub(crate) fn start(server: &Server) -> Self {
        let listener = Listener::bind(ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into())).unwrap();
        let address = listener.address();
        let config = redirector::Config {
            group: "site".into(),
            address: address.to_string(),
            // However busy the machine is.
            help_within: Duration::from_secs(60),
            ..redirector::Config::default()
        };
        let mut machines = Machines::new();
        let (redirector, _) = machines.add(redirector::Redirector::new(config, ClientId(0x2ED)));
        let host = Host::start(machines, &Runtime::start().unwrap());
        host.connect(redirector, UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
        host.listen_at(redirector, listener).unwrap();
        Self { _host: host, address }
    }
}
