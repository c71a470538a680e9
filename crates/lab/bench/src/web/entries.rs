//! The memory that the proxy takes for small stored responses, above their bytes: for those in memory, and for those on
//! disk.
//!
//! The proxy is filled with many, each under a path of its own, with a dependency of its own and one that all have. The
//! memory that its process has taken in the meantime, by the system's count, is compared with the bytes of their
//! bodies, fields and keys; the bytes of those on disk are there, and its memory is full of others before it begins.

use super::client::Client;
use super::cores::Cores;
use super::origin::{Origin, fields};
use super::start_proxy;
use crate::{Line, Place, Result};
use fixtures::{Process, try_until};
use std::fs::DirBuilder;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

/// The responses that are stored after the first look.
const RESPONSES: usize = 1_000_000;

/// Responses that are asked for in one go.
const BATCH: usize = 50_000;

const BODY_BYTES: usize = 200;

const CONNECTIONS: usize = 64;

/// A response's word at its home, for which there is room from the start.
const WORD_BYTES: u64 = 8;

/// The must of the web front end, in bytes for each response.
const ABOVE_MAX: f64 = 300.0;

/// How long the disk may be behind.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// Where responses are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Memory,
    Disk,
}

impl Where {
    /// The responses that are stored before the first look: the threads have their buffers then, and the memory is full
    /// that a proxy with a disk has for responses.
    fn first(self) -> usize {
        match self {
            Self::Memory => 10_000,
            Self::Disk => 40_000,
        }
    }
}

pub(crate) fn measure(place: &Place, progress: &dyn Fn(&str), found: &mut dyn FnMut(Line) -> Result<()>) -> Result<()> {
    [Where::Memory, Where::Disk].into_iter().try_for_each(|stored| found(measure_in(stored, place, progress)?))
}

fn measure_in(stored: Where, place: &Place, progress: &dyn Fn(&str)) -> Result<Line> {
    let cores = Cores::halves()?;
    let origin = cores.run_on_servers(Origin::start)?;
    let disk = place.dir.join("disk");
    let disk_name = disk.to_str().ok_or("the folder's name is not text")?;
    let (name, options) = match stored {
        Where::Memory => ("memory", &["--cache", "4G"][..]),
        Where::Disk => ("disk", &["--cache", "16M", "--disk", disk_name, "--disk-size", "4G"][..]),
    };
    if stored == Where::Disk {
        DirBuilder::new().mode(0o700).create(&disk)?;
    }
    let server = cores.run_on_servers(|| start_proxy(&place.program, &origin, cores.each(), options))?;
    let client = Client { connections: CONNECTIONS, threads: cores.each(), cores: &cores, body_bytes: BODY_BYTES };
    let fill = |numbers: Range<usize>| {
        let end = numbers.end;
        let paths: Vec<String> = numbers.map(|number| format!("/{BODY_BYTES}/{number}")).collect();
        client.fill(server.address(), &paths)?;
        wait_until_stored(&server, end)
    };
    let responses = stored.first()..stored.first() + RESPONSES;
    fill(0..responses.start)?;
    let before = resident_bytes(&server)?;
    for begin in responses.clone().step_by(BATCH) {
        progress(&format!("{} of {RESPONSES} responses in {name}", begin - responses.start));
        fill(begin..(begin + BATCH).min(responses.end))?;
    }
    let taken = resident_bytes(&server)? - before + WORD_BYTES * RESPONSES as u64;
    let asked = origin.asked();
    // A hit for one of each batch: nothing has left for want of room.
    let paths: Vec<String> = responses.clone().step_by(BATCH).map(|number| format!("/{BODY_BYTES}/{number}")).collect();
    client.fill(server.address(), &paths)?;
    if origin.asked() != asked {
        return Err("the proxy has not kept all responses".into());
    }
    let key = |number: usize| format!("http bench /{BODY_BYTES}/{number}").len();
    let bytes: usize = responses.map(|number| BODY_BYTES + fields(BODY_BYTES, number).len() + key(number)).sum();
    let each = |bytes: f64| bytes / RESPONSES as f64;
    let in_memory = if stored == Where::Memory { bytes as f64 } else { 0.0 };
    let above = each(taken as f64 - in_memory);
    Ok(Line::new("entries")
        .word("stored_in", name)
        .count("responses", RESPONSES as u64)
        .count("dependencies_each", 2)
        .figure("bytes_each", each(bytes as f64))
        .figure("memory_each", each(taken as f64))
        .figure("above_bytes", above)
        .flag("met", above <= ABOVE_MAX))
}

/// The memory that a process has now, in bytes.
fn resident_bytes(process: &Process) -> Result<u64> {
    process.memory_bytes("VmRSS").ok_or_else(|| "the system does not say how much memory a process has".into())
}

/// Waits until this many are in memory or on disk: they are on their way there for a while.
fn wait_until_stored(server: &Process, responses: usize) -> Result<()> {
    let counts = || -> Result<[u64; 2]> {
        let status = server.status()?;
        let count = |column: &str| status["proxy"][0][column].as_u64().unwrap_or_default();
        Ok([count("stored_responses"), count("disk_stored_responses")])
    };
    let are_stored = || match counts() {
        Ok(counts) => (counts.iter().sum::<u64>() >= responses as u64).then_some(Ok(())),
        Err(error) => Some(Err(error)),
    };
    try_until(&format!("{responses} responses are stored"), WRITTEN_WITHIN, are_stored)?
}
