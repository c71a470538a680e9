//! Readers' arrivals: a sequence that a seed draws, the same for every consistency.

use types::{Time, splitmix};

/// The distribution of the time between two reads at a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Between {
    /// Heavy-tailed (Pareto), of this shape.
    Pareto(f64),
    /// Exponential: the reads are a Poisson process.
    Poisson,
}

/// Reads at one server.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    between: Between,
    /// The mean time between two, in nanoseconds.
    mean: f64,
    state: u64,
    next: Time,
}

impl Arrivals {
    /// So many reads a second in the mean, from a time on.
    pub(super) fn new(between: Between, per_second: f64, seed: u64, from: Time) -> Self {
        let mut arrivals = Self { between, mean: 1e9 / per_second, state: seed, next: from };
        arrivals.step();
        arrivals
    }

    /// The next read.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Goes on to the read behind it.
    pub(super) fn step(&mut self) {
        // Above 0, and at most 1.
        let chance = ((splitmix(&mut self.state) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let wait = match self.between {
            Between::Poisson => -chance.ln() * self.mean,
            Between::Pareto(shape) => self.mean * (shape - 1.0) / shape * chance.powf(-1.0 / shape),
        };
        self.next = Time(self.next.0.saturating_add(wait as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_reads_arrive_as_are_said() {
        for between in [Between::Poisson, Between::Pareto(1.9)] {
            let mut arrivals = Arrivals::new(between, 100.0, 7, Time::ZERO);
            let mut count = 0;
            while arrivals.next() < Time(2_000_000_000_000) {
                arrivals.step();
                count += 1;
            }
            assert!((180_000..220_000).contains(&count), "{between:?}: {count}");
        }
    }
}
