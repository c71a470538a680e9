//! A walk over a directory on a thread of its own, ahead of the scan: the names and the status of the entries of each
//! directory, in the order in which the scan asks for directories.

use crate::error::FilesError;
use crate::exclude::Exclude;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use tree::Name;
use tree::limits::DEPTH_MAX;

/// Directories that are walked ahead of the scan. Each is open.
const AHEAD: usize = 32;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory, as the walk found it.
pub(crate) struct Listed {
    /// The open directory, which cannot be exchanged for a link.
    pub(crate) dir: OwnedFd,
    pub(crate) stat: Stat,
    /// The entries that are not left out, by name.
    pub(crate) entries: Vec<(Name, Stat)>,
}

/// The receiver of a walk.
pub(crate) struct Walk(Receiver<Result<Listed, FilesError>>);

impl Walk {
    /// Begins to walk a directory. The walk ends when its receiver is dropped.
    pub(crate) fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        dir: &'scope Path,
        exclude: &'scope Exclude,
    ) -> Result<(Self, ScopedJoinHandle<'scope, ()>), FilesError> {
        let (to, from) = sync_channel(AHEAD);
        let walker = Walker { root: dir, exclude, to };
        let thread = std::thread::Builder::new().name("walk".to_owned());
        let thread = thread.spawn_scoped(scope, move || walker.run()).map_err(FilesError::Thread)?;
        Ok((Self(from), thread))
    }

    /// The next directory: the first one, and then each directory in the order of the entries that name it.
    pub(crate) fn next(&mut self) -> Result<Listed, FilesError> {
        // The walker ends without a word if it panics.
        self.0.recv().unwrap_or(Err(FilesError::Interrupted))
    }
}

/// The reason why a walk ends early.
struct Ended;

struct Walker<'a> {
    root: &'a Path,
    exclude: &'a Exclude,
    to: SyncSender<Result<Listed, FilesError>>,
}

impl Walker<'_> {
    fn run(&self) {
        let opened = open(self.root, DIRECTORY, Mode::empty());
        let _ = match opened {
            Ok(dir) => self.walk(dir, &mut PathBuf::new(), 0),
            Err(errno) => self.send(Err(self.unreadable(Path::new(""), errno))),
        };
    }

    fn send(&self, listed: Result<Listed, FilesError>) -> Result<(), Ended> {
        let goes_on = listed.is_ok();
        self.to.send(listed).map_err(|_| Ended)?;
        if goes_on { Ok(()) } else { Err(Ended) }
    }

    fn unreadable(&self, inside: &Path, errno: Errno) -> FilesError {
        FilesError::Unreadable(self.root.join(inside), errno.into())
    }

    /// Sends a directory, and those below it. `inside` is its path in the site.
    fn walk(&self, dir: OwnedFd, inside: &mut PathBuf, depth: usize) -> Result<(), Ended> {
        let mut below = Vec::new();
        let listed = self.list(&dir, inside, depth).map(|(stat, entries)| {
            let is_directory = |(_, stat): &&(Name, Stat)| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            below = entries.iter().filter(is_directory).map(|(name, _)| name.clone()).collect();
            (stat, entries)
        });
        // The scan has the directory from here on, and this walk a handle of its own if it goes below.
        let again = if below.is_empty() { None } else { Some(dir.try_clone()) };
        self.send(listed.map(|(stat, entries)| Listed { dir, stat, entries }))?;
        let Some(again) = again else { return Ok(()) };
        let dir = match again {
            Ok(dir) => dir,
            Err(error) => return self.send(Err(FilesError::Unreadable(self.root.join(&*inside), error))),
        };
        for name in below {
            let name = OsStr::from_bytes(name.as_bytes());
            inside.push(name);
            match openat(&dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(opened) => self.walk(opened, inside, depth + 1)?,
                Err(errno) => self.send(Err(self.unreadable(inside, errno)))?,
            }
            inside.pop();
        }
        Ok(())
    }

    /// Lists a directory.
    fn list(&self, dir: &OwnedFd, inside: &mut PathBuf, depth: usize) -> Result<(Stat, Vec<(Name, Stat)>), FilesError> {
        if depth > DEPTH_MAX {
            return Err(FilesError::TooLarge(self.root.join(&*inside), "directories below more others"));
        }
        let stat = fstat(dir).map_err(|errno| self.unreadable(inside, errno))?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(dir).map_err(|errno| self.unreadable(inside, errno))? {
            let entry = entry.map_err(|errno| self.unreadable(inside, errno))?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            inside.push(OsStr::from_bytes(bytes));
            if !self.exclude.has(inside) {
                let too_long = |_| FilesError::TooLarge(self.root.join(&*inside), "a longer name");
                let name = Name::new(bytes).map_err(too_long)?;
                let stat = statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                entries.push((name, stat.map_err(|errno| self.unreadable(inside, errno))?));
            }
            inside.pop();
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok((stat, entries))
    }
}
