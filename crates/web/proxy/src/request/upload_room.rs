//! The room for bodies of requests that are collected, in memory and in files.

use crate::operate::notes::{Note, Notes};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The bytes that all collected bodies take now.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) memory: Arc<AtomicU64>,
    pub(crate) files: Arc<AtomicU64>,
    /// The number of files.
    pub(crate) open: Arc<AtomicU64>,
    /// Whether the last file could not be written.
    is_failing: AtomicBool,
}

impl Usage {
    /// The bytes in memory, and in files.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.memory.load(Relaxed), self.files.load(Relaxed))
    }

    /// Notes a failure of the disk, once until it works again.
    pub(crate) fn written(&self, error: Option<&io::Error>, notes: &Notes) {
        let was_failing = self.is_failing.swap(error.is_some(), Relaxed);
        if let Some(error) = error.filter(|_| !was_failing) {
            notes.say(Note::Uploads(error.to_string()));
        }
    }
}

/// Room for a body, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    used: Arc<AtomicU64>,
    max: u64,
}

impl Room {
    pub(crate) fn new(used: &Arc<AtomicU64>, max: u64) -> Self {
        Self { bytes: 0, used: used.clone(), max }
    }

    /// Extends it to `bytes` in all. Returns whether there was room.
    pub(crate) fn cover(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = |used: u64| used.checked_add(more).filter(|sum| *sum <= self.max);
        let is_covered = more == 0 || self.used.fetch_update(AcqRel, Relaxed, fits).is_ok();
        self.bytes += if is_covered { more } else { 0 };
        is_covered
    }

    pub(crate) fn release(&mut self) {
        self.used.fetch_sub(std::mem::take(&mut self.bytes), AcqRel);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.release();
    }
}

/// Opens a file without a name in a directory.
pub(crate) fn unnamed_file(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Not every file system can, NFS among them.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => unlinked_file(dir),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file and removes its name.
fn unlinked_file(dir: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = dir.join(format!(".thorp-body-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn room_is_bounded_and_given_back() {
        let used = Arc::<AtomicU64>::default();
        let (mut one, mut other) = (Room::new(&used, 100), Room::new(&used, 100));
        assert!(one.cover(60) && one.cover(50) && !other.cover(41) && other.cover(40));
        one.release();
        assert!(other.cover(100));
        drop((one, other));
        assert_eq!(used.load(Relaxed), 0);
    }

    #[test]
    fn a_file_has_no_name() {
        let dir = std::env::temp_dir().join(format!("thorp-spool-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for file in [unnamed_file(&dir), unlinked_file(&dir)] {
            file.unwrap().write_all_at(b"body", 0).unwrap();
            assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        }
        std::fs::remove_dir(&dir).unwrap();
        assert!(unnamed_file(&dir).is_err());
    }
}
