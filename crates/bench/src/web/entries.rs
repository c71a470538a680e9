//! The memory that the proxy takes for small stored responses, above their bytes.
//!
//! The proxy is filled with many, each under a path of its own, with a dependency of its own and one that all have. The
//! memory that its process has taken meanwhile, by the system's count, is compared with the bytes of their bodies, fields
//! and keys.

use super::client::Client;
use super::cores::Cores;
use super::origin::{Origin, fields};
use super::server::Server;
use crate::{Line, Place, Result};
use std::ops::Range;

/// The responses that are stored before the first look: the threads have their buffers then.
const FIRST: Range<usize> = 0..10_000;

/// Those that are stored then.
const RESPONSES: Range<usize> = 10_000..1_010_000;

/// Responses that are asked for in one go.
const BATCH: usize = 50_000;

const BODY_BYTES: usize = 200;

const CONNECTIONS: usize = 64;

/// A response's word at its home, for which there is room from the start.
const WORD_BYTES: u64 = 8;

/// The must of the web door, in bytes for each response.
const ABOVE_MAX: f64 = 300.0;

pub(crate) fn measure(place: &Place, progress: &dyn Fn(&str)) -> Result<Line> {
    let cores = Cores::halves()?;
    let origin = cores.run_on_servers(Origin::start)?;
    let options = ["--cache", "4G"];
    let server = cores.run_on_servers(|| Server::thorp(&place.program, &origin, cores.each(), &options))?;
    let client = Client { connections: CONNECTIONS, threads: cores.each(), cores: &cores, body_bytes: BODY_BYTES };
    let fill = |numbers: Range<usize>| {
        let paths: Vec<String> = numbers.map(|number| format!("/{BODY_BYTES}/{number}")).collect();
        client.fill(server.address(), &paths)
    };
    fill(FIRST)?;
    let before = server.resident_bytes()?;
    for begin in RESPONSES.step_by(BATCH) {
        progress(&format!("{} of {} responses", begin - RESPONSES.start, RESPONSES.len()));
        fill(begin..(begin + BATCH).min(RESPONSES.end))?;
    }
    let taken = server.resident_bytes()? - before + WORD_BYTES * RESPONSES.len() as u64;
    let asked = origin.asked();
    // A hit for one of each batch: nothing has left for want of room.
    let paths: Vec<String> = RESPONSES.step_by(BATCH).map(|number| format!("/{BODY_BYTES}/{number}")).collect();
    client.fill(server.address(), &paths)?;
    if origin.asked() != asked {
        return Err("the proxy has not kept all responses".into());
    }
    let key = |number: usize| format!("http bench /{BODY_BYTES}/{number}").len();
    let bytes: usize = RESPONSES.map(|number| BODY_BYTES + fields(BODY_BYTES, number).len() + key(number)).sum();
    let each = |bytes: f64| bytes / RESPONSES.len() as f64;
    let above = each(taken as f64 - bytes as f64);
    Ok(Line::new("entries")
        .count("responses", RESPONSES.len() as u64)
        .count("dependencies_each", 2)
        .figure("bytes_each", each(bytes as f64))
        .figure("memory_each", each(taken as f64))
        .figure("above_bytes", above)
        .flag("met", above <= ABOVE_MAX))
}
