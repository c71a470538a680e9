//! `cargo xtask python`: the tests of the Python package, beside PostgreSQL and `thorp`.
//!
//! The packages that they want are installed in an environment beside the build, at the versions that
//! `python/requirements-test.txt` says, and again when these change.

use crate::{Result, output_of, root, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package runs on this version of Python and later ones.
const IS_RECENT: &str = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))";

/// Whether there is a Python that can have environments.
pub(crate) fn is_there() -> bool {
    output_of(Command::new("python3").args(["-c", IS_RECENT])).is_ok()
}

/// Runs the tests against a program. They are skipped where the packages cannot be installed, but never in CI.
pub(crate) fn check(thorp: &Path) -> Result {
    let folder = thorp.with_file_name("python");
    let programs = match install(&folder) {
        Ok(programs) => programs,
        Err(why) if std::env::var_os("CI").is_none() => {
            println!("skipped, because the tests' packages cannot be installed here: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    // Nothing is written into the checkout.
    let program = |name: &str, arguments: &[&str]| {
        let mut program = Command::new(programs.join(name));
        program.current_dir(source()).args(arguments).env("THORP", thorp).env("PYTHONPATH", source());
        program.env("PYTHONDONTWRITEBYTECODE", "1").env("MYPY_CACHE_DIR", folder.join("mypy"));
        program.env("HYPOTHESIS_STORAGE_DIRECTORY", folder.join("hypothesis"));
        run(&mut program)
    };
    program("ruff", &["check", "--quiet", "--no-cache"])?;
    program("ruff", &["format", "--check", "--quiet", "--no-cache"])?;
    program("mypy", &["--no-error-summary"])?;
    program("python", &["-m", "pytest"])
}

fn source() -> PathBuf {
    root().join("python")
}

/// Installs what the tests want, unless it is there, and says where the programs are.
fn install(folder: &Path) -> Result<PathBuf> {
    let text = |error: std::io::Error| error.to_string();
    let environment = folder.join("environment");
    let programs = environment.join("bin");
    let pins = source().join("requirements-test.txt");
    let wanted = fs::read_to_string(&pins).map_err(text)? + &output_of(Command::new("python3").arg("--version"))?;
    // It is written last: what was interrupted is made again.
    let installed = environment.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    if !is_there() {
        return Err("there is no Python of version 3.11 or later with `ensurepip`".to_owned());
    }
    output_of(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut pip = Command::new(programs.join("pip"));
    output_of(pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&pins))?;
    fs::write(&installed, wanted).map_err(text)?;
    Ok(programs)
}
