//! Commits: one client against the floor of one sync and one round trip, many against bare syncs.

use crate::floor::{PingPong, SyncFloor};
use crate::sample::median;
use crate::{Line, Place, Result, Sample, Server, ServerOptions};
use objects::{Anywhere, Db};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use types::ObjectId;

/// What a commit writes: the size of an OO7 atomic part.
const OBJECT_BYTES: usize = 100;

/// A commit request of one such object, and its reply, as they are on the wire.
const REQUEST_BYTES: usize = 240;
const REPLY_BYTES: usize = 100;

/// Commits of one client, in turns with what they cannot do without.
pub(crate) fn measure_one(place: &Place) -> Result<Line> {
    const TURNS: usize = 100;
    const EACH: usize = 10;
    let server = Server::start(&ServerOptions::new(&place.program, place.dir.join("store")))?;
    let committer = Committer::new(server.address())?;
    let (mut syncs, mut pings) = (SyncFloor::new(&place.dir)?, PingPong::new(REQUEST_BYTES, REPLY_BYTES)?);
    let (mut commit, mut sync, mut ping) = (Sample::default(), Sample::default(), Sample::default());
    (0..50).try_for_each(|_| committer.commit())?;
    for _ in 0..TURNS {
        for _ in 0..EACH {
            commit.time(|| committer.commit())?;
        }
        for _ in 0..EACH {
            sync.push(syncs.once()?);
        }
        for _ in 0..EACH {
            ping.push(pings.once()?);
        }
    }
    let floor_us = sync.micros(0.5) + ping.micros(0.5);
    let line = Line::new("commit")
        .count("clients", 1)
        .figure("commit_us_p50", commit.micros(0.5))
        .figure("commit_us_p99", commit.micros(0.99))
        .figure("fdatasync_us_p50", sync.micros(0.5))
        .figure("loopback_us_p50", ping.micros(0.5))
        .figure("over_floor", commit.micros(0.5) / floor_us);
    Ok(line)
}

/// Commits of many clients, each with a connection of its own, in turns with the syncs of one thread.
pub(crate) fn measure_many(place: &Place, clients: u32) -> Result<Line> {
    const TURNS: usize = 5;
    const TURN: Duration = Duration::from_millis(700);
    let server = Server::start(&ServerOptions::new(&place.program, place.dir.join("store")))?;
    let crowd = Crowd::new(clients);
    let committers = (0..clients).map(|_| Committer::new(server.address())).collect::<Result<Vec<_>>>()?;
    let mut syncs = SyncFloor::new(&place.dir)?;
    let turns = std::thread::scope(|scope| {
        for committer in &committers {
            scope.spawn(|| crowd.work(committer));
        }
        let turn = |_| Ok((crowd.per_second(TURN), syncs.per_second(TURN)?));
        let turns: Result<Vec<(f64, f64)>> = (0..TURNS).map(turn).collect();
        crowd.dismiss();
        turns
    })?;
    let (commits, fdatasyncs): (Vec<f64>, Vec<f64>) = turns.into_iter().unzip();
    if let Some(error) = crowd.failed() {
        return Err(error);
    }
    let ratios = commits.iter().zip(&fdatasyncs).map(|(commits, syncs)| commits / syncs).collect();
    let latency = crowd.latencies();
    let line = Line::new("commit")
        .count("clients", clients.into())
        .figure("commits_per_s", median(commits))
        .figure("commit_us_p50", latency.micros(0.5))
        .figure("commit_us_p99", latency.micros(0.99))
        .figure("fdatasyncs_per_s", median(fdatasyncs))
        .figure("over_fdatasync", median(ratios));
    Ok(line)
}

/// A client with an object of its own.
struct Committer {
    db: Db,
    object: ObjectId,
}

impl Committer {
    fn new(address: SocketAddr) -> Result<Self> {
        let db = Db::connect(address)?;
        let object = db.transact(|tx| tx.create_bytes(Anywhere, &[0; OBJECT_BYTES]))?;
        Ok(Self { db, object })
    }

    fn commit(&self) -> Result<()> {
        Ok(self.db.transact(|tx| tx.put_bytes(self.object, &[1; OBJECT_BYTES]))?)
    }
}

/// Threads that all commit in one turn and all rest in the next.
struct Crowd {
    /// Everybody and the one who measures, at the beginning and at the end of each turn.
    barrier: Barrier,
    running: AtomicBool,
    dismissed: AtomicBool,
    commits: AtomicU64,
    latencies: Mutex<Sample>,
    failed: Mutex<Option<crate::Error>>,
}

impl Crowd {
    fn new(clients: u32) -> Self {
        Self {
            barrier: Barrier::new(clients as usize + 1),
            running: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            latencies: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Commits during each turn until dismissed.
    fn work(&self, committer: &Committer) {
        let mut latency = Sample::default();
        loop {
            self.barrier.wait();
            if self.dismissed.load(Ordering::SeqCst) {
                break;
            }
            while self.running.load(Ordering::Relaxed) {
                match latency.time(|| committer.commit()) {
                    Ok(()) => self.commits.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        break;
                    }
                };
            }
            self.barrier.wait();
        }
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).extend(&latency);
    }

    /// Lets everybody commit for a while; their commits per second.
    fn per_second(&self, turn: Duration) -> f64 {
        self.commits.store(0, Ordering::SeqCst);
        self.running.store(true, Ordering::SeqCst);
        self.barrier.wait();
        let start = Instant::now();
        std::thread::sleep(turn);
        self.running.store(false, Ordering::SeqCst);
        let per_second = self.commits.load(Ordering::SeqCst) as f64 / start.elapsed().as_secs_f64();
        self.barrier.wait();
        per_second
    }

    fn dismiss(&self) {
        self.dismissed.store(true, Ordering::SeqCst);
        self.barrier.wait();
    }

    fn failed(&self) -> Option<crate::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn latencies(&self) -> Sample {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
