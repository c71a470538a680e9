//! `cargo xtask shim`: the library in C between libfabric and Thorp, beside the program that loads it.

use crate::{Result, root, run, target};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "crates/web/fabric/shim/thorp_fabric.c";
const HEADER: &str = "/usr/include/rdma/fi_rma.h";

/// Whether it can be built: libfabric's headers are there.
pub(crate) fn is_there() -> bool {
    Path::new(HEADER).is_file()
}

/// Builds it; gives where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let library = target()?.join("debug/libthorp_fabric.so");
    if let Some(folder) = library.parent() {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o"]);
    run(compile.arg(&library).arg(root().join(SOURCE)).arg("-lfabric"))?;
    Ok(library)
}
