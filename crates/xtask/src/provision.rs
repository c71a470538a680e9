//! The programs of others that tests run beside ours. In CI they have to be there, so what is missing is installed;
//! elsewhere the tests that want them say that they are skipped.

use crate::{Result, python, run};
use std::path::Path;
use std::process::Command;

/// A package, and a way to see that it is there.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: [Package; 3] = [
    Package { name: "postgresql", is_there: has_postgres },
    Package { name: "python3-venv", is_there: python::is_there },
    Package { name: "golang-go", is_there: || is_on_path("go") },
];

/// Installs what is missing, where that is ours to do.
pub(crate) fn install() -> Result {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !(package.is_there)()).map(|package| package.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = std::env::var_os("USER").is_none_or(|user| user == "root");
    if std::env::var_os("CI").is_none() || !is_root || !is_on_path("apt-get") {
        println!("not installed, so its tests are skipped outside of CI: {}", missing.join(", "));
        return Ok(());
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(missing);
    run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn has_postgres() -> bool {
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    is_on_path("initdb") || packaged.into_iter().any(|version| version.path().join("bin/initdb").is_file())
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
