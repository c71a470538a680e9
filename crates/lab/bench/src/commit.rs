//! Commits: one client against the floor of one sync and one round trip, many against bare syncs.

use crate::floor::{PingPong, SyncFloor};
use crate::sample::median;
use crate::{Line, Place, Result, Sample};
use objects::{Anywhere, Db, Ref};
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{self, Runtime};

/// The size of the object that a commit writes: that of an OO7 atomic part.
const OBJECT_BYTES: usize = 100;

/// A commit request of one such object, and its reply, as they are on the wire.
const REQUEST_BYTES: usize = 240;
const REPLY_BYTES: usize = 100;

/// Commits of one client, in turns with what they cannot do without.
pub(crate) fn measure_one(place: &Place) -> Result<Line> {
    const TURNS: usize = 100;
    const EACH: usize = 10;
    let server = place.serve("store")?;
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
///
/// The clients are tasks of one thread, as a service holds many connections and as the tools that others are measured
/// with drive them (`pgbench -j 1`, `redis-benchmark`): a thread for each would measure how the system switches
/// between 64 threads.
pub(crate) fn measure_many(place: &Place, clients: u32) -> Result<Line> {
    const TURNS: usize = 5;
    const TURN: Duration = Duration::from_millis(700);
    let server = place.serve("store")?;
    let crowd = Crowd::new(server.address(), clients)?;
    let mut syncs = SyncFloor::new(&place.dir)?;
    let mut latency = Sample::default();
    let turn = |_| Ok((crowd.per_second(TURN, &mut latency)?, syncs.per_second(TURN)?));
    let turns: Vec<(f64, f64)> = (0..TURNS).map(turn).collect::<Result<_>>()?;
    let ratios = turns.iter().map(|(commits, syncs)| commits / syncs).collect();
    let (commits, fdatasyncs): (Vec<f64>, Vec<f64>) = turns.into_iter().unzip();
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
    object: Ref<[u8]>,
}

impl Committer {
    fn new(address: SocketAddr) -> Result<Self> {
        let db = Db::connect(address)?;
        let object = db.transact(|tx| tx.create_bytes(Anywhere, &[0; OBJECT_BYTES]))?;
        Ok(Self { db, object })
    }

    async fn new_async(address: SocketAddr) -> Result<Self> {
        let db = Db::connect_async(address).await?;
        let object = db.transact_async(async |mut tx| tx.create_bytes(Anywhere, &[0; OBJECT_BYTES]).await).await?;
        Ok(Self { db, object })
    }

    fn commit(&self) -> Result<()> {
        Ok(self.db.transact(|tx| tx.put_bytes(self.object, &[1; OBJECT_BYTES]))?)
    }

    /// Commits until the time is over, each time as soon as the last commit is answered.
    async fn commit_until(self: Arc<Self>, end: Instant) -> Result<Sample> {
        let (mut latency, mut start, object) = (Sample::default(), Instant::now(), self.object);
        while start < end {
            self.db.transact_async(async |mut tx| tx.put_bytes(object, &[1; OBJECT_BYTES]).await).await?;
            let next = Instant::now();
            latency.push(next - mem::replace(&mut start, next));
        }
        Ok(latency)
    }
}

/// Clients that all commit in one turn and all rest in the next.
struct Crowd {
    committers: Vec<Arc<Committer>>,
    runtime: Runtime,
}

impl Crowd {
    fn new(address: SocketAddr, clients: u32) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let connect = |_| Ok(Arc::new(runtime.block_on(Committer::new_async(address))?));
        let committers = (0..clients).map(connect).collect::<Result<_>>()?;
        Ok(Self { committers, runtime })
    }

    /// Lets everybody commit for a while; their commits per second.
    fn per_second(&self, turn: Duration, latency: &mut Sample) -> Result<f64> {
        let start = Instant::now();
        let work = |committer: &Arc<Committer>| self.runtime.spawn(committer.clone().commit_until(start + turn));
        let tasks: Vec<_> = self.committers.iter().map(work).collect();
        let mut commits = 0;
        for task in tasks {
            let sample = self.runtime.block_on(task)??;
            commits += sample.len();
            latency.extend(&sample);
        }
        Ok(commits as f64 / start.elapsed().as_secs_f64())
    }
}
