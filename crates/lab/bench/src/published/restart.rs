//! A server of many files that is killed: the time until it serves again.

use super::directory::{Directory, settle};
use super::farm::{Farm, publish};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::{Line, Place, Result, Sample};
use fixtures::http;
use std::time::Instant;

const FILE_BYTES: usize = 100;

/// How often it is killed.
const ROUNDS: u64 = 5;

/// The bound, in milliseconds.
const MS_MAX: f64 = 2000.0;

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "restart", &[])?;
    progress("write files for a server that is killed");
    let directory = Directory::deep(farm.path("www"), sizes.files, FILE_BYTES)?;
    settle(sizes);
    let sites = farm.sites()?;
    let mut revision = publish(&sites, directory.path())?.revision.number;
    progress("a server fetches a site");
    let mut member = farm.member("member", farm.address())?;
    Watch::new([&member]).wait(revision)?;
    let (mut serves, mut recovers) = (Sample::default(), Sample::default());
    let rounds = sizes.rounds(ROUNDS);
    for round in 1..=rounds {
        progress(&format!("kill a server: {round} of {rounds}"));
        // It has something to recover: a change that it has just taken.
        directory.write(round, round)?;
        revision = publish(&sites, directory.path())?.revision.number;
        Watch::new([&member]).wait(revision)?;
        member.kill()?;
        let begun = Instant::now();
        member.start_again()?;
        recovers.push(begun.elapsed());
        let (head, _) = http::get(member.address(), &format!("/{}", directory.name(0)))?;
        serves.push(begun.elapsed());
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("a server that was started again has answered: {head}").into());
        }
    }
    let ms = serves.millis(0.5);
    Ok(line("restart")
        .count("files", directory.files())
        .figure("ready_ms", recovers.millis(0.5))
        .figure("ms", ms)
        .figure("ms_most", serves.millis(1.0))
        .figure("ms_max", MS_MAX)
        .flag("met", ms <= MS_MAX))
}
