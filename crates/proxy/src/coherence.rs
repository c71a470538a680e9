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

use coherence::{Cache, Dependency, NotStored, Proof, Site, Ticket};
use responses::{Dependencies, InvalidGroups};

/// A proxy's home, and its hub or the way to it.
#[derive(Debug)]
pub(crate) struct Coherence {
    site: Site,
    cache: Cache,
}

impl Coherence {
    pub(crate) fn new(site: Site) -> Self {
        let cache = site.cache();
        Self { site, cache }
    }

    /// A ticket for a request that is about to go to the origin. Without one its response is not stored.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.cache.ticket()
    }

    /// Stores a response that was asked for with a ticket. One that names no dependencies depends on everything.
    pub(crate) fn store(&self, ticket: Option<Ticket>, dependencies: &Dependencies) -> Result<Claim, NotStored> {
        let ticket = ticket.ok_or(NotStored::Away)?;
        let named: Option<Vec<Dependency>> = dependencies.iter().map(dependency).collect();
        let named = match named.ok_or(NotStored::TooMany)? {
            none if none.is_empty() => vec![Dependency::ALL],
            named => named,
        };
        let proof = self.cache.store(ticket, &named)?;
        Ok(Claim { cache: self.cache.clone(), proof })
    }

    /// Announces a change that has been made: when this is over, no cache answers without it. `None` is a change of
    /// everything. A hub that has ended answers for nothing, and leaves no claim that holds.
    pub(crate) async fn announce(&self, changed: Vec<Dependency>) {
        if let Ok(update) = self.site.updates().announce(changed).await {
            update.visible();
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

/// The place of a stored response at its home.
#[derive(Debug)]
pub(crate) struct Claim {
    cache: Cache,
    proof: Proof,
}

impl Claim {
    /// Whether the response may answer a request that came before this call.
    pub(crate) fn is_current(&self) -> bool {
        self.cache.is_current(&self.proof)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.cache.free(self.proof);
    }
}
