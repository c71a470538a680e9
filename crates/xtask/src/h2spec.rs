//! `cargo xtask h2spec`: the conformance tests for HTTP/2 of h2spec, against `thorp proxy`.
//!
//! They are run twice, without TLS and over it, and judged by the report that they write: every case passes, but for
//! those that are known to fail. The program is installed by Go, beside the build.

use crate::{Result, output_of, root};
use fixtures::Program;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// The cases that must be in a report, at least: one with fewer is of a run that has broken off.
const CASES_MIN: usize = 140;

/// How often all cases are run before one is considered a failure.
const RUNS_MAX: usize = 3;

/// Runs the tests against a program. They are skipped where they cannot be installed, but never in CI.
pub(crate) fn check(thorp: &Path) -> Result {
    let folder = thorp.with_file_name("h2spec");
    let program = match install(&folder) {
        Ok(program) => program,
        Err(why) if std::env::var_os("CI").is_none() => {
            println!("skipped, because h2spec cannot be installed here: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    certify(&folder)?;
    let known = known_failures()?;
    let mut findings = Vec::new();
    let mut met = BTreeSet::new();
    for way in ["plain", "tls"] {
        let mut report = run_over(way, &program, thorp, &folder)?;
        // Some cases race the proxy's answer: one is a failure if it fails each time.
        for _ in 1..RUNS_MAX {
            if report.failures.iter().all(|failure| known.contains(&format!("{way} {failure}"))) {
                break;
            }
            let again = run_over(way, &program, thorp, &folder)?;
            report.failures.retain(|failure| again.failures.contains(failure));
        }
        println!("{way}: {} of {} cases", report.cases - report.failures.len(), report.cases);
        if report.cases < CASES_MIN {
            findings
                .push(format!("{way}: the report has {} cases, and {CASES_MIN} at least are expected", report.cases));
        }
        for failure in report.failures {
            let failure = format!("{way} {failure}");
            if known.contains(&failure) {
                met.insert(failure);
            } else {
                findings.push(format!("{failure} fails"));
            }
        }
    }
    let passing = known.difference(&met).map(|case| format!("{case} passes: take it out of known-failures.txt"));
    findings.extend(passing);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len())) }
}

/// The program, which is built once.
fn install(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("h2spec");
    if !program.is_file() {
        output_of(Command::new("go").args(["install", MODULE]).env("GOBIN", folder).env("GOFLAGS", "-mod=mod"))?;
    }
    Ok(program)
}

/// Makes a key and a certificate for this run, with the program that comes with Go.
fn certify(folder: &Path) -> Result {
    let go = output_of(Command::new("go").args(["env", "GOROOT"]))?;
    let maker = Path::new(go.trim()).join("src/crypto/tls/generate_cert.go");
    let mut make = Command::new("go");
    make.arg("run").arg(maker).args(["--host", "localhost,127.0.0.1", "--ecdsa-curve", "P256"]);
    output_of(make.current_dir(folder)).map(drop)
}

/// The cases that fail, each with a reason behind it.
fn known_failures() -> Result<BTreeSet<String>> {
    let text =
        fs::read_to_string(root().join("testdata/h2spec/known-failures.txt")).map_err(|error| error.to_string())?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(" -> ") {
            Some((case, reason)) if !reason.trim().is_empty() => Ok(case.to_owned()),
            _ => Err(format!("known-failures.txt: `{line}` has no reason")),
        })
        .collect()
}

/// Runs all cases against a proxy of their own.
fn run_over(way: &str, program: &Path, thorp: &Path, folder: &Path) -> Result<Report> {
    let origin = application()?;
    let [cert, key] = ["cert.pem", "key.pem"].map(|file| folder.join(file).display().to_string());
    let is_tls = way == "tls";
    let tls = if is_tls { &["--tls-cert", &cert, "--tls-key", &key][..] } else { &[] };
    let proxy =
        Program::from(thorp).proxy(&[&["--origin", &origin], tls].concat()).map_err(|error| error.to_string())?;
    let port = proxy.address().port().to_string();
    let report = folder.join(format!("{way}.xml"));
    let mut command = Command::new(program);
    command.args(["--port", &port, "--path", "/page", "--junit-report"]).arg(&report);
    if is_tls {
        command.args(["--tls", "--insecure"]);
    }
    // It ends with a failure when a case fails: the report is what counts.
    command.stdout(Stdio::null()).status().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    Ok(Report::parse(&text))
}

/// An application that has one page, and takes what it is sent; gives its URL.
fn application() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut reader, mut line) = (BufReader::new(&stream), String::new());
                while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                // A proxy that has hung up does not want it.
                let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n");
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            });
        }
    });
    Ok(format!("http://{address}"))
}

/// The report of a run.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    cases: usize,
    /// The section and the title of each case that has failed.
    failures: Vec<String>,
}

impl Report {
    /// Reads what h2spec writes for JUnit: a line for each case, and below it one for how it has failed.
    fn parse(text: &str) -> Self {
        let (mut cases, mut case, mut failures) = (0, String::new(), Vec::new());
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("<testcase ") {
                let attribute = |name: &str| line.split_once(name)?.1.split('"').next();
                let [section, title] = ["package=\"", "classname=\""].map(|name| attribute(name).unwrap_or_default());
                cases += 1;
                case = format!("{section} {title}");
            } else if line.starts_with("<error>") || line.starts_with("<failure>") {
                failures.push(case.clone());
            }
        }
        Self { cases, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_has_failed() {
        let text = "<testsuites>
  <testsuite name=\"3.5. Preface\" tests=\"2\">
    <testcase package=\"http2/3.5\" classname=\"Sends client connection preface\" time=\"0.0001\"></testcase>
    <testcase package=\"http2/3.5\" classname=\"Sends invalid connection preface\" time=\"0.0003\">
      <error>Connection closed
Error: unexpected EOF</error>
    </testcase>
  </testsuite>
</testsuites>";
        let failures = vec!["http2/3.5 Sends invalid connection preface".to_owned()];
        assert_eq!(Report::parse(text), Report { cases: 2, failures });
    }

    #[test]
    fn every_known_failure_has_a_reason() {
        assert!(!known_failures().unwrap().is_empty());
    }
}
