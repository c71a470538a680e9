//! Copies of a directory by rsync, one for each server: an update of all of them at once is what publishes are compared
//! with.

use super::directory::Directory;
use super::farm::text;
use crate::Result;
use fixtures::Process;
use fixtures::installed::find;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The copies.
#[derive(Debug)]
pub(super) struct Copies {
    rsync: PathBuf,
    /// The directory's path with a slash behind it, by which rsync copies what is in it.
    from: String,
    all: Vec<PathBuf>,
}

impl Copies {
    /// Makes copies in a folder. Their files are names of those in the first copy, until an update replaces them.
    /// Returns `None` if rsync is not installed.
    pub(super) fn make(directory: &Directory, folder: &Path, count: usize) -> Result<Option<Self>> {
        let Some(rsync) = find("rsync") else { return Ok(None) };
        let from = format!("{}/", text(directory.path())?);
        let all: Vec<PathBuf> = (0..count).map(|number| folder.join(number.to_string())).collect();
        let Some((first, others)) = all.split_first() else { return Ok(None) };
        fs::create_dir_all(folder)?;
        Self { rsync: rsync.clone(), from: from.clone(), all: vec![first.clone()] }.update()?;
        for copy in others {
            for number in 0..directory.files() {
                let name = directory.name(number);
                if let Some(above) = copy.join(&name).parent().filter(|above| !above.exists()) {
                    fs::create_dir_all(above)?;
                }
                fs::hard_link(first.join(&name), copy.join(&name))?;
            }
        }
        let copies = Self { rsync, from, all };
        // The times of folders are copied, too.
        copies.update()?;
        Ok(Some(copies))
    }

    /// Updates all copies at once. Returns the time until the last one is done.
    pub(super) fn update(&self) -> Result<Duration> {
        let begun = Instant::now();
        let start = |copy: &PathBuf| {
            let mut command = Command::new(&self.rsync);
            command.args(["-a", "--delete", &self.from]).arg(copy).stdin(Stdio::null());
            Process::spawn(command, "rsync")
        };
        let running: Vec<Process> = self.all.iter().map(start).collect::<Result<_>>()?;
        for process in running {
            let ended = process.ended()?;
            if !ended.status.success() {
                return Err(format!("rsync: {}", ended.stderr.trim()).into());
            }
        }
        Ok(begun.elapsed())
    }
}
