//! The rules of coherent responses, where a proxy keeps to them: its home, and the way to its hub.
//!
//! 1. A [`Ticket`] is taken before a request goes to the origin ([`Coherence::ticket`]).
//! 2. The response is stored only if nothing that it depends on has changed since, rule StoreIfUntouched: it has a
//!    [`Claim`] then ([`Coherence::store`]). One without is for its requester alone.
//! 3. A stored response answers a request only if its claim is looked at after the request came, and holds, rule
//!    LookAtHit ([`Claim::is_current`]).
//! 4. A change that passes here is announced before its client is told that it is done ([`Coherence::announce`]).
//!
//! A claim is given back when the last one drops it that holds the stored response.

use crate::announcements::Announcements;
use coherence::{Cache, Dependency, NotStored, Proof, Site, SiteConfig, SiteError, Ticket};
use net::{ConnectError, Runtime};
use responses::{Dependencies, InvalidGroups, Key};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use types::limits::DEPENDENCY_BYTES_MAX;

/// The hub was not reached in time: caches elsewhere may answer without a change that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HubAway;

/// A proxy's home, and its hub or the way to it.
#[derive(Debug)]
pub(crate) struct Coherence {
    site: Site,
    cache: Arc<Cache>,
    announcements: Announcements,
    /// Whether other proxies have the same hub.
    has_others: bool,
}

impl Coherence {
    pub(crate) fn start(config: &SiteConfig, runtime: &Runtime) -> Result<Self, SiteError> {
        let site = Site::start(config, runtime)?;
        let (cache, has_others) = (Arc::new(site.cache()), config.hub.is_some() || config.listen.is_some());
        let announcements = Announcements::to(site.updates());
        Ok(Self { site, cache, announcements, has_others })
    }

    /// Where its hub listens for the homes of others.
    pub(crate) fn hub_address(&self) -> Option<SocketAddr> {
        self.site.address()
    }

    /// A ticket for a request that is about to go to the origin. Without one its response is not stored.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.cache.ticket()
    }

    /// Stores a response that was asked for with a ticket. One that names no dependencies depends on everything.
    pub(crate) fn store(
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
        let proof = self.cache.store(ticket, &named)?;
        Ok(Claim { cache: self.cache.clone(), proof })
    }

    /// The dependency of the responses under a key, by which a proxy tells others that they have changed; none if there
    /// are no others. Long keys that begin alike share one, and lapse together.
    pub(crate) fn of_key(&self, key: &Key) -> Option<Dependency> {
        let name = [b"url ", key.as_bytes()].concat();
        let name = &name[..name.len().min(DEPENDENCY_BYTES_MAX)];
        if self.has_others { dependency(name) } else { None }
    }

    /// The places of the stored responses that depend on something.
    pub(crate) fn slots_of(&self, dependency: &Dependency) -> HashSet<u32> {
        self.cache.slots_of(dependency)
    }

    /// Nothing that is stored now answers any more without the origin's word.
    pub(crate) fn lapse_all(&self) {
        self.cache.lapse_all();
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

    /// Why the hub is not reached, if it is that of another process.
    pub(crate) fn trouble(&self) -> Option<ConnectError> {
        self.site.updates().trouble()
    }
}

/// The place of a stored response at its home, when it was stored and now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) stored: Proof,
    pub(crate) now: Proof,
}

impl Word {
    /// Whether nothing that the response depends on has changed.
    pub(crate) fn is_current(&self) -> bool {
        self.stored == self.now
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

/// The place of a stored response at its home.
#[derive(Debug)]
pub(crate) struct Claim {
    cache: Arc<Cache>,
    proof: Proof,
}

impl Claim {
    /// Whether the response may answer a request that came before this call.
    pub(crate) fn is_current(&self) -> bool {
        self.cache.is_current(&self.proof)
    }
}

impl Claim {
    /// Its place, for somebody who wants to see it.
    pub(crate) fn word(&self) -> Word {
        Word { stored: self.proof, now: self.cache.proof_now(self.proof) }
    }

    /// The response does not answer any more without the origin's word.
    pub(crate) fn lapse(&self) {
        self.cache.free(self.proof);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.cache.free(self.proof);
    }
}
