//! A revision as a directory: files with mode, time, extended attributes and hard links, directories and links.

use crate::error::FilesError;
use crate::view::{AHEAD_BYTES, View};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, lsetxattr, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use tree::{Attributes, Entry, Kind, Name};

/// The files and bytes that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files and links.
    pub files: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// Writes what is at a path of a view to a directory that is new or empty, or to a file that is new. Owners are set for
/// the superuser alone.
///
/// # Errors
/// [`FilesError::NotEmpty`], a file that cannot be written, and those of the view.
pub fn export(
    view: &View<'_>,
    from: &tree::Path,
    to: &Path,
    on: &mut dyn FnMut(Exported) -> ControlFlow<()>,
) -> Result<Exported, FilesError> {
    let mut export = Export { view, on, exported: Exported::default(), linked: HashMap::new() };
    if from.names().is_empty() {
        view.expect_directories(view.revision().root())?;
        export.directory(from, to)?;
    } else {
        let entry = view.find(from)?;
        entry.directory().map_or(Ok(()), |directory| view.expect_directories(directory))?;
        export.entry(from, &entry, to)?;
    }
    Ok(export.exported)
}

/// Entries in groups whose content is asked for together.
fn groups(entries: &[(Name, Entry)]) -> impl Iterator<Item = &[(Name, Entry)]> {
    let mut bytes = 0;
    entries.chunk_by(move |_, (_, next)| {
        let size = if let Kind::File { size, .. } = next.kind { size as usize } else { 0 };
        let is_full = bytes + size > AHEAD_BYTES;
        bytes = if is_full { size } else { bytes + size };
        !is_full
    })
}

struct Export<'a> {
    view: &'a View<'a>,
    on: &'a mut dyn FnMut(Exported) -> ControlFlow<()>,
    exported: Exported,
    /// The first name of each file with several.
    linked: HashMap<u64, PathBuf>,
}

impl Export<'_> {
    fn directory(&mut self, from: &tree::Path, to: &Path) -> Result<(), FilesError> {
        let unwritable = |error| FilesError::Unwritable(to.to_owned(), error);
        match std::fs::create_dir(to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if std::fs::read_dir(to).map_err(unwritable)?.next().is_some() {
                    return Err(FilesError::NotEmpty(to.to_owned()));
                }
            }
            made => made.map_err(unwritable)?,
        }
        let entries = self.view.list(from)?;
        for group in groups(&entries) {
            self.view.expect(group)?;
            for (name, entry) in group {
                self.entry(&from.join(name), entry, &to.join(OsStr::from_bytes(name.as_bytes())))?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: &tree::Path, entry: &Entry, to: &Path) -> Result<(), FilesError> {
        let unwritable = |error| FilesError::Unwritable(to.to_owned(), error);
        match &entry.kind {
            Kind::Directory(_) => self.directory(from, to)?,
            Kind::Symlink(target) => symlink(OsStr::from_bytes(target), to).map_err(unwritable)?,
            Kind::File { size, link, .. } => {
                if let Some(first) = self.linked.get(link) {
                    // Its attributes are set.
                    std::fs::hard_link(first, to).map_err(unwritable)?;
                    return self.count();
                }
                self.file(entry, *size, to)?;
                if *link != 0 {
                    self.linked.insert(*link, to.to_owned());
                }
            }
        }
        // A directory's entries are there by now: they change its time.
        set_attributes(to, entry).map_err(|errno| unwritable(errno.into()))?;
        if entry.directory().is_none() { self.count() } else { Ok(()) }
    }

    fn count(&mut self) -> Result<(), FilesError> {
        self.exported.files += 1;
        if (self.on)(self.exported).is_break() { Err(FilesError::Interrupted) } else { Ok(()) }
    }

    fn file(&mut self, entry: &Entry, size: u64, to: &Path) -> Result<(), FilesError> {
        let unwritable = |error| FilesError::Unwritable(to.to_owned(), error);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(unwritable)?;
        let exported = &mut self.exported;
        self.view.read(entry, 0..size, &mut |bytes| {
            exported.bytes += bytes.len() as u64;
            file.write_all(&bytes).map_err(unwritable)
        })
    }
}

fn set_attributes(path: &Path, entry: &Entry) -> Result<(), Errno> {
    let Attributes { mode, uid, gid, modified, xattrs } = &entry.attributes;
    for (name, value) in xattrs {
        match lsetxattr(path, OsStr::from_bytes(name), value, XattrFlags::empty()) {
            // A file system without extended attributes keeps the rest.
            Err(Errno::NOTSUP) => break,
            set => set?,
        }
    }
    if geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
        chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if !matches!(entry.kind, Kind::Symlink(_)) {
        chmod(path, Mode::from_raw_mode(u32::from(*mode)))?;
    }
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: i64::from(modified.nanoseconds) };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}
