//! Times to loss: a Monte Carlo run beside a Markov chain where that is exact, the same in a world of published rates, and
//! RAIDs of the same devices.

use reliability::{Estimate, Failure, World, YEAR_S, estimate, markov};
use serde_json::{Value, json};
use std::fmt;

/// The most copies that are studied.
pub const COPIES_MAX: u8 = 4;

/// A run may differ by so much from a chain that is exact.
const DIFFERS_MAX: f64 = 0.05;

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
    /// In the world of published rates.
    Volume {
        /// W.
        copies: u8,
        /// Whether devices have capacitors that save them when power fails.
        is_protected: bool,
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

/// Runs the study, and gives each row as it comes.
pub fn reliability<E>(
    cycles: u32,
    progress: &dyn Fn(&str),
    mut found: impl FnMut(Lasting) -> Result<(), E>,
) -> Result<(), E> {
    let (death_s, mend_s) = (1e9, 20.0);
    for copies in 1..=COPIES_MAX {
        progress(&format!("beside the Markov chain, {copies} copies"));
        let estimate = estimate(&World::exponential(death_s, mend_s), copies, cycles, 7);
        let chain_years = markov::volume(copies, 1.0 / death_s, 1.0 / mend_s) / YEAR_S;
        found(Lasting::Checked { copies, estimate, chain_years })?;
    }
    for is_protected in [false, true] {
        for copies in 1..=COPIES_MAX {
            progress(&format!("by published rates, {copies} copies"));
            let estimate = estimate(&World::published(is_protected), copies, cycles, 7);
            found(Lasting::Volume { copies, is_protected, estimate })?;
        }
    }
    let device = World::published(true).device;
    let (death, rebuild) = (1.0 / device.every_s, 1.0 / device.lasts_s);
    for (name, disks, spare) in
        [("one device", 1, 0), ("RAID 1 of 2", 2, 1), ("RAID 5 of 8", 8, 1), ("RAID 6 of 8", 8, 2)]
    {
        found(Lasting::Raid { name, years: markov::raid(disks, spare, death, rebuild) / YEAR_S })?;
    }
    Ok(())
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
            Self::Volume { copies, is_protected, estimate } => {
                let begins: serde_json::Map<_, _> =
                    estimate.begins.iter().map(|(failure, share)| (failure.name().to_owned(), json!(share))).collect();
                json!({
                    "experiment": "reliability", "case": "volume", "copies": copies, "capacitors": is_protected,
                    "mttf_years": estimate.mttf_years, "standard_error": estimate.error,
                    "survives_1_year": estimate.survives(1.0), "survives_10_years": estimate.survives(10.0),
                    "density_at_1_year": estimate.density(1.0),
                    "lost_bytes_per_year": estimate.lost_bytes_per_year,
                    "waits_hours_per_year": estimate.waits_hours_per_year, "begins": begins,
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
            Self::Volume { copies, is_protected, estimate } => {
                let devices = if *is_protected { "with capacitors" } else { "bare devices" };
                let (years, error) = (estimate.mttf_years, 100.0 * estimate.error);
                let (lost, waits) = (estimate.lost_bytes_per_year, estimate.waits_hours_per_year);
                let most = estimate.begins.iter().max_by(|one, other| one.1.total_cmp(&other.1));
                let (first, share) =
                    most.map_or(("nothing", 0.0), |(failure, share)| (Failure::name(*failure), *share));
                write!(
                    f,
                    "W = {copies}, {devices:<15}     {years:9.3e} years +- {error:4.1} %, R(10 years) {:.6}, {lost:9.2e} bytes lost \
                     and {waits:.2} h without an owner a year; {:.0} % of losses begin with: {first}",
                    estimate.survives(10.0),
                    100.0 * share,
                )
            }
            Self::Raid { name, years } => write!(f, "{name:<15}            {years:9.3e} years"),
        }
    }
}
