//! Requests for the same thing that meet: one of them goes to the origin, and the others wait with it.
//!
//! ```text
//!   fill 1:  asked ------------------------- head: not stored
//!   fill 2:            .      .              asked ------------------ head: not stored
//!                      |      |                             |         answers the two that came during fill 1
//!   requests:          come  come                          comes      waits for fill 3
//! ```
//! A response that was stored answers all that wait, as any hit. One that its home has not stored may lack an update
//! that was done before a waiting request came (rule JoinersNeedStored). It lacks none of those that were done before
//! the origin was asked for it, so it answers the requests that had come by then, which share it (rule
//! AskAfterJoining). The others begin the next fill as soon as the head of this one says that it is not stored. So the
//! origin makes one response at a time for a key, however long an update of it takes to become visible.
//!
//! A response of the kind that is not stored is for its requester alone, and then all go by themselves: there is
//! nothing to wait for. One of a known size may be read along with while it arrives. For the end of another body a
//! request waits for [`BODY_WITHIN`] and no longer: it may never end. From then on requests for that key go by
//! themselves, each at once, until one of their responses is stored.

use crate::fill::along::Along;
use crate::fill::moments::{Asked, Come, Moments};
use crate::stored::entries::Name;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use responses::Key;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a request waits for the end of a body that it cannot read along with.
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(2);

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
    /// Its home has stored it, and its body is arriving, of a size that is not known: it may turn out to be too large,
    /// or have no end.
    Collecting,
    /// Its home has not stored it, and its body is arriving, of a size that is not known. When it is whole those that
    /// share it have it; the others begin the next one.
    Passing,
    /// It is not stored, for the reason of that name. Those that share it have it.
    Passed(Arc<Along>, &'static str),
    /// Its response is stored.
    Stored,
    /// It is not, by chance: something changed in the meantime.
    Missed,
    /// It is not, and the next one will not be either: it is for one client.
    Unstorable,
    /// The origin has failed.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Fills {
    shards: Box<[Mutex<Shard>]>,
    /// Hashes of keys, each where its low bits say.
    unstorable: Box<[AtomicU64]>,
    moments: Moments,
}

type Shard = HashMap<Key, Arc<UnderWay>, FixedState>;

/// A fill that requests find.
#[derive(Debug)]
struct UnderWay {
    outcome: watch::Receiver<Outcome>,
    /// As of before the origin is asked.
    asked: Asked,
    /// Whether somebody waits who had come before.
    is_shared: AtomicBool,
}

/// A request that waits for a fill.
#[derive(Debug)]
pub(crate) struct Waiting {
    outcome: watch::Receiver<Outcome>,
    /// Whether it came before the origin was asked: then it shares what is not stored.
    pub(crate) shares: bool,
}

impl Waiting {
    /// Waits until the body arrives, or nothing more comes of the fill for this request.
    pub(crate) async fn begun(&mut self) -> Outcome {
        self.wait(|outcome| !matches!(outcome, Outcome::UnderWay)).await
    }

    /// Waits until nothing more comes of the fill for this request; `None` if that takes too long.
    pub(crate) async fn ended(&mut self) -> Option<Outcome> {
        let shares = self.shares;
        let is_passing = move |outcome: &Outcome| shares && matches!(outcome, Outcome::Passing);
        let ended = self.wait(move |outcome| outcome.is_end() && !is_passing(outcome));
        timeout(BODY_WITHIN, ended).await.ok()
    }

    async fn wait(&mut self, is_enough: impl Fn(&Outcome) -> bool) -> Outcome {
        let outcome = self.outcome.wait_for(is_enough).await;
        // The right to fill is never dropped without an outcome.
        outcome.map_or(Outcome::Missed, |outcome| outcome.clone())
    }
}

impl Outcome {
    /// Whether nothing more comes of it, for those that do not share it.
    fn is_end(&self) -> bool {
        !matches!(self, Self::UnderWay | Self::Arriving(_) | Self::Collecting)
    }
}

/// The next step for a request that found nothing.
#[derive(Debug)]
pub(crate) enum Join {
    /// It goes to the origin, and others wait for it.
    Lead(Lead),
    /// It waits.
    Wait(Waiting),
    /// It goes by itself: nothing is expected to be stored.
    Alone,
}

impl Fills {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            unstorable: (0..UNSTORABLE_MAX).map(|_| AtomicU64::new(0)).collect(),
            moments: Moments::default(),
        }
    }

    /// A request has come.
    pub(crate) fn come(&self) -> Come {
        self.moments.come()
    }

    /// Joins the fill of a key, or starts it.
    pub(crate) fn join(self: &Arc<Self>, name: &Name, request: Come) -> Join {
        if self.is_unstorable(name.hash) {
            return Join::Alone;
        }
        let mut shard = self.shard(name.hash);
        if let Some(fill) = shard.get(&name.key) {
            let (outcome, shares) = (fill.outcome.clone(), fill.asked.is_after(request));
            fill.is_shared.fetch_or(shares, Relaxed);
            return Join::Wait(Waiting { outcome, shares });
        }
        let (sender, outcome) = watch::channel(Outcome::UnderWay);
        let fill = Arc::new(UnderWay { outcome, asked: self.moments.ask(), is_shared: AtomicBool::new(false) });
        shard.insert(name.key.clone(), fill.clone());
        Join::Lead(Lead { fills: self.clone(), name: name.clone(), fill, outcome: sender })
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
    fill: Arc<UnderWay>,
    outcome: watch::Sender<Outcome>,
}

impl Lead {
    /// Whether somebody waits who has the response also if it is not stored.
    pub(crate) fn is_shared(&self) -> bool {
        self.fill.is_shared.load(Relaxed)
    }

    /// Tells those that wait that they may read along.
    pub(crate) fn arrives(&self, along: Arc<Along>) {
        self.outcome.send_replace(Outcome::Arriving(along));
    }

    /// Tells those that wait that its body is arriving, and may have no end.
    pub(crate) fn collects(&self) {
        self.outcome.send_replace(Outcome::Collecting);
    }

    /// Tells those that wait that it is not stored: who shares it waits on.
    pub(crate) fn passes(&self) {
        self.leave();
        self.outcome.send_replace(Outcome::Passing);
    }

    /// Tells those that wait.
    pub(crate) fn end(self, outcome: Outcome) {
        self.leave();
        self.outcome.send_replace(outcome);
    }

    /// A request that comes now starts again. To be told before those that wait are: they do not meet it again.
    fn leave(&self) {
        let mut shard = self.fills.shard(self.name.hash);
        if shard.get(&self.name.key).is_some_and(|fill| Arc::ptr_eq(fill, &self.fill)) {
            shard.remove(&self.name.key);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.leave();
        self.outcome.send_if_modified(|outcome| {
            let is_left = !outcome.is_end() || matches!(outcome, Outcome::Passing);
            if is_left {
                *outcome = Outcome::Missed;
            }
            is_left
        });
    }
}
