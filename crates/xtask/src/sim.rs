//! `cargo xtask sim`: simulated runs with faults, by seed: of whole nodes, also with a store of several shards, of
//! commits over the shards of several nodes, of two masters' streams out of order, and of volumes.
//!
//! The simulator is linked by a feature of this crate, so that the other entry points do not wait for its build:
//! without the feature the command calls cargo for the program that has it.

/// Runs the simulator with these options.
#[cfg(not(feature = "sim"))]
pub(crate) fn run(options: &[String]) -> crate::Result {
    use crate::{cargo, run};
    let mut again = cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "sim", "--", "sim"]).args(options);
    run(&mut again)
}

/// Runs the simulator with these options.
#[cfg(feature = "sim")]
pub(crate) use linked::run;

#[cfg(feature = "sim")]
mod linked {
    use crate::Result;
    use sim::{Kind, Race};
    use std::io::{IsTerminal, Write};
    use types::{Broken, Rule};

    /// The seeds within which every mutant must be caught.
    const MUTANT_SEEDS_MAX: u64 = 10_000;

    pub(crate) fn run(words: &[String]) -> Result {
        match Options::parse(words)? {
            Options { mutants: true, seeds, rule, .. } => mutants(rule.as_deref(), seeds.unwrap_or(MUTANT_SEEDS_MAX)),
            Options { seed: Some(seed), kind, trace, .. } => replay(kind.unwrap_or(Kind::Nodes), seed, trace),
            Options { seeds, first, kind: Some(kind), .. } => seeds_from(kind, first, seeds.unwrap_or(1000)),
            Options { seeds, first, .. } => {
                let count = seeds.unwrap_or(1000);
                let others = [Kind::Shards, Kind::Cluster, Kind::Reorder, Kind::Volumes]
                    .map(|kind| seeds_from(kind, first, count));
                others.into_iter().fold(seeds_from(Kind::Nodes, first, count), Result::and)
            }
        }
    }

    fn seeds_from(kind: Kind, first: u64, count: u64) -> Result {
        let is_watched = std::io::stderr().is_terminal();
        let options = sim::Options { kind, ..sim::Options::default() };
        let summary = sim::run_seeds(first, count, &options, |done| {
            if is_watched && done % 10 == 0 {
                eprint!("\r{done} of {count} seeds ");
                // A progress line that does not show harms nobody.
                let _ = std::io::stderr().flush();
            }
        });
        if is_watched {
            eprint!("\r\x1b[K");
        }
        println!("{summary}");
        match summary.failures.len() {
            0 => Ok(()),
            count => Err(format!("{count} seeds found something")),
        }
    }

    fn replay(kind: Kind, seed: u64, trace: bool) -> Result {
        let report = kind.run_seed(seed, Broken::NONE, trace);
        report.trace.iter().for_each(|line| println!("{line}"));
        println!("seed {seed}: {} commits, trace {:016x}", report.commits, report.hash);
        match report.violation {
            None => Ok(()),
            Some(violation) => Err(format!("seed {seed}: {violation}")),
        }
    }

    /// Takes out each rule that runs put to the test, or the one that is named.
    fn mutants(only: Option<&str>, seeds_max: u64) -> Result {
        let threads = sim::Options::default().threads;
        let mut missed = 0;
        let is_meant = |rule: &Rule| match only {
            Some(only) => format!("{rule:?}") == only,
            None => !sim::OF_NAMED_TESTS.contains(rule),
        };
        let is_meant_of_volumes = |rule: &sim::VolumeRule| match only {
            Some(only) => format!("{rule:?}") == only,
            None => !sim::OF_NAMED_VOLUME_TESTS.contains(rule),
        };
        let rules: Vec<_> = Rule::ALL.into_iter().filter(is_meant).collect();
        let of_volumes: Vec<_> = sim::VolumeRule::ALL.into_iter().filter(is_meant_of_volumes).collect();
        if rules.is_empty() && of_volumes.is_empty() {
            return Err(format!("sim: there is no rule `{}`", only.unwrap_or_default()));
        }
        let mutants = sim::mutants(&rules, seeds_max, threads);
        let mutants = mutants.map(|mutant| (format!("{:?}", mutant.rule), mutant.kind, mutant.caught));
        let volume_mutants = sim::volume_mutants(&of_volumes, seeds_max, threads);
        let volume_mutants = volume_mutants.map(|mutant| (format!("{:?}", mutant.rule), Kind::Volumes, mutant.caught));
        for (rule, kind, caught) in mutants.chain(volume_mutants) {
            if let Some((seed, violation)) = caught {
                let violation = violation.to_string();
                println!("{rule:<20} {kind:<7} seed {seed}: {}", violation.lines().next().unwrap_or_default());
            } else {
                missed += 1;
                println!("{rule:<20} {kind:<7} not caught within {seeds_max} seeds");
            }
        }
        if missed == 0 { Ok(()) } else { Err(format!("{missed} rules can go without anybody noticing")) }
    }

    /// The options of the command line.
    #[derive(Default)]
    struct Options {
        seeds: Option<u64>,
        first: u64,
        seed: Option<u64>,
        kind: Option<Kind>,
        trace: bool,
        mutants: bool,
        rule: Option<String>,
    }

    impl Options {
        fn parse(words: &[String]) -> Result<Self> {
            let mut options = Self::default();
            let mut words = words.iter();
            while let Some(word) = words.next() {
                match word.as_str() {
                    "--trace" => options.trace = true,
                    "--shards" => options.kind = Some(Kind::Shards),
                    "--cluster" => options.kind = Some(Kind::Cluster),
                    "--reorder" => options.kind = Some(Kind::Reorder),
                    "--volumes" => options.kind = Some(Kind::Volumes),
                    "--race" => options.kind = Some(Kind::Steered(race(words.next())?)),
                    "--mutants" => options.mutants = true,
                    "--rule" => options.rule = words.next().cloned(),
                    "--seeds" => options.seeds = Some(number(word, words.next())?),
                    "--first" => options.first = number(word, words.next())?,
                    "--seed" => options.seed = Some(number(word, words.next())?),
                    _ => return Err(format!("sim: unknown option `{word}`")),
                }
            }
            Ok(options)
        }
    }

    fn race(name: Option<&String>) -> Result<Race> {
        let known = || Race::ALL.map(Race::name).join(", ");
        let name = name.ok_or_else(|| format!("sim: --race wants one of {}", known()))?;
        let race = Race::ALL.into_iter().find(|race| race.name() == name);
        race.ok_or_else(|| format!("sim: there is no race `{name}`, but {}", known()))
    }

    fn number(option: &str, value: Option<&String>) -> Result<u64> {
        let value = value.ok_or_else(|| format!("sim: {option} wants a number"))?;
        value.parse().map_err(|_| format!("sim: {option} wants a number, got `{value}`"))
    }
}
