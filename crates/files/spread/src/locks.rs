//! Locks of paths at a file server: their holders, those who wait for them, and their leases.
//!
//! ```text
//!   Lock --> waiting --granted--> held --wanted--> recalled     KeepLocks renews those that are held
//!               |                  |                  |
//!               |                  +------------------+--- Unlock, or the lease is over ---> over
//!               +--- Unlock, or the session is lost ---> over
//! ```
//! One publisher at a time has the lock of a path (**PExcludes**). A lock belongs to a publisher, not to a session: it
//! ends by release or with its lease (**EndByLease**). Requests of lost sessions are forgotten, as publishers say them
//! again in the next one. A lease counts from the last question of the holder (**LeaseWithin**), so a lock is granted
//! only to those who keep asking while they wait.

use crate::messages::{Identity, Token};
use crate::number::SiteKey;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;
use machine::Port;
use tree::Path;
use types::Time;
use types::limits::{LOCKS_PER_PUBLISHER_MAX, LOCKS_PER_SITE_MAX};

/// A path of a site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: SiteKey,
    path: Path,
}

/// A lock that is held.
#[derive(Debug)]
struct Held {
    place: Place,
    owner: Identity,
    /// The session that renews it. None after that was lost.
    port: Option<Port>,
    /// The last session in which the publisher asked for it or brought it.
    last: Port,
    /// The end of its lease, by the clock here.
    until: Time,
    is_recalled: bool,
}

/// A request for a lock.
#[derive(Debug)]
struct Waiting {
    place: Place,
    owner: Identity,
    port: Port,
    /// The end of the lease that it would have. None before the publisher has asked for one.
    until: Option<Time>,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) port: Port,
    pub(crate) ticket: u64,
    pub(crate) token: Token,
}

/// The locks of all sites.
#[derive(Debug)]
pub(crate) struct Locks {
    held: BTreeMap<Token, Held>,
    places: BTreeMap<Place, Token>,
    /// In the order in which they were asked for.
    waiting: VecDeque<Waiting>,
    last: Token,
}

impl Locks {
    /// No locks, of a file server with this life.
    pub(crate) fn new(life: u64) -> Self {
        let last = Token { life, number: 0 };
        Self { held: BTreeMap::new(), places: BTreeMap::new(), waiting: VecDeque::new(), last }
    }

    /// Whether no lock is held, and none is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Whether a publisher asked for a lock, or brought it, in a later session than this one, which it has left: what
    /// was said in it can arrive late.
    pub(crate) fn is_left(&self, port: Port, owner: Identity) -> bool {
        let waits = self.waiting.iter().filter(|it| it.owner == owner).map(|it| it.port);
        let holds = self.held.values().filter(|held| held.owner == owner).map(|held| held.last);
        waits.chain(holds).any(|later| port < later)
    }

    /// A publisher wants a lock, and is the first in line for it or the last. Returns whether it is within its limit.
    pub(crate) fn ask(&mut self, (port, owner): (Port, Identity), key: &SiteKey, path: Path, is_first: bool) -> bool {
        let of_port = self.held.values().filter(|held| held.port == Some(port)).count()
            + self.waiting.iter().filter(|waiting| waiting.port == port).count();
        let of_site = self.held.values().filter(|held| held.place.key == *key).count()
            + self.waiting.iter().filter(|waiting| waiting.place.key == *key).count();
        if of_port >= LOCKS_PER_PUBLISHER_MAX || of_site >= LOCKS_PER_SITE_MAX {
            return false;
        }
        let waiting = Waiting { place: Place { key: key.clone(), path }, owner, port, until: None };
        if is_first {
            self.waiting.push_front(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
        true
    }

    /// A publisher renews its locks of a session until then, with those that it brings from an earlier one. Returns
    /// those of them that have ended, and those that were recalled.
    pub(crate) fn keep(
        &mut self,
        (now, until): (Time, Time),
        (port, publisher): (Port, u64),
        tokens: &[Token],
    ) -> (Vec<Token>, Vec<Token>) {
        let (mut over, mut recalled) = (Vec::new(), Vec::new());
        for token in tokens {
            match self.held.get_mut(token).filter(|held| now < held.until && held.owner.publisher == publisher) {
                // It was brought to a later session, where it stays.
                Some(held) if port < held.last => over.push(*token),
                Some(held) => {
                    (held.port, held.last) = (Some(port), port);
                    if held.is_recalled {
                        recalled.push(*token);
                    }
                }
                None => over.push(*token),
            }
        }
        let is_kept = |held: &&mut Held| held.port == Some(port) && now < held.until && !held.is_recalled;
        self.held.values_mut().filter(is_kept).for_each(|held| held.until = until);
        self.waiting.iter_mut().filter(|it| it.port == port).for_each(|it| it.until = Some(until));
        (over, recalled)
    }

    /// The sites of which a session waits for locks.
    pub(crate) fn waited_for(&self, port: Port) -> BTreeSet<SiteKey> {
        self.waiting.iter().filter(|it| it.port == port).map(|it| it.place.key.clone()).collect()
    }

    /// The sites of which locks are waited for.
    pub(crate) fn sites(&self) -> BTreeSet<SiteKey> {
        self.waiting.iter().map(|it| it.place.key.clone()).collect()
    }

    /// A publisher releases a lock or gives up a request. Returns the site, and whether the lock was held.
    pub(crate) fn unlock(&mut self, owner: Identity) -> Option<(SiteKey, bool)> {
        if let Some(at) = self.waiting.iter().position(|it| it.owner == owner) {
            return self.waiting.remove(at).map(|it| (it.place.key, false));
        }
        let token = self.held.iter().find_map(|(token, held)| (held.owner == owner).then_some(*token))?;
        self.end(token).map(|held| (held.place.key, true))
    }

    /// A session is lost. Leases run on.
    pub(crate) fn lost(&mut self, port: Port) {
        self.waiting.retain(|it| it.port != port);
        self.held.values_mut().filter(|held| held.port == Some(port)).for_each(|held| held.port = None);
    }

    /// Forgets the locks whose lease is over. Returns their sites.
    pub(crate) fn forget(&mut self, now: Time) -> BTreeSet<SiteKey> {
        let over = self.held.iter().filter(|(_, held)| now >= held.until).map(|(token, _)| *token);
        let over: Vec<Token> = over.collect();
        over.into_iter().filter_map(|token| self.end(token)).map(|held| held.place.key).collect()
    }

    /// When a lease is over next.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.held.values().map(|held| held.until).min()
    }

    /// Grants the free locks of a site in the order of the requests, but for those of `withheld` paths.
    pub(crate) fn grant(&mut self, now: Time, key: &SiteKey, withheld: impl Fn(&Path) -> bool) -> Vec<Granted> {
        let mut granted = Vec::new();
        for Waiting { place, owner, port, until } in mem::take(&mut self.waiting) {
            let is_free = place.key == *key && !self.is_held(now, &place) && !withheld(&place.path);
            let Some(end) = until.filter(|until| is_free && now < *until) else {
                self.waiting.push_back(Waiting { place, owner, port, until });
                continue;
            };
            self.last.number += 1;
            let token = self.last;
            if let Some(over) = self.places.insert(place.clone(), token) {
                self.held.remove(&over);
            }
            self.held
                .insert(token, Held { place, owner, port: Some(port), last: port, until: end, is_recalled: false });
            granted.push(Granted { port, ticket: owner.number, token });
        }
        granted
    }

    /// Recalls the locks of a site that others wait for. Returns those to be told.
    pub(crate) fn recall_wanted(&mut self, now: Time, key: &SiteKey) -> Vec<(Port, Token)> {
        let wanted = self.waiting.iter().filter(|it| it.place.key == *key);
        let tokens: BTreeSet<Token> = wanted.filter_map(|it| self.places.get(&it.place).copied()).collect();
        self.recall_all(now, tokens)
    }

    /// Recalls the locks of these paths. Returns those to be told.
    pub(crate) fn recall(&mut self, now: Time, key: &SiteKey, paths: &[Path]) -> Vec<(Port, Token)> {
        let tokens = paths.iter().filter_map(|path| self.token(key, path)).collect();
        self.recall_all(now, tokens)
    }

    fn recall_all(&mut self, now: Time, tokens: BTreeSet<Token>) -> Vec<(Port, Token)> {
        let mut told = Vec::new();
        for token in tokens {
            if let Some(held) = self.held.get_mut(&token).filter(|held| now < held.until && !held.is_recalled) {
                held.is_recalled = true;
                told.extend(held.port.map(|port| (port, token)));
            }
        }
        told
    }

    /// Ends the locks of these paths. Returns those to be told.
    pub(crate) fn end_all(&mut self, key: &SiteKey, paths: &[Path]) -> Vec<(Port, Token)> {
        let tokens: Vec<Token> = paths.iter().filter_map(|path| self.token(key, path)).collect();
        tokens.into_iter().filter_map(|token| Some((self.end(token)?.port?, token))).collect()
    }

    /// Ends the locks of a site that was removed. Returns those to be told.
    pub(crate) fn end_site(&mut self, key: &SiteKey) -> Vec<(Port, Token)> {
        let of_site = self.held.iter().filter(|(_, held)| held.place.key == *key).map(|(token, _)| *token);
        let tokens: Vec<Token> = of_site.collect();
        tokens.into_iter().filter_map(|token| Some((self.end(token)?.port?, token))).collect()
    }

    /// Takes the requests for locks of a site that was removed: their sessions and tickets.
    pub(crate) fn take_waiting(&mut self, key: &SiteKey) -> Vec<(Port, u64)> {
        let (taken, waiting): (VecDeque<Waiting>, VecDeque<Waiting>) =
            mem::take(&mut self.waiting).into_iter().partition(|it| it.place.key == *key);
        self.waiting = waiting;
        taken.into_iter().map(|it| (it.port, it.owner.number)).collect()
    }

    /// Whether a lock of the site is held.
    pub(crate) fn is_of(&self, now: Time, key: &SiteKey, token: Token) -> bool {
        self.held.get(&token).is_some_and(|held| held.place.key == *key && now < held.until)
    }

    /// The paths of a site whose locks are held by others than the holder of these.
    pub(crate) fn of_others(&self, now: Time, key: &SiteKey, own: &[Token]) -> Vec<Path> {
        let others =
            self.held.iter().filter(|(token, held)| held.place.key == *key && now < held.until && !own.contains(token));
        others.map(|(_, held)| held.place.path.clone()).collect()
    }

    fn is_held(&self, now: Time, place: &Place) -> bool {
        self.places.get(place).and_then(|token| self.held.get(token)).is_some_and(|held| now < held.until)
    }

    fn token(&self, key: &SiteKey, path: &Path) -> Option<Token> {
        self.places.get(&Place { key: key.clone(), path: path.clone() }).copied()
    }

    fn end(&mut self, token: Token) -> Option<Held> {
        let held = self.held.remove(&token)?;
        self.places.remove(&held.place);
        Some(held)
    }
}
