//! The directory for files that are being written. Files in it at the start of a mount were not published, and are set
//! aside.

use crate::error::FilesError;
use crate::line::lock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::statvfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vfs::make_directory;

/// The folder in it of files that could not be published.
const ASIDE: &str = "aside";

/// The bytes of a path that become part of a file's name.
const NAME_BYTES_MAX: usize = 200;

/// The characters that stay in a name.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// The directory.
#[derive(Debug)]
pub(in crate::mount) struct Scratch {
    dir: PathBuf,
    count: Mutex<u64>,
}

/// A file in it, which is removed when this is dropped, unless it was set aside.
#[derive(Debug)]
pub(in crate::mount) struct ScratchFile {
    pub(in crate::mount) file: File,
    pub(in crate::mount) path: PathBuf,
}

impl Scratch {
    /// Opens the directory, which is made if there is none. Sets aside the files that an earlier mount has left, and
    /// returns their new paths.
    pub(in crate::mount) fn open(dir: &Path) -> Result<(Self, Vec<PathBuf>), FilesError> {
        let unwritable = |error: io::Error| FilesError::Unwritable(dir.to_owned(), error);
        for folder in [dir, &dir.join(ASIDE)] {
            make_directory(folder).map_err(|error| unwritable(io::Error::other(error)))?;
        }
        let mut left = Vec::new();
        for entry in fs::read_dir(dir).map_err(unwritable)? {
            let entry = entry.map_err(unwritable)?;
            let metadata = entry.metadata().map_err(unwritable)?;
            if metadata.is_file() && metadata.len() == 0 {
                fs::remove_file(entry.path()).map_err(unwritable)?;
            } else if metadata.is_file() {
                left.push(Self::move_aside(dir, &entry.path()).map_err(unwritable)?);
            }
        }
        Ok((Self { dir: dir.to_owned(), count: Mutex::new(0) }, left))
    }

    /// Makes a file for the content of one at a path of the site.
    pub(in crate::mount) fn make(&self, path: &tree::Path) -> io::Result<ScratchFile> {
        let mut count = lock(&self.count);
        loop {
            *count += 1;
            let path = self.dir.join(format!("{count}-{}", escaped(path)));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(ScratchFile { file, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets a file aside, and returns its place.
    pub(in crate::mount) fn set_aside(&self, file: &ScratchFile) -> io::Result<PathBuf> {
        file.file.sync_all()?;
        Self::move_aside(&self.dir, &file.path)
    }

    /// The blocks of the disk: their size, all of them, and those that are free.
    pub(in crate::mount) fn room(&self) -> io::Result<(u32, u64, u64)> {
        let all = statvfs(&self.dir)?;
        Ok((all.f_frsize as u32, all.f_blocks, all.f_bavail))
    }

    /// Moves a file aside under a name that is free. Only this process has the directory.
    fn move_aside(dir: &Path, file: &Path) -> io::Result<PathBuf> {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let free = |count: &u64| {
            let to = dir.join(ASIDE).join(if *count == 0 { name.clone() } else { format!("{name}.{count}") });
            (!to.exists()).then_some(to)
        };
        let to = (0..).find_map(|count| free(&count)).unwrap_or_default();
        fs::rename(file, &to)?;
        Ok(to)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // A file that was set aside has moved.
        let _ = fs::remove_file(&self.path);
    }
}

/// A path as one name: the end of it, if it is long.
fn escaped(path: &tree::Path) -> String {
    let mut escaped = utf8_percent_encode(&path.to_string(), KEPT).to_string();
    escaped.split_off(escaped.len().saturating_sub(NAME_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::Folder;
    use std::os::unix::fs::FileExt;

    fn path(text: &str) -> tree::Path {
        tree::Path::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn files_that_a_mount_has_left_are_set_aside() {
        let dir = Folder::new();
        let (scratch, none) = Scratch::open(dir.path()).unwrap();
        assert!(none.is_empty());
        let [kept, empty, dropped] = ["docs/a b", "empty", "dropped"].map(|name| scratch.make(&path(name)).unwrap());
        kept.file.write_all_at(b"text", 0).unwrap();
        drop(dropped);
        // As if the process had been killed.
        std::mem::forget((kept, empty));
        let (again, left) = Scratch::open(dir.path()).unwrap();
        assert_eq!(left, [dir.path().join("aside/1-docs%2Fa%20b")]);
        assert_eq!(fs::read(&left[0]).unwrap(), b"text");
        // Another one of the same name does not replace it.
        let other = again.make(&path("docs/a b")).unwrap();
        assert_eq!(again.set_aside(&other).unwrap(), dir.path().join("aside/1-docs%2Fa%20b.1"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn long_paths_are_names_by_their_end() {
        let long = path(&format!("{}/end", vec!["é"; 100].join("/")));
        let name = escaped(&long);
        assert!(name.len() == NAME_BYTES_MAX && name.ends_with("%2Fend"), "{name}");
    }
}
