//! A file in which zeros take no room, and which is under its name when it is whole.

use crate::Result;
use attach::expect_alone;
use attach::image::data_in;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that is being written, under another name. It is removed with this, unless it was finished.
pub(super) struct Unfinished {
    file: File,
    path: PathBuf,
    name: PathBuf,
    replaces: bool,
    is_finished: bool,
}

impl Unfinished {
    /// Begins a file of this name, which should take the place of another one only if that was wanted.
    pub(super) fn begin(name: &Path, replaces: bool) -> Result<Self> {
        let shown = name.display();
        match fs::metadata(name) {
            Ok(there) if !there.is_file() => {
                return Err(format!("{shown} is not a file: give another name, or `-` and a pipe to what it is").into());
            }
            Ok(_) if !replaces => return Err(exists(name).into()),
            _ => {}
        }
        expect_alone(name)?;
        let file_name = name.file_name().ok_or_else(|| format!("{shown} names no file"))?;
        let part = format!(".{}.part-{}", file_name.to_string_lossy(), std::process::id());
        let path = name.with_file_name(part);
        // A volume is nobody else's business.
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Self { file, path, name: name.to_owned(), replaces, is_finished: false })
    }

    /// Writes bytes to their place, but for blocks of zeros.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        data_in(bytes).try_for_each(|run| self.file.write_all_at(&bytes[run.clone()], offset + run.start as u64))
    }

    /// All of it has come: it has this length, and is under its name.
    pub(super) fn finish(mut self, len: u64) -> Result {
        let done = self.file.set_len(len).and_then(|()| self.file.sync_all()).and_then(|()| self.rename());
        let done = done.and_then(|()| self.sync_name());
        done.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.name),
            _ => format!("cannot write {}: {error}", self.name.display()),
        })?;
        self.is_finished = true;
        Ok(())
    }

    /// Makes the name durable, too.
    fn sync_name(&self) -> io::Result<()> {
        let above = self.name.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn rename(&self) -> io::Result<()> {
        if self.replaces {
            return fs::rename(&self.path, &self.name);
        }
        let renamed = renameat_with(CWD, &self.path, CWD, &self.name, RenameFlags::NOREPLACE);
        match renamed.map_err(io::Error::from) {
            // A file system that cannot tell refuses a second name of one that is there.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                fs::hard_link(&self.path, &self.name)?;
                fs::remove_file(&self.path)
            }
            renamed => renamed,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // Its name says that it is a part.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn exists(name: &Path) -> String {
    format!("{} is there already: choose another name", name.display())
}
