//! A hub and its homes.

use coherence::{Cache, Claim, Dependency, NotStored, Site, SiteConfig, Ticket, Updates};
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
        let runtime = Runtime::start().unwrap();
        let listen = (count > 0).then(|| "127.0.0.1:0".parse().unwrap());
        let small = SiteConfig { responses_max: 1024, ..SiteConfig::default() };
        let site = Site::start(&SiteConfig { listen, ..small.clone() }, &runtime).unwrap();
        let hub = site.address().map(|address| address.to_string());
        let others =
            (0..count).map(|_| Site::start(&SiteConfig { hub: hub.clone(), ..small.clone() }, &runtime).unwrap());
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

    /// Before a response is asked for.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.cache.ticket()
    }

    /// When it is there.
    pub(crate) fn store(&self, ticket: Ticket, dependency: &str) -> Result<Claim, NotStored> {
        let dependencies = [Dependency::new(dependency.to_owned()).unwrap()];
        // The home is in this process: nothing is waited for.
        let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tasks.block_on(self.cache.store(ticket, &dependencies))
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
