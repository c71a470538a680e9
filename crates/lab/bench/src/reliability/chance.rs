//! The source of chance: one seed gives one sequence.

use types::splitmix;

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Self(seed ^ 0x5851_f42d_4c95_7f2d);
        chance.number();
        chance
    }

    pub(crate) fn number(&mut self) -> u64 {
        splitmix(&mut self.0)
    }

    /// A share above 0, and at most 1.
    pub(crate) fn share(&mut self) -> f64 {
        ((self.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn is(&mut self, probability: f64) -> bool {
        self.share() <= probability
    }

    pub(crate) fn index(&mut self, count: usize) -> usize {
        ((u128::from(self.number()) * count as u128) >> 64) as usize
    }

    /// A time of this mean, as far apart as events that know nothing of each other. It never comes if the mean is
    /// infinite.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -self.share().ln() * mean
    }
}
