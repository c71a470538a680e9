//! From cycles to figures: the mean time until dirty data of a volume is lost, by a Monte Carlo run over cycles.
//!
//! The time to loss is that of a renewal process: cycles follow one another until one ends with a loss, so it is the
//! mean length of a cycle over the share of cycles that lose data (Keilson, Markov Chain Models, 1979, chapter 8: rare
//! losses then come as if by chance alone, R(t) = exp(-t / MTTF)). Cycles are run apart for each kind of first failure,
//! as many of each, and count by how often it is the first.

use crate::reliability::answer::Promise;
use crate::reliability::chance::Chance;
use crate::reliability::cycle::{Cycle, Outcome};
use crate::reliability::world::{Failure, World, YEAR_S};

/// The figures of one number of copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The mean time until dirty data is lost, in years; infinite if no cycle has lost any.
    pub mttf_years: f64,
    /// Its standard error, as a share of it.
    pub error: f64,
    /// The share of losses that began with each kind of failure.
    pub begins: Vec<(Failure, f64)>,
    /// The bytes that are lost in a year in the mean.
    pub lost_bytes_per_year: f64,
    /// The hours of a year in which the volume has no owner.
    pub waits_hours_per_year: f64,
}

impl Estimate {
    /// The probability that nothing is lost in this many years: R(t) = 1 - F(t), equation 9 of the CoopReplica paper.
    pub fn survives(&self, years: f64) -> f64 {
        (-years / self.mttf_years).exp()
    }

    /// The probability that something is lost in this many years: F(t), equation 8 of the CoopReplica paper.
    pub fn is_lost(&self, years: f64) -> f64 {
        -(-years / self.mttf_years).exp_m1()
    }

    /// The density of the time to loss: f(t), equation 4, per year.
    pub fn density(&self, years: f64) -> f64 {
        self.survives(years) / self.mttf_years
    }
}

/// Sums over the cycles with one kind of first failure.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Such failures of one volume in a second.
    rate: f64,
    lost: f64,
    lost_squared: f64,
    length_s: f64,
    waited_s: f64,
}

/// Runs so many cycles for each kind of failure.
///
/// # Panics
/// If `copies` is none, or `cycles`.
pub fn estimate(world: &World, copies: u8, cycles: u32, seed: u64) -> Estimate {
    assert!(copies > 0 && cycles > 0, "a volume has a copy, and a mean something to be of");
    let (promise, mut chance) = (Promise::of(world, copies), Chance::new(seed));
    let fails = |&failure: &Failure| world.rate(failure).every_s.is_finite();
    let kinds: Vec<(Failure, Sums)> = Failure::ALL
        .into_iter()
        .filter(fails)
        .map(|failure| (failure, Sums::over(world, promise, failure, cycles, &mut chance)))
        .collect();
    let all = |figure: &dyn Fn(&Sums) -> f64| kinds.iter().map(|(_, sums)| figure(sums)).sum::<f64>();
    // Of a second in which all is well: the cycles that begin, and what they come to.
    let begun = all(&|sums| sums.rate);
    let lost = all(&|sums| sums.rate * sums.lost);
    let variance = all(&|sums| (sums.rate * sums.lost_error(cycles)).powi(2));
    let cycle_s = (1.0 + all(&|sums| sums.rate * sums.length_s)) / begun;
    let lost_per_year = lost / begun / cycle_s * YEAR_S;
    Estimate {
        mttf_years: 1.0 / lost_per_year,
        error: variance.sqrt() / lost,
        begins: kinds.iter().map(|(failure, sums)| (*failure, sums.rate * sums.lost / lost)).collect(),
        lost_bytes_per_year: lost_per_year * world.stake_bytes(),
        waits_hours_per_year: all(&|sums| sums.rate * sums.waited_s) / begun / cycle_s * YEAR_S / 3600.0,
    }
}

/// The lives of this many volumes: the times until something is lost, in years. Cycles follow one another as they come,
/// and nothing is sought: for worlds in which losses are not rare. Their distribution is what [`Estimate::density`] is
/// the density of.
///
/// # Panics
/// If `copies` is none.
pub fn lives(world: &World, copies: u8, count: usize, seed: u64) -> Vec<f64> {
    assert!(copies > 0, "a volume has a copy");
    let (promise, mut chance) = (Promise::of(world, copies), Chance::new(seed));
    (0..count).map(|_| life(world, promise, &mut chance) / YEAR_S).collect()
}

/// The time until a loss, in seconds.
fn life(world: &World, promise: Promise, chance: &mut Chance) -> f64 {
    let mut age = 0.0;
    loop {
        let mut cycle = Cycle::new(world, promise, false, chance);
        let (wait, failure, source) = cycle.next();
        let Outcome { is_lost, length_s, .. } = cycle.run(failure, source);
        age += wait + length_s;
        if is_lost {
            return age;
        }
    }
}

impl Sums {
    fn over(world: &World, promise: Promise, failure: Failure, cycles: u32, chance: &mut Chance) -> Self {
        let mut sums = Self::default();
        for _ in 0..cycles {
            // Losses are sought; times are the common ones.
            let Outcome { is_lost, weight, .. } = first(world, promise, failure, true, chance, &mut sums.rate);
            let lost = if is_lost { weight } else { 0.0 };
            sums.lost += lost;
            sums.lost_squared += lost * lost;
            let Outcome { length_s, waited_s, .. } = first(world, promise, failure, false, chance, &mut 0.0);
            sums.length_s += length_s;
            sums.waited_s += waited_s;
        }
        let count = f64::from(cycles);
        for sum in [&mut sums.rate, &mut sums.lost, &mut sums.lost_squared, &mut sums.length_s, &mut sums.waited_s] {
            *sum /= count;
        }
        sums
    }

    /// The standard error of the share that is lost.
    fn lost_error(&self, cycles: u32) -> f64 {
        ((self.lost_squared - self.lost * self.lost).max(0.0) / f64::from(cycles)).sqrt()
    }
}

/// Runs a cycle from a failure of this kind on, and adds up how often there is one.
fn first(
    world: &World,
    promise: Promise,
    failure: Failure,
    seeks_loss: bool,
    chance: &mut Chance,
    rate: &mut f64,
) -> Outcome {
    let mut cycle = Cycle::new(world, promise, seeks_loss, chance);
    let sources = cycle.sources(failure);
    *rate += world.rate(failure).per_s() * sources.len() as f64;
    let source = sources[cycle.index(sources.len())];
    cycle.run(failure, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reliability::markov;
    use crate::reliability::world::{Devices, Rate};
    use machines::Rule;
    use types::Broken;

    const CYCLES: u32 = 6_000;

    /// Where every time is exponential and failures are independent, the chain is exact: the machines' run comes to the
    /// same.
    #[test]
    fn a_run_over_the_machines_agrees_with_the_chain() {
        for (every_s, mend_s) in [(1e9, 20.0), (1e5, 100.0)] {
            let world = World::exponential(every_s, mend_s);
            for copies in 1..=3 {
                // Each copy more is harder to lose, and takes more cycles to be as sure of.
                let cycles = CYCLES * u32::from(copies).pow(2);
                let Estimate { mttf_years, error, .. } = estimate(&world, copies, cycles, 7);
                let chain = markov::volume(copies, 1.0 / every_s, 1.0 / mend_s) / YEAR_S;
                let ratio = mttf_years / chain;
                // A deterministic run is one draw of many: three standard errors hold nearly all of them.
                let is_near = (ratio - 1.0).abs() < 3.0 * error.max(0.001);
                assert!(is_near && error < 0.03, "{copies} copies: {ratio}, error {error}");
            }
        }
    }

    /// Losses that are rare beside the cycles come as if by chance alone, so f(t) is exponential, as equation 4 of the
    /// paper has it.
    #[test]
    fn lives_end_as_the_density_says() {
        let world = World::exponential(1e4, 100.0);
        for copies in [1, 2] {
            let mut lives = lives(&world, copies, 2_000, 7);
            lives.sort_by(f64::total_cmp);
            let estimate = estimate(&world, copies, CYCLES, 7);
            let share = |place: usize| place as f64 / lives.len() as f64;
            let apart = lives.iter().enumerate().map(|(place, &at)| (estimate.is_lost(at) - share(place)).abs());
            let most = apart.fold(0.0, f64::max);
            // Kolmogorov and Smirnov: of 100 draws of an exponential distribution one is farther from it, and its mean
            // has an error.
            let most_by_chance = 1.63 / (lives.len() as f64).sqrt() + estimate.error;
            assert!(most < most_by_chance, "{copies} copies: {most}");
        }
    }

    #[test]
    fn a_take_over_that_takes_longer_is_noticed() {
        let world = World::exponential(1e9, 20.0);
        let slow = World { silent_s: 0.0, ..world };
        let times = [world, slow].map(|world| estimate(&world, 2, CYCLES, 7).mttf_years);
        // The lease is as long as the way home: half of the losses have twice the time.
        assert!((times[1] / times[0] - 2.0 / 3.0).abs() < 0.05, "{times:?}");
    }

    /// Without the rule a holder brings home nothing of what it has, and says that all is there: each death of the
    /// owner's device loses what it acknowledged.
    #[test]
    fn a_take_over_that_reads_too_few_lists_loses_data_sooner() {
        let world = World::exponential(1e9, 20.0);
        let broken = World { broken: Broken::rule(Rule::EnoughLists), ..world };
        for copies in [2, 3] {
            let [whole, broken] = [world, broken].map(|world| estimate(&world, copies, CYCLES, 7).mttf_years);
            let owner_dies = 1e9 / YEAR_S;
            assert!((broken / owner_dies - 1.0).abs() < 0.05, "{copies} copies: {broken}");
            assert!(broken < whole / 1e6, "{copies} copies: {broken}, {whole}");
        }
    }

    /// A holder brings home what it has, and the last writes were at none: with each death of the owner's device they
    /// are lost, and with each stop of its host that outlasts the rescue.
    #[test]
    fn asynchronous_copies_lose_the_last_writes_with_their_owner() {
        let published = World::asynchronous(Devices::Capacitors);
        let world = World { last: published.last, ..World::exponential(1e9, 20.0) };
        let owner_dies = 1e9 / YEAR_S;
        assert!((estimate(&world, 2, CYCLES, 7).mttf_years / owner_dies - 1.0).abs() < 0.05);
        let stops = published.node.every_s / YEAR_S;
        let Estimate { mttf_years, lost_bytes_per_year, .. } = estimate(&published, 2, CYCLES, 7);
        assert!((0.5..1.0).contains(&(mttf_years / stops)), "{mttf_years} {stops}");
        assert!((lost_bytes_per_year * mttf_years / 1e6 - 1.0).abs() < 1e-6, "{lost_bytes_per_year}");
    }

    /// Data that every holder has lasts as with a copy more, without going home when one is lost. The last writes are
    /// at two copies yet, and are lost when the owner dies, and then the one holder that has them.
    #[test]
    fn a_spare_holder_is_a_copy_more_of_all_but_the_last_writes() {
        let (death, mend) = (1e-9, 1.0 / 20.0);
        let world = World::exponential(1.0 / death, 1.0 / mend).with_spare();
        let three = (world, 9, markov::volume(3, death, mend));
        let last = (world.with_last(0), 6, markov::last_beside_spare(death, mend));
        for (world, times, chain_s) in [three, last] {
            let Estimate { mttf_years, error, .. } = estimate(&world, 2, times * CYCLES, 7);
            let ratio = mttf_years / (chain_s / YEAR_S);
            assert!((ratio - 1.0).abs() < 3.0 * error && error < 0.04, "{:?}: {ratio}, error {error}", world.last);
        }
    }

    /// A write of a block that is written often waits for a copy more: it is at every holder when it is answered, and
    /// lasts as what was written before. Without the rule it lasts as one that waited for W copies, and such a one no
    /// longer than its owner's device.
    #[test]
    fn a_write_that_waits_for_a_copy_more_lasts_from_its_answer_on() {
        let spare = World::published(Devices::Worst).with_spare();
        let broken = World { broken: Broken::rule(Rule::AckAtW), ..spare };
        let years = |world: World| estimate(&world, 2, CYCLES, 7).mttf_years;
        let is_same = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-12;
        let [all, cold, hot] = [spare, spare.with_last(0), spare.with_last(1)].map(years);
        let [broken_cold, broken_hot] = [broken.with_last(0), broken.with_last(1)].map(years);
        assert!(is_same(hot, all) && hot > 50.0 * cold, "{all} {cold} {hot}");
        assert!(is_same(broken_hot, cold) && broken_cold < cold / 1e4, "{cold} {broken_hot} {broken_cold}");
    }

    /// One device of 100 dies with its power: a spare holder divides by that the losses of what it has, and of nothing
    /// else.
    #[test]
    fn a_spare_holder_helps_against_a_burst_as_a_copy_more() {
        let world = World::published(Devices::Worst);
        let years = |world: World, copies| estimate(&world, copies, CYCLES, 7).mttf_years;
        let [two, three] = [2, 3].map(|copies| years(world, copies));
        let [all, last] = [world.with_spare(), world.with_spare().with_last(0)].map(|world| years(world, 2));
        assert!((all / three - 1.0).abs() < 0.15 && (last / two - 1.0).abs() < 0.2, "{two} {three} {all} {last}");
        // Where devices come back it is a third one that has to die, while one is missing and another one is about to.
        let world = World::published(Devices::Capacitors);
        let [two, all] = [world, world.with_spare()].map(|world| years(world, 2));
        assert!(all > 1e4 * two, "{two} {all}");
    }

    #[test]
    fn a_burst_finds_all_copies_at_once_and_capacitors_help() {
        let [worst, bare, protected] = Devices::ALL.map(|devices| estimate(&World::published(devices), 2, CYCLES, 7));
        let burst = |it: &Estimate| it.begins.iter().find(|(failure, _)| *failure == Failure::Burst).unwrap().1;
        assert!(burst(&worst) > 0.9 && worst.error < 0.05, "{worst:?}");
        // One burst a year, of which both copies are lost once in 100 x 100.
        assert!((worst.mttf_years / 1e4 - 1.0).abs() < 0.1, "{worst:?}");
        assert!((bare.mttf_years / 9e6 - 1.0).abs() < 0.1, "{bare:?}");
        assert!(protected.mttf_years > 100.0 * bare.mttf_years, "{protected:?}");
    }

    #[test]
    fn a_home_that_is_away_for_longer_keeps_copies_at_stake_for_longer() {
        let world = World::published(Devices::Capacitors);
        let never = World { home: Rate::NEVER, ..world };
        let often = World { home: Rate { every_s: 0.01 * YEAR_S, lasts_s: 0.001 * YEAR_S, source: "" }, ..world };
        let times = [never, world, often].map(|world| estimate(&world, 2, CYCLES, 7));
        assert!(times[0].mttf_years > 1.2 * times[2].mttf_years, "{times:?}");
    }

    #[test]
    fn a_volume_with_one_copy_waits_for_its_owner() {
        // While all is without power, both wait.
        let world = World { burst: Rate::NEVER, ..World::published(Devices::Capacitors) };
        let [one, two] = [1, 2].map(|copies| estimate(&world, copies, CYCLES, 7));
        assert!(one.waits_hours_per_year > 5.0 * two.waits_hours_per_year, "{one:?} {two:?}");
        assert!((one.survives(1.0) - (-0.0098_f64).exp()).abs() < 0.001, "{one:?}");
        assert!((one.density(0.0) - 1.0 / one.mttf_years).abs() < 1e-12);
    }
}
