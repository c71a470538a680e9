//! `thorp demo web`: what the web front end is for. A shop on PostgreSQL, a watcher of its database, two proxies,
//! readers and writers; then everything is killed and stopped in turn, while every response is held against what
//! writers had been told and readers been shown. Beside it nginx and Varnish, if they are installed, which keep pages
//! for a second.
//!
//! ```text
//!   readers ---> proxy, proxy ---> shop <--- writers         some writers go by way of the proxies
//!                    |               |
//!                    hub, watcher --- PostgreSQL
//! ```
//! All of these are processes of their own, but for the readers and writers, which are here.

mod account;
mod faults;

use super::{pause, tell};
use crate::Result;
use crate::cli::DemoWebArgs;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use account::{Account, Turn};
use bench::shop::{MAP, Popularity, Reads, Stock};
use bench::{Load, LoadOptions};
use faults::Fault;
use fixtures::{CacheSettings, Postgres, Process, Program, WebCache, lasting_address};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Visitors, and how they come: as many requests a second as leave a small machine time for everything else.
const READERS: usize = 16;
const PAUSE: Duration = Duration::from_millis(5);
const WRITERS: usize = 4;
const UPDATES_PER_S: f64 = 50.0;
const ZIPF: f64 = 0.8;
const SHOWN: u32 = 10;

/// The load needs one thread: it mostly waits.
const LOAD_THREADS: usize = 1;

/// How long a load runs before its turn counts, at most: half a turn, if that is less.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long a plain cache keeps a page, in seconds.
const PLAIN_TTL_S: u32 = 1;

pub(super) fn run(args: &DemoWebArgs, output: &mut Output) -> Result {
    if !Postgres::is_installed() {
        return Err("the demo runs on PostgreSQL, which is not installed: `initdb` is neither on the path nor in \
                    /usr/lib/postgresql"
            .into());
    }
    let interrupt = Interrupt::watch()?;
    let scratch = Scratch::with_way_through(args.dir.clone(), &std::env::temp_dir(), "demo")?;
    let spinner = output::spinner("making a shop");
    let mut site = Site::open(scratch.path(), args.unwatched)?;
    spinner.finish_and_clear();
    tell(output, site.describe())?;
    let account = play(args, &mut site, scratch.path(), &interrupt, output)?;
    account.print(output)?;
    account.judge()
}

/// Caches of others keep a page for a second: nobody tells them what changes.
const fn plain_cache() -> CacheSettings<'static> {
    CacheSettings {
        threads: 1,
        nginx_http: "",
        nginx_location: "proxy_set_header Connection \"\"; proxy_cache_lock on; proxy_cache_valid 200 404 1s;
            proxy_ignore_headers Cache-Control; add_header X-Cache $upstream_cache_status always;",
        varnish: "sub vcl_backend_response {
                set beresp.ttl = 1s;
                set beresp.grace = 0s;
                if (beresp.status < 500) { return (deliver); }
            }
            sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = \"HIT\"; } }",
    }
}

fn play(
    args: &DemoWebArgs,
    site: &mut Site,
    dir: &Path,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<Account> {
    let mut account = Account::new(args.unwatched);
    let length = Duration::from_secs(args.turn_s.into());
    for rival in WebCache::ALL.into_iter().filter(|_| !args.unwatched && !args.alone) {
        match rival.start(dir, site.shop.address(), plain_cache())? {
            Some((_runs, address)) => account.turns.push(turn(rival.name(), &[address], site, length, interrupt)?),
            None => tell(output, format_args!("{} is not installed, and left out.", rival.name()))?,
        }
    }
    let proxies = site.proxies();
    account.turns.push(turn(if args.unwatched { "unwatched" } else { "thorp" }, &proxies, site, length, interrupt)?);
    account.tell_turns(output)?;
    if args.faults == Some(0) || args.unwatched {
        return Ok(account);
    }
    tell(output, "\nNow things break, while everybody reads and writes.")?;
    let load = Load::start(site.load(&proxies), LOAD_THREADS)?;
    let begun = Instant::now();
    let rounds = Fault::ALL.into_iter().cycle().enumerate();
    for (number, fault) in rounds {
        let is_over = match (args.minutes, args.faults) {
            (Some(minutes), _) => begun.elapsed() >= Duration::from_secs_f64(minutes * 60.0),
            (None, faults) => number >= faults.map_or(Fault::ALL.len(), |faults| faults as usize),
        };
        if is_over || interrupt.has_come() {
            break;
        }
        let broken = faults::play(fault, site, &load, interrupt)?;
        tell(output, broken)?;
        account.broken(broken);
        // A round with everything there.
        pause(Duration::from_millis(500), interrupt);
        account.under_faults.add(load.take());
    }
    account.under_faults.add(load.end()?);
    account.faults_took = begun.elapsed();
    Ok(account)
}

/// A cache's turn under the same load.
fn turn(
    name: &'static str,
    caches: &[SocketAddr],
    site: &Site,
    length: Duration,
    interrupt: &Interrupt,
) -> Result<Turn> {
    let spinner = output::spinner(name);
    let load = Load::start(site.load(caches), LOAD_THREADS)?;
    pause(WARM_UP.min(length / 2), interrupt);
    load.take();
    let begun = Instant::now();
    pause(length, interrupt);
    let took = begun.elapsed();
    let tally = load.end()?;
    spinner.finish_and_clear();
    Ok(Turn { name, tally, took })
}

/// The shop with everything before and behind it.
struct Site {
    proxies: [Process; 2],
    watcher: Option<Process>,
    shop: Process,
    database: Postgres,
}

impl Site {
    fn open(dir: &Path, unwatched: bool) -> Result<Self> {
        let program = Program::this()?;
        let database = Postgres::create(dir, &[])?;
        let words = database.words();
        bench::shop::install(&words, &Stock::SMALL, !unwatched)?;
        let [shop_at, hub_at, one_at, other_at] = [(); 4].map(|()| lasting_address());
        let (shop_at, hub_at) = (shop_at?.to_string(), hub_at?.to_string());
        let max_age = if unwatched { PLAIN_TTL_S } else { 86_400 }.to_string();
        let shop = program.start("the shop", &["shop", &words, "--listen", &shop_at, "--max-age", &max_age])?;
        let watcher = if unwatched {
            None
        } else {
            let map = dir.join("map.toml");
            std::fs::write(&map, MAP)?;
            let map = map.display().to_string();
            let words = ["watch", &words, "--map", &map, "--listen", &hub_at];
            Some(program.start("the watcher", &words)?.until("state", "watching")?)
        };
        let origin = format!("http://{}", shop.address());
        let proxy = |listen: Result<SocketAddr>| {
            let listen = listen?.to_string();
            let hub = if unwatched { &[][..] } else { &["--hub", &hub_at] };
            program.proxy(&[&["--origin", &origin, "--listen", &listen], hub].concat())
        };
        Ok(Self { proxies: [proxy(one_at)?, proxy(other_at)?], watcher, shop, database })
    }

    fn describe(&self) -> String {
        let Stock { items, users, .. } = Stock::SMALL;
        let [one, other] = &self.proxies;
        let watched = match &self.watcher {
            Some(watcher) => format!("a watcher with a hub (process {}), ", watcher.id()),
            None => "no watcher, ".to_owned(),
        };
        format!(
            "A shop of {items} items and {users} users (process {}), {watched}two proxies (processes {} and {}).\n\
             {READERS} readers, {WRITERS} writers, {UPDATES_PER_S} updates a second; every response is checked.\n",
            self.shop.id(),
            one.id(),
            other.id(),
        )
    }

    fn proxies(&self) -> [SocketAddr; 2] {
        [self.proxies[0].address(), self.proxies[1].address()]
    }

    /// Half of the writers send to the shop, the others to the caches.
    fn load(&self, caches: &[SocketAddr]) -> LoadOptions {
        let shop = self.shop.address();
        LoadOptions {
            caches: caches.to_vec(),
            readers: READERS,
            pause: PAUSE,
            forms: caches.iter().flat_map(|cache| [shop, *cache]).collect(),
            writers: WRITERS,
            updates_per_s: UPDATES_PER_S,
            stock: Stock::SMALL,
            reads: Reads { shown: SHOWN, ..Reads::default() },
            popularity: Popularity::zipf(ZIPF, Stock::SMALL.items),
            checked: true,
            all_first: false,
            seed: 1,
        }
    }
}
