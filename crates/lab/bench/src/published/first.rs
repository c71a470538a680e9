//! The first publish of small files, into a new store, over `rsync -a` of the same files into an empty directory and a
//! `sync`: a publish is durable when it returns.

use super::directory::Directory;
use super::farm::{SITE, text};
use super::publish::timed;
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result};
use fixtures::{Program, installed};
use std::fs;
use std::path::Path;
use std::process::Command;

const FILES: u64 = 100_000;
const FILE_BYTES: usize = 1024;

/// How often that is measured.
const ROUNDS: u64 = 3;

/// The bound, over rsync.
const OVER_RSYNC_MAX: f64 = 1.5;

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let Some(rsync) = installed::find("rsync") else {
        return Ok(line("first").word("beside", "rsync").word("skipped", "it is not installed"));
    };
    let dir = place.dir.join("first");
    progress("write files for a first publish");
    let directory = Directory::deep(dir.join("www"), sizes.files_up_to(FILES), FILE_BYTES)?;
    let (store, copy) = (dir.join("store"), dir.join("copy"));
    let (mut publishes, mut copies) = (Vec::new(), Vec::new());
    let rounds = sizes.rounds(ROUNDS);
    for round in 1..=rounds {
        progress(&format!("publish for the first time, and copy: round {round} of {rounds}"));
        // Earlier writes are not to be paid for by this publish.
        timed(&mut Command::new("sync"))?;
        let mut command = Program::from(&place.program).command();
        command.args(["publish", text(directory.path())?, SITE, "--dir", text(&store)?]);
        publishes.push(timed(&mut command)?);
        timed(&mut Command::new("sync"))?;
        fs::create_dir(&copy)?;
        let mut command = Command::new(&rsync);
        command.arg("-a").arg(format!("{}/", text(directory.path())?)).arg(&copy);
        copies.push(timed(&mut command)? + timed(&mut Command::new("sync"))?);
        [&store, &copy].into_iter().try_for_each(|path| remove(path))?;
    }
    remove(&dir)?;
    let over_rsync = median(publishes.iter().zip(&copies).map(|(publish, copy)| publish / copy).collect());
    Ok(line("first")
        .count("files", directory.files())
        .count("file_bytes", FILE_BYTES as u64)
        .figure("publish_ms", median(publishes))
        .figure("rsync_ms", median(copies.clone()))
        .figure("over_rsync", over_rsync)
        .figure("over_rsync_max", OVER_RSYNC_MAX)
        .met(over_rsync <= OVER_RSYNC_MAX, &copies))
}

fn remove(path: &Path) -> Result<()> {
    Ok(fs::remove_dir_all(path)?)
}
