//! A folder for a store that lives no longer than the command.

use crate::stopper::end_on_signal;
use crate::{Error, Result};
use std::fs::{DirBuilder, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a folder is tried to be removed.
const TRIES: usize = 10;
const TRY_EVERY: Duration = Duration::from_millis(20);

/// A folder. One that nobody named is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    is_ours: bool,
}

impl Scratch {
    /// The folder that the user named, which must be new or empty; else a new one below `parent`, for this user alone.
    pub(crate) fn new(named: Option<PathBuf>, parent: &Path, what: &str) -> Result<Self> {
        if let Some(path) = named {
            if !is_empty(&path)? {
                return Err(format!("{} is not empty: name a new directory", path.display()).into());
            }
            std::fs::create_dir_all(&path).map_err(|error| cannot_create(&path, &error))?;
            return Ok(Self { path, is_ours: false });
        }
        std::fs::create_dir_all(parent).map_err(|error| cannot_create(parent, &error))?;
        // Others may write there, too, and are not to have made it: its name is none that they could know, and one that
        // is there is refused.
        let (process, number) = (std::process::id(), RandomState::new().hash_one(what));
        let path = parent.join(format!("thorp-{what}-{process}-{number:016x}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| cannot_create(&path, &error))?;
        Ok(Self { path, is_ours: true })
    }

    /// The same, with a way through it for processes of other users, to what is theirs below it: a server that refuses
    /// to be root's. They still cannot list it.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the commands of the lab"))]
    pub(crate) fn with_way_through(named: Option<PathBuf>, parent: &Path, what: &str) -> Result<Self> {
        let scratch = Self::new(named, parent, what)?;
        if scratch.is_ours {
            std::fs::set_permissions(&scratch.path, Permissions::from_mode(0o711))?;
        }
        Ok(scratch)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes SIGTERM, SIGHUP and Ctrl-C end the process, and remove the folder unless the user named it. Processes that
    /// this one has started end with it.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the commands of the lab"))]
    pub(crate) fn remove_on_signal(&self) -> Result {
        let path = self.is_ours.then(|| self.path.clone());
        end_on_signal(move || path.iter().for_each(|path| remove(path)))
    }

    /// Leaves it where it is, for someone to look at.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the commands of the lab"))]
    pub(crate) fn keep(&mut self) {
        self.is_ours = false;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_ours {
            remove(&self.path);
        }
    }
}

/// Removes a folder. A file that cannot be removed stays, and the command is over. Work that was left alone may be
/// about to fail and may still make a file, so the removal is tried again.
pub(crate) fn remove(path: &Path) {
    for _ in 0..TRIES {
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
        std::thread::sleep(TRY_EVERY);
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
