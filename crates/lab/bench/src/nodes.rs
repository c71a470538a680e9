//! Commits on a store of several nodes over loopback, compared with the syncs and round trips that they need: those of
//! a client, and those of an application that is a node. And clients of two nodes that contend for the same two
//! objects in opposite roles.

use crate::floor::{PingPong, SyncFloor};
use crate::{Line, Result, Sample};
use objects::{Anywhere, Db, Ref};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The size of the object that a commit writes: that of an OO7 atomic part.
const OBJECT_BYTES: usize = 100;

/// A commit request of one such object, and its reply, as they are on the wire.
const REQUEST_BYTES: usize = 240;
const REPLY_BYTES: usize = 100;

/// The bounds of the Multicomputer figures:
/// - a commit of an application that is a node, on its own shard, over one `fdatasync` and the round trip to the
///   sequencer;
/// - a client's commit on two nodes, over one `fdatasync` and the round trips to its coordinator, from there to the
///   other node, and to the sequencer;
/// - the worst wait over the median.
const OWN_MAX: f64 = 1.5;
const TWO_MAX: f64 = 2.0;
const WORST_OVER_MEDIAN_MAX: f64 = 20.0;

/// A client whose commits one node coordinates, with an object in a shard of that node.
pub struct AtNode {
    db: Db,
    object: Ref<[u8]>,
}

impl AtNode {
    /// Connects to the node, which creates the object.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub fn new(address: &str) -> Result<Self> {
        Self::of(Db::builder().connect_within(Duration::from_secs(60)).connect(address)?)
    }

    /// The node of this process, which has a shard, creates the object.
    ///
    /// # Errors
    /// The store has not answered.
    pub fn of(db: Db) -> Result<Self> {
        let object = db.transact(|tx| tx.create_bytes(Anywhere, &[0; OBJECT_BYTES]))?;
        Ok(Self { db, object })
    }

    /// Writes the object.
    ///
    /// # Errors
    /// The store has not answered.
    pub fn commit(&self) -> Result<()> {
        self.commit_on(&[self.object])
    }

    /// The commits of this client that were refused, and tried again.
    pub fn refused(&self) -> u64 {
        self.db.stats().refused
    }

    /// Writes objects of 64 KiB until they have this many bytes.
    ///
    /// # Errors
    /// The store has not answered.
    pub fn fill(&self, bytes: u64) -> Result<()> {
        const VALUE_BYTES: usize = 64 << 10;
        const AT_ONCE: u64 = 16;
        let value = vec![7; VALUE_BYTES];
        for _ in 0..bytes.div_ceil(AT_ONCE * VALUE_BYTES as u64) {
            self.db.transact(|tx| (0..AT_ONCE).try_for_each(|_| tx.create_bytes(Anywhere, &value).map(drop)))?;
        }
        Ok(())
    }

    fn commit_on(&self, objects: &[Ref<[u8]>]) -> Result<()> {
        let write =
            |tx: &mut objects::Tx| objects.iter().try_for_each(|&object| tx.put_bytes(object, &[1; OBJECT_BYTES]));
        Ok(self.db.transact(write)?)
    }
}

/// Commits on one node and on two, of an application that is a node and of a client, in turns with the floor. The
/// sequencer is at another node.
///
/// # Errors
/// A node cannot be reached.
pub fn node_commits(dir: &Path, application: &AtNode, [home, other]: [&str; 2]) -> Result<Line> {
    const TURNS: usize = 100;
    const EACH: usize = 10;
    let (client, two) = (AtNode::new(home)?, AtNode::new(other)?);
    let (both, both_joined) = ([client.object, two.object], [application.object, two.object]);
    let (mut syncs, mut pings) = (SyncFloor::new(dir)?, PingPong::new(REQUEST_BYTES, REPLY_BYTES)?);
    let [mut own, mut joined_two, mut connected, mut on_two] = [(); 4].map(|()| Sample::default());
    let [mut sync, mut ping] = [(); 2].map(|()| Sample::default());
    (0..50).try_for_each(|_| client.commit_on(&both))?;
    (0..50).try_for_each(|_| application.commit_on(&both_joined))?;
    for _ in 0..TURNS {
        for _ in 0..EACH {
            own.time(|| application.commit())?;
        }
        for _ in 0..EACH {
            joined_two.time(|| application.commit_on(&both_joined))?;
        }
        for _ in 0..EACH {
            connected.time(|| client.commit())?;
        }
        for _ in 0..EACH {
            on_two.time(|| client.commit_on(&both))?;
        }
        for _ in 0..EACH {
            sync.push(syncs.once()?);
            ping.push(pings.once()?);
        }
    }
    let floor = |round_trips: f64| sync.micros(0.5) + round_trips * ping.micros(0.5);
    let (own_over, two_over) = (own.micros(0.5) / floor(1.0), on_two.micros(0.5) / floor(3.0));
    let line = Line::new("node-commits")
        .figure("own_us_p50", own.micros(0.5))
        .figure("own_and_another_us_p50", joined_two.micros(0.5))
        .figure("client_own_us_p50", connected.micros(0.5))
        .figure("two_nodes_us_p50", on_two.micros(0.5))
        .figure("fdatasync_us_p50", sync.micros(0.5))
        .figure("loopback_us_p50", ping.micros(0.5))
        .figure("own_over_sync_and_round_trip", own_over)
        .figure("own_target", OWN_MAX)
        .figure("two_nodes_over_sync_and_three_round_trips", two_over)
        .figure("two_nodes_target", TWO_MAX)
        .flag("met", own_over <= OWN_MAX && two_over <= TWO_MAX);
    Ok(line)
}

/// Clients at two nodes write the same two objects, one in a shard of each. To half of them the first is their node's
/// own, to the others the second.
///
/// # Errors
/// A node cannot be reached.
pub fn opposite_roles([first, second]: [&str; 2]) -> Result<Line> {
    const CLIENTS: usize = 16;
    const FOR: Duration = Duration::from_secs(10);
    let owners = [AtNode::new(first)?, AtNode::new(second)?];
    let both = owners.each_ref().map(|owner| owner.object);
    let clients = (0..CLIENTS).map(|client| AtNode::new([first, second][client % 2]));
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let until = Instant::now() + FOR;
    let work = |client: &AtNode| {
        let mut waits = Sample::default();
        while Instant::now() < until {
            waits.time(|| client.commit_on(&both))?;
        }
        Ok::<_, crate::Error>(waits)
    };
    let samples = thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter().map(|client| scope.spawn(|| work(client).map_err(|e| e.to_string()))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no client panics")).collect::<Vec<_>>()
    });
    let (mut all, mut least) = (Sample::default(), usize::MAX);
    for sample in samples {
        let sample = sample?;
        least = least.min(sample.len());
        all.extend(&sample);
    }
    let over = all.millis(1.0) / all.millis(0.5);
    Ok(Line::new("opposite-roles")
        .count("clients", CLIENTS as u64)
        .count("commits", all.len() as u64)
        .count("commits_of_the_slowest", least as u64)
        .figure("commit_ms_p50", all.millis(0.5))
        .figure("commit_ms_p99", all.millis(0.99))
        .figure("commit_ms_max", all.millis(1.0))
        .figure("worst_over_median", over)
        .figure("target", WORST_OVER_MEDIAN_MAX)
        .flag("met", over <= WORST_OVER_MEDIAN_MAX))
}
