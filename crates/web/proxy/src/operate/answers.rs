//! The answers that clients got: by status, and how long each waited for the head of its answer.
//!
//! Every request counts here, hits included: three relaxed additions each, to memory that threads do not share.

use http::StatusCode;
use std::fmt::Write;
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

    /// The time in seconds within which so many percent were answered; the bound of their place.
    pub(crate) fn quantile_s(&self, by: AnsweredBy, percent: u64) -> Option<f64> {
        let counts = self.places(by);
        let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
        let mut sum = 0;
        let at = counts.iter().position(|count| {
            sum += count;
            wanted > 0 && sum >= wanted
        });
        at.map(|at| BOUNDS_US.get(at).map_or(f64::INFINITY, |&bound| seconds(bound)))
    }

    fn times(&self, by: AnsweredBy) -> impl Iterator<Item = &Times> {
        self.0.iter().map(move |shard| &shard.times[by as usize])
    }

    /// The answers by their times' places.
    fn places(&self, by: AnsweredBy) -> [u64; BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.times(by).map(|times| times.places[at].load(Relaxed)).sum())
    }

    /// All of it for Prometheus.
    pub(crate) fn write_metrics(&self, text: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE thorp_proxy_responses_total counter");
        for (status, count) in self.by_status() {
            let _ = writeln!(text, "thorp_proxy_responses_total{{status=\"{status}\"}} {count}");
        }
        let name = "thorp_proxy_response_seconds";
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (by, from) in [("cache", AnsweredBy::Cache), ("other", AnsweredBy::Other)] {
            let mut sum = 0;
            for (at, count) in self.places(from).into_iter().enumerate() {
                sum += count;
                let bound = BOUNDS_US.get(at).map_or("+Inf".to_owned(), |&bound| seconds(bound).to_string());
                let _ = writeln!(text, "{name}_bucket{{by=\"{by}\",le=\"{bound}\"}} {sum}");
            }
            let took = seconds(self.times(from).map(|times| times.sum_us.load(Relaxed)).sum());
            let _ = writeln!(text, "{name}_sum{{by=\"{by}\"}} {took}\n{name}_count{{by=\"{by}\"}} {sum}");
        }
    }
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_bounds_of_their_places() {
        let answers = Answers::default();
        assert_eq!(answers.quantile_s(AnsweredBy::Cache, 99), None);
        let count = |ms| answers.count(StatusCode::OK, AnsweredBy::Cache, Duration::from_millis(ms));
        (0..98).for_each(|_| count(2));
        count(40);
        count(120_000);
        let quantiles = [50, 98, 99, 100].map(|percent| answers.quantile_s(AnsweredBy::Cache, percent));
        assert_eq!(quantiles, [Some(0.0025), Some(0.0025), Some(0.05), Some(f64::INFINITY)]);
        assert_eq!(answers.quantile_s(AnsweredBy::Other, 50), None);
        let mut text = String::new();
        answers.write_metrics(&mut text);
        for line in [
            "thorp_proxy_responses_total{status=\"200\"} 100",
            "thorp_proxy_response_seconds_bucket{by=\"cache\",le=\"0.0025\"} 98",
            "thorp_proxy_response_seconds_bucket{by=\"cache\",le=\"+Inf\"} 100",
            "thorp_proxy_response_seconds_count{by=\"other\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
