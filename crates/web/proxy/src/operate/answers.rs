//! The answers that clients got: by status, and how long each waited for the head of its answer.
//!
//! Every request counts here, hits included: three relaxed additions each, to memory that threads do not share.

use http::StatusCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The statuses that there are, and the first.
const STATUSES: usize = 500;
const STATUS_MIN: usize = 100;

/// The bounds of the times that are told apart, in microseconds. One more place is for longer ones.
const BOUNDS_US: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 60_000_000,
];

/// Where an answer has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// A stored response, without the origin.
    Cache,
    /// The origin, or the proxy itself.
    Other,
}

/// The number of shards: threads beyond that share them.
const SHARDS: usize = 8;

thread_local! {
    /// The shard of this thread.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % SHARDS
    };
}

/// Counts since the start.
#[derive(Debug)]
pub(crate) struct Answers(Box<[Shard]>);

/// The counts of a thread. Two shards never share a cache line, so a hit waits for no other processor.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    statuses: [AtomicU64; STATUSES],
    times: [Times; 2],
}

#[derive(Debug, Default)]
struct Times {
    places: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Default for Answers {
    fn default() -> Self {
        let shard = || Shard { statuses: [const { AtomicU64::new(0) }; STATUSES], times: Default::default() };
        Self((0..SHARDS).map(|_| shard()).collect())
    }
}

impl Answers {
    /// Counts an answer whose head was made so long after its request came.
    pub(crate) fn count(&self, status: StatusCode, by: AnsweredBy, took: Duration) {
        let shard = &self.0[SHARD.with(|shard| *shard)];
        if let Some(count) = shard.statuses.get(usize::from(status.as_u16()) - STATUS_MIN) {
            count.fetch_add(1, Relaxed);
        }
        let (times, us) = (&shard.times[by as usize], took.as_micros() as u64);
        times.places[BOUNDS_US.iter().position(|&bound| us <= bound).unwrap_or(BOUNDS_US.len())].fetch_add(1, Relaxed);
        times.sum_us.fetch_add(us, Relaxed);
    }

    /// The answers by status.
    pub(crate) fn by_status(&self) -> Vec<(u16, u64)> {
        let counts = (0..STATUSES).map(|at| self.0.iter().map(|shard| shard.statuses[at].load(Relaxed)).sum());
        let counts = counts.enumerate().filter(|(_, count)| *count > 0);
        counts.map(|(at, count)| ((at + STATUS_MIN) as u16, count)).collect()
    }

    /// The time within which so many percent were answered: the bound of their place, if it has one.
    pub(crate) fn quantile_us(&self, by: AnsweredBy, percent: u64) -> Option<u64> {
        let counts = self.places(by);
        let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
        let mut sum = 0;
        let at = counts.iter().position(|count| {
            sum += count;
            wanted > 0 && sum >= wanted
        });
        at.and_then(|at| BOUNDS_US.get(at).copied())
    }

    fn times(&self, by: AnsweredBy) -> impl Iterator<Item = &Times> {
        self.0.iter().map(move |shard| &shard.times[by as usize])
    }

    /// The answers by their times' places.
    fn places(&self, by: AnsweredBy) -> [u64; BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.times(by).map(|times| times.places[at].load(Relaxed)).sum())
    }

    /// The answers within each bound in seconds; with the last, which is infinite, the time of all.
    pub(crate) fn buckets(&self, by: AnsweredBy) -> Vec<(String, u64, Option<u64>)> {
        let mut sum = 0;
        let counts = self.places(by).into_iter().enumerate().map(|(at, count)| {
            sum += count;
            match BOUNDS_US.get(at) {
                Some(&bound) => (Duration::from_micros(bound).as_secs_f64().to_string(), sum, None),
                None => ("+Inf".to_owned(), sum, Some(self.times(by).map(|times| times.sum_us.load(Relaxed)).sum())),
            }
        });
        counts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_bounds_of_their_places() {
        let answers = Answers::default();
        assert_eq!(answers.quantile_us(AnsweredBy::Cache, 99), None);
        let count = |ms| answers.count(StatusCode::OK, AnsweredBy::Cache, Duration::from_millis(ms));
        (0..98).for_each(|_| count(2));
        count(40);
        count(120_000);
        let quantiles = [50, 98, 99, 100].map(|percent| answers.quantile_us(AnsweredBy::Cache, percent));
        assert_eq!(quantiles, [Some(2_500), Some(2_500), Some(50_000), None]);
        assert_eq!(answers.quantile_us(AnsweredBy::Other, 50), None);
        assert_eq!(answers.by_status(), [(200, 100)]);
        let buckets = answers.buckets(AnsweredBy::Cache);
        assert!(buckets.contains(&("0.0025".to_owned(), 98, None)), "{buckets:?}");
        assert_eq!(buckets.last().unwrap(), &("+Inf".to_owned(), 100, Some(98 * 2_000 + 40_000 + 120_000_000)));
        assert_eq!(answers.buckets(AnsweredBy::Other).last().unwrap(), &("+Inf".to_owned(), 0, Some(0)));
    }
}
