//! The bytes and messages by which a server learns of a small change: a file of 100 bytes, of 10,000 in a directory.
//!
//! A line between the server and its store, or its relay, counts them. Leases last longer than the measurement, so
//! there are no renewals among them.

use super::directory::Directory;
use super::farm::{Farm, LONG_LEASES, publish};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result};
use fixtures::{Emulator, LinkTally, Process};
use std::thread;
use std::time::Duration;

const FILES: u64 = 10_000;
const FILE_BYTES: usize = 100;

/// How often a file is changed.
const ROUNDS: u64 = 9;

/// The headers of TCP and IP of a segment, and its payload, in bytes.
const HEADERS_BYTES: u64 = 40;
const SEGMENT_BYTES: u64 = 1460;

/// How long a message may come after the update.
const QUIET: Duration = Duration::from_millis(50);

/// The bounds, for each update and server.
const BYTES_MAX: f64 = 384.0;
const MESSAGES: f64 = 1.0;

pub(super) fn measure(
    place: &Place,
    sizes: SiteSizes,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let farm = Farm::start(place, "update", LONG_LEASES)?;
    progress("write files for small updates");
    let files = sizes.files_up_to(FILES);
    let directory = Directory::flat(farm.path("www"), files, FILE_BYTES)?;
    let sites = farm.sites()?;
    let mut revision = publish(&sites, directory.path())?.revision.number;
    let group = farm.group("site", farm.address())?;
    let lines = [farm.address(), group.address()].map(|server| Emulator::start(server, Duration::ZERO, None));
    let [of_store, of_relay] = lines;
    let lines = [("store", of_store?), ("relay", of_relay?)];
    let start = |(by, line): &(&str, Emulator)| farm.member(&format!("member-of-{by}"), line.address());
    let members = lines.iter().map(start).collect::<Result<Vec<Process>>>()?;
    let mut watch = Watch::new(&members);
    watch.wait(revision)?;
    let mut updates: [Vec<LinkTally>; 2] = Default::default();
    let rounds = sizes.rounds(ROUNDS);
    for round in 1..=rounds {
        progress(&format!("small update {round} of {rounds}"));
        directory.write(round * 37 % files, round)?;
        thread::sleep(QUIET);
        let before = lines.each_ref().map(|(_, line)| line.tally());
        revision = publish(&sites, directory.path())?.revision.number;
        watch.wait(revision)?;
        thread::sleep(QUIET);
        for ((of, (_, line)), before) in updates.iter_mut().zip(&lines).zip(before) {
            of.push(since(before, line.tally()));
        }
    }
    for ((by, _), updates) in lines.iter().zip(&updates) {
        found(line_of(by, files, updates))?;
    }
    Ok(())
}

fn line_of(by: &str, files: u64, updates: &[LinkTally]) -> Line {
    let of = |figure: fn(&LinkTally) -> u64| median(updates.iter().map(|update| figure(update) as f64).collect());
    let most = updates.iter().map(|update| update.messages_down + update.messages_up).max().unwrap_or_default();
    let (bytes, messages) = (of(bytes), of(|update| update.messages_down + update.messages_up));
    line("update")
        .word("by", by)
        .count("files", files)
        .count("changed_bytes", FILE_BYTES as u64)
        .figure("payload_bytes", of(|update| update.bytes_down))
        .figure("bytes", bytes)
        .figure("bytes_max", BYTES_MAX)
        .figure("bytes_back", of(|update| update.bytes_up))
        .figure("messages", messages)
        .count("messages_most", most)
        .figure("messages_max", MESSAGES)
        .flag("met", bytes <= BYTES_MAX && messages <= MESSAGES)
}

/// The bytes to a server with the headers of their segments: each message leaves by itself.
fn bytes(update: &LinkTally) -> u64 {
    let segments = update.messages_down.max(update.bytes_down.div_ceil(SEGMENT_BYTES));
    update.bytes_down + segments * HEADERS_BYTES
}

/// The difference of two counts.
fn since(before: LinkTally, now: LinkTally) -> LinkTally {
    LinkTally {
        connections: now.connections - before.connections,
        bytes_up: now.bytes_up - before.bytes_up,
        bytes_down: now.bytes_down - before.bytes_down,
        messages_up: now.messages_up - before.messages_up,
        messages_down: now.messages_down - before.messages_down,
    }
}
