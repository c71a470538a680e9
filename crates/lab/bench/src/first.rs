//! A new client's first transaction: the time that it waits, over a line with a real delay.
//!
//! A connection that has just been made carries little at a time. So what is asked for beside a page that is waited for
//! costs more than on a connection that has been busy. The same clients run over an emulated line of the same length,
//! to see whether it does to them what real packets do.

use crate::{Line, Place, Result, Sample};
use fixtures::{Emulator, Process, Program};
use objects::{Db, wait_for};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use workloads::Random;
use workloads::oo7::{Module, Size, Traversal, build, traverse};

/// The module's number in its store.
const MODULE: u32 = 1;

/// New clients of each kind.
const CLIENTS: u64 = 9;

/// The bounds: round trips as shipped, from the first packet on, and how long that takes over pages on demand.
const ROUND_TRIPS_MAX: f64 = 6.0;
const OVER_ON_DEMAND_MAX: f64 = 0.8;

/// Two places that are really apart.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The words that run the program where the store is.
    pub store: Program,
    /// Where the store listens.
    pub listen: SocketAddr,
    /// The words that run the program where the clients are.
    pub client: Program,
}

impl Apart {
    /// Starts a store with this folder there.
    pub(crate) fn serve(&self, dir: &Path) -> Result<Process> {
        self.store.serve(dir, &["--listen", &self.listen.to_string(), "--insecure"])
    }
}

/// A new client, as a process of its own.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// The store.
    pub server: SocketAddr,
    /// Whether it fetches pages only when it needs them.
    pub on_demand: bool,
    /// Which part it traverses.
    pub seed: u64,
}

impl Newcomer {
    /// Connects, traverses one part, and says how long that took.
    pub fn run(self) -> Result<Value> {
        let begun = Instant::now();
        drop(TcpStream::connect(self.server)?);
        let round_trip = begun.elapsed();
        let mut builder = Db::builder();
        if self.on_demand {
            builder = builder.prefetch_pages(0).read_ahead(false);
        }
        let begun = Instant::now();
        let db = builder.connect(self.server)?;
        let connected = begun.elapsed();
        wait_for(db.transact_async(async |mut tx| {
            let module = Module::open(&mut tx, MODULE).await?;
            let part = Module::pick(&mut tx, module, &mut Random::new(self.seed)).await?;
            traverse(&mut tx, module, part, Traversal::T1).await
        }))?;
        let (all, stats) = (begun.elapsed(), db.stats());
        let micros = |time: Duration| time.as_micros() as u64;
        Ok(json!({
            "round_trip_us": micros(round_trip),
            "connected_us": micros(connected),
            "all_us": micros(all),
            "fetches": stats.fetches,
            "pages": stats.pages_fetched,
        }))
    }

    /// The words that run it.
    fn words(self) -> Vec<String> {
        let words = ["newcomer".to_owned(), self.server.to_string(), self.seed.to_string()];
        words.into_iter().chain(self.on_demand.then(|| "--on-demand".to_owned())).collect()
    }
}

/// The figures that newcomers of one kind have reported.
#[derive(Default)]
struct Said {
    all: Sample,
    round_trips: Sample,
    round_trip: Sample,
    connected: Sample,
    pages: u64,
    fetches: u64,
}

impl Said {
    fn add(&mut self, said: &Value) -> Result<()> {
        let number = |key: &str| said[key].as_u64().ok_or_else(|| format!("a newcomer said {said}"));
        let (all, round_trip) = (number("all_us")?, number("round_trip_us")?);
        self.all.push(Duration::from_micros(all));
        self.round_trip.push(Duration::from_micros(round_trip));
        self.connected.push(Duration::from_micros(number("connected_us")?));
        // Kept as microseconds, so that the sample gives a median of it.
        self.round_trips.push(Duration::from_secs_f64(all as f64 / round_trip as f64 / 1e6));
        self.pages += number("pages")?;
        self.fetches += number("fetches")?;
        Ok(())
    }
}

pub(crate) fn measure(place: &Place, apart: &Apart, progress: &dyn Fn(&str)) -> Result<Line> {
    progress("build OO7 medium");
    let dir = place.dir.join("store");
    let db = Db::open(&dir)?;
    wait_for(build(&db, MODULE, Size::MEDIUM, 7, |_| {}))?;
    db.close()?;
    let server = apart.serve(&dir)?;
    let mut shipped = Said::default();
    let mut on_demand = Said::default();
    for seed in 0..CLIENTS {
        progress(&format!("new client {} of {CLIENTS}", seed + 1));
        for (said, is_on_demand) in [(&mut shipped, false), (&mut on_demand, true)] {
            let newcomer = Newcomer { server: server.address(), on_demand: is_on_demand, seed };
            said.add(&run(&apart.client, newcomer)?)?;
        }
    }
    drop(server);
    let one_way = Duration::from_secs_f64(shipped.round_trip.millis(0.5) / 2e3);
    let emulated = emulated(place, one_way, progress)?;
    let over = shipped.all.millis(0.5) / on_demand.all.millis(0.5);
    let round_trips = shipped.round_trips.micros(0.5);
    let each = |count: u64| count as f64 / CLIENTS as f64;
    Ok(Line::new("first")
        .count("clients", CLIENTS)
        .figure("ms_p50", shipped.all.millis(0.5))
        .figure("on_demand_ms_p50", on_demand.all.millis(0.5))
        .figure("connected_ms_p50", shipped.connected.millis(0.5))
        .figure("round_trips", round_trips)
        .figure("round_trips_on_demand", on_demand.round_trips.micros(0.5))
        .figure("pages", each(shipped.pages))
        .figure("pages_on_demand", each(on_demand.pages))
        .figure("fetches", each(shipped.fetches))
        .figure("fetches_on_demand", each(on_demand.fetches))
        .figure("over_on_demand", over)
        .figure("emulated_ms_p50", emulated.all.millis(0.5))
        .figure("emulated_over_lab", emulated.all.millis(0.5) / shipped.all.millis(0.5))
        .flag("met", round_trips <= ROUND_TRIPS_MAX && over <= OVER_ON_DEMAND_MAX))
}

/// The same, as shipped, over an emulated line. The store begins again, as it did at the other place.
fn emulated(place: &Place, one_way: Duration, progress: &dyn Fn(&str)) -> Result<Said> {
    let server = place.serve("store")?;
    let line = Emulator::start(server.address(), one_way, None)?;
    let mut said = Said::default();
    for seed in 0..CLIENTS {
        progress(&format!("emulated new client {} of {CLIENTS}", seed + 1));
        let newcomer = Newcomer { server: line.address(), on_demand: false, seed };
        said.add(&run(&place.program.as_path().into(), newcomer)?)?;
    }
    Ok(said)
}

/// Runs a newcomer to its end.
fn run(program: &Program, newcomer: Newcomer) -> Result<Value> {
    let mut command = program.command();
    command.args(newcomer.words());
    Ok(Process::start(command, "a new client")?.ready().clone())
}
