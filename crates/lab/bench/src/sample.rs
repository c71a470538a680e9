//! Durations of the same thing done many times.

use std::time::{Duration, Instant};

/// Durations of the same thing done many times. Medians and other quantiles, no means: one slow sync of a shared disk
/// would say more than all the others.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    nanos: Vec<u64>,
}

impl Sample {
    /// Adds one.
    pub fn push(&mut self, duration: Duration) {
        self.nanos.push(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Does something and adds how long it took.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.push(start.elapsed());
        done
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.nanos.extend_from_slice(&other.nanos);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// The duration that the share `quantile` of all stays at or below, in nanoseconds; zero for none.
    pub fn nanos(&self, quantile: f64) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let index = (quantile * last as f64).round() as usize;
        sorted.get(index.min(last)).map_or(0.0, |&nanos| nanos as f64)
    }

    /// The same in microseconds.
    pub fn micros(&self, quantile: f64) -> f64 {
        self.nanos(quantile) / 1e3
    }

    /// The same in milliseconds.
    pub fn millis(&self, quantile: f64) -> f64 {
        self.nanos(quantile) / 1e6
    }

    /// The mean, in milliseconds; zero for none. For what the papers give as a mean.
    pub fn mean_millis(&self) -> f64 {
        self.nanos.iter().map(|nanos| *nanos as f64).sum::<f64>() / 1e6 / (self.nanos.len() as f64).max(1.0)
    }
}

impl Sample {
    /// The medians of its first, second and last third, in nanoseconds: as if it had been measured three times.
    pub(crate) fn thirds(&self) -> Vec<f64> {
        let thirds = self.nanos.chunks(self.nanos.len().div_ceil(3).max(1));
        thirds.map(|third| Self { nanos: third.to_vec() }.nanos(0.5)).collect()
    }
}

/// The medians of the first, second and last third of some figures, as if they had been measured three times.
pub(crate) fn thirds(figures: &[f64]) -> Vec<f64> {
    figures.chunks(figures.len().div_ceil(3).max(1)).map(|third| median(third.to_vec())).collect()
}

/// The median of some figures; zero for none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_sample() {
        let mut sample = Sample::default();
        assert!(sample.nanos(0.5).abs() < f64::EPSILON, "an empty sample has a median");
        for nanos in [50, 10, 40, 20, 30] {
            sample.push(Duration::from_nanos(nanos));
        }
        let quantiles = [0.0, 0.5, 1.0].map(|quantile| sample.nanos(quantile) as u64);
        assert_eq!(quantiles, [10, 30, 50]);
    }

    #[test]
    fn thirds_are_in_the_order_of_time() {
        let mut sample = Sample::default();
        for nanos in [1, 2, 3, 11, 12, 13, 21, 22, 23] {
            sample.push(Duration::from_nanos(nanos));
        }
        assert_eq!(sample.thirds(), [2.0, 12.0, 22.0]);
        assert_eq!(thirds(&[1.0, 3.0, 2.0, 5.0, 5.0, 9.0]), [3.0, 5.0, 9.0]);
        assert!(thirds(&[]).is_empty());
    }
}
