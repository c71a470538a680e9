//! OO7 medium behind a slow link: cold and hot traversals, one cold part, and a mix of readers and writers.

use crate::{Line, Place, Result, Sample};
use fixtures::memory_bytes;
use fixtures::{Emulator, LinkTally};
use objects::{Db, Ref, Stats, wait_for};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use workloads::Random;
use workloads::oo7::{CompositePart, Module, Size, Traversal, build, traverse, traverse_module};

/// The module's number in its store.
const MODULE: u32 = 1;

/// How long the mix runs.
const MIX: Duration = Duration::from_secs(5);

/// The share of the mix's transactions that write.
const WRITERS: f64 = 1.0 / 3.0;

/// Cold parts that are traversed one by one.
const COLD_PARTS: usize = 40;

/// The most round trips that a cold read-only transaction may take in the median: its pages come in one, and the
/// store's answer is the proof that they are current.
const COLD_ROUND_TRIPS: f64 = 1.0;

const MIB: f64 = (1 << 20) as f64;

pub(crate) fn measure(
    place: &Place,
    clients: u32,
    delay_ms: u64,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let server = place.serve("store")?;
    progress("build OO7 medium");
    wait_for(build(&Db::connect(server.address())?, MODULE, Size::MEDIUM, 7, |_| {}))?;
    let link = Emulator::start(server.address(), Duration::from_millis(delay_ms), None)?;
    let bench = Bench { link, clients, delay_ms };
    progress("cold parts");
    found(bench.cold_parts()?)?;
    let crowd = (0..clients).map(|_| Client::connect(&bench.link)).collect::<Result<Vec<_>>>()?;
    progress("T1 cold");
    found(bench.all("t1_cold", &crowd, |client, _| client.traverse_module(Traversal::T1))?)?;
    progress("T1 hot");
    found(bench.all("t1_hot", &crowd, |client, _| client.traverse_module(Traversal::T1))?)?;
    progress("mix of T1 and T2b");
    let line = bench.all("mix", &crowd, Client::mix)?;
    found(match (server.memory_bytes("VmHWM"), memory_bytes("self", "VmHWM")) {
        (Some(store), Some(own)) => {
            line.figure("store_mib_max", store as f64 / MIB).figure("clients_mib_max", own as f64 / MIB)
        }
        _ => line,
    })
}

/// The store and clients that all cases share.
struct Bench {
    link: Emulator,
    clients: u32,
    delay_ms: u64,
}

impl Bench {
    /// One client, its assemblies cached, traverses parts of which it has nothing: how many round trips each takes.
    fn cold_parts(&self) -> Result<Line> {
        let client = Client::connect(&self.link)?;
        let parts = client.some_parts(COLD_PARTS)?;
        let (mut latency, mut trips) = (Sample::default(), Sample::default());
        let round_trip = Duration::from_millis(2 * self.delay_ms);
        let before = client.db.stats();
        for &part in &parts {
            let start = Instant::now();
            client.traverse(part, Traversal::T1)?;
            latency.push(start.elapsed());
            // Kept as nanoseconds, so that the sample gives a median of it: one for each.
            trips.push(Duration::from_nanos((start.elapsed().as_secs_f64() / round_trip.as_secs_f64()).round() as u64));
        }
        let stats = client.db.stats();
        let each = |after: u64, before: u64| (after - before) as f64 / parts.len() as f64;
        Ok(self
            .line("t1_part_cold")
            .count("parts", parts.len() as u64)
            .figure("ms_p50", latency.millis(0.5))
            .figure("round_trips_p50", trips.nanos(0.5))
            .figure("round_trips_max", trips.nanos(1.0))
            .figure("fetches_per_part", each(stats.fetches, before.fetches))
            .figure("commit_requests_per_part", each(stats.commit_requests, before.commit_requests))
            .flag("met", trips.nanos(0.5) <= COLD_ROUND_TRIPS))
    }

    /// All clients do the same at the same time.
    fn all(&self, name: &str, crowd: &[Client], work: impl Fn(&Client, u64) -> Result<Sample> + Sync) -> Result<Line> {
        let (before, stats_before) = (self.link.tally(), total(crowd));
        let start = Instant::now();
        let samples: Result<Vec<Sample>> = std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> =
                (0..).zip(crowd).map(|(seed, client)| scope.spawn(move || work(client, seed))).collect();
            workers.into_iter().map(|worker| worker.join().map_err(|_| "a client panicked")?).collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        let mut latency = Sample::default();
        samples?.iter().for_each(|sample| latency.extend(sample));
        let (link, stats) = (self.link.tally(), total(crowd));
        let trips = (stats.fetches + stats.commit_requests) - (stats_before.fetches + stats_before.commit_requests);
        Ok(self
            .line(name)
            .figure("seconds", seconds)
            .count("transactions", latency.len() as u64)
            .figure("ms_p50", latency.millis(0.5))
            .figure("ms_p99", latency.millis(0.99))
            .count("aborts", stats.refused + stats.doomed - stats_before.refused - stats_before.doomed)
            .count("fetches", stats.fetches - stats_before.fetches)
            .count("pages", stats.pages_fetched - stats_before.pages_fetched)
            .count("bytes", bytes(link) - bytes(before))
            .figure("round_trips_per_txn", trips as f64 / latency.len().max(1) as f64))
    }

    fn line(&self, traversal: &str) -> Line {
        Line::new("oo7")
            .word("traversal", traversal)
            .count("clients", self.clients.into())
            .count("delay_ms", self.delay_ms)
    }
}

fn bytes(tally: LinkTally) -> u64 {
    tally.bytes_up + tally.bytes_down
}

fn total(crowd: &[Client]) -> Stats {
    crowd.iter().map(|client| client.db.stats()).sum()
}

/// A client behind the link.
struct Client {
    db: Db,
    module: Ref<Module>,
}

impl Client {
    fn connect(link: &Emulator) -> Result<Self> {
        let db = Db::connect(link.address())?;
        let module = wait_for(db.transact_async(async |mut tx| Module::open(&mut tx, MODULE).await))?;
        Ok(Self { db, module })
    }

    /// Different parts, found by way of the assemblies, which are cached then.
    fn some_parts(&self, count: usize) -> Result<Vec<Ref<CompositePart>>> {
        let (mut random, mut parts) = (Random::new(1), HashSet::new());
        let mut in_order = Vec::new();
        while in_order.len() < count {
            let picked = self.pick(&mut random)?;
            if parts.insert(picked) {
                in_order.push(picked);
            }
        }
        Ok(in_order)
    }

    fn pick(&self, random: &mut Random) -> Result<Ref<CompositePart>> {
        let seed = random.bits();
        let picked =
            self.db.transact_async(async |mut tx| Module::pick(&mut tx, self.module, &mut Random::new(seed)).await);
        Ok(wait_for(picked)?)
    }

    fn traverse(&self, part: Ref<CompositePart>, traversal: Traversal) -> Result<()> {
        let traversed = self.db.transact_async(async |mut tx| traverse(&mut tx, self.module, part, traversal).await);
        wait_for(traversed)?;
        Ok(())
    }

    /// The whole module in one transaction.
    fn traverse_module(&self, traversal: Traversal) -> Result<Sample> {
        let mut latency = Sample::default();
        let run = self.db.transact_async(async |mut tx| traverse_module(&mut tx, self.module, traversal).await);
        latency.time(|| wait_for(run))?;
        Ok(latency)
    }

    /// Transactions of one part each, found on the way down the assemblies: two readers for each writer.
    fn mix(&self, seed: u64) -> Result<Sample> {
        let (mut random, mut latency) = (Random::new(seed + 100), Sample::default());
        let start = Instant::now();
        while start.elapsed() < MIX {
            let traversal = if random.chance(WRITERS) { Traversal::T2b } else { Traversal::T1 };
            let seed = random.bits();
            let run = self.db.transact_async(async |mut tx| {
                let part = Module::pick(&mut tx, self.module, &mut Random::new(seed)).await?;
                traverse(&mut tx, self.module, part, traversal).await
            });
            latency.time(|| wait_for(run))?;
        }
        Ok(latency)
    }
}
