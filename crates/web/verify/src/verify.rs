//! A helper that runs: its home, and the connections of the servers that ask.

use crate::counters::{Counters, Tally};
use crate::error::StartError;
use crate::helper::Helper;
use crate::home::Home;
use crate::limits::{HEAD_BYTES_MAX, IDLE, STOP_WITHIN};
use crate::service::Service;
use coherence::{AttachedHome, HomeAddress, Site, SiteConfig};
use net::{Runtime, listen_at_socket, refuse_open_network};
use ops::{Limits, Listener, Observed, Server, Service as _, Stopper};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

/// More threads than these wait for the lock on the keys.
const THREADS_MAX: usize = 4;

/// How a helper is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket at which servers ask.
    pub socket: PathBuf,
    /// An address of loopback at which they can ask, too.
    pub listen: Option<SocketAddr>,
    /// A home that is another process; `None` has one in this process, as `site` says.
    pub home: Option<HomeAddress>,
    /// The home of this process, and where its hub is.
    pub site: SiteConfig,
    /// The keys that are known at a time.
    pub keys_max: usize,
    /// Connections at a time.
    pub connections_max: usize,
}

/// A helper that runs until it is told to stop.
#[derive(Debug)]
pub struct Verify {
    service: Arc<Service>,
    address: Option<SocketAddr>,
    server: Server,
}

impl Verify {
    /// Starts it.
    ///
    /// # Errors
    /// An address, a socket or a home that cannot be.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let socket = listen_at_socket(&config.socket)
            .map_err(|source| StartError::new(format!("cannot listen on {}", config.socket.display()), source))?;
        let tcp = config.listen.map(listen_on).transpose()?;
        let address = tcp.as_ref().and_then(Listener::address);
        let machines = Runtime::start().map_err(|source| StartError::new("cannot start a thread", source))?;
        let cannot_start = |source| StartError::new("the home does not start", source);
        let (home, cache, changes) = if let Some(address) = &config.home {
            let home = AttachedHome::attach(address, &machines).map_err(cannot_start)?;
            let (cache, changes) = (home.cache(), home.changes());
            (Home::Shared(home), cache, changes)
        } else {
            let site = Site::start(&config.site, &machines).map_err(cannot_start)?;
            let (cache, changes) = (site.cache(), site.changes());
            (Home::Own(site), cache, changes)
        };
        let helper = Helper::new(cache, changes, config.keys_max);
        let service = Arc::new(Service { helper, counters: Counters::default(), home });
        let limits = Limits {
            connections: config.connections_max,
            threads: thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
            head_bytes: HEAD_BYTES_MAX,
            head_within: IDLE,
            connection_within: Duration::MAX,
            keeps_alive: true,
            stop_within: STOP_WITHIN,
        };
        let listeners = [Listener::unix(socket)].into_iter().chain(tcp).collect();
        let server = Server::start("thorp-verify", listeners, limits, service.clone())
            .map_err(|source| StartError::new("cannot start a thread", source))?;
        Ok(Self { service, address, server })
    }

    /// The address at which servers can ask, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where its hub takes the homes of others.
    pub fn hub_address(&self) -> Option<SocketAddr> {
        self.service.home.hub_address()
    }

    /// Its counts since its start.
    pub fn tally(&self) -> Tally {
        self.service.counters.read()
    }

    /// Returns the helper as operators see it, without its own requests.
    pub fn observed(&self) -> Arc<dyn ops::Service> {
        let (one, other) = (self.service.clone(), self.service.clone());
        Arc::new(Observed { tables: move || one.tables(), troubles: move || other.troubles() })
    }

    /// A handle that has it stop.
    pub fn stopper(&self) -> Stopper {
        self.server.stopper()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why it has ended without being told to.
    pub fn wait(&mut self) -> io::Result<()> {
        self.server.wait()
    }
}

fn listen_on(address: SocketAddr) -> Result<Listener, StartError> {
    let cannot_listen = |source| StartError::new(format!("cannot listen on {address}"), source);
    refuse_open_network(address, false).map_err(|_| {
        let text = "it can be reached from elsewhere, and whoever reaches it can have stale responses used; \
                    use a socket or an address such as 127.0.0.1:7414";
        cannot_listen(io::Error::new(io::ErrorKind::InvalidInput, text))
    })?;
    Listener::bind(address, None).map_err(cannot_listen)
}
