//! A large object over a slow line, and the transactions that wait for it: it should take the line's time, and small
//! transactions of the same client and of a peer should hardly invalidation.

use crate::{Line, Place, Result, Sample};
use fixtures::{Emulator, Process, Program};
use objects::{Anywhere, Db, Ref};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use types::limits::PIECE_BYTES_MAX;

/// The rate of the line, in bytes per second, and its delay, one way.
const RATE: u64 = 1_000_000;
const ONE_WAY: Duration = Duration::from_millis(20);

/// The bytes that are committed over it, or read.
const LARGE_BYTES: usize = 24 << 20;

/// The small objects that are read beside a large one: so many, of this many bytes, two of which share a page.
const SMALL: usize = 4000;
const SMALL_BYTES: usize = 3000;

/// The bounds: of the time that the line needs for the large object; and for each small transaction, in round trips
/// beside the time that the line needs for a quantum.
const OVER_LINE_MAX: f64 = 1.2;
const ROUND_TRIPS_MAX: u32 = 10;

/// Which way the large object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Large {
    /// It is committed. The small transactions commit.
    Committed,
    /// It is read. The small transactions commit, and read what is not cached, in turns.
    Read,
}

/// Measures with clients of the store, or with members of a group whose redirector has the line to the store.
pub(crate) fn measure(place: &Place, large: Large, by_redirector: bool, progress: &dyn Fn(&str)) -> Result<Line> {
    let by = if by_redirector { "redirector" } else { "store" };
    let is = if large == Large::Committed { "committed" } else { "read" };
    progress(&format!("24 MiB {is} over 1 MB/s, by way of the {by}"));
    let server = place.serve(&format!("{by}-{is}"))?;
    let objects = Objects::create(server.address(), large)?;
    let line = Emulator::start(server.address(), ONE_WAY, Some(RATE))?;
    let start = || Program::from(&place.program).group("site", line.address(), &[])?.until("leads", "site");
    let redirector = by_redirector.then(start).transpose()?;
    let address = redirector.as_ref().map_or(line.address(), Process::address);
    let (client, peer) = (connect(address)?, connect(address)?);
    let (took, [own, others]) = beside(&client, &peer, &objects)?;
    let line_s = LARGE_BYTES as f64 / RATE as f64;
    let small_ms_max = ((2 * ONE_WAY * ROUND_TRIPS_MAX).as_secs_f64() + PIECE_BYTES_MAX as f64 / RATE as f64) * 1e3;
    let over_line = took.as_secs_f64() / line_s;
    let worst = own.millis(1.0).max(others.millis(1.0));
    let sessions = client.stats().sessions + peer.stats().sessions;
    let line = Line::new("slow-line")
        .word("large", is)
        .word("by", by)
        .figure("large_s", took.as_secs_f64())
        .figure("line_s", line_s)
        .figure("over_line", over_line)
        .count("small", (own.len() + others.len()) as u64)
        .figure("own_small_ms_p50", own.millis(0.5))
        .figure("own_small_ms_max", own.millis(1.0))
        .figure("peer_small_ms_p50", others.millis(0.5))
        .figure("peer_small_ms_max", others.millis(1.0))
        .figure("bound_ms", small_ms_max)
        .count("sessions", sessions)
        .flag("met", over_line <= OVER_LINE_MAX && worst <= small_ms_max && sessions == 2);
    Ok(line)
}

fn connect(address: SocketAddr) -> Result<Db> {
    let patience = Duration::from_secs(120);
    Ok(Db::builder().patience(patience).connect_within(Duration::from_secs(10)).connect(address)?)
}

/// The reads of this run, if there are any.
#[derive(Debug)]
struct Objects {
    large: Option<Ref<[u8]>>,
    /// One object of each second page.
    small: Vec<Ref<[u8]>>,
}

impl Objects {
    /// Creates them where there is no line to cross.
    fn create(store: SocketAddr, large: Large) -> Result<Self> {
        if large == Large::Committed {
            return Ok(Self { large: None, small: Vec::new() });
        }
        let db = connect(store)?;
        let large = db.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE_BYTES]))?;
        let small: Vec<Ref<[u8]>> =
            db.transact(|tx| (0..SMALL).map(|_| tx.create_bytes(Anywhere, &[7; SMALL_BYTES])).collect())?;
        db.close()?;
        Ok(Self { large: Some(large), small: small.into_iter().step_by(4).collect() })
    }
}

/// Commits or reads much with one client; gives how long that took, and how long small transactions of it and of
/// another took in the meantime.
fn beside(client: &Db, peer: &Db, objects: &Objects) -> Result<(Duration, [Sample; 2])> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (own, others) = objects.small.split_at(objects.small.len() / 2);
        let small = [(client, own), (peer, others)].map(|(db, read)| scope.spawn(|| small(db, read, &stop)));
        let begun = Instant::now();
        let done = match objects.large {
            None => client.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE_BYTES])).map(|_| LARGE_BYTES),
            Some(large) => client.transact(|tx| tx.get_bytes(large)).map(|bytes| bytes.map_or(0, |bytes| bytes.len())),
        };
        let took = begun.elapsed();
        stop.store(true, SeqCst);
        let [own, others] = small.map(|small| small.join().expect("a transaction does not panic"));
        match done? {
            LARGE_BYTES => Ok((took, [own?, others?])),
            bytes => Err(format!("expected an object of {LARGE_BYTES} bytes, got {bytes}").into()),
        }
    })
}

/// Increments a counter again and again, and reads another object after each time, as long as there are any.
fn small(db: &Db, read: &[Ref<[u8]>], stop: &AtomicBool) -> Result<Sample> {
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64))?;
    let (mut sample, mut read) = (Sample::default(), read.iter());
    while !stop.load(SeqCst) {
        sample.time(|| db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1)))))?;
        if let Some(&object) = read.next() {
            sample.time(|| db.transact(|tx| tx.get_bytes(object)))?;
        }
    }
    Ok(sample)
}
