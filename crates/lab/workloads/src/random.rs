//! Random numbers that a seed reproduces, on every machine and in every version: SplitMix64.

use types::splitmix;

/// A generator of pseudo-random numbers, for workloads and nothing that must be secret.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator that `seed` stands for.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        splitmix(&mut self.0)
    }

    /// A number below `end`, all nearly equally likely.
    ///
    /// # Panics
    /// If `end` is zero.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is no number below zero");
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Whether an event of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.bits() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}
