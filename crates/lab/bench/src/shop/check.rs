//! Whether a response is older than what was known when it was asked for.
//!
//! Every page tells the versions of what it shows. A version is *told* when the writer has its answer, and *seen* when
//! anybody has received a page that shows it. A response to a request that began later has to show that version or a
//! newer one:
//!
//! ```text
//!   writer   |-- update --| told: item:42 is at 7
//!   reader                   |-- request --| shows item:42 at 7 or later
//!   reader          |-- request --| shows what it likes: it began before
//! ```
//! The check knows nothing of caches, and takes all times from one clock. It can only find less than there is: a
//! version counts from when its receiver had it, a request from before it was sent.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests that take longer than this are not checked, so that older versions can be forgotten.
const REMEMBERED: Duration = Duration::from_secs(60);

const SHARDS: usize = 16;

/// The way by which a version became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A writer was told that its update is done.
    Told,
    /// Somebody was shown it.
    Seen,
}

/// A response that is older than it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thing that it shows.
    pub thing: String,
    /// The version that it shows.
    pub shown: u64,
    /// The version that was known when it was asked for.
    pub known: u64,
    /// The way by which that was known.
    pub source: Source,
    /// For how long it had been known.
    pub known_for: Duration,
}

/// Everything that is known, for any number of visitors at the same time.
#[derive(Debug)]
pub struct Check {
    hasher: RandomState,
    shards: [Mutex<HashMap<String, Known>>; SHARDS],
}

/// The versions of a thing that became known, each newer than the one before it, with when it did.
#[derive(Debug, Default)]
struct Known {
    told: VecDeque<(Instant, u64)>,
    seen: VecDeque<(Instant, u64)>,
}

impl Default for Check {
    fn default() -> Self {
        Self { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Check {
    /// A version is known from now on.
    pub fn learn(&self, thing: &str, version: u64, source: Source) {
        let now = Instant::now();
        let mut shard = self.shard(thing);
        if !shard.contains_key(thing) {
            shard.insert(thing.to_owned(), Known::default());
        }
        let Some(known) = shard.get_mut(thing) else { return };
        let versions = match source {
            Source::Told => &mut known.told,
            Source::Seen => &mut known.seen,
        };
        if versions.back().is_none_or(|(_, newest)| *newest < version) {
            versions.push_back((now, version));
        }
        // The newest of those that are older than anybody asks for stays.
        while versions.get(1).is_some_and(|(at, _)| now.duration_since(*at) > REMEMBERED) {
            versions.pop_front();
        }
    }

    /// Looks at a response that has come: what it shows must not be older than what was known when its request began.
    /// From now on it was seen.
    pub fn response<'a>(&self, begun: Instant, shows: impl Iterator<Item = (&'a str, u64)>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let is_checked = begun.elapsed() < REMEMBERED;
        for (thing, shown) in shows {
            if is_checked {
                findings.extend(self.find(begun, thing, shown));
            }
            self.learn(thing, shown, Source::Seen);
        }
        findings
    }

    fn find(&self, begun: Instant, thing: &str, shown: u64) -> Option<Finding> {
        let shard = self.shard(thing);
        let known = shard.get(thing)?;
        let finding = |versions: &VecDeque<(Instant, u64)>, source| {
            let (at, version) = versions.iter().rev().find(|(at, _)| *at < begun)?;
            let is_older = shown < *version;
            let known_for = begun.duration_since(*at);
            is_older.then(|| Finding { thing: thing.to_owned(), shown, known: *version, source, known_for })
        };
        finding(&known.told, Source::Told).or_else(|| finding(&known.seen, Source::Seen))
    }

    fn shard(&self, thing: &str) -> MutexGuard<'_, HashMap<String, Known>> {
        let shard = self.hasher.hash_one(thing) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_may_be_older_only_if_its_request_is() {
        let (check, before) = (Check::default(), Instant::now());
        check.learn("item:1", 7, Source::Told);
        let after = Instant::now() + Duration::from_millis(1);
        assert_eq!(check.response(before, [("item:1", 6)].into_iter()), []);
        assert_eq!(check.response(after, [("item:1", 7), ("item:2", 1)].into_iter()), []);
        let found = check.response(after, [("item:1", 6)].into_iter());
        assert_eq!((found[0].shown, found[0].known, found[0].source), (6, 7, Source::Told));
    }

    #[test]
    fn a_version_that_was_seen_is_known() {
        let check = Check::default();
        assert_eq!(check.response(Instant::now(), [("item:1", 3)].into_iter()), []);
        let found = check.response(Instant::now() + Duration::from_millis(1), [("item:1", 2)].into_iter());
        assert_eq!((found[0].known, found[0].source), (3, Source::Seen));
    }
}
