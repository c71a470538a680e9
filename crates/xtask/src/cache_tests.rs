//! `cargo xtask cache-tests`: http-tests/cache-tests against `thorp proxy`.
//!
//! The npm package is installed beside the build, at the version that `testdata/cache-tests/package.json` says. Its own
//! runner ends with success whatever fails, so `testdata/cache-tests/run.mjs` runs the tests and writes down each
//! result, and the results are judged here: every required and optional test passes, but for those that are known to
//! fail.

use crate::{Result, output_of, root, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many of the package's 165 required and 95 optional tests must pass, however many failures are known. The
/// package's own results of other proxies have 141 and 60 at best.
const REQUIRED_MIN: usize = 140;
const OPTIONAL_MIN: usize = 80;

/// Runs the tests against a program. They are skipped where npm is not installed, but never in CI.
pub(crate) fn check(thorp: &Path) -> Result {
    let folder = match install(thorp) {
        Ok(folder) => folder,
        Err(why) if std::env::var_os("CI").is_none() => {
            println!("skipped, because cache-tests cannot be installed here: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let known = known_failures()?;
    let mut results = Results::of_run(&folder, thorp, &[])?;
    // Some tests look at how old a response is to the second. One that fails beside a hundred others has another
    // chance.
    let surprises = results.surprises(&known);
    if !surprises.is_empty() {
        println!("once more: {}", surprises.join(", "));
        results.0.extend(Results::of_run(&folder, thorp, &surprises)?.0);
    }
    results.judge(&known)
}

/// Installs the package with what runs it in a folder beside the program.
fn install(thorp: &Path) -> Result<PathBuf> {
    let folder = thorp.with_file_name("cache-tests");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for file in fs::read_dir(source()).map_err(|error| error.to_string())? {
        let file = file.map_err(|error| error.to_string())?;
        fs::copy(file.path(), folder.join(file.file_name())).map_err(|error| error.to_string())?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(&folder).args(["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]);
    output_of(&mut npm)?;
    Ok(folder)
}

fn source() -> PathBuf {
    root().join("testdata/cache-tests")
}

/// The ids of the tests that fail, and that each has a reason for.
fn known_failures() -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(source().join("known-failures.txt")).map_err(|error| error.to_string())?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(' ') {
            Some((id, reason)) if !reason.trim().is_empty() => Ok(id.to_owned()),
            _ => Err(format!("known-failures.txt: `{line}` has no reason")),
        })
        .collect()
}

/// The result of each test that was run.
#[derive(Debug)]
struct Results(BTreeMap<String, TestResult>);

#[derive(Debug)]
struct TestResult {
    kind: String,
    failure: Option<String>,
}

impl Results {
    /// Runs these tests, or all.
    fn of_run(folder: &Path, thorp: &Path, ids: &[String]) -> Result<Self> {
        let results = folder.join("results.json");
        let mut node = Command::new("node");
        node.current_dir(folder).arg("run.mjs").arg(&results).arg(ids.join(",")).arg(thorp);
        node.args(["proxy", "--listen", "127.0.0.1:0", "--origin", "{origin}", "--json"]);
        // They look at what a cache does with a response, and not at what it tells browsers.
        node.args(["--browser-cache", "as-is"]);
        run(&mut node)?;
        let text = fs::read_to_string(&results).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let results: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let result = |result: &Value| {
            let kind = result["kind"].as_str()?.to_owned();
            Some(TestResult { kind, failure: result["failure"].as_str().map(str::to_owned) })
        };
        let results = results.into_iter().map(|(id, value)| Some((id, result(&value)?)));
        results.collect::<Option<_>>().map(Self).ok_or_else(|| "a result has no kind".to_owned())
    }

    /// The tests that fail though they must not. Those of kind `check` ask what a cache does, and have no right answer.
    fn surprises(&self, known: &BTreeSet<String>) -> Vec<String> {
        let failing = self.0.iter().filter(|(_, result)| result.kind != "check" && result.failure.is_some());
        failing.map(|(id, _)| id.clone()).filter(|id| !known.contains(id)).collect()
    }

    fn judge(&self, known: &BTreeSet<String>) -> Result {
        let passing = |kind: &str| {
            let of_kind = self.0.values().filter(|result| result.kind == kind);
            let passed = of_kind.clone().filter(|result| result.failure.is_none()).count();
            println!("{kind}: {passed} of {}", of_kind.count());
            passed
        };
        let (required, optional, _) = (passing("required"), passing("optimal"), passing("own"));
        let mut findings = Vec::new();
        for id in self.surprises(known) {
            let failure = self.0[&id].failure.as_deref().unwrap_or_default();
            findings.push(format!("{id}: {failure}"));
        }
        for id in known {
            match self.0.get(id) {
                Some(result) if result.failure.is_some() => {}
                Some(_) => findings.push(format!("{id} passes: take it out of known-failures.txt")),
                None => findings.push(format!("{id} of known-failures.txt is no test")),
            }
        }
        if required < REQUIRED_MIN || optional < OPTIONAL_MIN {
            findings.push(format!("less than {REQUIRED_MIN} required or {OPTIONAL_MIN} optional tests pass"));
        }
        for finding in &findings {
            println!("{finding}");
        }
        if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many passing tests of either kind, and one that fails.
    fn results(passing: usize) -> Results {
        let mut results = BTreeMap::new();
        for kind in ["required", "optimal"] {
            for number in 0..passing {
                let result = TestResult { kind: kind.to_owned(), failure: None };
                results.insert(format!("{kind}-{number}"), result);
            }
        }
        let failing = r#"{"broken": {"kind": "required", "failure": "Assertion: stale"},
                          "curious": {"kind": "check", "failure": "Assertion: no"}}"#;
        results.extend(Results::parse(failing).unwrap().0);
        Results(results)
    }

    #[test]
    fn a_failure_is_known_or_a_finding() {
        let known = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(results(200).surprises(&known(&[])), ["broken"]);
        assert!(results(200).judge(&known(&["broken"])).is_ok());
        assert!(results(200).judge(&known(&[])).is_err(), "an unknown failure");
        assert!(results(200).judge(&known(&["broken", "required-0"])).is_err(), "a known failure that passes");
        assert!(results(200).judge(&known(&["broken", "gone"])).is_err(), "a known failure that is no test");
        assert!(results(100).judge(&known(&["broken"])).is_err(), "too few");
    }

    #[test]
    fn every_known_failure_has_a_reason() {
        assert!(!known_failures().unwrap().is_empty());
    }
}
