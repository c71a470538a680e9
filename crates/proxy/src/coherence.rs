//! The rules of coherent responses, where a proxy keeps to them: its home, and the way to its hub.
//!
//! 1. A [`Ticket`] is taken before a request goes to the origin ([`Coherence::ticket`]).
//! 2. The response is stored only if nothing that it depends on has changed since, rule StoreIfUntouched: it has a
//!    [`Claim`] then ([`Coherence::store`]). One without is for its requester alone.
//! 3. A stored response answers a request only if its claim is looked at after the request came, and holds, rule
//!    LookAtHit ([`Claim::look`]; [`Claim::is_current`] where nothing may be awaited).
//! 4. A change that passes here is announced before its client is told that it is done ([`Coherence::announce`]).
//!
//! A claim is given back when the last one drops it that holds the stored response.

use crate::announcements::Announcements;
use crate::config::Config;
use coherence::{AttachedHome, Cache, Dependency, NotStored, Site, SiteConfig, SiteError, Ticket};
use net::{ConnectError, Runtime};
use responses::{Dependencies, InvalidGroups, Key};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;
use types::limits::DEPENDENCY_BYTES_MAX;

/// The place of a stored response at its home.
pub(crate) use coherence::Claim;

/// The disk that there is for a response on an average, in bytes: a home has places for as many as it has room for.
const RESPONSE_BYTES: u64 = 2048;

/// The most places of a home.
const RESPONSES_MAX: u32 = 1 << 24;

/// How long a home may take to say how many responses depend on what an operator names.
const COUNT_WITHIN: Duration = Duration::from_secs(1);

/// The hub was not reached in time: caches elsewhere may answer without a change that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HubAway;

/// A proxy's home, and its hub or the way to it.
#[derive(Debug)]
pub(crate) struct Coherence {
    home: Home,
    cache: Cache,
    announcements: Announcements,
    /// Whether other proxies have the same hub.
    has_others: bool,
}

#[derive(Debug)]
enum Home {
    /// In this process.
    Own(Site),
    /// In a process of its own.
    Shared(AttachedHome),
}

impl Coherence {
    pub(crate) fn start(config: &Config, runtime: &Runtime) -> Result<Self, SiteError> {
        if let Some(address) = &config.home {
            let home = match &config.fabric {
                Some(provider) => AttachedHome::attach_by_fabric(address, provider, runtime)?,
                None => AttachedHome::attach(address, runtime)?,
            };
            let (cache, announcements) = (home.cache(), Announcements::to(home.changes()));
            return Ok(Self { home: Home::Shared(home), cache, announcements, has_others: true });
        }
        let on_disk = (config.disk_bytes() / RESPONSE_BYTES).min(RESPONSES_MAX.into()) as u32;
        let responses_max = config.site.responses_max.max(on_disk);
        let site = Site::start(&SiteConfig { responses_max, ..config.site.clone() }, runtime)?;
        let has_others = config.site.hub.is_some() || config.site.listen.is_some();
        let (cache, announcements) = (site.cache(), Announcements::to(site.changes()));
        Ok(Self { home: Home::Own(site), cache, announcements, has_others })
    }

    /// Where its hub listens for the homes of others.
    pub(crate) fn hub_address(&self) -> Option<SocketAddr> {
        match &self.home {
            Home::Own(site) => site.address(),
            Home::Shared(_) => None,
        }
    }

    /// A ticket for a request that is about to go to the origin. Without one its response is not stored.
    pub(crate) async fn ticket(&self) -> Option<Ticket> {
        self.cache.fetch_ticket().await
    }

    /// Stores a response that was asked for with a ticket. One that names no dependencies depends on everything.
    pub(crate) async fn store(
        &self,
        ticket: Option<Ticket>,
        key: &Key,
        dependencies: &Dependencies,
    ) -> Result<Claim, NotStored> {
        let ticket = ticket.ok_or(NotStored::Away)?;
        let named: Option<Vec<Dependency>> = dependencies.iter().map(dependency).collect();
        let mut named = named.ok_or(NotStored::TooMany)?;
        if named.is_empty() {
            named.push(Dependency::ALL);
        }
        named.extend(self.of_key(key));
        self.cache.store(ticket, &named).await
    }

    /// The dependency of the responses under a key, by which a proxy tells others that they have changed; none if there
    /// are no others. Long keys that begin alike share one, and lapse together.
    pub(crate) fn of_key(&self, key: &Key) -> Option<Dependency> {
        let name = [b"url ", key.as_bytes()].concat();
        let name = &name[..name.len().min(DEPENDENCY_BYTES_MAX)];
        if self.has_others { dependency(name) } else { None }
    }

    /// The places of the stored responses that depend on something; `None` where the home is another process.
    pub(crate) fn slots_of(&self, dependency: &Dependency) -> Option<HashSet<u32>> {
        self.cache.slots_of(dependency)
    }

    /// The number of stored responses at its home that depend on each of these; `None` if it does not say so in time.
    pub(crate) async fn dependents(&self, dependencies: &[Dependency]) -> Option<Vec<usize>> {
        let count = async {
            let mut counts = Vec::with_capacity(dependencies.len());
            for dependency in dependencies {
                counts.push(self.cache.dependents(dependency).await);
            }
            counts
        };
        timeout(COUNT_WITHIN, count).await.ok()
    }

    /// Whether other homes have the same hub, or other proxies the same home.
    pub(crate) fn has_others(&self) -> bool {
        self.has_others
    }

    /// Nothing that is stored now answers any more without the origin's word.
    pub(crate) fn lapse_all(&self) {
        self.cache.lapse_all();
    }

    /// Nothing is answered here any more: updates do not wait for a home of this process.
    pub(crate) fn leave(&self) {
        if let Home::Own(site) = &self.home {
            site.leave();
        }
    }

    /// Announces a change that has been made: when this is over, no cache answers without it. A hub that has ended answers
    /// for nothing, and leaves no claim that holds. The change is announced also if nobody waits for this any more.
    ///
    /// # Errors
    /// The hub was not reached for so long. It is told when it is there again.
    pub(crate) async fn announce(&self, changed: Vec<Dependency>, within: Duration) -> Result<(), HubAway> {
        if changed.is_empty() {
            return Ok(());
        }
        timeout(within, self.announcements.begin(changed)).await.map_err(|_| HubAway)
    }

    /// Why the hub is not reached, or the home, if it is that of another process.
    pub(crate) fn trouble(&self) -> Option<ConnectError> {
        match &self.home {
            Home::Own(site) => site.updates().trouble(),
            Home::Shared(home) => home.trouble(),
        }
    }
}

/// The dependencies that the response to an unsafe request says it has changed.
pub(crate) fn changed(groups: &InvalidGroups) -> Vec<Dependency> {
    let named = match groups {
        InvalidGroups::Named(groups) => groups.iter().map(dependency).collect(),
        InvalidGroups::All => None,
    };
    named.unwrap_or_else(|| vec![Dependency::ALL])
}

fn dependency(name: &[u8]) -> Option<Dependency> {
    Dependency::new(name.to_vec())
}
