//! A home in this process, and its hub here or elsewhere.

use crate::cache::Cache;
use crate::changes::Changes;
use crate::error::SiteError;
use crate::far::{drawn, upstream};
use crate::updates::Updates;
use homes::{Home, HomeConfig, Hub, HubConfig, Memory, SourceName};
use machine::RoleId;
use net::Handle;
use net::{Host, ListenConfig, Machines, Runtime, refuse_open_network};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::Time;

/// How a site is set up.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Where the hub is, as `host:port`, of which there may be several with commas between them; `None` has it in this
    /// process.
    pub hub: Option<String>,
    /// Where a hub of this process takes homes and updaters of others; `None` has none but its own.
    pub listen: Option<SocketAddr>,
    /// Whether it may listen where others than this machine can reach.
    pub insecure: bool,
    /// How long a home of this hub answers without having learned of the hub. A home that dies holds up updates for as
    /// long.
    pub lease: Duration,
    /// The longest lease that an earlier hub of this origin may have given, if not this one: for a hub that is started
    /// again with a shorter lease, or without [`SiteConfig::listen`].
    pub earlier_lease: Option<Duration>,
    /// The sources of other processes that tell the hub of this one of all their changes. While one of them is away,
    /// and until it has caught up, nothing is stored.
    pub sources: Vec<SourceName>,
    /// Whether the hub of this process reports a source that gives leases, within which those of homes end: until it
    /// learns of one by [`Site::source_lease`], no home answers anything.
    pub within_source: bool,
    /// The responses that can be stored at a time: eight bytes each.
    pub responses_max: u32,
}

impl Default for SiteConfig {
    fn default() -> Self {
        let HubConfig { lease, .. } = HubConfig::default();
        Self {
            hub: None,
            listen: None,
            insecure: false,
            lease,
            earlier_lease: None,
            sources: Vec::new(),
            within_source: false,
            responses_max: HomeConfig::new(0).slots,
        }
    }
}

impl SiteConfig {
    /// Looks whether a site could start like this, as far as that shows without starting it.
    ///
    /// # Errors
    /// A hub's address that is none, or one to listen on that others than this machine can reach.
    pub fn check(&self) -> Result<(), SiteError> {
        if let Some(hub) = &self.hub {
            upstream(hub)?;
        }
        self.listen.map_or(Ok(()), |address| refuse_open_network(address, self.insecure).map_err(SiteError::Listen))
    }

    /// The longest lease that homes may have of an earlier hub: those of other processes may have one.
    fn succeeds(&self) -> Option<Duration> {
        self.earlier_lease.or(self.listen.map(|_| self.lease))
    }
}

/// A home in this process, with its hub or the way to it.
pub struct Site {
    host: Arc<Host>,
    role: RoleId,
    cache: Cache,
    updates: Updates,
    source: Option<SourceLease>,
    address: Option<SocketAddr>,
}

/// The lease of a source that gives some itself, as the hub of this process knows it.
#[derive(Clone, Debug)]
pub struct SourceLease(Handle<Hub>);

impl SourceLease {
    /// The source reports all its changes before they are visible until then. All of them are announced that were
    /// learned of before it gave that lease.
    pub fn until(&self, until: Time) {
        self.0.call(|hub| hub.source_lease(self.0.driver().now(), until));
    }

    /// The source knows that all leases are over which an earlier hub of it has given.
    pub fn succeeds_nobody(&self) {
        self.0.call(|hub| hub.succeeds_nobody(self.0.driver().now()));
    }
}

/// A home that runs, and what belongs to it.
pub(crate) struct Parts<M> {
    pub(crate) host: Arc<Host>,
    pub(crate) role: RoleId,
    pub(crate) home: Handle<Home<M>>,
    pub(crate) updates: Updates,
    pub(crate) source: Option<SourceLease>,
    pub(crate) address: Option<SocketAddr>,
}

impl Site {
    /// Starts it. A home whose hub is elsewhere stores nothing until the hub is there.
    ///
    /// # Errors
    /// An address that is none, or that cannot be listened on.
    pub fn start(config: &SiteConfig, runtime: &Runtime) -> Result<Self, SiteError> {
        let home = Home::new(HomeConfig { slots: config.responses_max, ..HomeConfig::new(drawn()) });
        let Parts { host, role, home, updates, source, address } = Self::start_with(config, home, runtime)?;
        Ok(Self { host, role, cache: Cache::here(home), updates, source, address })
    }

    /// Starts this home, with its hub or the way to it.
    pub(crate) fn start_with<M: Memory>(
        config: &SiteConfig,
        home: Home<M>,
        runtime: &Runtime,
    ) -> Result<Parts<M>, SiteError> {
        let mut machines = Machines::new();
        if let Some(hub) = &config.hub {
            let (upstream, updates) = (upstream(hub)?, Updates::connect(hub, runtime)?);
            let (role, home) = machines.add(home);
            let host = Host::start(machines, runtime);
            let home = Handle::new(home, host.driver(role));
            host.connect(role, upstream);
            return Ok(Parts { host, role, home, updates, source: None, address: None });
        }
        let SiteConfig { lease, ref sources, within_source, .. } = *config;
        let (succeeds, sources) = (config.succeeds(), sources.clone());
        let hub_config = HubConfig { lease, succeeds, sources, within_source, ..HubConfig::default() };
        let (hub_role, hub) = machines.add(Hub::new(hub_config));
        let (role, home) = machines.add(home);
        machines.link(role, hub_role);
        let host = Host::start(machines, runtime);
        let home = Handle::new(home, host.driver(role));
        let hub = Handle::new(hub, host.driver(hub_role));
        let source = within_source.then(|| SourceLease(hub.clone()));
        let updates = Updates::here(hub);
        let address = config.listen.map(|address| listen(&host, hub_role, address, config.insecure)).transpose()?;
        Ok(Parts { host, role, home, updates, source, address })
    }

    /// Its home, for a cache.
    pub fn cache(&self) -> Cache {
        self.cache.clone()
    }

    /// Its hub, for updaters.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
    }

    /// How its hub is notified of the lease of a source that gives some, if it is to ([`SiteConfig::within_source`]).
    pub fn source_lease(&self) -> Option<SourceLease> {
        self.source.clone()
    }

    /// Where its hub listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The way of changes to all caches.
    pub fn changes(&self) -> Changes {
        Changes::by(self.updates.clone())
    }

    /// Its home answers nothing any more, and its hub is told so: updates do not wait until its lease is over. To be
    /// called when no request is answered any more; the site ends.
    pub fn leave(&self) {
        self.host.close(self.role);
    }

    /// The host of its machines.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("address", &self.address).finish_non_exhaustive()
    }
}

fn listen(host: &Arc<Host>, hub: RoleId, address: SocketAddr, insecure: bool) -> Result<SocketAddr, SiteError> {
    let config = ListenConfig { insecure, ..ListenConfig::new(homes::messages::hub::HUB, address) };
    host.listen(hub, config).map_err(SiteError::Listen)
}
