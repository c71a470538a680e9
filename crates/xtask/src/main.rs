//! The project's entry points. `cargo xtask` lists them.

mod cache_tests;
mod h2spec;
mod lab;
mod provision;
mod python;
mod shim;
mod sim;
mod steps;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// An error is a line for the caller.
type Result<T = ()> = std::result::Result<T, String>;

const USAGE: &str = "\
Usage: cargo xtask <command>

  test    everything that a change must pass: format, tidy, lints, packages, tests, crash loop, groups apart,
          cache-tests, h2spec, python
  ci      the same
  tidy    the layer table, what the library pulls in, the documents' paths, words that do not belong here
  sim     simulated runs with faults
            --seeds N         how many seeds (default 1000)
            --first F         the first of them (default 0)
            --seed S          this one
            --trace           with every event of it
            --shards          of whole nodes with a store of several shards
            --cluster         of several nodes that are one store
            --reorder         of two masters' streams out of order, and not of whole nodes
            --volumes         of a volume with its owners, holders and home
            --race NAME       steered towards one kind of race
            --mutants         takes each rule out of the code and shows the seed that notices
            --rule NAME       with --mutants, of this rule alone
  provision
          installs the programs of others that tests run beside ours (Debian, root)
  cache-tests
          http-tests/cache-tests against the `thorp proxy` that was built last, with npm
  python  the tests of the Python package, with the `thorp` that was built last
  h2spec  h2spec's tests for HTTP/2 against the `thorp proxy` that was built last, with Go
  shim    the library in C between libfabric and Thorp, beside the `thorp` that was built last (libfabric-dev)
  lab [options] -- command...
          runs the command beside places joined by lines with a real delay: network namespaces, one for the store and
          one for each site. A word `{lab}` becomes the path of a JSON file that says how to run programs at them
            --sites N         how many sites (default 1)
            --one-way-ms MS   how long a packet takes from a site to the store, or back (default 20)
            --mbit-s R        how much a site's line carries in either direction (default: all that comes)
            --loss PERCENT    how many packets are lost on it (default 0)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        print!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcome = match (command.as_str(), rest) {
        ("test" | "ci", []) => steps::test().map(success),
        ("tidy", []) => tidy::run().map(success),
        ("provision", []) => provision::install().map(success),
        ("sim", options) => sim::run(options).map(success),
        ("cache-tests", []) => steps::cache_tests().map(success),
        ("python", []) => steps::python().map(success),
        ("h2spec", []) => steps::h2spec().map(success),
        ("shim", []) => shim::build().map(|library| println!("{}", library.display())).map(success),
        ("lab", words) => lab::run(words),
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("xtask: cannot make sense of `{}`\n\n{USAGE}", args.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(code) => code,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

/// The root of the repository: two folders above this crate. Where cargo says it lies now comes before where it was
/// built: several checkouts may share one target folder.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors().nth(2).expect("crates/xtask lies two folders deep").to_path_buf()
}

/// The cargo that called this program, at the root of the repository.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command with its output in sight.
fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{status}")) }
}

/// Runs a command and takes its standard output.
fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?}: {error}"))
}

/// The folder that cargo builds into.
fn target() -> Result<PathBuf> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?.into())
}

/// The metadata that cargo has of this workspace's own crates, and nothing of those of others.
fn metadata() -> Result<serde_json::Value> {
    let text = output_of(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}
