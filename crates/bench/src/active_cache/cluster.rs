//! The processes: five proxies that cache and five that do not, two shops, a watcher with its hub, a database.

use crate::site::{Part, Postgres};
use crate::web::Cores;
use crate::{Place, Program, Result, lasting_address};
use pgwatch::{Map, WatchConfig};
use shop::{Connection, MAP, Stock, Visit};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const PROXIES: usize = 5;

/// The fill of the shop: 1,125 pages of RUBiS' kinds.
pub(super) const STOCK: Stock = Stock::SMALL;

/// How long caches may take until they store.
const STORES_WITHIN: Duration = Duration::from_secs(60);

/// How a cache learns of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// It stores nothing.
    NoCache,
    /// Every update invalidates everything: the application knows no dependencies, and the watcher has no map.
    InvalidateAll,
    /// The application names dependencies.
    DependencyLists,
}

impl Scheme {
    pub(super) const ALL: [Self; 3] = [Self::NoCache, Self::InvalidateAll, Self::DependencyLists];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoCache => "no cache",
            Self::InvalidateAll => "invalidate all",
            Self::DependencyLists => "dependency lists",
        }
    }
}

/// The processes.
pub(super) struct Cluster {
    pub(super) cores: Cores,
    running: RefCell<Option<Running>>,
    database: Postgres,
    program: Program,
    map: PathBuf,
}

/// Those that are started anew for each scheme.
struct Running {
    scheme: Scheme,
    cache_bytes: usize,
    caching: Vec<Part>,
    plain: Vec<Part>,
    shops: Vec<Part>,
    // Commits wait for it, so it ends last.
    _watcher: Part,
}

/// Where requests go.
pub(super) struct Doors {
    pub(super) caches: Vec<SocketAddr>,
    pub(super) shops: Vec<SocketAddr>,
}

impl Cluster {
    pub(super) fn open(place: &Place) -> Result<Self> {
        let cores = Cores::halves()?;
        let database = cores.run_on_servers(|| Postgres::create(&place.dir, &[]))?;
        let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tasks.block_on(shop::fill(&database.config(), &STOCK))?;
        let config = WatchConfig::new(database.config(), "thorp", Map::parse(MAP)?);
        tasks
            .block_on(pgwatch::set_up(&config, &mut pgwatch::Patience::endless()))
            .map_err(|error| error.to_string())?;
        let map = place.dir.join("map.toml");
        std::fs::write(&map, MAP)?;
        let program = Program::from(&place.program);
        Ok(Self { cores, running: RefCell::new(None), database, program, map })
    }

    /// The doors of a scheme's caches, of so many bytes each; started if they do not run. Those of [`Scheme::NoCache`] run
    /// beside any others, so that both can be measured in turns.
    pub(super) fn doors(&self, scheme: Scheme, cache_bytes: usize) -> Result<Doors> {
        let mut running = self.running.borrow_mut();
        let fits =
            |now: &Running| scheme == Scheme::NoCache || (now.scheme == scheme && now.cache_bytes == cache_bytes);
        if !running.as_ref().is_some_and(fits) {
            // The old ones have to be gone: there is one slot to watch by.
            drop(running.take());
            let scheme = if scheme == Scheme::NoCache { Scheme::DependencyLists } else { scheme };
            *running = Some(self.start(scheme, cache_bytes)?);
        }
        let running = running.as_ref().ok_or("nothing runs")?;
        let caches = if scheme == Scheme::NoCache { &running.plain } else { &running.caching };
        let addresses = |parts: &[Part]| parts.iter().map(Part::address).collect();
        Ok(Doors { caches: addresses(caches), shops: addresses(&running.shops) })
    }

    fn start(&self, scheme: Scheme, cache_bytes: usize) -> Result<Running> {
        let (database, map, hub) =
            (self.database.words(), self.map.display().to_string(), lasting_address()?.to_string());
        let mut watch = vec!["watch", &database, "--listen", &hub];
        let mut shop = vec!["shop", &database, "--listen", "127.0.0.1:0"];
        match scheme {
            Scheme::InvalidateAll => shop.push("--nameless"),
            Scheme::NoCache | Scheme::DependencyLists => watch.extend(["--map", &map]),
        }
        let part = |what, words: &[&str]| Part::start(what, &self.program, words);
        let (watcher, shops) = self.cores.run_on_servers(|| {
            let watcher = part("the watcher", &watch)?;
            Ok((watcher, [(); 2].into_iter().map(|()| part("the shop", &shop)).collect::<Result<Vec<_>>>()?))
        })?;
        let proxy = |number: usize, words: &[&str]| {
            let origin = format!("http://{}", shops[number % shops.len()].address());
            let common =
                ["proxy", "--origin", &origin, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1"];
            part("the proxy", &[&common, words].concat())
        };
        let size = cache_bytes.to_string();
        let (caching, plain) = self.cores.run_with_clients(|| {
            let caching = (0..PROXIES).map(|number| proxy(number, &["--cache", &size, "--hub", &hub]));
            let caching = caching.collect::<Result<Vec<_>>>()?;
            Ok((caching, (0..PROXIES).map(|number| proxy(number, &["--cache", "0"])).collect::<Result<Vec<_>>>()?))
        })?;
        caching.iter().try_for_each(|proxy| wait_until_it_stores(proxy.address()))?;
        Ok(Running { scheme, cache_bytes, caching, plain, shops, _watcher: watcher })
    }
}

/// A hub that has begun waits for the leases of earlier ones; until then nothing is stored.
fn wait_until_it_stores(proxy: SocketAddr) -> Result<()> {
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begun = Instant::now();
    let visit = Visit { path: "/browse".to_owned(), form: None };
    let mut connection = tasks.block_on(Connection::open(proxy))?;
    while !tasks.block_on(connection.send(&visit))?.is_hit() {
        if begun.elapsed() > STORES_WITHIN {
            return Err("a proxy stores nothing".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
