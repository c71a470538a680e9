//! The costs of steps without any distance, measured here and now: the parameters of the model and of virtual time.
//! None is fitted to anything.

use super::group::Group;
use crate::floor::{PingPong, Shuffle, SyncFloor};
use crate::machine::{differs_percent, steadiest};
use crate::pace::Pace;
use crate::{Place, Result, Sample};
use fixtures::Process;
use objects::{Anywhere, Db, Ref, wait_for};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use workloads::Random;
use workloads::oo7::{Module, Size, Traversal, build, traverse};

/// Objects that have a page each.
const OBJECTS: usize = 1000;
const OBJECT_BYTES: usize = 8000;

/// A request for one page, and a page with its header, as they are on the wire.
const REQUEST_BYTES: usize = 40;
const PAGE_BYTES: usize = 8192;

/// How often commits, syncs and traversals are done at a time.
const TURNS: usize = 300;

/// Bare round trips over an emulated distance.
const EMULATED: usize = 100;

/// How often all of it is measured, in turns and with other connections: which processor the system puts whom on makes
/// a difference, and lasts.
pub(crate) const ROUNDS: usize = 9;

/// Medians of what was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// A message on its way between two processes of this machine, up to a page: half a bare ping-pong.
    pub(crate) hop: Duration,
    /// A page from the store, fetched by a client directly.
    pub(crate) fetch: Duration,
    /// The same through a redirector.
    pub(crate) fetch_through: Duration,
    /// A page from a peer.
    pub(crate) peer_fetch: Duration,
    /// The commit of a transaction that has only read, directly and through a redirector.
    pub(crate) commit: Duration,
    pub(crate) commit_through: Duration,
    /// A page that the store has to read from its disk takes longer by this much.
    pub(crate) read: Duration,
    /// Making a block of a log durable.
    pub(crate) flush: Duration,
    /// The way to one part and its traversal, all of it in the cache.
    pub(crate) traversal: Duration,
}

/// The measurements behind the costs.
#[derive(Default)]
struct Samples {
    ping: Sample,
    fetch: Sample,
    fetch_through: Sample,
    peer_fetch: Sample,
    commit: Sample,
    commit_through: Sample,
    from_disk: Sample,
    flush: Sample,
    traversal: Sample,
}

impl Samples {
    /// Measures all of them, but for the reads from disk.
    fn measure(lab: &Lab, traversals: &Traversals, floor: &mut SyncFloor) -> Result<Self> {
        let (objects, mut all) = (&lab.objects, Self::default());
        for _ in 0..ROUNDS {
            all.ping.extend(&pings(OBJECTS)?);
            let client = lab.client()?;
            all.fetch.extend(&fetches(&client, objects)?);
            all.commit.extend(&commits(&client, objects[0])?);
            let group = lab.group()?;
            let (first, second) = (group.member()?, group.member()?);
            all.fetch_through.extend(&fetches(&first, objects)?);
            all.commit_through.extend(&commits(&first, objects[0])?);
            all.peer_fetch.extend(&fetches(&second, objects)?);
            traversals.measure(&mut all.traversal)?;
            for _ in 0..TURNS {
                all.flush.push(floor.once()?);
            }
        }
        Ok(all)
    }

    /// How much that of these which differs the most does so between the thirds of the rounds, in percent. Virtual time
    /// does not rest on the flush.
    fn differs_percent(&self) -> f64 {
        let Self { ping, fetch, fetch_through, peer_fetch, commit, commit_through, traversal, .. } = self;
        let all = [ping, fetch, fetch_through, peer_fetch, commit, commit_through, traversal];
        all.into_iter().filter_map(|sample| differs_percent(&sample.thirds())).fold(0.0, f64::max)
    }

    /// The costs by one figure of each sample, in nanoseconds.
    fn costs(&self, figure: impl Fn(&Sample) -> f64) -> Costs {
        let of = |sample| Duration::from_nanos(figure(sample) as u64);
        Costs {
            hop: of(&self.ping) / 2,
            fetch: of(&self.fetch),
            fetch_through: of(&self.fetch_through),
            peer_fetch: of(&self.peer_fetch),
            commit: of(&self.commit),
            commit_through: of(&self.commit_through),
            read: median(&self.from_disk).saturating_sub(of(&self.fetch)),
            flush: of(&self.flush),
            traversal: of(&self.traversal),
        }
    }
}

/// The costs, and how steady they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    /// By the medians of all rounds.
    pub(crate) costs: Costs,
    /// By those of the first, second and last third: as if all had been measured three times.
    pub(crate) thirds: Vec<Costs>,
    /// How much the cost that differs the most does so between these, in percent.
    pub(crate) differs_percent: f64,
}

impl Baseline {
    /// Measures all of them, again if they are unsteady.
    pub(crate) fn measure(lab: &Lab, place: &Place, pace: &Pace) -> Result<Self> {
        pace.say("measure costs")?;
        let (mut floor, traversals) = (SyncFloor::new(&place.dir)?, Traversals::new()?);
        // The first client finds the store's memory empty.
        let from_disk = fetches(&lab.client()?, &lab.objects)?;
        let measure = || Samples::measure(lab, &traversals, &mut floor);
        let samples = Samples { from_disk, ..steadiest(measure, Samples::differs_percent)? };
        let third = |at| samples.costs(move |sample: &Sample| sample.thirds().get(at).copied().unwrap_or_default());
        Ok(Self {
            costs: samples.costs(|sample| sample.nanos(0.5)),
            thirds: (0..3).map(third).collect(),
            differs_percent: samples.differs_percent(),
        })
    }
}

impl Costs {
    /// The time that a message takes of each process. A fetch is two hops and a message at the store and at the client,
    /// which are taken to work equally long; a redirector adds two hops and two messages of its own.
    pub(crate) fn processing(&self) -> sim::Costs {
        let end = self.fetch.saturating_sub(2 * self.hop) / 2;
        let redirector = self.fetch_through.saturating_sub(self.fetch + 2 * self.hop) / 2;
        sim::Costs { client: end, redirector, store: end }
    }
}

/// A store process with objects that have a page each, in no order.
pub(crate) struct Lab {
    server: Process,
    pub(crate) objects: Vec<Ref<[u8]>>,
}

impl Lab {
    /// Makes the store and starts it.
    pub(crate) fn start(place: &Place) -> Result<Self> {
        Self::start_in(&place.dir.join("lab"), |_| place.serve("lab"))
    }

    /// Likewise, in this directory, with a store that is started so.
    pub(crate) fn start_in(dir: &Path, start: impl FnOnce(&Path) -> Result<Process>) -> Result<Self> {
        let mut objects = create(dir)?;
        Shuffle::new().order(&mut objects);
        Ok(Self { server: start(dir)?, objects })
    }

    /// Where the store listens.
    pub(crate) fn store(&self) -> SocketAddr {
        self.server.address()
    }

    /// A client that talks to the store directly and fetches on demand alone.
    pub(crate) fn client(&self) -> Result<Db> {
        client_of(self.store())
    }

    /// A new group without members.
    pub(crate) fn group(&self) -> Result<Group> {
        Group::start(self.store())
    }
}

/// A client that talks to the store at an address directly and fetches on demand alone.
pub(crate) fn client_of(store: SocketAddr) -> Result<Db> {
    Ok(Db::builder().prefetch_pages(0).read_ahead(false).connect(store)?)
}

/// Bare round trips of a request for a page and a page.
pub(crate) fn pings(count: usize) -> Result<Sample> {
    let (mut pings, mut sample) = (PingPong::new(REQUEST_BYTES, PAGE_BYTES)?, Sample::default());
    for _ in 0..count {
        sample.push(pings.once()?);
    }
    Ok(sample)
}

/// The round trip that an emulated distance really adds: the time that the emulator's threads work comes on top of the
/// time that they wait.
pub(crate) fn emulated(round_trip: Duration) -> Result<Duration> {
    if round_trip.is_zero() {
        return Ok(Duration::ZERO);
    }
    let mut far = PingPong::emulated(REQUEST_BYTES, PAGE_BYTES, round_trip / 2)?;
    let mut sample = Sample::default();
    for _ in 0..EMULATED {
        sample.push(far.once()?);
    }
    Ok(median(&sample).saturating_sub(median(&pings(OBJECTS)?)))
}

/// Bare round trips of the same bytes, and the same through a thread that hands them on, in turns.
pub(crate) fn relayed_pings() -> Result<(Sample, Sample)> {
    let mut direct = PingPong::new(REQUEST_BYTES, PAGE_BYTES)?;
    let mut relayed = PingPong::relayed(REQUEST_BYTES, PAGE_BYTES)?;
    let (mut without, mut with) = (Sample::default(), Sample::default());
    for _ in 0..OBJECTS {
        without.push(direct.once()?);
        with.push(relayed.once()?);
    }
    Ok((without, with))
}

fn median(sample: &Sample) -> Duration {
    Duration::from_nanos(sample.nanos(0.5) as u64)
}

/// Makes a store of objects that have a page each, and closes it: its pages are on its disk then.
fn create(dir: &Path) -> Result<Vec<Ref<[u8]>>> {
    let db = Db::open(dir)?;
    let mut objects = Vec::new();
    while objects.len() < OBJECTS {
        let batch: Vec<Ref<[u8]>> =
            db.transact(|tx| (0..100).map(|_| tx.create_bytes(Anywhere, &[7; OBJECT_BYTES])).collect())?;
        objects.extend(batch);
    }
    db.close()?;
    Ok(objects)
}

/// Reads objects that a client does not have, one round trip each.
pub(crate) fn fetches(db: &Db, objects: &[Ref<[u8]>]) -> Result<Sample> {
    let mut sample = Sample::default();
    db.transact(|tx| {
        for &object in objects {
            let bytes = sample.time(|| tx.read(object, <[u8]>::len))?;
            assert_eq!(bytes, Some(OBJECT_BYTES), "an object is not what was written");
        }
        Ok(())
    })?;
    Ok(sample)
}

/// Commits transactions that have read an object in the cache.
pub(crate) fn commits(db: &Db, object: Ref<[u8]>) -> Result<Sample> {
    db.transact(|tx| tx.read(object, <[u8]>::len))?;
    let mut sample = Sample::default();
    for _ in 0..TURNS {
        sample.time(|| db.transact(|tx| tx.read(object, <[u8]>::len)))?;
    }
    Ok(sample)
}

/// Commits transactions that have changed an object in the cache: the store makes them durable.
pub(crate) fn durable_commits(db: &Db, object: Ref<[u8]>) -> Result<Sample> {
    db.transact(|tx| tx.read(object, <[u8]>::len))?;
    let mut sample = Sample::default();
    for turn in 0..TURNS {
        sample.time(|| db.transact(|tx| tx.put_bytes(object, &[turn as u8; OBJECT_BYTES])))?;
    }
    Ok(sample)
}

/// The experiments' module, all of it in a client's cache, and no smaller: the processor's own caches do not hold it.
struct Traversals {
    db: Db,
    module: Ref<Module>,
}

impl Traversals {
    fn new() -> Result<Self> {
        let db = Db::in_memory()?;
        let module = wait_for(build(&db, 1, Size::BUDDYCACHE, 7, |_| {}))?;
        Ok(Self { db, module })
    }

    /// Traverses one part after the other.
    fn measure(&self, sample: &mut Sample) -> Result<()> {
        for way in 0..TURNS as u64 {
            let run = self.db.transact_async(async |mut tx| {
                let start = Instant::now();
                let part = Module::pick(&mut tx, self.module, &mut Random::new(way)).await?;
                traverse(&mut tx, self.module, part, Traversal::T1).await?;
                Ok(start.elapsed())
            });
            sample.push(wait_for(run)?);
        }
        Ok(())
    }
}
