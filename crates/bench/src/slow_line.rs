//! A large commit over a slow line, and who waits for it: it should take what the line takes, and small commits of the
//! same client and of a neighbour should hardly notice.

use crate::{Line, Place, Redirector, RedirectorOptions, Result, Sample, Server, ServerOptions};
use net::Emulator;
use objects::{Anywhere, Db};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use types::limits::PIECE_BYTES_MAX;

/// What the line carries, in bytes per second, and how long it is, one way.
const RATE: u64 = 1_000_000;
const ONE_WAY: Duration = Duration::from_millis(20);

/// What is committed over it, in bytes.
const LARGE_BYTES: usize = 24 << 20;

/// The bounds: of the time that the line needs for the large commit; and for each small one, in round trips beside the
/// time that the line needs for a quantum.
const OVER_LINE_MAX: f64 = 1.2;
const ROUND_TRIPS_MAX: u32 = 10;

/// Measures with clients of the store, or with members of a group whose redirector has the line to the store.
pub(crate) fn measure(place: &Place, by_redirector: bool, progress: &dyn Fn(&str)) -> Result<Line> {
    let name = if by_redirector { "redirector" } else { "store" };
    progress(&format!("24 MiB over 1 MB/s, by way of the {name}"));
    let server = Server::start(&ServerOptions::new(&place.program, place.dir.join(name)))?;
    let line = Emulator::start(server.address(), ONE_WAY, Some(RATE))?;
    let options = RedirectorOptions::new(&place.program, "site", line.address());
    let redirector = by_redirector.then(|| Redirector::start(&options)).transpose()?;
    let address = redirector.as_ref().map_or(line.address(), Redirector::address);
    let (client, neighbour) = (connect(address)?, connect(address)?);
    let (took, [own, others]) = commit_beside(&client, &neighbour)?;
    let line_s = LARGE_BYTES as f64 / RATE as f64;
    let small_ms_max = ((2 * ONE_WAY * ROUND_TRIPS_MAX).as_secs_f64() + PIECE_BYTES_MAX as f64 / RATE as f64) * 1e3;
    let over_line = took.as_secs_f64() / line_s;
    let worst = own.micros(1.0).max(others.micros(1.0)) / 1e3;
    let sessions = client.stats().sessions + neighbour.stats().sessions;
    let line = Line::new("slow-line")
        .word("by", name)
        .figure("large_s", took.as_secs_f64())
        .figure("line_s", line_s)
        .figure("over_line", over_line)
        .count("small_commits", (own.len() + others.len()) as u64)
        .figure("own_small_ms_p50", own.micros(0.5) / 1e3)
        .figure("own_small_ms_max", own.micros(1.0) / 1e3)
        .figure("neighbour_small_ms_p50", others.micros(0.5) / 1e3)
        .figure("neighbour_small_ms_max", others.micros(1.0) / 1e3)
        .figure("bound_ms", small_ms_max)
        .count("sessions", sessions)
        .flag("met", over_line <= OVER_LINE_MAX && worst <= small_ms_max && sessions == 2);
    Ok(line)
}

fn connect(address: SocketAddr) -> Result<Db> {
    let patience = Duration::from_secs(120);
    Ok(Db::builder().patience(patience).connect_within(Duration::from_secs(10)).connect(address)?)
}

/// Commits much with one client; gives how long that took, and what small commits of it and of another took meanwhile.
fn commit_beside(client: &Db, neighbour: &Db) -> Result<(Duration, [Sample; 2])> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let small = [client, neighbour].map(|db| scope.spawn(|| commit_small(db, &stop)));
        let begun = Instant::now();
        let done = client.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE_BYTES]));
        let took = begun.elapsed();
        stop.store(true, SeqCst);
        let [own, others] = small.map(|small| small.join().expect("committing does not panic"));
        done?;
        Ok((took, [own?, others?]))
    })
}

fn commit_small(db: &Db, stop: &AtomicBool) -> Result<Sample> {
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64))?;
    let mut sample = Sample::default();
    while !stop.load(SeqCst) {
        sample.time(|| db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1)))))?;
    }
    Ok(sample)
}
