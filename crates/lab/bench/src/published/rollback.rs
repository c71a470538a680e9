//! A rollback to a revision in which every file has other content: the time until every server serves it.

use super::directory::Directory;
use super::farm::{Farm, publish, site};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::floor::SyncFloor;
use crate::{Line, Place, Result, Sample};
use files::Rollback;
use fixtures::Process;
use std::time::Instant;

const FILES: u64 = 100_000;
const FILE_BYTES: usize = 1024;
const MEMBERS: usize = 3;

/// How often that is measured.
const ROUNDS: u64 = 7;

/// The bound, in milliseconds.
const MS_MAX: f64 = 200.0;

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "rollback", &[])?;
    progress("write files for a rollback");
    let directory = Directory::deep(farm.path("www"), sizes.files_up_to(FILES), FILE_BYTES)?;
    let (sites, site) = (farm.sites()?, site());
    let mut revision = publish(&sites, directory.path())?.revision.number;
    let count = sizes.members.min(MEMBERS);
    progress("servers fetch two revisions");
    let start = |number: usize| farm.member(&format!("member-{number}"), farm.address());
    let members = (0..count).map(start).collect::<Result<Vec<Process>>>()?;
    let mut watch = Watch::new(&members);
    watch.wait(revision)?;
    (0..directory.files()).try_for_each(|file| directory.write(file, 1))?;
    revision = publish(&sites, directory.path())?.revision.number;
    watch.wait(revision)?;
    let mut floor = SyncFloor::new(&place.dir)?;
    let (mut everywhere, mut returned, mut sync) = (Sample::default(), Sample::default(), Sample::default());
    let rounds = sizes.rounds(ROUNDS);
    for round in 1..=rounds {
        progress(&format!("rollback {round} of {rounds}"));
        sync.push(floor.once()?);
        let begun = Instant::now();
        revision = sites.rollback(&site, revision - 1, &Rollback::default())?.number;
        returned.push(begun.elapsed());
        watch.wait(revision)?;
        everywhere.push(begun.elapsed());
    }
    let ms = everywhere.millis(0.5);
    Ok(line("rollback")
        .count("files", directory.files())
        .count("members", count as u64)
        .figure("fdatasync_ms", sync.millis(0.5))
        .figure("returned_ms", returned.millis(0.5))
        .figure("ms", ms)
        .figure("ms_most", everywhere.millis(1.0))
        .figure("ms_max", MS_MAX)
        .flag("met", ms <= MS_MAX))
}
