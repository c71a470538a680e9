//! A hub and its homes.

use coherence::{Cache, Claim, Dependency, NotStored, Site, SiteConfig, SourceLease, Ticket, Updates};
use net::Runtime;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A hub and a home in this process, and what a proxy does with them.
pub(crate) struct Web {
    site: Site,
    cache: Cache,
    _others: Vec<Site>,
    _runtime: Runtime,
}

impl Web {
    pub(crate) fn start() -> Self {
        Self::with_homes_apart(0)
    }

    /// The same, and so many homes that are joined by TCP.
    pub(crate) fn with_homes_apart(count: usize) -> Self {
        let listen = (count > 0).then(|| "127.0.0.1:0".parse().unwrap());
        Self::of(SiteConfig { listen, ..SiteConfig::default() }, count)
    }

    /// A hub that gives leases within that of its watcher.
    pub(crate) fn leased(lease: Duration) -> Self {
        Self::of(SiteConfig { lease, within_source: true, ..SiteConfig::default() }, 0)
    }

    /// The same, where homes of others find it.
    pub(crate) fn leased_at(address: &str, lease: Duration) -> Self {
        let listen = Some(address.parse().unwrap());
        Self::of(SiteConfig { lease, listen, within_source: true, ..SiteConfig::default() }, 0)
    }

    /// Where it is found.
    pub(crate) fn address(&self) -> String {
        self.site.address().expect("it listens").to_string()
    }

    fn of(config: SiteConfig, count: usize) -> Self {
        let runtime = Runtime::start().unwrap();
        let small = SiteConfig { responses_max: 1024, ..config };
        let site = Site::start(&small, &runtime).unwrap();
        let hub = site.address().map(|address| address.to_string());
        let others = (0..count)
            .map(|_| Site::start(&SiteConfig { hub: hub.clone(), listen: None, ..small.clone() }, &runtime).unwrap());
        let others: Vec<_> = others.collect();
        let begun = Instant::now();
        while others.iter().any(|site| site.cache().ticket().is_none()) {
            assert!(begun.elapsed() < PATIENCE, "the homes do not join");
            thread::sleep(Duration::from_millis(1));
        }
        Self { cache: site.cache(), site, _others: others, _runtime: runtime }
    }

    pub(crate) fn updates(&self) -> Updates {
        self.site.updates()
    }

    pub(crate) fn lease(&self) -> Option<SourceLease> {
        self.site.source_lease()
    }

    /// Before a response is asked for.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.cache.ticket()
    }

    /// When it is there.
    pub(crate) fn store(&self, ticket: Ticket, dependency: &str) -> Result<Claim, NotStored> {
        let dependencies = [Dependency::new(dependency.to_owned()).unwrap()];
        store(&self.cache, ticket, &dependencies)
    }

    /// A fill that takes no time.
    pub(crate) fn fill(&self, dependency: &str) -> Result<Claim, NotStored> {
        self.store(self.ticket().ok_or(NotStored::Away)?, dependency)
    }

    /// Fills until the response is stored.
    pub(crate) fn fill_soon(&self, dependency: &str) -> Claim {
        let begun = Instant::now();
        loop {
            match self.fill(dependency) {
                Ok(claim) => return claim,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "{dependency} is not stored: {why}"),
            }
            thread::yield_now();
        }
    }
}

fn store(cache: &Cache, ticket: Ticket, dependencies: &[Dependency]) -> Result<Claim, NotStored> {
    // The home is in this process: nothing is waited for.
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tasks.block_on(cache.store(ticket, dependencies))
}

/// A response that is stored by a cache, as soon as its home takes one.
pub(crate) fn stored(cache: &Cache, dependency: &str) -> Claim {
    let (begun, dependencies) = (Instant::now(), [Dependency::new(dependency.to_owned()).unwrap()]);
    loop {
        if let Some(claim) = cache.ticket().and_then(|ticket| store(cache, ticket, &dependencies).ok()) {
            return claim;
        }
        assert!(begun.elapsed() < PATIENCE, "{dependency} is not stored");
        thread::sleep(Duration::from_millis(1));
    }
}
