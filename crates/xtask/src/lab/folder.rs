//! A temporary folder that goes with the lab. After a SIGKILL it stays, a description of what is no more.

use crate::Result;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How many folders there can be of one process.
const NUMBERS: u32 = 1000;

/// A folder that only this user may look into.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        // A number that is taken is another lab's of this process, or was left behind by a process of the same id.
        for number in 0..NUMBERS {
            let path = base.join(format!("thorp-lab-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("lab: cannot make the folder {}: {error}", path.display())),
            }
        }
        Err(format!("lab: there are too many folders `thorp-lab-*` in {}: delete them", base.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("lab: cannot delete {}: {error}", self.0.display());
        }
    }
}
