//! `cargo xtask sim`: simulated runs with faults, by seed.
//!
//! The simulator is linked by a feature of this crate, so that the other entry points do not wait for its build: without
//! the feature the command calls cargo for the program that has it.

use crate::Result;

/// Runs the simulator with these options.
#[cfg(not(feature = "sim"))]
pub(crate) fn run(options: &[String]) -> Result {
    use crate::{cargo, run};
    let mut again = cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "sim", "--", "sim"]).args(options);
    run(&mut again)
}

/// Runs the simulator with these options.
#[cfg(feature = "sim")]
pub(crate) fn run(options: &[String]) -> Result {
    let options = Options::parse(options)?;
    match options {
        Options { mutants: true, seeds, .. } => sim::mutants(seeds.unwrap_or(10_000)),
        Options { seed: Some(seed), trace, .. } => sim::replay(seed, trace),
        Options { seeds, first, .. } => sim::run_seeds(first, seeds.unwrap_or(1000)),
    }
}

/// What the command line says.
#[cfg(feature = "sim")]
#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    first: u64,
    seed: Option<u64>,
    trace: bool,
    mutants: bool,
}

#[cfg(feature = "sim")]
impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--trace" => options.trace = true,
                "--mutants" => options.mutants = true,
                "--seeds" => options.seeds = Some(number(word, words.next())?),
                "--first" => options.first = number(word, words.next())?,
                "--seed" => options.seed = Some(number(word, words.next())?),
                _ => return Err(format!("sim: unknown option `{word}`")),
            }
        }
        Ok(options)
    }
}

#[cfg(feature = "sim")]
fn number(option: &str, value: Option<&String>) -> Result<u64> {
    let value = value.ok_or_else(|| format!("sim: {option} wants a number"))?;
    value.parse().map_err(|_| format!("sim: {option} wants a number, got `{value}`"))
}
