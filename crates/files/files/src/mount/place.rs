//! The directory that a site is mounted on.

use crate::error::FilesError;
use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as detach};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::{Attributes, Time};

/// The begin of the name of a mount's source, as `mount` lists it.
pub(super) const SOURCE: &str = "thorp:";

/// The programs that undo mounts for users who may not do so themselves.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// A directory that can be mounted on.
#[derive(Clone, Debug)]
pub struct MountPlace {
    at: PathBuf,
    attributes: Attributes,
}

impl MountPlace {
    /// Takes a directory to mount on, where the site's files may be in `files`. The mount of a process that was killed
    /// is undone.
    ///
    /// # Errors
    /// There is no such directory, it is mounted on already, or it has the files inside: the mount would read itself.
    pub fn new(at: &Path, files: Option<&Path>) -> Result<Self, FilesError> {
        let failed = |error: io::Error| FilesError::Mount(at.to_owned(), error);
        if device(at).is_some() {
            // The kernel may know attributes of it still, but not how large it is.
            if statfs(at).err() != Some(Errno::NOTCONN) {
                return Err(failed(io::ErrorKind::AlreadyExists.into()));
            }
            unmount(at).map_err(failed)?;
        }
        let whole = fs::canonicalize(at).map_err(failed)?;
        let directory = fs::metadata(&whole).map_err(failed)?;
        if !directory.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let is_inside = |files: &&Path| absolute(files).is_some_and(|files| files.starts_with(&whole));
        if let Some(files) = files.filter(is_inside) {
            return Err(FilesError::MountOver(at.to_owned(), files.to_owned()));
        }
        let modified = Time { seconds: directory.mtime(), nanoseconds: directory.mtime_nsec() as u32 };
        let (uid, gid) = (directory.uid(), directory.gid());
        let mode = (directory.mode() & 0o7777) as u16;
        Ok(Self { at: whole, attributes: Attributes { mode, uid, gid, modified, xattrs: Vec::new() } })
    }

    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    /// The attributes of the directory before it is mounted on.
    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

/// A mount that is there.
#[derive(Debug)]
pub(super) struct Mount {
    at: PathBuf,
    /// Its device, by which it is known from other mounts on the directory.
    device: Option<String>,
}

impl Mount {
    /// The mount that was made last on a directory.
    pub(super) fn find(at: &Path) -> Self {
        Self { at: at.to_owned(), device: device(at) }
    }

    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    /// Undoes the mount, even if files are open: from now on, their reads fail. Nothing waits in the kernel any longer,
    /// neither for an answer nor for the lock of a directory.
    pub(super) fn undo(&self) -> io::Result<()> {
        if self.device.is_none() || device(&self.at) != self.device {
            // It was unmounted already.
            return Ok(());
        }
        unmount(&self.at)
    }
}

/// Undoes the last mount on a directory. A mount that is already gone counts as undone.
fn unmount(at: &Path) -> io::Result<()> {
    match detach(at, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => unmount_by_helper(at),
        Err(error) => Err(error.into()),
    }
}

/// The device of the site that is mounted on a directory, if one is: of the last mount there.
fn device(at: &Path) -> Option<String> {
    let (at, mounts) = (absolute(at)?, fs::read_to_string("/proc/self/mountinfo").ok()?);
    let of_line = |line: &str| {
        let (mount, of_type) = line.split_once(" - ")?;
        let (kind, source) = of_type.split_once(' ')?;
        let mut fields = mount.split(' ').skip(2);
        let (device, path) = (fields.next()?, fields.nth(1)?);
        if unescaped(path) != at.as_os_str().as_bytes() {
            return None;
        }
        Some((kind == "fuse" && source.starts_with(SOURCE)).then(|| device.to_owned()))
    };
    mounts.lines().filter_map(of_line).next_back()?
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
