//! Times to loss: a Monte Carlo run beside a Markov chain where that is exact, the same in a world of published rates,
//! and RAIDs of the same devices.

use crate::reliability::{Devices, Estimate, Failure, World, YEAR_S, estimate, lives, markov};
use serde_json::{Value, json};
use std::fmt;

/// The most copies that are studied.
const COPIES_MAX: u8 = 4;

/// A run may differ by this much from a chain that is exact.
const DIFFERS_MAX: f64 = 0.05;

/// Where one kind of failure is everything that there is, so many times as many cycles of it are run.
const CHECKED_TIMES: u32 = 4;

/// The volumes whose lives are drawn one by one.
const LIVES: usize = 2_000;

/// The years at which f(t), F(t) and R(t) are given.
const CURVE_YEARS: [f64; 7] = [0.1, 1.0, 10.0, 100.0, 1e4, 1e6, 1e8];

/// The time that each cycle takes on a quiet machine, in all runs together.
const SECONDS_PER_CYCLE: f64 = 90.0 / 50_000.0;

/// A row of the study.
#[derive(Clone, Debug)]
pub enum Lasting {
    /// With this many copies in a world where a Markov chain is exact, in years.
    Checked {
        /// W.
        copies: u8,
        /// By the run.
        estimate: Estimate,
        /// By the chain.
        chain_years: f64,
    },
    /// The lives of volumes, each from its beginning to a loss, beside f(t).
    Lives {
        /// The world.
        world: &'static str,
        /// W.
        copies: u8,
        /// How many were lived.
        count: usize,
        /// The largest difference between the share that has lost something and F(t),
        apart: f64,
        /// and that which chance explains.
        most: f64,
    },
    /// In the world of published rates.
    Volume {
        /// W.
        copies: u8,
        /// Its devices, by how many of them die when power fails.
        devices: Devices,
        /// By the run.
        estimate: Estimate,
    },
    /// The same with two copies, and asynchronous replication: what is answered last is at no holder yet.
    Asynchronous {
        /// Its devices.
        devices: Devices,
        /// The bytes that are at stake.
        bytes: f64,
        /// By the run.
        estimate: Estimate,
    },
    /// The same with two copies and a spare holder.
    Spare {
        /// Its devices.
        devices: Devices,
        /// The last writes that are at stake.
        part: Part,
        /// Its bytes.
        bytes: f64,
        /// By the run.
        estimate: Estimate,
    },
    /// A RAID of the same devices, in years.
    Raid {
        /// Its name.
        name: &'static str,
        /// By its chain.
        years: f64,
    },
}

/// The last writes, where there is a spare holder. Everything that was written before is as safe as the hot ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that were answered at W copies.
    Cold,
    /// Those of blocks that are written often, which were answered at one copy more.
    Hot,
}

impl Part {
    const ALL: [Self; 2] = [Self::Cold, Self::Hot];

    fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
        }
    }

    fn world(self, devices: Devices) -> World {
        let world = World::published(devices).with_spare();
        match self {
            Self::Cold => world.with_last(0),
            Self::Hot => world.with_last(1),
        }
    }
}

/// The time that the study takes on a quiet machine, in seconds.
pub(super) fn seconds(cycles: u32) -> f64 {
    SECONDS_PER_CYCLE * f64::from(cycles)
}

/// Runs the study, and gives each row as it comes. `progress` hears what is being done, and how much of it is done,
/// from 0 to 1.
pub(super) fn reliability<E>(
    cycles: u32,
    progress: &dyn Fn(&str, f64) -> Result<(), E>,
    mut found: impl FnMut(Lasting) -> Result<(), E>,
) -> Result<(), E> {
    let (death_s, mend_s) = (1e9, 20.0);
    // Those beside the chain take as many cycles more.
    let runs = u32::from(COPIES_MAX) * (CHECKED_TIMES + Devices::ALL.len() as u32) + 2;
    let runs = runs + (1 + Part::ALL.len() as u32) * Devices::ALL.len() as u32;
    let mut done = 0;
    let mut progress = |what: &str, times: u32| {
        let before = done;
        done += times;
        progress(what, f64::from(before) / f64::from(runs))
    };
    for copies in 1..=COPIES_MAX {
        progress(&format!("beside the Markov chain, {copies} copies"), CHECKED_TIMES)?;
        let cycles = cycles.saturating_mul(CHECKED_TIMES);
        let estimate = estimate(&World::exponential(death_s, mend_s), copies, cycles, 7);
        let chain_years = markov::volume(copies, 1.0 / death_s, 1.0 / mend_s) / YEAR_S;
        found(Lasting::Checked { copies, estimate, chain_years })?;
    }
    let worlds = [
        ("published rates", World::published(Devices::Worst), 1),
        ("a device dies every 10,000 s", World::exponential(1e4, 100.0), 2),
    ];
    for (name, world, copies) in worlds {
        progress(&format!("life by life, {copies} copies"), 1)?;
        let drawn = lives(&world, copies, LIVES, 7);
        let estimate = estimate(&world, copies, cycles, 7);
        let (apart, most) = (apart(&estimate, drawn), apart_max(LIVES) + estimate.error);
        found(Lasting::Lives { world: name, copies, count: LIVES, apart, most })?;
    }
    for devices in Devices::ALL {
        for copies in 1..=COPIES_MAX {
            progress(&format!("by published rates, {copies} copies, {}", devices.name()), 1)?;
            let estimate = estimate(&World::published(devices), copies, cycles, 7);
            found(Lasting::Volume { copies, devices, estimate })?;
        }
    }
    for devices in Devices::ALL {
        progress(&format!("the same with asynchronous replication, {}", devices.name()), 1)?;
        let world = World::asynchronous(devices);
        let (bytes, estimate) = (world.stake_bytes(), estimate(&world, 2, cycles, 7));
        found(Lasting::Asynchronous { devices, bytes, estimate })?;
    }
    for devices in Devices::ALL {
        for part in Part::ALL {
            progress(&format!("the same with a spare holder, {} data, {}", part.name(), devices.name()), 1)?;
            let world = part.world(devices);
            let (bytes, estimate) = (world.stake_bytes(), estimate(&world, 2, cycles, 7));
            found(Lasting::Spare { devices, part, bytes, estimate })?;
        }
    }
    let device = World::published(Devices::Capacitors).device;
    let (death, rebuild) = (1.0 / device.every_s, 1.0 / device.lasts_s);
    for (name, disks, spare) in
        [("one device", 1, 0), ("RAID 1 of 2", 2, 1), ("RAID 5 of 8", 8, 1), ("RAID 6 of 8", 8, 2)]
    {
        found(Lasting::Raid { name, years: markov::raid(disks, spare, death, rebuild) / YEAR_S })?;
    }
    Ok(())
}

/// The largest difference between the share of lives that have ended and F(t), the distance of Kolmogorov and Smirnov.
fn apart(estimate: &Estimate, mut lives: Vec<f64>) -> f64 {
    lives.sort_by(f64::total_cmp);
    let share = |place: usize| place as f64 / lives.len() as f64;
    lives.iter().enumerate().map(|(place, &at)| (estimate.is_lost(at) - share(place)).abs()).fold(0.0, f64::max)
}

/// The distance that one in a hundred draws of this many lives exceeds.
fn apart_max(count: usize) -> f64 {
    1.63 / (count as f64).sqrt()
}

impl Lasting {
    /// The row as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Checked { copies, estimate, chain_years } => {
                let ratio = estimate.mttf_years / chain_years;
                json!({
                    "experiment": "reliability", "case": "markov", "copies": copies,
                    "mttf_years": estimate.mttf_years, "standard_error": estimate.error, "chain_years": chain_years,
                    "ratio": ratio, "target": format!("1 +- {DIFFERS_MAX}"), "met": (ratio - 1.0).abs() <= DIFFERS_MAX,
                })
            }
            Self::Lives { world, copies, count, apart, most } => {
                json!({
                    "experiment": "reliability", "case": "lives", "world": world, "copies": copies, "lives": count,
                    "apart": apart, "target": most, "met": apart <= most,
                })
            }
            Self::Volume { copies, devices, estimate } => {
                let at = |years: f64| {
                    let (density, lost) = (estimate.density(years), estimate.is_lost(years));
                    json!({"years": years, "f": density, "F": lost, "R": estimate.survives(years)})
                };
                let begins: serde_json::Map<_, _> =
                    estimate.begins.iter().map(|(failure, share)| (failure.name().to_owned(), json!(share))).collect();
                json!({
                    "experiment": "reliability", "case": "volume", "copies": copies, "devices": devices.name(),
                    "mttf_years": estimate.mttf_years, "standard_error": estimate.error,
                    "curve": CURVE_YEARS.map(at),
                    "lost_bytes_per_year": estimate.lost_bytes_per_year,
                    "waits_hours_per_year": estimate.waits_hours_per_year, "begins": begins,
                })
            }
            Self::Asynchronous { devices, bytes, estimate } => {
                json!({
                    "experiment": "reliability", "case": "asynchronous", "copies": 2, "devices": devices.name(),
                    "bytes": bytes, "mttf_years": estimate.mttf_years, "standard_error": estimate.error,
                    "lost_bytes_per_year": estimate.lost_bytes_per_year,
                })
            }
            Self::Spare { devices, part, bytes, estimate } => {
                json!({
                    "experiment": "reliability", "case": "spare", "copies": 2, "spare": 1, "part": part.name(),
                    "devices": devices.name(), "bytes": bytes, "mttf_years": estimate.mttf_years,
                    "standard_error": estimate.error, "lost_bytes_per_year": estimate.lost_bytes_per_year,
                })
            }
            Self::Raid { name, years } => {
                json!({"experiment": "reliability", "case": "raid", "name": name, "mttf_years": years})
            }
        }
    }
}

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked { copies, estimate, chain_years } => {
                let (years, error) = (estimate.mttf_years, 100.0 * estimate.error);
                let ratio = years / chain_years;
                write!(
                    f,
                    "W = {copies}, beside the chain    {years:9.3e} years +- {error:4.1} %, the chain {chain_years:9.3e}: {ratio:.3}"
                )
            }
            Self::Lives { world, copies, count, apart, most } => {
                let met = if apart <= most { "met" } else { "not met" };
                write!(
                    f,
                    "W = {copies}, {world}: {count} lives are {apart:.4} apart from F(t), at most {most:.4}: {met}"
                )
            }
            Self::Volume { copies, devices, estimate } => {
                let devices = devices.name();
                let (years, error) = (estimate.mttf_years, 100.0 * estimate.error);
                let (lost, waits) = (estimate.lost_bytes_per_year, estimate.waits_hours_per_year);
                let most = estimate.begins.iter().max_by(|one, other| one.1.total_cmp(&other.1));
                let (first, share) =
                    most.map_or(("nothing", 0.0), |(failure, share)| (Failure::name(*failure), *share));
                write!(
                    f,
                    "W = {copies}, {devices:<15}     {years:9.3e} years +- {error:4.1} %, f(10 years) {:8.2e}, F {:8.2e}, R {:.6}; \
                     {lost:9.2e} bytes lost and {waits:.2} h without an owner a year; {:.0} % of losses begin with: {first}",
                    estimate.density(10.0),
                    estimate.is_lost(10.0),
                    estimate.survives(10.0),
                    100.0 * share,
                )
            }
            Self::Asynchronous { devices, bytes, estimate } => write!(
                f,
                "W = 2, asynchronous, {:<15} {:9.3e} years +- {:4.1} % until the last {bytes:.0e} bytes are lost; {:9.2e} bytes \
                 lost a year",
                devices.name(),
                estimate.mttf_years,
                100.0 * estimate.error,
                estimate.lost_bytes_per_year,
            ),
            Self::Spare { devices, part, bytes, estimate } => {
                let copies = match part {
                    Part::Cold => "last bytes, at two copies,",
                    Part::Hot => "last bytes, at three copies,",
                };
                write!(
                    f,
                    "W = 2, a spare holder, {:<15} {:9.3e} years +- {:4.1} % until the {bytes:.0e} {copies} are lost; {:9.2e} bytes lost \
                     a year",
                    devices.name(),
                    estimate.mttf_years,
                    100.0 * estimate.error,
                    estimate.lost_bytes_per_year,
                )
            }
            Self::Raid { name, years } => write!(f, "{name:<15}            {years:9.3e} years"),
        }
    }
}
