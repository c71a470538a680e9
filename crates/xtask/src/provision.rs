//! The programs of others that tests run beside ours. In CI they have to be there, so what is missing is installed;
//! elsewhere the tests that want them say that they are skipped.

use crate::{Result, python, run, shim};
use std::path::Path;
use std::process::Command;

/// A package, and a way to see that it is there.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: [Package; 10] = [
    Package { name: "postgresql", is_there: has_postgres },
    Package { name: "python3-venv", is_there: python::is_there },
    Package { name: "golang-go", is_there: || is_on_path("go") },
    Package { name: "libfabric-dev", is_there: shim::is_there },
    Package { name: "nbdkit", is_there: || is_on_path("nbdkit") },
    Package { name: "libnbd-bin", is_there: || is_on_path("nbdinfo") && is_on_path("nbdcopy") },
    Package { name: "qemu-utils", is_there: || is_on_path("qemu-io") && is_on_path("qemu-img") },
    Package { name: "fio", is_there: || is_on_path("fio") },
    Package { name: "nginx", is_there: || Path::new("/usr/sbin/nginx").is_file() },
    // With Apache, and not with its service.
    Package { name: "libapache2-mod-php", is_there: has_apache_with_php },
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

fn has_apache_with_php() -> bool {
    let modules = std::fs::read_dir("/usr/lib/apache2/modules").into_iter().flatten().flatten();
    let mut names = modules.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with("libphp"))
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
