//! A run: a store, a writer, and Web servers on one shared line, in virtual time. All of them are the real machines.
//!
//! ```text
//!   0          the site is created; servers join it
//!   BEGIN      the writer opens the file each interval; reads begin
//!     +3       measured from the middle of an interval on
//!     +3+n     to the middle of another
//! ```

use super::arrivals::{Arrivals, Between};
use super::reader::{Reader, Reads, Unfinished};
use super::writer::{Writer, Writes};
use machine::{Machine, Node, RoleId};
use sim::sites::{Happened, MemberDisk, ServerDisk};
use sim::{Carried, Content, Family, Line, Processes, SharedLine};
use spread::messages::{Consistency, FILE_SERVER, SUBSCRIBER};
use spread::{FileServer, Member, MemberConfig, PATIENCE, ServerConfig, SiteKey};
use std::rc::Rc;
use std::time::Duration;
use types::{Broken, Time};

/// Leases that are renewed neither while a run is measured, nor at any other time after its beginning.
const LEASE: Duration = Duration::from_secs(24 * 3600);

/// A time after the lease that a sequential publish waits for after the start of a store.
const BEGIN: Time = Time(25 * 3600 * 1_000_000_000);

/// The writes before the first that is measured.
const WARM_UP: u32 = 3;

/// From one process to another, on a line that is free. The paper's is ideal; this is the least that orders events.
const DELAY: Duration = Duration::from_nanos(100);

/// Revisions that the site keeps: more than a run has.
const KEEP: u32 = 100_000;

/// The bytes of a message without a file: "so that with packet overheads and metadata, update messages were 256 bytes".
const MESSAGE_BYTES: u64 = 256;

/// The shape of the paper's Pareto distribution, which it does not say; `figures` varies it.
pub(super) const HEAVY_TAILED: Between = Between::Pareto(1.5);

/// AFS "writes back cached data" of a file that is "open longer than 30 seconds".
const STORES_EACH: Duration = Duration::from_secs(30);

const FAMILY: Family = Family { client: SUBSCRIBER, server: FILE_SERVER };
const ONE: RoleId = RoleId::ONLY;
const STORE: &str = "store";
const WRITER: &str = "writer";

/// The conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) consistency: Consistency,
    pub(super) servers: usize,
    pub(super) megabits: u64,
    /// The least bytes of a message on the line.
    pub(super) least_bytes: u64,
    pub(super) file_bytes: usize,
    /// From one write to the next, and how many are measured.
    pub(super) every: Duration,
    pub(super) writes: u32,
    /// How long the file is open for each.
    pub(super) open_for: Duration,
    /// How long after it was opened a file is stored that is not closed yet, if at all.
    pub(super) stores_each: Option<Duration>,
    /// Reads a second at each server.
    pub(super) reads: f64,
    pub(super) between: Between,
    /// Whether disks take time: up to 0.8 ms for a piece of work.
    pub(super) has_disks: bool,
    /// The number of unread revisions after which a server is sent no more of them, if there is one.
    pub(super) idle_after: Option<u32>,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) reads: Reads,
    pub(super) carried: Carried,
    pub(super) published: u64,
    pub(super) window: Duration,
}

impl Scene {
    /// The Web camera of the paper: 64 KiB a minute, 10 reads a second at each of 500 servers.
    pub(super) fn camera(consistency: Consistency) -> Self {
        Self {
            consistency,
            servers: 500,
            megabits: 100,
            least_bytes: MESSAGE_BYTES,
            file_bytes: 64 << 10,
            every: Duration::from_secs(60),
            writes: 6,
            open_for: Duration::ZERO,
            stores_each: Some(STORES_EACH),
            reads: 10.0,
            between: HEAVY_TAILED,
            has_disks: false,
            idle_after: None,
        }
    }

    /// The stock ticker of the paper: 100 bytes a second, 100 reads a second at each of 200 servers.
    pub(super) fn ticker(consistency: Consistency) -> Self {
        let (servers, file_bytes, every, writes) = (200, 100, Duration::from_secs(1), 60);
        Self { servers, file_bytes, every, writes, reads: 100.0, ..Self::camera(consistency) }
    }

    /// Runs it. Readers arrive as this replication draws, whatever the consistency is.
    pub(super) fn run(&self, replication: u64) -> Outcome {
        let unfinished = Unfinished::default();
        let names: Vec<String> = (0..self.servers).map(|at| format!("server {at}")).collect();
        let mut world = self.build(replication, &unfinished, &names);
        let all: Vec<&str> = names.iter().map(String::as_str).chain([STORE, WRITER]).collect();
        let line =
            SharedLine { delay: DELAY, bytes_per_second: self.megabits * 1_000_000 / 8, least_bytes: self.least_bytes };
        let line = world.share_line(&all, line);
        world.run_for(BEGIN.since(Time::ZERO) + self.every.mul_f64(f64::from(WARM_UP) - 0.5));
        take(&mut world, &names);
        let (before, already) = (world.carried(line), published(&world));
        let window = self.every * self.writes;
        world.run_for(window);
        let carried = world.carried(line);
        Outcome {
            reads: take(&mut world, &names),
            carried: Carried { messages: carried.messages - before.messages, bytes: carried.bytes - before.bytes },
            published: published(&world) - already,
            window,
        }
    }

    fn build(&self, replication: u64, unfinished: &Unfinished, names: &[String]) -> Processes {
        let key = SiteKey { space: "main".to_owned(), name: "site".to_owned() };
        let mut world = Processes::new(replication, Line { delay: DELAY, rate: None });
        world.add(STORE, |disks| {
            let sites = disks.content::<ServerDisk>(ONE).map(|disk| disk.sites.values().cloned().collect());
            let config = ServerConfig { lease: LEASE, ..ServerConfig::new(1) };
            alone(FileServer::new(config, sites.unwrap_or_default()))
        });
        let disk = ServerDisk::new(Rc::new(Happened::of(self.consistency, KEEP)));
        self.add_disk(&mut world, STORE, disk);
        let stores_each = self.stores_each.filter(|_| self.consistency == Consistency::Callback);
        let writes = Writes { begin: BEGIN, every: self.every, open_for: self.open_for, stores_each };
        let (of_writer, file_bytes, unfinished_of) = (key.clone(), self.file_bytes, unfinished.clone());
        world.add(WRITER, move |_| alone(Writer::new(of_writer.clone(), writes, file_bytes, unfinished_of.clone())));
        world.connect((WRITER, ONE), (STORE, ONE), FAMILY);
        for (at, name) in names.iter().enumerate() {
            let (key, unfinished) = (key.clone(), unfinished.clone());
            let seed = (replication << 32) + at as u64;
            let arrivals = Arrivals::new(self.between, self.reads, seed, BEGIN);
            let (collect_after, idle_after) = (self.every * 2, self.idle_after);
            world.add(name, move |_| {
                let (life, visit, broken) = (at as u64 + 2, Duration::from_millis(1), Broken::NONE);
                let (key, patience, content_bytes) = (key.clone(), PATIENCE, None);
                let config =
                    MemberConfig { key, life, visit, collect_after, patience, idle_after, content_bytes, broken };
                alone(Reader::new(Member::new(config, None), arrivals.clone(), unfinished.clone()))
            });
            let disk = MemberDisk::new(Rc::new(Happened::default()));
            self.add_disk(&mut world, name, disk);
            world.connect((name, ONE), (STORE, ONE), FAMILY);
        }
        world
    }

    fn add_disk(&self, world: &mut Processes, name: &str, content: impl Content) {
        if self.has_disks {
            world.add_disk(name, ONE, content);
        } else {
            world.add_instant_disk(name, ONE, content);
        }
    }
}

/// Takes the reads at all servers since the last time.
fn take(world: &mut Processes, names: &[String]) -> Reads {
    let mut reads = Reads::default();
    for name in names {
        let some = world.call(name, |reader: &mut Reader, now| reader.take(now));
        reads.add(some.expect("no server dies in an experiment"));
    }
    reads
}

fn published(world: &Processes) -> u64 {
    world.look::<Writer>(WRITER).expect("no writer dies in an experiment").published()
}

fn alone(machine: impl Machine) -> Node {
    let mut node = Node::new();
    node.add(machine);
    node
}

impl Outcome {
    /// The mean time that a read takes, in milliseconds.
    pub(super) fn latency_ms(&self) -> f64 {
        self.reads.wait_ns as f64 / 1e6 / (self.reads.all as f64).max(1.0)
    }

    /// The mean time of those that wait, in milliseconds.
    pub(super) fn wait_ms(&self) -> f64 {
        self.reads.wait_ns as f64 / 1e6 / (self.reads.waited as f64).max(1.0)
    }

    /// The part of the time that the line is busy, in percent.
    pub(super) fn use_percent(&self, scene: &Scene) -> f64 {
        let capacity = scene.megabits as f64 * 1e6 / 8.0 * self.window.as_secs_f64();
        100.0 * self.carried.bytes as f64 / capacity
    }

    /// The reads of a file that its writer had not closed, in percent.
    pub(super) fn unfinished_percent(&self) -> f64 {
        100.0 * self.reads.unfinished as f64 / (self.reads.all as f64).max(1.0)
    }

    /// The messages on the line for an update.
    pub(super) fn messages(&self) -> f64 {
        self.carried.messages as f64 / (self.published as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticker(consistency: Consistency) -> Outcome {
        let scene = Scene { servers: 20, writes: 10, between: Between::Poisson, ..Scene::ticker(consistency) };
        scene.run(1)
    }

    /// The paper's figure 3: an update takes 1, 3 and 4 messages for each server. The writer has 6 of its own.
    #[test]
    fn an_update_takes_as_many_messages_as_the_paper_draws() {
        let messages = [Consistency::Publish, Consistency::Callback, Consistency::Sequential].map(|it| {
            let Outcome { carried, published, .. } = ticker(it);
            (published, (carried.messages as f64 / published as f64 - 6.0) / 20.0)
        });
        assert_eq!(messages, [(10, 1.0), (10, 3.0), (10, 4.0)]);
    }

    #[test]
    fn pushed_reads_never_wait_and_others_do() {
        let [pushed, callback, sequential] =
            [Consistency::Publish, Consistency::Callback, Consistency::Sequential].map(|it| ticker(it).reads);
        assert!(pushed.all > 10_000 && pushed.waited == 0, "{pushed:?}");
        assert!(callback.waited >= 200 && callback.wait_ns > 0, "{callback:?}");
        assert!(sequential.wait_ns > callback.wait_ns, "{sequential:?}");
        // The same reads arrive with each consistency.
        assert!(pushed.all.abs_diff(callback.all) < 10 && pushed.all.abs_diff(sequential.all) < 10);
    }

    /// AFS stores a file that is open for long before it is closed (the paper's "AFS consistency").
    #[test]
    fn only_callbacks_show_a_file_that_is_not_closed() {
        let unfinished = |consistency| {
            let camera = Scene { servers: 4, writes: 4, ..Scene::camera(consistency) };
            Scene { open_for: Duration::from_secs(45), ..camera }.run(1).reads.unfinished
        };
        assert_eq!((unfinished(Consistency::Publish), unfinished(Consistency::Sequential)), (0, 0));
        assert!(unfinished(Consistency::Callback) > 100);
    }
}
