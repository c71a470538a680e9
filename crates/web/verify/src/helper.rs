//! The decisions of the helper, without HTTP: over a home that is here or shared.

use crate::keys::{Keys, Lapsed, NotKept};
use crate::limits::{CHANGES_MAX, HUB_WITHIN, KEYS_BYTES_MAX};
use crate::rule::Rule;
use crate::ticket::{Request, Tickets};
use coherence::{Cache, Changes, Claim, Dependency, NotStored};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use types::Broken;
use types::limits::DEPENDENCIES_PER_RESPONSE_MAX;

/// The answer to a server that looks at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// A response that it has under this version may be used for the request that asks.
    Current(Pass),
    /// Nothing may be used yet. A response that comes to be stored under this version while the request waits may.
    Fill(Pass),
    /// There is no home, or it has no lease: the request goes to the application, and its response is not kept.
    Away,
}

/// A request's way to the application, should it go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The version that its key has.
    pub version: String,
    /// The word that the application sends back with the dependencies of its response.
    pub ticket: String,
}

/// Why a response must not be kept. It is given to the request that has fetched it, and to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// The home says so.
    Home(NotStored),
    /// The ticket is none that this process has given.
    UnknownTicket,
    /// The key has another version in the meantime.
    Superseded,
    /// As many responses with other dependencies are stored for the key as may be. It has a new version now.
    TooManyKinds,
}

impl Declined {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Home(NotStored::Away),
        Self::Home(NotStored::TicketVoid),
        Self::Home(NotStored::Marked),
        Self::Home(NotStored::Touched),
        Self::Home(NotStored::TooMany),
        Self::Home(NotStored::Full),
        Self::UnknownTicket,
        Self::Superseded,
        Self::TooManyKinds,
    ];

    /// The reason's name, as applications are told and as it is counted.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home(NotStored::Away) => "away",
            Self::Home(NotStored::TicketVoid) => "ticket-void",
            Self::Home(NotStored::Marked) => "marked",
            Self::Home(NotStored::Touched) => "touched",
            Self::Home(NotStored::TooMany) => "too-many-dependencies",
            Self::Home(NotStored::Full) => "full",
            Self::UnknownTicket => "unknown-ticket",
            Self::Superseded => "superseded",
            Self::TooManyKinds => "too-many-kinds",
        }
    }
}

/// Why it is not known that all caches have let go of what has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTold {
    /// The hub is not reached. It is told later.
    HubAway,
    /// The hub of this process has ended.
    HubEnded,
    /// As many changes are on their way as may be: this one is not.
    TooMany,
}

/// The helper of a machine's servers.
#[derive(Debug)]
pub struct Helper {
    cache: Cache,
    changes: Changes,
    keys: Mutex<Keys>,
    tickets: Tickets,
    /// Tells lists of dependencies apart.
    kinds: RandomState,
    under_way: Arc<Semaphore>,
    broken: Broken<Rule>,
}

impl Helper {
    /// A helper that knows of at most so many keys, over a home and the way of changes to all caches.
    pub fn new(cache: Cache, changes: Changes, keys_max: usize) -> Self {
        Self::with_rules(cache, changes, keys_max, Broken::NONE)
    }

    /// One without a rule, which tests have to notice.
    pub fn with_rules(cache: Cache, changes: Changes, keys_max: usize, broken: Broken<Rule>) -> Self {
        Self {
            cache,
            changes,
            keys: Mutex::new(Keys::new(keys_max, KEYS_BYTES_MAX, broken)),
            tickets: Tickets::new(),
            kinds: RandomState::new(),
            under_way: Arc::new(Semaphore::new(CHANGES_MAX)),
            broken,
        }
    }

    /// Whether a server may use what it has for a key, for a request that has come before this call.
    pub async fn look(&self, key: &[u8]) -> Look {
        let (mut place, claims) = self.with_keys(|keys| keys.find(key));
        // The request goes to the application after this, if it does: rule TicketAtLook.
        let (ticket, hold) = tokio::join!(self.cache.fetch_ticket(), self.hold(&claims));
        let Some(ticket) = ticket else { return Look::Away };
        if !hold {
            // A response that comes to be stored under the next one is stored after the request came.
            place = self.with_keys(|keys| keys.renew(key, place));
        }
        let is_current = hold && !claims.is_empty();
        let version = self.tickets.version(place.version).to_string();
        let pass = Pass { version, ticket: self.tickets.write(&Request::new(place, ticket)) };
        if is_current { Look::Current(pass) } else { Look::Fill(pass) }
    }

    /// Stores the response to a request, with everything that it depends on; gives the version under which its server
    /// may keep it. One that names nothing depends on everything.
    ///
    /// # Errors
    /// Why it must not be kept.
    pub async fn store(&self, ticket: &str, mut dependencies: Vec<Dependency>) -> Result<String, Declined> {
        let request = self.tickets.read(ticket).ok_or(Declined::UnknownTicket)?;
        if dependencies.is_empty() {
            dependencies.push(Dependency::ALL);
        }
        dependencies.sort_unstable();
        dependencies.dedup();
        // A home keeps one more, for the key that a proxy adds.
        if dependencies.len() > DEPENDENCIES_PER_RESPONSE_MAX {
            return Err(Declined::Home(NotStored::TooMany));
        }
        let asked = match self.cache.ticket() {
            Some(now) if self.broken.is(Rule::TicketAtLook) => now,
            _ => request.ticket(),
        };
        let claim = self.cache.store(asked, &dependencies).await.map_err(|reason| {
            if reason == NotStored::Full {
                self.with_keys(Keys::make_room);
            }
            Declined::Home(reason)
        })?;
        let (place, kind) = (request.place, self.kinds.hash_one(&dependencies));
        let is_covered = match self.with_keys(|keys| keys.of_kind(place, kind)) {
            Some(other) => other.look().await,
            None => false,
        };
        let claim = (!is_covered).then_some(claim);
        self.with_keys(|keys| keys.store(place, kind, claim)).map_err(|why| match why {
            NotKept::Superseded => Declined::Superseded,
            NotKept::TooManyKinds => Declined::TooManyKinds,
        })?;
        Ok(self.tickets.version(place.version).to_string())
    }

    /// Forgets a key: what a server has for it is no longer used. Gives whether it was known.
    pub fn forget(&self, key: &[u8]) -> bool {
        self.with_keys(|keys| keys.forget(key))
    }

    /// Reports a change that has been made; when this is over, no cache answers without it. It is told also if nobody
    /// waits for this any more.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn changed(&self, dependencies: Vec<Dependency>) -> Result<(), NotTold> {
        let permit = self.under_way.clone().try_acquire_owned().map_err(|_| NotTold::TooMany)?;
        let changes = self.changes.clone();
        let told = tokio::spawn(async move {
            let told = changes.made(dependencies).await;
            drop(permit);
            told
        });
        match timeout(HUB_WITHIN, told).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(_) => Err(NotTold::HubEnded),
            Err(_) => Err(NotTold::HubAway),
        }
    }

    /// How many keys are known, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        self.with_keys(|keys| keys.size())
    }

    /// Whether everything that is stored under a version holds, for a request that has come before this call: rule
    /// AllHold.
    async fn hold(&self, claims: &[Arc<Claim>]) -> bool {
        for claim in claims {
            if !claim.look().await {
                return false;
            }
            if self.broken.is(Rule::AllHold) {
                break;
            }
        }
        true
    }

    /// Calls the keys. Claims are given back to the home behind the call, when the lock is free.
    fn with_keys<R>(&self, call: impl FnOnce(&mut Keys) -> R) -> R {
        let (answer, lapsed): (R, Lapsed) = {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            (call(&mut keys), keys.take_lapsed())
        };
        drop(lapsed);
        answer
    }
}
