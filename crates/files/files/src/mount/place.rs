//! The directory that a site is mounted on.

use crate::error::FilesError;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as detach};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The begin of the name of a mount's source, as `mount` lists it.
pub(super) const SOURCE: &str = "thorp:";

/// The programs that undo mounts for users who may not do so themselves.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// A directory that can be mounted on.
#[derive(Clone, Debug)]
pub struct MountPlace(PathBuf);

impl MountPlace {
    /// Takes a directory to mount on, where the site's files may be in `files`. The mount of a process that was killed
    /// is undone.
    ///
    /// # Errors
    /// There is no such directory, or it has the files inside: the mount would read itself.
    pub fn new(at: &Path, files: Option<&Path>) -> Result<Self, FilesError> {
        let failed = |error: io::Error| FilesError::Mount(at.to_owned(), error);
        if is_dead(at) {
            unmount(at).map_err(failed)?;
        }
        let whole = fs::canonicalize(at).map_err(failed)?;
        if !whole.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let is_inside = |files: &&Path| absolute(files).is_some_and(|files| files.starts_with(&whole));
        match files.filter(is_inside) {
            Some(files) => Err(FilesError::MountOver(at.to_owned(), files.to_owned())),
            None => Ok(Self(whole)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Whether the mount of a process that has ended is here.
fn is_dead(at: &Path) -> bool {
    // The kernel may know attributes of it still, but not how large it is.
    rustix::fs::statfs(at).is_err_and(|error| error == Errno::NOTCONN) && is_mount_of_thorp(at)
}

fn is_mount_of_thorp(at: &Path) -> bool {
    let Some(at) = absolute(at) else { return false };
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return false };
    let is_it = |line: &str| {
        let (mount, of_type) = line.split_once(" - ")?;
        let (kind, source) = of_type.split_once(' ')?;
        let is_here = unescaped(mount.split(' ').nth(4)?) == at.as_os_str().as_bytes();
        Some(is_here && kind == "fuse" && source.starts_with(SOURCE))
    };
    mounts.lines().any(|line| is_it(line) == Some(true))
}

/// A path as `mountinfo` has it: blanks, line ends and backslashes are a backslash and three octal digits.
fn unescaped(path: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| first == b'\\');
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

/// The absolute path of a directory that may not be there, or cannot be looked at.
fn absolute(at: &Path) -> Option<PathBuf> {
    if let Ok(whole) = fs::canonicalize(at) {
        return Some(whole);
    }
    let above = match at.parent()? {
        above if above.as_os_str().is_empty() => Path::new("."),
        above => above,
    };
    Some(fs::canonicalize(above).ok()?.join(at.file_name()?))
}

/// Undoes a mount, even if files are open.
pub(super) fn unmount(at: &Path) -> io::Result<()> {
    match detach(at, UnmountFlags::DETACH) {
        // It was unmounted already.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => unmount_by_helper(at),
        Err(error) => Err(error.into()),
    }
}

fn unmount_by_helper(at: &Path) -> io::Result<()> {
    for helper in HELPERS {
        let ended = Command::new(helper).args(["-u", "-z", "--"]).arg(at).stdin(Stdio::null()).output();
        match ended {
            Ok(ended) if ended.status.success() => return Ok(()),
            Ok(ended) => return Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("fusermount3 is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read_as_the_kernel_writes_them() {
        assert_eq!(unescaped("/mnt/a\\040b\\134c"), b"/mnt/a b\\c");
        assert_eq!(unescaped("/mnt/\\04"), b"/mnt/\\04");
    }
}
