//! Requests for the same thing that meet: one of them goes to the origin, and the others wait with it.
//!
//! Rule JoinersNeedStored: a request that waits is answered with the response of another only if that was stored. One that
//! was not may lack an update that was done before the waiting request came; it is for the requester that started it
//! alone. Of those that waited for it, one starts the next, unless the response was of the kind that is not stored: then
//! all go by themselves, since there is nothing to wait for. One that its home has stored, and whose body is arriving, may
//! be read along with.

use crate::along::Along;
use crate::entries::Name;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use responses::Key;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Maps with a lock each.
const SHARDS: usize = 16;

/// Keys that are remembered for responses that are not stored. A key that is displaced from here costs a wait.
const UNSTORABLE_MAX: usize = 16 * 1024;

/// The outcome of a fill.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    UnderWay,
    /// Its home has stored it, and its body is arriving. It is of a size that is known, and not too large.
    Arriving(Arc<Along>),
    /// Its response is stored.
    Stored,
    /// It is not, by chance: something changed meanwhile.
    Missed,
    /// It is not, and the next one will not be either.
    Unstorable,
    /// The origin has failed.
    Failed,
}

impl Outcome {
    /// Whether nothing more comes of it.
    pub(crate) fn is_end(&self) -> bool {
        !matches!(self, Self::UnderWay | Self::Arriving(_))
    }
}

#[derive(Debug)]
pub(crate) struct Fills {
    shards: Box<[Mutex<Shard>]>,
    /// Hashes of keys, each where its low bits say.
    unstorable: Box<[AtomicU64]>,
}

type Shard = HashMap<Key, watch::Receiver<Outcome>, FixedState>;

/// The next step for a request that found nothing.
#[derive(Debug)]
pub(crate) enum Join {
    /// It goes to the origin, and others wait for it.
    Lead(Lead),
    /// It waits.
    Wait(watch::Receiver<Outcome>),
    /// It goes by itself: nothing is expected to be stored.
    Alone,
}

impl Fills {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, unstorable: (0..UNSTORABLE_MAX).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Joins the fill of a key, or starts it.
    pub(crate) fn join(self: &Arc<Self>, name: &Name) -> Join {
        if self.is_unstorable(name.hash) {
            return Join::Alone;
        }
        let mut shard = self.shard(name.hash);
        if let Some(fill) = shard.get(&name.key) {
            return Join::Wait(fill.clone());
        }
        let (outcome, receiver) = watch::channel(Outcome::UnderWay);
        shard.insert(name.key.clone(), receiver);
        Join::Lead(Lead { fills: self.clone(), name: name.clone(), outcome })
    }

    /// Whether the last response under this key was one that is not stored.
    fn is_unstorable(&self, hash: u64) -> bool {
        self.unstorable(hash).load(Relaxed) == hash
    }

    /// Remembers whether responses under this key are of those that are not stored.
    pub(crate) fn remember(&self, hash: u64, is_unstorable: bool) {
        if is_unstorable {
            self.unstorable(hash).store(hash, Relaxed);
        } else if self.is_unstorable(hash) {
            self.unstorable(hash).store(0, Relaxed);
        }
    }

    fn unstorable(&self, hash: u64) -> &AtomicU64 {
        &self.unstorable[hash as usize % UNSTORABLE_MAX]
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to fill under a key, while others wait. One that is dropped has missed.
#[derive(Debug)]
pub(crate) struct Lead {
    fills: Arc<Fills>,
    name: Name,
    outcome: watch::Sender<Outcome>,
}

impl Lead {
    /// Tells those that wait that they may read along.
    pub(crate) fn arrives(&self, along: Arc<Along>) {
        self.outcome.send_replace(Outcome::Arriving(along));
    }

    /// Tells those that wait.
    pub(crate) fn end(self, outcome: Outcome) {
        self.outcome.send_replace(outcome);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // First out of the map: a request that comes now starts anew.
        self.fills.shard(self.name.hash).remove(&self.name.key);
        self.outcome.send_if_modified(|outcome| {
            let is_left = !outcome.is_end();
            if is_left {
                *outcome = Outcome::Missed;
            }
            is_left
        });
    }
}
