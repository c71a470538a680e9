//! New content over slow lines: how long after the return of a publish a server behind a relay serves it.
//!
//! The publisher and the relay have a line each to the store, of the same length and rate. A server that only learned
//! of the content with the offer would serve it when the relay's line has carried all of it: `over_line` would be 1.

use super::directory::{Directory, settle};
use super::farm::{Farm, SITE, text};
use super::publish::timed;
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result};
use fixtures::{Emulator, Program};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The content: 100 MiB.
const FILES: u64 = 100;
const FILE_BYTES: usize = 1 << 20;

/// The length of a line, one way, and its rate in bytes a second: 100 Mbit/s.
const ONE_WAY: Duration = Duration::from_millis(20);
const RATE: u64 = 12_500_000;

/// How often that is measured.
const ROUNDS: u64 = 3;

/// The bound, over the time in which the line carries the content: the 32 MiB of a publisher's batch become durable at
/// about the same time, so the last of them cross the relay's line after the return.
const OVER_LINE_MAX: f64 = 0.4;

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "ahead", &[])?;
    let files = if sizes.is_trial() { FILES / 20 } else { FILES };
    let directory = Directory::flat(farm.path("www"), files, FILE_BYTES)?;
    settle(sizes);
    publish(place, &farm, &directory, farm.address())?;
    let lines = [(); 2].map(|()| Emulator::start(farm.address(), ONE_WAY, Some(RATE)));
    let [to_publisher, to_group] = lines;
    let (to_publisher, to_group) = (to_publisher?, to_group?);
    let group = farm.group("group", to_group.address())?;
    let member = farm.member("member", group.address())?;
    let mut watch = Watch::new([&member]);
    watch.wait(1)?;
    let (mut publishes, mut served, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = sizes.rounds(ROUNDS);
    for round in 1..=rounds {
        progress(&format!("publish new content over a slow line: round {round} of {rounds}"));
        (0..files).try_for_each(|file| directory.write(file, round))?;
        settle(sizes);
        let before = to_group.tally().bytes_down;
        publishes.push(publish(place, &farm, &directory, to_publisher.address())?);
        let returned = Instant::now();
        let seen = watch.wait(1 + round)?;
        let last = seen.iter().max().map_or(Duration::ZERO, |last| last.saturating_duration_since(returned));
        served.push(last.as_secs_f64() * 1e3);
        bytes.push((to_group.tally().bytes_down - before) as f64);
    }
    let content = files * FILE_BYTES as u64;
    let line_ms = content as f64 / RATE as f64 * 1e3;
    let served_ms = median(served);
    let over_line = served_ms / line_ms;
    Ok(line("ahead")
        .count("content_bytes", content)
        .figure("over_changed", median(bytes) / content as f64)
        .figure("publish_ms", median(publishes))
        .figure("line_ms", line_ms)
        .figure("served_ms", served_ms)
        .figure("over_line", over_line)
        .figure("over_line_max", OVER_LINE_MAX)
        .flag("met", over_line <= OVER_LINE_MAX))
}

/// Publishes by the program, and returns for how many milliseconds.
fn publish(place: &Place, farm: &Farm, directory: &Directory, store: SocketAddr) -> Result<f64> {
    let mut command = Program::from(&place.program).command();
    let cache = farm.path("cache");
    command.env("XDG_CACHE_HOME", text(&cache)?);
    command.args(["publish", text(directory.path())?, SITE, "--server", &store.to_string()]);
    timed(&mut command)
}
