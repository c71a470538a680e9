//! The only source of chance in a run: one seed gives one sequence.

use core::time::Duration;
use types::splitmix;

/// SplitMix64: small, fast, the same on every machine, and good enough to draw faults with.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds side by side start far apart, so that their first draws do not resemble each other.
        let mut rng = Self(seed ^ 0x5851_f42d_4c95_7f2d);
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        splitmix(&mut self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// An index of something with `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True `permille` times in a thousand.
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A time between zero and twice `mean`.
    pub(crate) fn around(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos(self.below(2 * mean.as_nanos() as u64 + 1))
    }
}

/// How long something takes: mostly `least` and a little, now and then a spike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    pub(crate) least: Duration,
    pub(crate) spread: Duration,
    /// How often, in a thousand, it takes up to `spike` longer.
    pub(crate) spike_permille: u32,
    pub(crate) spike: Duration,
}

impl Delay {
    /// Always the same.
    pub(crate) fn exactly(least: Duration) -> Self {
        Self { least, spread: Duration::ZERO, spike_permille: 0, spike: Duration::ZERO }
    }

    /// The least of it, and no more than a millisecond.
    pub(crate) fn brief(self) -> Self {
        Self::exactly(self.least.min(Duration::from_millis(1)))
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> Duration {
        let usual = self.least + Duration::from_nanos(rng.below(self.spread.as_nanos() as u64 + 1));
        if rng.chance(self.spike_permille) { usual + rng.around(self.spike / 2) } else { usual }
    }
}
