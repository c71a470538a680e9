//! Directories to publish: many files of letters in no order, whose content differs in every version.

use super::SiteSizes;
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Files in a folder of a deep directory.
const FOLDER_FILES: u64 = 100;

/// Files as young as this are read by the next publish, as the times of files have a grain.
const YOUNG: Duration = Duration::from_secs(3);

/// A directory of numbered files.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    files: u64,
    file_bytes: usize,
    folder_files: u64,
}

impl Directory {
    /// Creates a directory with all its files side by side.
    pub(super) fn flat(path: PathBuf, files: u64, file_bytes: usize) -> Result<Self> {
        Self::create(Self { path, files, file_bytes, folder_files: files.max(1) })
    }

    /// Creates a directory whose files are in folders.
    pub(super) fn deep(path: PathBuf, files: u64, file_bytes: usize) -> Result<Self> {
        Self::create(Self { path, files, file_bytes, folder_files: FOLDER_FILES })
    }

    fn create(self) -> Result<Self> {
        for folder in 0..self.files.div_ceil(self.folder_files) {
            fs::create_dir_all(self.path.join(folder.to_string()))?;
        }
        (0..self.files).try_for_each(|number| self.write(number, 0))?;
        Ok(self)
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many files there are.
    pub(super) fn files(&self) -> u64 {
        self.files
    }

    /// The path of a file, inside.
    pub(super) fn name(&self, number: u64) -> String {
        format!("{}/{number}", number / self.folder_files)
    }

    /// Writes a version of a file, whose content is that of no other version or file.
    pub(super) fn write(&self, number: u64, version: u64) -> Result<()> {
        let mut state = number << 32 | version;
        let words = std::iter::repeat_with(|| next(&mut state).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().map(|byte| b'a' + byte % 26).take(self.file_bytes).collect();
        Ok(fs::write(self.path.join(self.name(number)), bytes)?)
    }
}

/// Waits until no file is so young that a publish would read it for its age alone.
pub(super) fn settle(sizes: SiteSizes) {
    thread::sleep(sizes.during(YOUNG));
}

/// The next number of a sequence that looks random (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_differ_in_every_version() {
        let folder = fixtures::Folder::new();
        let directory = Directory::deep(folder.path().join("www"), 101, 100).unwrap();
        let read = |number| fs::read(directory.path().join(directory.name(number))).unwrap();
        let before = read(100);
        assert_eq!((before.len(), directory.name(100)), (100, "1/100".to_owned()));
        assert_ne!(before, read(99));
        directory.write(100, 1).unwrap();
        assert_ne!(before, read(100));
    }
}
