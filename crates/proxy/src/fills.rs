//! Requests for the same thing that meet: one of them goes to the origin, and the others wait with it.
//!
//! ```text
//!   fill 1:  asked ------------------------- not stored
//!   fill 2:            .      .              asked ------------------ not stored
//!                      |      |                             |         answers the two that came during fill 1
//!   requests:          come  come                          comes      waits for fill 3
//! ```
//! A response that was stored answers all that wait, as any hit. One that its home has not stored may lack an update that
//! was done before a waiting request came (rule JoinersNeedStored). It lacks none of those that were done before the origin
//! was asked for it, so it answers the requests that had come by then (rule AskAfterJoining): those that wait while one is
//! at the origin share the next one, and none waits for a third. So the origin has one request at a time for a key, however
//! many clients want it and however long an update of it takes to become visible.
//!
//! A response of the kind that is not stored is for its requester alone, and then all go by themselves: there is nothing to
//! wait for. One of a known size may be read along with while it arrives.

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
    /// Its home has not stored it. It answers those that had come before it was asked for; the next is for the others.
    Passed(Arc<Along>, Arc<Next>),
    /// Its response is stored.
    Stored,
    /// It is not, by chance: something changed meanwhile.
    Missed,
    /// It is not, and the next one will not be either: it is for one client.
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

/// The fill that those share who have waited for the one before, also one that is late to hear of its end.
#[derive(Debug)]
pub(crate) struct Next {
    /// For the first that takes it.
    lead: Mutex<Option<Lead>>,
    fill: watch::Receiver<Outcome>,
}

impl Next {
    /// Joins it, or starts it.
    pub(crate) fn join(&self) -> Join {
        let lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner).take();
        lead.map_or_else(|| Join::Wait(self.fill.clone()), Join::Lead)
    }
}

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
        let unstorable = (0..UNSTORABLE_MAX).map(|_| AtomicU64::new(0)).collect();
        Self { shards, unstorable }
    }

    /// Joins the fill of a key, or starts it.
    pub(crate) fn join(self: &Arc<Self>, name: &Name) -> Join {
        if self.is_unstorable(name.hash) {
            return Join::Alone;
        }
        let mut shard = self.shard(name.hash);
        match shard.get(&name.key) {
            Some(fill) => Join::Wait(fill.clone()),
            None => Join::Lead(self.begin(name, &mut shard)),
        }
    }

    /// A fill that requests find from now on.
    fn begin(self: &Arc<Self>, name: &Name, shard: &mut Shard) -> Lead {
        let (outcome, fill) = watch::channel(Outcome::UnderWay);
        shard.insert(name.key.clone(), fill);
        Lead { fills: self.clone(), name: name.clone(), outcome }
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
    /// Whether somebody waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        // One is in the map.
        self.outcome.receiver_count() > 1
    }

    /// Tells those that wait that they may read along.
    pub(crate) fn arrives(&self, along: Arc<Along>) {
        self.outcome.send_replace(Outcome::Arriving(along));
    }

    /// Tells those that wait.
    pub(crate) fn end(self, outcome: Outcome) {
        self.outcome.send_replace(outcome);
    }

    /// Tells those that wait that it is not stored, and has the next fill wait for one of them.
    pub(crate) fn pass(self, along: Arc<Along>) {
        let lead = self.fills.begin(&self.name, &mut self.fills.shard(self.name.hash));
        let next = Next { fill: lead.outcome.subscribe(), lead: Mutex::new(Some(lead)) };
        self.outcome.send_replace(Outcome::Passed(along, Arc::new(next)));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // First out of the map, if the next one is not there: a request that comes now starts anew.
        let mut shard = self.fills.shard(self.name.hash);
        let is_own = shard.get(&self.name.key).is_some_and(|fill| fill.same_channel(&self.outcome.subscribe()));
        let own = if is_own { shard.remove(&self.name.key) } else { None };
        drop(shard);
        drop(own);
        self.outcome.send_if_modified(|outcome| {
            let is_left = !outcome.is_end();
            if is_left {
                *outcome = Outcome::Missed;
            }
            is_left
        });
    }
}
