//! One ordered stream of invalidations for each holder.
//!
//! 1. All changes through a batch's `through` to pages that the holder holds are in that batch or an earlier one.
//! 2. A batch leaves before every reply, or when its first invalidation has waited for `delay`.
//! 3. Nobody is visited for a commit but the holders of what it changed; the others' `through` moves with their next
//!    batch.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hash;
use core::time::Duration;
use messages::{Invalidation, Invalidations};
use types::{Limits, Map, Time, Vector};

/// A batch without invalidations is only worth its bytes when it moves the horizon this far: the acknowledgement that
/// it brings lets *recent* be pruned.
const QUIET_COUNTS: u64 = 1024;

#[derive(Debug, Default)]
struct Stream {
    items: Vec<Invalidation>,
    sent: Vector,
    /// Stands in the queue of what is due.
    queued: bool,
}

/// All holders' streams.
#[derive(Debug)]
pub struct Streams<H> {
    by_holder: Map<H, Stream>,
    /// In the order of time, since all wait equally long.
    due: VecDeque<(Time, H)>,
    delay: Duration,
    limits: Limits,
}

/// Which batches are worth sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Those with invalidations, and those that move the horizon far.
    Worthwhile,
    /// Everything that moves the horizon at all.
    All,
}

impl<H: Copy + Eq + Hash> Streams<H> {
    /// Streams whose batches wait for `delay` at most.
    pub fn new(delay: Duration, limits: Limits) -> Self {
        Self { by_holder: Map::default(), due: VecDeque::new(), delay, limits }
    }

    /// A holder is notified of what it holds from now on.
    pub fn open(&mut self, holder: H) {
        self.by_holder.insert(holder, Stream::default());
    }

    /// A holder is notified of nothing any more.
    pub fn close(&mut self, holder: H) {
        self.by_holder.remove(&holder);
    }

    /// Adds an invalidation to the holder's next batch.
    pub fn push(&mut self, now: Time, holder: H, invalidation: Invalidation) {
        let Some(stream) = self.by_holder.get_mut(&holder) else { return };
        stream.items.push(invalidation);
        if !stream.queued {
            stream.queued = true;
            self.due.push_back((now + self.delay, holder));
        }
    }

    /// The holder's next batches, up to `through`. Of a batch that is cut in parts only the last moves the horizon.
    pub fn take(&mut self, holder: H, through: &Vector, urgency: Urgency) -> Vec<Invalidations> {
        let Some(stream) = self.by_holder.get_mut(&holder) else { return Vec::new() };
        let far = if urgency == Urgency::Worthwhile { QUIET_COUNTS } else { 1 };
        if stream.items.is_empty() && !moves_by(&stream.sent, through, far) {
            return Vec::new();
        }
        let (items, before) = (core::mem::take(&mut stream.items), stream.sent.clone());
        stream.sent.join(through);
        Invalidations::split(items, &before, stream.sent.clone(), &self.limits)
    }

    /// How many invalidations wait for the holder's next batch.
    pub fn waiting(&self, holder: H) -> usize {
        self.by_holder.get(&holder).map_or(0, |stream| stream.items.len())
    }

    /// The holder's horizon is at `through` by other means than a batch.
    pub fn resume(&mut self, holder: H, through: &Vector) {
        if let Some(stream) = self.by_holder.get_mut(&holder) {
            stream.sent.join(through);
        }
    }

    /// A holder whose batch has waited long enough.
    pub fn pop_due(&mut self, now: Time) -> Option<H> {
        while self.due.front().is_some_and(|(due, _)| *due <= now) {
            let (_, holder) = self.due.pop_front().expect("just seen");
            let Some(stream) = self.by_holder.get_mut(&holder) else { continue };
            stream.queued = false;
            if !stream.items.is_empty() {
                return Some(holder);
            }
        }
        None
    }

    /// When the next batch is due.
    pub fn next_due(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }
}

/// Returns whether some shard's count is so far beyond what was sent.
fn moves_by(sent: &Vector, through: &Vector, far: u64) -> bool {
    through.counts().iter().any(|&(shard, count)| count.0.saturating_sub(sent.of(shard).0) >= far)
}
