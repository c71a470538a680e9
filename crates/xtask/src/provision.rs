//! The programs of others that tests run beside ours. In CI they have to be there, so what is missing is installed;
//! elsewhere the tests that want them say that they are skipped.

use crate::{Result, cargo, output_of, python, run, shim, target};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package, and a way to see that it is there.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: [Package; 18] = [
    Package { name: "postgresql", is_there: has_postgres },
    Package { name: "python3-venv", is_there: python::is_there },
    Package { name: "golang-go", is_there: || is_on_path("go") },
    Package { name: "libfabric-dev", is_there: shim::is_there },
    Package { name: "nbdkit", is_there: || is_on_path("nbdkit") },
    Package { name: "libnbd-bin", is_there: || ["nbdinfo", "nbdcopy", "nbdfuse"].into_iter().all(is_on_path) },
    Package { name: "xfsprogs", is_there: || is_on_path("mkfs.xfs") },
    Package { name: "e2fsprogs", is_there: || is_on_path("mkfs.ext4") && is_on_path("e2fsck") },
    Package { name: "qemu-utils", is_there: || is_on_path("qemu-io") && is_on_path("qemu-img") },
    Package { name: "fio", is_there: || is_on_path("fio") },
    // The guest that has a volume for a disk: 84 MB.
    Package { name: "qemu-system-x86", is_there: || is_on_path("qemu-system-x86_64") },
    Package { name: "busybox-static", is_there: || is_on_path("busybox") },
    Package { name: "nbd-client", is_there: || Path::new("/usr/sbin/nbd-client").is_file() },
    // For the tests of POSIX, which are built here.
    Package { name: "libacl1-dev", is_there: || Path::new("/usr/include/sys/acl.h").is_file() },
    // The demo and the bench of published files show it beside them.
    Package { name: "rsync", is_there: || is_on_path("rsync") },
    Package { name: "curl", is_there: || is_on_path("curl") },
    Package { name: "nginx", is_there: || Path::new("/usr/sbin/nginx").is_file() },
    // With Apache, and not with its service.
    Package { name: "libapache2-mod-php", is_there: has_apache_with_php },
];

/// A program that is no package of the system's, or a part of one. It is put into `tools` beside the build, where tests
/// look for it.
struct Tool {
    name: &'static str,
    /// A file that it has.
    file: &'static str,
    install: fn(&Path) -> Result,
}

const TOOLS: [Tool; 5] = [
    Tool { name: "fsx", file: "bin/fsx", install: |tools| install_crate(tools, "fsx", "0.3.2") },
    Tool { name: "pjdfstest", file: "bin/pjdfstest", install: |tools| install_crate(tools, "pjdfstest", "0.2.2") },
    Tool { name: "versitygw", file: "bin/versitygw", install: install_bucket_server },
    Tool { name: "etcd", file: "bin/etcd", install: install_etcd },
    Tool { name: "kernel of a guest", file: "kernel/nbd.ko", install: install_kernel },
];

/// The modules of the guest's kernel, without what they are below.
const MODULES: [&str; 10] = [
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/block/virtio_blk.ko",
    "drivers/block/nbd.ko",
];

/// Installs what is missing, where that is ours to do.
pub(crate) fn install_in_ci() -> Result {
    if std::env::var_os("CI").is_some() {
        return install();
    }
    let tools = tools()?;
    let packages = PACKAGES.iter().filter(|package| !(package.is_there)()).map(|package| package.name);
    let missing: Vec<_> =
        packages.chain(TOOLS.iter().filter(|it| !tools.join(it.file).is_file()).map(|it| it.name)).collect();
    if !missing.is_empty() {
        let what = missing.join(", ");
        println!("not installed, so its tests are skipped: {what}; `cargo xtask provision` installs it (Debian, root)");
    }
    Ok(())
}

/// Installs what is missing.
pub(crate) fn install() -> Result {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !(package.is_there)()).map(|package| package.name).collect();
    let is_root = std::env::var_os("USER").is_none_or(|user| user == "root");
    if !is_root || !is_on_path("apt-get") {
        println!("cannot be installed here, so its tests are skipped: {}", missing.join(", "));
        return Ok(());
    }
    let tools = tools()?;
    let to_install: Vec<_> = TOOLS.iter().filter(|it| !tools.join(it.file).is_file()).collect();
    if missing.is_empty() && to_install.is_empty() {
        return Ok(());
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    if !missing.is_empty() {
        let mut install = Command::new("apt-get");
        install.args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(missing);
        run(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    std::fs::create_dir_all(&tools).map_err(|error| format!("{}: {error}", tools.display()))?;
    to_install.iter().try_for_each(|tool| (tool.install)(&tools).map_err(|why| format!("{}: {why}", tool.name)))
}

fn tools() -> Result<PathBuf> {
    Ok(target()?.join("tools"))
}

/// A program of crates.io that exercises file systems. A debug build does: it waits for the file system.
fn install_crate(tools: &Path, name: &str, version: &str) -> Result {
    run(cargo().args(["install", name, "--version", version, "--locked", "--debug", "--quiet", "--root"]).arg(tools))
}

/// A server of buckets, which Go builds from its module: 80 MB.
fn install_bucket_server(tools: &Path) -> Result {
    let mut install = Command::new("go");
    install.args(["install", "github.com/versity/versitygw/cmd/versitygw@v1.8.0"]);
    output_of(install.env("GOBIN", tools.join("bin")).env("GOFLAGS", "-mod=mod")).map(drop)
}

/// Debian's kernel for machines in a cloud: 27 MB come, 15 MB stay. It is not installed, which would make it this
/// machine's.
fn install_kernel(tools: &Path) -> Result {
    let depends = output_of(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.ok_or("linux-image-cloud-amd64 depends on no kernel")?;
    let folder = tools.join("kernel");
    let modules = MODULES.map(|module| format!("*/kernel/{module}"));
    unpack(package, &folder, &[&["./boot/vmlinuz-*".to_owned()], &modules[..]].concat())?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = std::fs::read_dir(&folder).map_err(failed)?.flatten();
    let kernel = files.find(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"));
    let kernel = kernel.ok_or("it has no kernel")?.path();
    std::fs::rename(kernel, folder.join("vmlinuz")).map_err(failed)
}

/// Debian's etcd: 8 MB come, 21 MB stay. It is not installed, which would start its service.
fn install_etcd(tools: &Path) -> Result {
    unpack("etcd-server", &tools.join("bin"), &["./usr/bin/etcd".to_owned()])
}

/// Puts files of one of the system's packages into a folder, without installing it.
fn unpack(package: &str, folder: &Path, files: &[String]) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    run(Command::new("apt-get").args(["download", "--quiet", package]).current_dir(folder))?;
    let mut found = std::fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path());
    let archive = found.find(|path| path.extension().is_some_and(|it| it == "deb")).ok_or("nothing came")?;
    let mut list = Command::new("dpkg-deb");
    let mut list = list.arg("--fsys-tarfile").arg(&archive).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--wildcards", "--transform=s|.*/||", "--directory"]).arg(folder).args(files);
    run(unpack.stdin(list.stdout.take().expect("it is piped")))?;
    list.wait().map_err(failed)?;
    std::fs::remove_file(archive).map_err(failed)
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
