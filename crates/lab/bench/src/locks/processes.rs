//! The experiment with processes: a store and servers as their user would run them, on one line of 100 Mb/s, with
//! visitors over HTTP. The messages are counted on the line, and those of an idle time of the same length, which are
//! renewals of leases, are left out.

use super::arrivals::{Arrivals, Between};
use super::figures::MODELS;
use crate::experiment::Target;
use crate::pace::Pace;
use crate::published::farm::{Farm, publish, site};
use crate::{Place, Result, Row, Sample};
use files::{SiteSettings, Sites};
use fixtures::http::ask_on;
use fixtures::{Emulator, LinkTally, Process};
use spread::messages::Consistency;
use std::fs;
use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use types::Time;

const SERVERS: usize = 50;

/// The line that all servers share, in bytes a second.
const RATE: u64 = 100_000_000 / 8;

/// A picture, as of the paper's camera, which changes more often here.
const FILE_BYTES: usize = 64 << 10;
const EVERY: Duration = Duration::from_secs(2);
const UPDATES: u32 = 10;

/// Reads a second at each server.
const READS: f64 = 10.0;

/// Leases of the servers. A sequential publish waits for one after the start of a store.
const LEASE_MS: &str = "20000";
const LEASE_OVER: Duration = Duration::from_secs(21);

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The seconds that all of it takes on a quiet machine.
pub(super) const PROCESSES_S: f64 = 270.0;

/// Runs each model with processes.
pub(super) fn processes(place: &Place, pace: &Pace, found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    for (at, (model, consistency)) in MODELS.into_iter().enumerate() {
        pace.advance(at as f64 / MODELS.len() as f64);
        pace.say(format!("{model}: start a store and {SERVERS} servers"))?;
        let begun = Instant::now();
        let farm = Farm::start(place, model, &["--site-lease-ms", LEASE_MS])?;
        let (sites, pictures) = (farm.sites()?, farm.path("pictures"));
        sites.create(&site(), SiteSettings { consistency: Some(consistency), ..SiteSettings::default() })?;
        fs::create_dir_all(&pictures)?;
        take_picture(&sites, &pictures, 0)?;
        let line = Emulator::start(farm.address(), Duration::ZERO, Some(RATE))?;
        let start = |number: usize| farm.member(&format!("server-{number}"), line.address());
        let servers = (0..SERVERS).map(start).collect::<Result<Vec<Process>>>()?;
        thread::sleep(LEASE_OVER.saturating_sub(begun.elapsed()));
        pace.say(format!("{model}: {SERVERS} servers at rest"))?;
        let window = EVERY * UPDATES;
        let before = line.tally();
        thread::sleep(window);
        let renewals = messages(line.tally()) - messages(before);
        pace.say(format!("{model}: {UPDATES} updates at {SERVERS} servers"))?;
        let before = line.tally();
        let reads = visited(&servers, || {
            let begun = Instant::now();
            for update in 1..=UPDATES {
                take_picture(&sites, &pictures, update)?;
                thread::sleep((EVERY * update).saturating_sub(begun.elapsed()));
            }
            Ok(())
        })?;
        let all = messages(line.tally()) - messages(before);
        let each = (all as f64 - renewals as f64) / f64::from(UPDATES) / SERVERS as f64;
        for row in rows(model, consistency, each, &reads) {
            found(row)?;
        }
    }
    Ok(())
}

fn rows(model: &str, consistency: Consistency, each: f64, reads: &Sample) -> [Row; 3] {
    let expected = super::closed_forms::messages(consistency);
    let case = |what: &str| format!("{model}, {SERVERS} processes: {what}");
    let messages = Row::new("real", case("messages for an update and server"), "count", each);
    [
        messages.paper(expected).target(Target::Within { of: expected, by: 0.1 }),
        Row::new("real", case("mean of a read"), "ms", reads.mean_millis()),
        Row::new("real", case("longest read"), "ms", reads.millis(1.0)),
    ]
}

fn messages(tally: LinkTally) -> u64 {
    tally.messages_up + tally.messages_down
}

fn take_picture(sites: &Sites, dir: &Path, number: u32) -> Result<()> {
    let mut picture = format!("{number:016}").into_bytes();
    picture.resize(FILE_BYTES, b'.');
    fs::write(dir.join("camera"), picture)?;
    publish(sites, dir).map(drop)
}

/// The times that reads take at all servers while something is done.
fn visited(servers: &[Process], work: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let (ends, begun) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let visitors = servers.iter().enumerate().map(|(at, server)| {
            let (ends, address) = (&ends, server.address());
            scope.spawn(move || visit(address, at as u64, begun, ends))
        });
        let visitors: Vec<_> = visitors.collect();
        let worked = work();
        ends.store(true, Relaxed);
        let mut all = Sample::default();
        for visitor in visitors {
            all.extend(&visitor.join().map_err(|_| "a visitor panicked: please report it")??);
        }
        worked.map(|()| all)
    })
}

/// Reads the picture of a server again and again. A read that is due while another one waits begins then, and its time
/// counts from when it was due.
fn visit(server: SocketAddr, seed: u64, begun: Instant, ends: &AtomicBool) -> Result<Sample> {
    let (mut connection, mut reads) = (BufReader::new(TcpStream::connect(server)?), Sample::default());
    connection.get_ref().set_nodelay(true)?;
    connection.get_ref().set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut arrivals = Arrivals::new(Between::Poisson, READS, seed, Time::ZERO);
    while !ends.load(Relaxed) {
        let due = begun + Duration::from_nanos(arrivals.next().0);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        arrivals.step();
        ask_on(&mut connection, "/camera")?;
        reads.push(due.elapsed());
    }
    Ok(reads)
}
