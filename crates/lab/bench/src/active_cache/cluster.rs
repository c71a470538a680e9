//! The processes: five proxies that cache and five that do not, two shops, a watcher with its hub, a database.

use crate::shop::{Connection, MAP, Stock, Visit};
use crate::web::Cores;
use crate::{Place, Result};
use fixtures::{Postgres, Process, Program, lasting_address};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const PROXIES: usize = 5;

/// The provider of libfabric that every machine has. It stands for those of devices, and needs the home's processor.
pub(super) const STAND_IN: &str = "tcp;ofi_rxm";

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
    /// The same with homes beside the applications, as the paper places them, and not in each proxy: each page has one
    /// of them, which answers lookups over TCP.
    HomesByTcp,
    /// The same by libfabric, without the home's processor where the provider can do without.
    HomesByFabric,
}

impl Scheme {
    pub(super) const ALL: [Self; 3] = [Self::NoCache, Self::InvalidateAll, Self::DependencyLists];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoCache => "no cache",
            Self::InvalidateAll => "invalidate all",
            Self::DependencyLists => "dependency lists",
            Self::HomesByTcp => "dependency lists, homes beside the applications, TCP",
            Self::HomesByFabric => "dependency lists, homes beside the applications, libfabric on TCP",
        }
    }
}

/// The processes.
pub(super) struct Cluster {
    pub(super) cores: Cores,
    running: RefCell<Option<Running>>,
    database: Postgres,
    pub(super) program: Program,
    map: PathBuf,
}

/// Those that are started again for each scheme.
struct Running {
    scheme: Scheme,
    cache_bytes: usize,
    caching: Vec<Process>,
    plain: Vec<Process>,
    /// The homes beside the applications, and the proxies that have them, once they are measured.
    by_tcp: Vec<Process>,
    by_fabric: Vec<Process>,
    homes: Vec<Process>,
    hub: String,
    shops: Vec<Process>,
    // Commits wait for it, so it ends last.
    _watcher: Process,
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
        crate::shop::install(&database.words(), &STOCK, true)?;
        let map = place.dir.join("map.toml");
        std::fs::write(&map, MAP)?;
        let program = Program::from(&place.program);
        Ok(Self { cores, running: RefCell::new(None), database, program, map })
    }

    /// The doors of a scheme's caches, of this many bytes each; started if they do not run. Those of
    /// [`Scheme::NoCache`] run beside any others, so that both can be measured in turns.
    pub(super) fn doors(&self, scheme: Scheme, cache_bytes: usize) -> Result<Doors> {
        let mut running = self.running.borrow_mut();
        let beside = if scheme == Scheme::InvalidateAll { scheme } else { Scheme::DependencyLists };
        let fits =
            |now: &Running| scheme == Scheme::NoCache || (now.scheme == beside && now.cache_bytes == cache_bytes);
        if !running.as_ref().is_some_and(fits) {
            // The old ones have to be gone: there is one slot to watch by.
            drop(running.take());
            *running = Some(self.start(beside, cache_bytes)?);
        }
        let running = running.as_mut().ok_or("nothing runs")?;
        if matches!(scheme, Scheme::HomesByTcp | Scheme::HomesByFabric) {
            self.start_homes(running, scheme)?;
        }
        let caches = match scheme {
            Scheme::NoCache => &running.plain,
            Scheme::InvalidateAll | Scheme::DependencyLists => &running.caching,
            Scheme::HomesByTcp => &running.by_tcp,
            Scheme::HomesByFabric => &running.by_fabric,
        };
        let addresses = |parts: &[Process]| parts.iter().map(Process::address).collect();
        Ok(Doors { caches: addresses(caches), shops: addresses(&running.shops) })
    }

    fn start(&self, scheme: Scheme, cache_bytes: usize) -> Result<Running> {
        let (database, map, hub) =
            (self.database.words(), self.map.display().to_string(), lasting_address()?.to_string());
        let mut watch = vec!["watch", &database, "--listen", &hub];
        let mut shop = vec!["shop", &database, "--listen", "127.0.0.1:0"];
        match scheme {
            Scheme::InvalidateAll => shop.push("--nameless"),
            _ => watch.extend(["--map", &map]),
        }
        let (watcher, shops) = self.cores.run_on_servers(|| {
            let watcher = self.program.start("the watcher", &watch)?.until("state", "watching")?;
            Ok((watcher, (0..2).map(|_| self.program.start("the shop", &shop)).collect::<Result<Vec<_>>>()?))
        })?;
        let proxy = |number: usize, words: &[&str]| self.proxy(&shops, number, words);
        let size = cache_bytes.to_string();
        let (caching, plain) = self.cores.run_with_clients(|| {
            let caching = (0..PROXIES).map(|number| proxy(number, &["--cache", &size, "--hub", &hub]));
            let caching = caching.collect::<Result<Vec<_>>>()?;
            Ok((caching, (0..PROXIES).map(|number| proxy(number, &["--cache", "0"])).collect::<Result<Vec<_>>>()?))
        })?;
        caching.iter().try_for_each(|proxy| wait_until_it_stores(proxy.address()))?;
        let (by_tcp, by_fabric, homes) = Default::default();
        Ok(Running { scheme, cache_bytes, caching, plain, by_tcp, by_fabric, homes, hub, shops, _watcher: watcher })
    }

    fn proxy(&self, shops: &[Process], number: usize, words: &[&str]) -> Result<Process> {
        let origin = format!("http://{}", shops[number % shops.len()].address());
        self.program.proxy(&[&["--origin", &origin, "--threads", "1"], words].concat())
    }

    /// Starts a home beside each application, and proxies that have all of these, if they do not run.
    fn start_homes(&self, running: &mut Running, scheme: Scheme) -> Result<()> {
        let fabric = fabric::Shim::load().is_ok().then_some(STAND_IN);
        if running.homes.is_empty() {
            let mut words = vec!["home", "--listen", "127.0.0.1:0", "--hub", &running.hub];
            words.extend(fabric.iter().flat_map(|provider| ["--fabric", provider]));
            let home = |_| self.program.start("the home", &words);
            running.homes = self.cores.run_on_servers(|| running.shops.iter().map(home).collect::<Result<_>>())?;
        }
        let homes: Vec<_> = running.homes.iter().map(|home| home.address().to_string()).collect();
        let size = running.cache_bytes.to_string();
        let mut words = vec!["--cache", &size];
        words.extend(homes.iter().flat_map(|home| ["--home", home]));
        let proxies = match scheme {
            Scheme::HomesByFabric => {
                words.extend(["--fabric", fabric.ok_or("libfabric is not there")?]);
                &mut running.by_fabric
            }
            _ => &mut running.by_tcp,
        };
        if proxies.is_empty() {
            let proxy = |number| self.proxy(&running.shops, number, &words);
            *proxies = self.cores.run_with_clients(|| (0..PROXIES).map(proxy).collect::<Result<Vec<_>>>())?;
            proxies.iter().try_for_each(|proxy| wait_until_it_stores(proxy.address()))?;
        }
        Ok(())
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
