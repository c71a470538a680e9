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

use crate::config::Config;
use crate::stored::announcements::Announcements;
use crate::stored::shared_home::{SharedHome, fnv1a};
use coherence::{
    AttachedHome, Cache, Changes, Dependency, HomeAddress, Matches, NotStored, Site, SiteConfig, SiteError, SourceName,
    ThreadTables, Ticket,
};
use net::Runtime;
use responses::{Dependencies, InvalidGroups, Key};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;
use types::limits::DEPENDENCY_BYTES_MAX;
use types::splitmix;

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
    announcements: Announcements,
    /// Whether other proxies have the same hub.
    has_others: bool,
}

#[derive(Debug)]
enum Home {
    /// In this process, and its cache.
    Own(Box<(Site, Cache)>),
    /// In processes of their own.
    Shared(Vec<SharedHome>),
}

impl Coherence {
    pub(crate) fn start(config: &Config, runtime: &Runtime) -> Result<Self, SiteError> {
        if !config.homes.is_empty() {
            let homes = config.homes.iter().map(|address| SharedHome::attach(address, config, runtime));
            let homes = homes.collect::<Result<Vec<_>, _>>()?;
            let announcements = Announcements::to(Changes::by_all(homes.iter().map(|home| home.home.changes())));
            return Ok(Self { home: Home::Shared(homes), announcements, has_others: true });
        }
        let on_disk = (config.disk_bytes() / RESPONSE_BYTES).min(RESPONSES_MAX.into()) as u32;
        let responses_max = config.site.responses_max.max(on_disk);
        let site = Site::start(&SiteConfig { responses_max, ..config.site.clone() }, runtime)?;
        let has_others = config.site.hub.is_some() || config.site.listen.is_some();
        let (cache, announcements) = (site.cache(), Announcements::to(site.changes()));
        Ok(Self { home: Home::Own(Box::new((site, cache))), announcements, has_others })
    }

    /// Lookups of this thread, which serves clients, have sessions of their own as long as what this gives is there.
    pub(crate) fn look_up_here(&self) -> ThreadTables {
        AttachedHome::look_up_here(self.shared().iter().map(|home| &home.home))
    }

    /// The homes in processes of their own.
    pub(crate) fn shared(&self) -> &[SharedHome] {
        match &self.home {
            Home::Own(_) => &[],
            Home::Shared(homes) => homes,
        }
    }

    /// The home of the responses under a key. It has to be known before the origin is asked, as that takes its ticket;
    /// so it does not depend on which of several applications answers. Where a home is added, only what comes to it has
    /// another one.
    fn cache(&self, key: &[u8]) -> &Cache {
        match &self.home {
            Home::Own(own) => &own.1,
            Home::Shared(homes) => &home_of(homes, key).cache,
        }
    }

    /// Whether the home of a key that gave a ticket is used: it is alone, or has the hub of the others.
    fn admits(&self, key: &[u8], ticket: &Ticket) -> bool {
        let homes = self.shared();
        homes.len() < 2 || home_of(homes, key).admission.admits(ticket)
    }

    fn caches(&self) -> impl Iterator<Item = &Cache> {
        let own = if let Home::Own(own) = &self.home { Some(&own.1) } else { None };
        own.into_iter().chain(self.shared().iter().map(|home| &home.cache))
    }

    /// Where its hub listens for the homes of others.
    pub(crate) fn hub_address(&self) -> Option<SocketAddr> {
        match &self.home {
            Home::Own(own) => own.0.address(),
            Home::Shared(_) => None,
        }
    }

    /// A ticket for a request that is about to go to the origin. Without one its response is not stored.
    pub(crate) async fn ticket(&self, key: &Key) -> Option<Ticket> {
        let ticket = self.cache(key.as_bytes()).fetch_ticket().await?;
        self.admits(key.as_bytes(), &ticket).then_some(ticket)
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
        let claim = self.cache(key.as_bytes()).store(ticket, &named).await?;
        // Checked behind the claim: the claims of a home that is dropped later are invalidated.
        if self.admits(key.as_bytes(), &ticket) { Ok(claim) } else { Err(NotStored::Away) }
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
        if let Home::Own(own) = &self.home { own.1.slots_of(dependency) } else { None }
    }

    /// How updates have named what is stored; `None` where the home is another process.
    pub(crate) fn matches(&self) -> Option<(Matches, Option<Dependency>)> {
        if let Home::Own(own) = &self.home { own.1.matches() } else { None }
    }

    /// The number of stored responses at its homes that depend on each of these; `None` if they do not say so in time.
    pub(crate) async fn dependents(&self, dependencies: &[Dependency]) -> Option<Vec<usize>> {
        let count = async {
            let mut counts = Vec::with_capacity(dependencies.len());
            for dependency in dependencies {
                let mut count = 0;
                for cache in self.caches() {
                    count += cache.dependents(dependency).await;
                }
                counts.push(count);
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
        self.caches().for_each(Cache::lapse_all);
    }

    /// Nothing is answered here any more: updates do not wait for a home of this process.
    pub(crate) fn leave(&self) {
        if let Home::Own(own) = &self.home {
            own.0.leave();
        }
    }

    /// Announces a change that has been made: when this is over, no cache answers without it. A hub that has ended
    /// answers for nothing, and leaves no claim that holds. The change is announced also if no request waits for this
    /// any more.
    ///
    /// # Errors
    /// The hub was not reached for this long. It is told when it is there again.
    pub(crate) async fn announce(&self, changed: Vec<Dependency>, within: Duration) -> Result<(), HubAway> {
        if changed.is_empty() {
            return Ok(());
        }
        timeout(within, self.announcements.begin(changed)).await.map_err(|_| HubAway)
    }

    /// Why the hub is not reached, or the first of the homes that are not, if they are other processes.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &self.home {
            Home::Own(own) => own.0.updates().trouble().map(|why| why.to_string()),
            Home::Shared(homes) => homes.iter().find_map(SharedHome::trouble),
        }
    }

    /// The sources of changes that are away at a hub of this process.
    pub(crate) fn sources_away(&self) -> Vec<SourceName> {
        if let Home::Own(own) = &self.home { own.0.updates().sources_away() } else { Vec::new() }
    }

    /// Everything that keeps responses from being stored and answered with, in words.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let home =
            |(address, why): (&HomeAddress, Option<String>)| Some(format!("the home {address} is not used: {}", why?));
        match &self.home {
            Home::Own(own) => own.0.updates().troubles(),
            Home::Shared(_) => self.homes().filter_map(home).collect(),
        }
    }

    /// The homes in other processes, and why one is not reached or not used.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (&HomeAddress, Option<String>)> {
        self.shared().iter().map(|home| (&home.address, home.trouble()))
    }
}

/// The home of a key, of at least one.
fn home_of<'a>(homes: &'a [SharedHome], key: &[u8]) -> &'a SharedHome {
    &homes[place(homes.iter().map(|home| home.number), key)]
}

/// The place of the home of a key among the numbers of several: the one whose number together with the key has the
/// greatest hash (rendezvous hashing). It is the same in all proxies that say the homes' addresses alike, in whatever
/// order.
fn place(homes: impl Iterator<Item = u64>, key: &[u8]) -> usize {
    let key = fnv1a(key);
    // FNV changes the high bits too little, by which hashes are compared.
    let weight = |number| splitmix(&mut (number ^ key));
    homes.enumerate().max_by_key(|(_, number)| weight(*number)).map_or(0, |(at, _)| at)
}

/// The dependencies that the response to an unsafe request says it has changed.
pub(crate) fn changed(groups: &InvalidGroups) -> Vec<Dependency> {
    let named = match groups {
        InvalidGroups::Named(groups) => groups.iter().map(dependency).collect(),
        InvalidGroups::All(_) => None,
    };
    named.unwrap_or_else(|| vec![Dependency::ALL])
}

fn dependency(name: &[u8]) -> Option<Dependency> {
    Dependency::new(name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shared_out_alike_wherever_the_homes_are_said_and_few_move_to_one_that_is_added() {
        let number = |address: &str| fnv1a(address.as_bytes());
        let (two, turned) = (["shed:7430", "barn:7430"].map(number), ["barn:7430", "shed:7430"].map(number));
        let three = [two[0], two[1], number("mill:7430")];
        let (mut of, mut moved) = ([0; 3], 0);
        for item in 0..3000 {
            let key = format!("http shop.example /item/{item}");
            let at = place(two.into_iter(), key.as_bytes());
            assert_eq!(two[at], turned[place(turned.into_iter(), key.as_bytes())]);
            let now = place(three.into_iter(), key.as_bytes());
            of[now] += 1;
            moved += usize::from(now != at);
            assert!(now == at || now == 2, "{key} goes from one of the homes to the other");
        }
        assert!(of.iter().all(|count| (850..1150).contains(count)), "{of:?}");
        assert_eq!(moved, of[2]);
        assert_eq!(place([1].into_iter(), b"alone"), 0);
    }
}
