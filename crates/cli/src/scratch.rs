//! A folder for a store that lives no longer than the command.

use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A folder. One that nobody named is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    is_ours: bool,
}

impl Scratch {
    /// The folder that the user named, which must be new or empty; else one below `parent`.
    pub(crate) fn new(named: Option<PathBuf>, parent: &Path, what: &str) -> Result<Self> {
        let is_ours = named.is_none();
        let path = named.unwrap_or_else(|| parent.join(format!("thorp-{what}-{}", std::process::id())));
        if !is_empty(&path)? {
            return Err(format!("{} is not empty: name a new directory", path.display()).into());
        }
        std::fs::create_dir_all(&path).map_err(|error| cannot_create(&path, &error))?;
        Ok(Self { path, is_ours })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is, for someone to look at.
    pub(crate) fn keep(&mut self) {
        self.is_ours = false;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_ours {
            // A file that cannot be removed stays; there is nobody left to tell.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn is_empty(path: &Path) -> Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(cannot_create(path, &error)),
    }
}

fn cannot_create(path: &Path, error: &std::io::Error) -> Error {
    format!("cannot use {} as a directory: {error}", path.display()).into()
}
