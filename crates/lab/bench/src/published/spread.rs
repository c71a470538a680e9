//! A large update by way of relays: a hundredth of the files changes, and every server of every group has all of it.
//!
//! The changed files are scattered, one in each folder, or together in a few folders. A line between each group and the
//! store counts the bytes. Then rsync makes the same update to as many copies at once.

use super::copies::Copies;
use super::directory::{Directory, settle};
use super::farm::{Farm, publish};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result};
use files::Sites;
use fixtures::{Emulator, Process};
use std::thread;
use std::time::{Duration, Instant};

const FILES: u64 = 100_000;
const FILE_BYTES: usize = 1024;
const GROUPS: usize = 5;

/// One of this many files changes.
const CHANGED: u64 = 100;

/// How often that is measured.
const ROUNDS: u64 = 3;

/// How long bytes may come after the update.
const QUIET: Duration = Duration::from_millis(200);

/// The bounds: of the bytes over a group's line; of the times, in milliseconds.
const OVER_CHANGED_MAX: f64 = 1.1;
const LAST_MS_MAX: f64 = 1000.0;
const APART_MS_MAX: f64 = 100.0;

/// The bound of the time until all servers have an update, over that of rsync.
const OVER_RSYNC_MAX: f64 = 1.0 / 3.0;

/// Which files change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Scattered,
    Together,
}

impl Where {
    /// The changed files of a round.
    fn files(self, round: u64, files: u64) -> impl Iterator<Item = u64> {
        let changed = files / CHANGED;
        (0..changed).map(move |index| match self {
            Self::Scattered => index * CHANGED + round % CHANGED,
            Self::Together => (round * changed + index) % files,
        })
    }
}

/// The figures of an update.
#[derive(Clone, Copy, Debug, Default)]
struct Update {
    /// The most bytes over the line of a group.
    bytes: u64,
    publish: Duration,
    /// From the return of the publish to the first switch that was seen, and to the last.
    first: Duration,
    last: Duration,
    /// The time of rsync for this update, if it is installed.
    rsync: Option<Duration>,
}

impl Update {
    /// The time until every server has the update, over that of rsync.
    fn over_rsync(&self) -> Option<f64> {
        Some((self.publish + self.last).as_secs_f64() / self.rsync?.as_secs_f64())
    }
}

/// The store's farm with all of its groups.
struct Spread {
    lines: Vec<Emulator>,
    watch: Watch,
    _processes: Vec<Process>,
}

impl Spread {
    fn start(farm: &Farm, members: usize, progress: &dyn Fn(&str)) -> Result<Self> {
        let (mut lines, mut groups, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..GROUPS.min(members) {
            let line = Emulator::start(farm.address(), Duration::ZERO, None)?;
            groups.push(farm.group(&format!("group-{number}"), line.address())?);
            lines.push(line);
        }
        for number in 0..members {
            progress(&format!("server {} of {members} fetches a site", number + 1));
            let group = &groups[number % groups.len()];
            servers.push(farm.member(&format!("member-{number}"), group.address())?);
        }
        let watch = Watch::new(&servers);
        servers.extend(groups);
        Ok(Self { lines, watch, _processes: servers })
    }

    fn bytes(&self) -> Vec<u64> {
        self.lines.iter().map(|line| line.tally().bytes_down).collect()
    }

    fn update(&mut self, sites: &Sites, directory: &Directory) -> Result<Update> {
        let before = self.bytes();
        let begun = Instant::now();
        let revision = publish(sites, directory.path())?.revision.number;
        let returned = Instant::now();
        let seen = self.watch.wait(revision)?;
        thread::sleep(QUIET);
        let bytes = self.bytes().iter().zip(before).map(|(now, before)| now - before).max();
        let after = |at: Option<&Instant>| at.map_or(Duration::ZERO, |at| at.saturating_duration_since(returned));
        let (first, last) = (after(seen.iter().min()), after(seen.iter().max()));
        Ok(Update { bytes: bytes.unwrap_or_default(), publish: returned - begun, first, last, rsync: None })
    }
}

pub(super) fn measure(
    place: &Place,
    sizes: SiteSizes,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let farm = Farm::start(place, "spread", &[])?;
    progress("write files for large updates");
    let directory = Directory::deep(farm.path("www"), sizes.files_up_to(FILES), FILE_BYTES)?;
    settle(sizes);
    let sites = farm.sites()?;
    let first = publish(&sites, directory.path())?.revision.number;
    let mut spread = Spread::start(&farm, sizes.members, progress)?;
    spread.watch.wait(first)?;
    progress("copies for rsync");
    let copies = Copies::make(&directory, &farm.path("copies"), sizes.members)?;
    for (place, name) in [(Where::Scattered, "scattered"), (Where::Together, "together")] {
        let mut updates = Vec::new();
        let rounds = sizes.rounds(ROUNDS);
        for round in 1..=rounds {
            progress(&format!("changes that are {name}: round {round} of {rounds}"));
            for file in place.files(round, directory.files()) {
                directory.write(file, round + place as u64 * ROUNDS)?;
            }
            let update = spread.update(&sites, &directory)?;
            let rsync = copies.as_ref().map(Copies::update).transpose()?;
            updates.push(Update { rsync, ..update });
        }
        found(line_of(name, &directory, sizes.members, &updates))?;
    }
    Ok(())
}

fn line_of(changes: &str, directory: &Directory, members: usize, updates: &[Update]) -> Line {
    let of = |figure: &dyn Fn(&Update) -> f64| median(updates.iter().map(figure).collect());
    let millis = |of: fn(&Update) -> Duration| move |update: &Update| of(update).as_secs_f64() * 1e3;
    let changed = directory.files() / CHANGED;
    let changed_bytes = changed * FILE_BYTES as u64;
    let over_changed = of(&|update| update.bytes as f64 / changed_bytes as f64);
    let (last, apart) = (of(&millis(|it| it.last)), of(&millis(|it| it.last.saturating_sub(it.first))));
    let over_rsync: Vec<f64> = updates.iter().filter_map(Update::over_rsync).collect();
    let line = line("spread")
        .word("changes", changes)
        .count("files", directory.files())
        .count("changed", changed)
        .count("changed_bytes", changed_bytes)
        .count("groups", GROUPS.min(members) as u64)
        .count("members", members as u64)
        .figure("publish_ms", of(&millis(|it| it.publish)))
        .figure("over_changed", over_changed)
        .figure("over_changed_max", OVER_CHANGED_MAX)
        .figure("last_ms", last)
        .figure("last_ms_max", LAST_MS_MAX)
        .figure("apart_ms", apart)
        .figure("apart_ms_max", APART_MS_MAX)
        .flag("met_bytes", over_changed <= OVER_CHANGED_MAX)
        .flag("met_last", last <= LAST_MS_MAX)
        .flag("met_apart", apart <= APART_MS_MAX)
        .flag("met", over_changed <= OVER_CHANGED_MAX && last <= LAST_MS_MAX && apart <= APART_MS_MAX);
    if over_rsync.is_empty() {
        return line.word("beside", "rsync is not installed");
    }
    let over_rsync = median(over_rsync);
    line.figure("rsync_ms", of(&|update| update.rsync.map_or(0.0, |rsync| rsync.as_secs_f64() * 1e3)))
        .figure("over_rsync", over_rsync)
        .figure("over_rsync_max", OVER_RSYNC_MAX)
        .flag("met_rsync", over_rsync <= OVER_RSYNC_MAX)
}
