//! `cargo xtask test`: the steps that every change must pass, in order of how soon they fail.
//!
//! The workspace is built twice and no more: once for the lints, which need no code, and once for the tests, whose
//! binary the crash loop and the groups apart then use. Simulated runs and mutants are tests of `sim`.

use crate::lab::{self, Outcome};
use crate::{Result, cache_tests, cargo, h2spec, output_of, provision, python, run, shim, target, tidy};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// One thing that must hold.
struct Step {
    name: &'static str,
    check: fn() -> Result,
}

const STEPS: &[Step] = &[
    Step { name: "format", check: || run(cargo().args(["fmt", "--all", "--check"])) },
    Step { name: "tidy", check: tidy::run },
    Step { name: "lints", check: lints },
    Step { name: "packages", check: packages },
    Step { name: "provision", check: provision::install_in_ci },
    Step { name: "tests", check: tests },
    Step { name: "crash loop", check: crash_loop },
    Step { name: "groups apart", check: groups_apart },
    Step { name: "cache-tests", check: cache_tests },
    Step { name: "h2spec", check: h2spec },
    Step { name: "python", check: python },
];

/// Runs all steps, stops at the first that fails, and says how long each took.
pub(crate) fn test() -> Result {
    let mut took = Vec::new();
    for step in STEPS {
        println!("\n==> {}", step.name);
        let start = Instant::now();
        let outcome = (step.check)();
        took.push((step.name, start.elapsed()));
        if let Err(why) = outcome {
            print_table(&took);
            return Err(format!("step `{}` failed: {why}", step.name));
        }
    }
    print_table(&took);
    println!("all steps passed");
    Ok(())
}

fn print_table(took: &[(&str, Duration)]) {
    let total = took.iter().map(|(_, time)| *time).sum();
    println!("\n{:<12} {:>8}", "step", "seconds");
    for (name, time) in took.iter().chain([&("total", total)]) {
        println!("{name:<12} {:>8.1}", time.as_secs_f64());
    }
}

fn lints() -> Result {
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// The library's packages can be made, as a registry would take them.
fn packages() -> Result {
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--offline"]);
    for name in tidy::library::packages()? {
        package.args(["--package", &name]);
    }
    // The output is shown only on failure: cargo warns of each package that has no home page.
    output_of(&mut package).map(drop)
}

/// All tests, two at a time for each processor: most of what the long ones take is waiting for processes, disks and
/// timeouts.
fn tests() -> Result {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let mut test = cargo();
    if shim::is_there() {
        test.env("THORP_FABRIC_SHIM", shim::build()?);
    }
    run(test.args(["test", "--workspace", "--no-fail-fast"]).env("RUST_TEST_THREADS", threads.to_string()))
}

/// Kills the real process a few times while clients commit. The tests before have built the binary.
fn crash_loop() -> Result {
    run(Command::new(thorp()?).args(["torture", "--rounds", "5"]))
}

/// Kills, stops and cuts off what belongs to two groups that are really far from their store, and changes their lines,
/// where that can be had. The seed draws everything that there is once, a lease, large values on slow lines, and short
/// times.
fn groups_apart() -> Result {
    let options = lab::Options { sites: 2, ..lab::Options::default() };
    let mut command = vec![thorp()?.display().to_string()];
    command.extend(words("torture --groups 2 --clients 2 --rounds 9 --seed 10364 --lab {lab}"));
    match lab::run_in(&options, &command)? {
        Outcome::Ended(status) if status.success() => Ok(()),
        Outcome::Ended(status) => Err(status.to_string()),
        Outcome::Skipped(why) => {
            println!("skipped, because there can be no lab here: {why}");
            Ok(())
        }
    }
}

/// The proxy's behaviour as a cache, by the tests that the makers of HTTP wrote for caches.
pub(crate) fn cache_tests() -> Result {
    cache_tests::check(&thorp()?)
}

/// The Python package, with an application behind the proxy and the watcher.
pub(crate) fn python() -> Result {
    python::check(&thorp()?)
}

/// The proxy's HTTP/2.
pub(crate) fn h2spec() -> Result {
    h2spec::check(&thorp()?)
}

fn thorp() -> Result<PathBuf> {
    Ok(target()?.join("debug/thorp"))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
